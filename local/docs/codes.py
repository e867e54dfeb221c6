"""What every code means and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from local.docs.markdown import code, table
from piton.domain.errors import ErrorCode
from piton.domain.status import Reason


@dataclass(frozen=True, slots=True)
class Advice:
    """What a code means, and what the person who meets it does."""

    meaning: str
    action: str


_RETRIED: Final = "node, tried again"
_FINAL: Final = "node, at once final"

REASONS: Final[Mapping[Reason, tuple[str, Advice]]] = {
    Reason.TASK_ERROR: (
        _RETRIED,
        Advice(
            "The task raised something that is neither `Transient` nor `Permanent`.",
            "Read the traceback in the attempt's log. If it can never succeed, let the task raise "
            "`Permanent`, which saves the remaining attempts.",
        ),
    ),
    Reason.TASK_NOT_FOUND: (
        _FINAL,
        Advice(
            "The pool's bundle has no task of this name.",
            "Add its module to `task_modules` of the pool in `infra/pools.py` or correct the name, "
            "deploy, and start a new execution.",
        ),
    ),
    Reason.NODE_TIMEOUT: (
        _RETRIED,
        Advice(
            "The body ran into its timeout and was left behind.",
            "Look at what it waits for. Raise `timeout_s`, or move the node to a pool whose "
            "workers may run longer.",
        ),
    ),
    Reason.NODE_HUNG: (
        _RETRIED,
        Advice(
            "The lease is kept alive around a body that has run for several times its timeout.",
            "Look for native code that never returns, or for a worker whose clock stands still.",
        ),
    ),
    Reason.LEASE_EXPIRED: (
        _RETRIED,
        Advice(
            "The worker stopped renewing its lease: it was killed, ran out of memory, or could not "
            "reach the table.",
            "Nothing, if it happens once. If it repeats on one node, compare the worker's memory "
            "use with `memory_mb` of the pool.",
        ),
    ),
    Reason.DELIVERY_EXHAUSTED: (
        _RETRIED,
        Advice(
            "The dispatch was handed to workers until the queue gave up, and none could claim it.",
            "Read the worker's log at that time: usually it cannot start (a failing import, a "
            "missing permission) or is throttled.",
        ),
    ),
    Reason.RESULT_NOT_JSON: (
        _FINAL,
        Advice(
            "The result has no JSON form: NaN, an infinity, a lone surrogate, U+0000, a key that "
            "is not text, or a type that JSON does not have.",
            "The attempt's log names the place. Convert it in the task, deploy, start again.",
        ),
    ),
    Reason.RESULT_TOO_LARGE: (
        _FINAL,
        Advice(
            "The result is larger than the limit.",
            "Let the task write it where later tasks can read it, and return its address.",
        ),
    ),
    Reason.PAYLOAD_MISSING: (
        _FINAL,
        Advice(
            "A stored input or result is gone, or is not what its hash says.",
            "Find out who deletes from or writes to the payload bucket. Nothing in the engine does "
            "before the lifecycle rule.",
        ),
    ),
    Reason.PAYLOADS_UNAVAILABLE: (
        _RETRIED,
        Advice(
            "Inputs could not be read or the result could not be stored, for a passing reason.",
            "Nothing, if it passes. Else look at the state of DynamoDB and S3, and at throttling.",
        ),
    ),
    Reason.LAMBDA_NOT_ALLOWED: (
        _FINAL,
        Advice(
            "The function is not in the pool's `allowed_lambdas`. It was when the workflow was "
            "registered.",
            "Put its ARN back and deploy, or register the workflow without it.",
        ),
    ),
    Reason.LAMBDA_ERROR: (
        "node, tried again unless AWS refuses the call",
        Advice(
            "The function that the node invokes raised an error, or AWS refused the call.",
            "Read that function's own log. A refused call is named in the attempt's log.",
        ),
    ),
    Reason.TIMEOUT_EXCEEDS_POOL: (
        _FINAL,
        Advice(
            "The task asks for a longer timeout than its pool's workers may run.",
            "Lower the task's `timeout_s`, or raise the pool's and deploy.",
        ),
    ),
    Reason.NODE_FAILED: (
        "execution",
        Advice(
            "A node failed for good without a code of its own.",
            "Look at the node. As a rule the execution carries the failed node's own code instead.",
        ),
    ),
    Reason.EDGE_CONDITION_ERROR: (
        "execution",
        Advice(
            "A `when` could not be evaluated over the actual result.",
            "Compare the condition with the node's result; guard against missing fields.",
        ),
    ),
    Reason.EXECUTION_ENDED: (
        "node, cancelled",
        Advice(
            "The execution had ended, so this node was not to run any more.",
            "Nothing. Why the execution ended stands on the execution.",
        ),
    ),
    Reason.CANCELLED_BY_CALLER: (
        "execution",
        Advice("Somebody called `cancelExecution`.", "Nothing. The note and the actor say who."),
    ),
    Reason.DEADLINE_PASSED: (
        "execution",
        Advice(
            "The caller's `deadlineAt` passed first.",
            "Start again with more time, or find out in the history which node took it.",
        ),
    ),
    Reason.TIMED_OUT: (
        "execution",
        Advice(
            "The workflow's `timeout_s`, or the default life of an execution, passed.",
            "Find out in the history which node took the time.",
        ),
    ),
    Reason.RESENDS_EXHAUSTED: (
        "execution, parked",
        Advice(
            "A dispatch was sent again and again and nobody claimed it.",
            "Find out why the pool does not work (see [Parked](#parked)), then resume.",
        ),
    ),
    Reason.SWEEP_FAILED: (
        "execution, parked",
        Advice(
            "A step of the sweep failed on this execution, and not because of a passing fault.",
            "Read the watchdog's log for this execution (see [Parked](#parked)), then resume.",
        ),
    ),
}

ERRORS: Final[Mapping[ErrorCode, Advice]] = {
    ErrorCode.UNAUTHENTICATED: Advice(
        "The request names no caller that is known.",
        "Send the ID token (not the access token) of a user of this user pool, or sign with a role "
        "that the deployment maps to a tenant.",
    ),
    ErrorCode.FORBIDDEN: Advice(
        "The caller has no tenant, or is in no group that may do this.",
        "Ask an administrator: `viewers` may read, `operators` may also change.",
    ),
    ErrorCode.INVALID_INPUT: Advice(
        "An argument has the wrong form.", "Correct what the message names."
    ),
    ErrorCode.INVALID_DEFINITION: Advice(
        "The workflow cannot be registered.",
        "Correct the places that the message names; YAML comes with line numbers.",
    ),
    ErrorCode.INPUT_TOO_LARGE: Advice(
        "The execution's input is beyond the limit.",
        "Put the data where tasks can read it and pass its address.",
    ),
    ErrorCode.OUTPUT_TOO_LARGE: Advice(
        "The execution's output is more than an answer can carry.",
        "Let the last nodes return an address; small results can be read node by node.",
    ),
    ErrorCode.WORKFLOW_NOT_FOUND: Advice(
        "The tenant has no such workflow, or not this version.", "Register it first."
    ),
    ErrorCode.EXECUTION_NOT_FOUND: Advice(
        "The tenant has no such execution. One of another tenant answers the same.",
        "Check the id and whose token you send.",
    ),
    ErrorCode.EXECUTION_ENDED: Advice(
        "The execution has ended, and an end is final.",
        "To run it again, start a new one; with an idempotency key, under a higher "
        "`operationVersion`.",
    ),
    ErrorCode.EXECUTION_NOT_STARTED: Advice(
        "The execution is about to start by itself; there is nothing to resume yet.",
        "Wait. If it stays so for minutes, see [Stuck](#stuck).",
    ),
    ErrorCode.IDEMPOTENCY_CONFLICT: Advice(
        "The same document and operation version has started another request before.",
        "Use a higher `operationVersion` if the new request is meant.",
    ),
    ErrorCode.BUSY: Advice(
        "A dependency is slow or throttles.",
        "Try again. A start without an idempotency key may have happened already.",
    ),
    ErrorCode.INTERNAL: Advice(
        "A fault of the engine.",
        "Search the log of commands or queries for the reference in the message.",
    ),
}


def reasons_table() -> str:
    """Render the codes that the engine gives to nodes and executions."""
    return table(
        ("Code", "Stands on", "Meaning", "What to do"),
        (
            (
                code(reason.value),
                REASONS[reason][0],
                REASONS[reason][1].meaning,
                REASONS[reason][1].action,
            )
            for reason in Reason
        ),
    )


def errors_table() -> str:
    """Render the codes that callers of the API get."""
    return table(
        ("Code", "Meaning", "What to do"),
        ((code(error.value), ERRORS[error].meaning, ERRORS[error].action) for error in ErrorCode),
    )
