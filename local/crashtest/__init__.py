"""Every crash point of a workflow, one after another: crash there, recover, compare.

A clean run on the real services over a store in memory counts the calls to stores, bus and queues.
Then the workflow runs again for each of them, with a crash right before the call and with one right
after it: what it wrote is stored, and the process that asked is dead. Messages come back, sweeps
look on a clock that skips, and the end has to be the one of the clean run.

`local.crashtest.sweep.run(subject)` does this for one workflow and returns a `Report`.
"""
