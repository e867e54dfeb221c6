"""Exhaustive checks on small workflows.

`services` explores every interleaving of the real services at every store call, with every pair
of faults. `callers` knows no services: it lets anybody try any operation at any time, with
whatever they once read, and so shows what the guards alone hold together.
"""
