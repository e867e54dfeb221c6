"""The parts of the documentation that the code itself knows.

Documents under `docs/` and the README are written by hand, except between the markers of
`regions`. What stands there is rendered from the declarations that the engine and the stacks run
on, so it cannot tell anything else than they do.
"""
