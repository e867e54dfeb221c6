"""A deterministic simulator: the real services, a store in memory, and every fault that is known.

One seed is one world: a random workflow, random faults, and a schedule that decides at each store
call who goes on. The same seed gives the same run on every machine.
"""
