"""Crash points of a workflow on the deployed stacks, where a crash is the SIGKILL of a process.

Every function reaches the embedded AWS through a proxy, which reads what a request is about, knows
where a process has to die, and ends it there: before the request goes on, so that nothing was
written, or once it is answered and before the answer goes back, so that nobody knows. One
execution is started for each point, all of them together, so that they wait for their leases
and for messages to come back together.

`local.crashtest.deployed.sweep.run(rig, text, input)` does this for one workflow.
"""
