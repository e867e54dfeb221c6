"""Measurements of the engine; `make bench-cost` runs what costs money on AWS."""
