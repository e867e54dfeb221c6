"""Declared operations and the stores that carry them out."""
