"""Implementations of the ports against AWS and the host process."""
