"""What the engine counts and measures, and what the alarms of `prod` mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from handlers.watchdog import SHOWN
from local.docs.codes import Advice
from local.docs.markdown import code, table
from piton.ports import Counter, Timer

COUNTERS: Final[Mapping[Counter, str]] = {
    Counter.STALE_WRITE_REFUSED: (
        "An attempt came to record its outcome and its fence had passed: a newer attempt owns the "
        "node. The outcome was dropped, as it should be. Many of them: leases are too short for "
        "what workers do, or workers are paused."
    ),
    Counter.STALE_MESSAGE: (
        "A message spoke of something that is over: a repetition. Harmless at any number; it is "
        "the price of at-least-once delivery."
    ),
    Counter.CLAIM_REFUSED: (
        "A worker wanted a node that another one has or had. Harmless, as above."
    ),
    Counter.NODE_COMPLETED: "Nodes that recorded a result.",
    Counter.NODE_RETRIED: "Attempts that failed and were followed by another one.",
    Counter.NODE_DEAD_LETTERED: (
        "Nodes that failed for good. The node's `reason` says why; "
        "see [Codes of nodes and executions](#codes-of-nodes-and-executions)."
    ),
    Counter.NODE_CANCELLED: "Nodes cancelled because their execution had ended.",
    Counter.EXECUTION_STARTED: "Executions that began to run.",
    Counter.EXECUTION_COMPLETED: "Executions that ended well.",
    Counter.EXECUTION_FAILED: "Executions that a node or an edge condition ended.",
    Counter.EXECUTION_CANCELLED: "Executions that a caller cancelled.",
    Counter.SWEPT: "Executions that sweeps looked at: those that live, and those that drain.",
    Counter.FRONTIER_RECOVERED: (
        "Executions in which a sweep found an ended node whose successors had not been dealt with: "
        "a signal was lost, or late by more than a sweep. A few are normal under load."
    ),
    Counter.DISPATCH_RESENT: (
        "Dispatches sent again: by a sweep because nobody had claimed them in time, or by a "
        "resume. A steady rate means that a pool is too small or does not work."
    ),
    Counter.STALL_RECOVERED: (
        "Attempts that a sweep ended because their worker was dead or hung. Look for killed "
        "workers: memory, timeouts, deployments."
    ),
    Counter.FINALISE_RECOVERED: "Executions that were over and that a sweep had to end.",
    Counter.DEADLINE_PASSED: "Executions cancelled because the caller's deadline had passed.",
    Counter.TIMED_OUT: "Executions failed because the workflow's timeout had passed.",
    Counter.PARKED: "Executions marked for a person; see [Parked](#parked).",
    Counter.RETIRED: "Ended executions taken off the watchdog's list.",
    Counter.SWEEP_ERROR: (
        "Steps of a sweep that failed. One that the table did not answer is tried by the next "
        "sweep; any other also parks the execution. The watchdog's log has the traceback."
    ),
    Counter.POOL_MISSING: (
        "Dispatches to a pool that is not deployed any more. Deploy it again or cancel the "
        "executions that need it."
    ),
    Counter.RECORD_SKIPPED: (
        "Stream records whose row could not be read. The relay's log names it; the watchdog meets "
        "the same row and parks the execution."
    ),
}

TIMERS: Final[Mapping[Timer, str]] = {
    Timer.QUEUE_WAIT: "From the moment an attempt may start until a worker claims it.",
    Timer.TASK_TIME: "From the claim until the body has ended.",
    Timer.JOB_AGE: "Age of an execution at its end.",
    Timer.SWEEP_TIME: "How long a sweep took. Near the watchdog's timeout, sweeps leave work over.",
    Timer.SWEEP_LAG: (
        "How long a due execution had waited for a sweep. Up to one interval is normal; growing "
        "means that sweeps do not keep up."
    ),
}

ALARMS: Final[Mapping[str, Advice]] = {
    "WatchdogFails": Advice(
        "In three of five minutes a sweep raised an error. Lost messages and dead workers are not "
        "found meanwhile; what is not disturbed goes on.",
        "Read the watchdog's log: it can be the table (throttling, permissions) or a deployment. A "
        "fault of one execution does not raise this alarm; it parks that execution.",
    ),
    "WatchdogSilent": Advice(
        "No sweep in five minutes.",
        "Is the rule `piton-<stage>-sweep` enabled? Is the function throttled, or its reserved "
        "concurrency set to zero?",
    ),
    "ExecutionParked": Advice(
        "The watchdog has given up on an execution for the time being.",
        "See [Parked](#parked).",
    ),
    "WatchdogBehind": Advice(
        "For five minutes, the execution that was due longest had been due for more than five "
        "minutes: more are alive than sweeps can take, a thousand a minute. Lost messages, dead "
        "workers and deadlines are noticed late; what is not disturbed goes on.",
        "Find out why so many are alive: mostly a pool that is too slow for what is started. Give "
        "it more concurrency, or start less at a time. The alarm ends by itself.",
    ),
    "RelayBehind": Advice(
        "For five minutes, the change stream has been more than two minutes ahead of the relay: "
        "events and dispatches are late.",
        "Read the relay's log. It repeats a batch until the bus and the queues have accepted "
        "everything, so look for throttling and for a queue or bus that is gone.",
    ),
    "AdvanceDlqNotEmpty": Advice(
        "Events that the step runner failed to handle five times.",
        "See [Advance dead letters](#advance-dead-letters).",
    ),
    "QuarantineNotEmpty": Advice(
        "Dispatches that the consumer of dead letters could not handle either.",
        "See [Quarantine](#quarantine).",
    ),
    "UndeliveredEventsNotEmpty": Advice(
        "Events that EventBridge could not put on the advance queue for a day.",
        "See [Undelivered events](#undelivered-events).",
    ),
    "StreamFailuresNotEmpty": Advice(
        "Stream records that the relay gave up after an hour.",
        "See [Stream failures](#stream-failures).",
    ),
}
"""By the name of the alarm without `piton-<stage>-`."""


def counters_table() -> str:
    """Render the counters; those that every sweep with work writes come first."""
    ordered = [*SHOWN, *(counter for counter in Counter if counter not in SHOWN)]
    return table(
        ("Metric", "Every sweep with work", "Counts"),
        (
            (code(counter.value), "yes" if counter in SHOWN else "", COUNTERS[counter])
            for counter in ordered
        ),
    )


def timers_table() -> str:
    """Render the durations."""
    return table(
        ("Metric", "Milliseconds"), ((code(timer.value), TIMERS[timer]) for timer in Timer)
    )


def alarms_table() -> str:
    """Render the alarms."""
    return table(
        ("Alarm", "Means", "What to do"),
        ((code(name), advice.meaning, advice.action) for name, advice in ALARMS.items()),
    )
