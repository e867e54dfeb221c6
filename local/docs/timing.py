"""Times and limits, computed from the settings and sizes that are deployed."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from handlers.watchdog import SWEEP_LIMIT
from infra.functions import SIZES
from infra.payloads import payload_days
from infra.pool import STOP_MARGIN_S, Pool
from infra.pools import POOLS
from infra.queues import MAX_RECEIVES, VISIBILITY_FACTOR
from local.docs.markdown import code, seconds, size, table
from piton.access import Function
from piton.adapters.workflows import MAX_ROW_BYTES
from piton.domain.compile import ID_PATTERN, MAX_EDGES, MAX_IN_DEGREE, MAX_NODES
from piton.domain.graph import DEFAULT_POOL
from piton.domain.retry import MAX_ATTEMPTS_LIMIT, MAX_CAP_S, RetryPolicy
from piton.domain.settings import MAX_LIFE_MS, MINUTE, SECOND, Settings
from piton.services.queries import MAX_OUTPUT_BYTES
from piton.services.yaml_reader import MAX_BYTES

_SETTINGS: Final = Settings()
_LONGEST_WORKER_S: Final = 900
_SWEEP_EVERY_MS: Final = MINUTE


def limits_table() -> str:
    """Render what a user of the engine can run into."""
    settings, retry, pool = _SETTINGS, RetryPolicy(), _default_pool()
    longest_s = _LONGEST_WORKER_S - STOP_MARGIN_S
    return table(
        ("What", "Limit", "Changed by"),
        (
            ("Nodes of a workflow", f"{MAX_NODES:,}", ""),
            ("Edges of a workflow", f"{MAX_EDGES:,}; joins of any width", ""),
            ("Text of a definition", size(MAX_BYTES), ""),
            ("Ids of workflows, nodes, tasks", code(ID_PATTERN), ""),
            ("Input of an execution", size(settings.input_limit_bytes), code("input_limit_bytes")),
            (
                "Result of a node",
                (
                    f"{size(settings.result_limit_bytes)}; "
                    f"in its row up to {size(settings.inline_bytes)}, else in S3"
                ),
                f"{code('result_limit_bytes')}, {code('inline_bytes')}",
            ),
            (
                "Results that one node is given",
                "fetched one after another, within its pool's time and memory",
                f"{code('timeout_s')}, {code('memory_mb')} of the pool",
            ),
            ("Output of an execution in one answer", size(MAX_OUTPUT_BYTES), ""),
            (
                "Timeout of a node",
                f"{pool.max_task_timeout_s} s in the default pool, {longest_s} s in any",
                f"{code('timeout_s')} of the pool",
            ),
            (
                "Attempts of a node",
                f"{retry.max_attempts} unless said otherwise, at most {MAX_ATTEMPTS_LIMIT}",
                f"{code('retry')} of the node or the task",
            ),
            (
                "Wait between attempts",
                (
                    f"random up to {retry.base_s:g} s, doubling to {retry.cap_s:g} s; "
                    f"cap at most {seconds(int(MAX_CAP_S * SECOND))}"
                ),
                f"{code('retry')} of the node or the task",
            ),
            (
                "Executions that the watchdog looks at",
                f"{SWEEP_LIMIT:,} a minute, the longest overdue first",
                "",
            ),
            (
                "Life of an execution",
                (
                    f"{seconds(settings.default_life_ms)} unless said otherwise, "
                    f"at most {seconds(MAX_LIFE_MS)}"
                ),
                (
                    f"{code('timeout_s')} of the workflow, {code('deadlineAt')}, "
                    f"{code('default_life_ms')}"
                ),
            ),
            (
                "Kept after the latest possible end",
                (
                    f"{seconds(settings.retention_ms)}; idempotency keys "
                    f"{seconds(settings.idempotency_retention_ms)} longer"
                ),
                f"{code('retention_ms')}, {code('idempotency_retention_ms')}",
            ),
        ),
    )


def storage_limits_table() -> str:
    """Render where things go when they are too large for a row."""
    settings = _SETTINGS
    return table(
        ("Payload", "In the row up to", "Beyond that", "At most"),
        (
            (
                "Input of an execution",
                size(settings.inline_bytes),
                code("payloads/{tenant}/{execution}/{sha256}"),
                size(settings.input_limit_bytes),
            ),
            (
                "Result of a node",
                size(settings.inline_bytes),
                code("payloads/{tenant}/{execution}/{sha256}"),
                size(settings.result_limit_bytes),
            ),
            (
                "Workflow, compressed",
                size(MAX_ROW_BYTES),
                code("workflows/{tenant}/{sha256}"),
                f"{MAX_NODES:,} nodes",
            ),
            ("In-degree of a compiled node", f"{MAX_IN_DEGREE}", "a tree of gates", "any width"),
        ),
    )


def killed_worker() -> str:
    """Render what happens, and when, after a worker was killed."""
    settings, pool = _SETTINGS, _default_pool()
    lease_s, beat_s = settings.lease_ms // SECOND, settings.heartbeat_ms // SECOND
    sweep_s, resend_s = _SWEEP_EVERY_MS // SECOND, settings.first_resend_ms // SECOND
    hidden_s = VISIBILITY_FACTOR * pool.timeout_s
    retry = RetryPolicy()
    timeline = table(
        ("After the kill", "A node that was running", "A message taken and not yet claimed"),
        (
            ("0 s", "its row says `running`", "its row says `queued`; SQS hides the message"),
            (
                f"{lease_s - beat_s} to {lease_s} s",
                f"the lease ends: {lease_s} s after its last renewal, which comes every {beat_s} s",
                "",
            ),
            (
                f"at the latest {lease_s + sweep_s} s",
                (
                    "a sweep finds the lease over, raises the fence and queues the next attempt, "
                    f"which waits a random 0 to {retry.base_s:g} s (first retry)"
                ),
                "",
            ),
            (
                f"{resend_s} s after it was sent",
                "",
                "the dispatch counts as lost",
            ),
            (
                f"at the latest {resend_s + sweep_s} s after it was sent",
                "",
                "a sweep sends it again under the same fence; the first worker to claim it runs it",
            ),
            (
                f"{hidden_s} s",
                "SQS shows the old message again; its fence has passed and it is dropped",
                "SQS shows the old message again; the node is claimed or done, and it is dropped",
            ),
        ),
    )
    summary = (
        f"So a node that was running is claimed again after {lease_s - beat_s} to "
        f"{lease_s + sweep_s} seconds, and a message that the dead worker had only received costs "
        f"{resend_s + sweep_s} seconds at most and not the {hidden_s} for which SQS hides it. Add "
        "a second or two for stream and queue."
    )
    return f"{timeline}\n\n{summary}"


def retention_table() -> str:
    """Render how long things are kept."""
    settings = _SETTINGS
    return table(
        ("What", "Kept", "Setting"),
        (
            (
                "Rows of an execution",
                f"{seconds(settings.retention_ms)} after its latest possible end",
                code("retention_ms"),
            ),
            (
                "Idempotency keys",
                f"{seconds(settings.idempotency_retention_ms)} longer",
                code("idempotency_retention_ms"),
            ),
            (
                "Payloads in S3",
                f"{payload_days(settings)} d after they were written",
                f"the longest life of an execution + {code('retention_ms')} + 1 d",
            ),
            ("Registered workflows", "for ever", ""),
            ("Logs", "a week on `dev`, three months on `prod`", ""),
            ("Messages nobody could handle", "14 d", ""),
        ),
    )


def resends_table() -> str:
    """Render when a dispatch that nobody claims is sent again, and when that ends in parking."""
    settings = _SETTINGS
    count = settings.resends_before_parking
    waits = [settings.resend_after_ms(sends) for sends in range(count)]
    return table(
        ("Send", "After the one before", "After the first", ""),
        (
            (
                f"{number}. repetition",
                seconds(wait),
                seconds(total),
                "the execution is parked" if number == count else "",
            )
            for number, (wait, total) in enumerate(
                zip(waits, accumulate(waits), strict=True), start=1
            )
        ),
    )


def queues_table() -> str:
    """Render the queues: who consumes them, how long they hide, where their failures go."""
    visible = {kind: VISIBILITY_FACTOR * size.timeout_s for kind, size in SIZES.items()}
    pool = _default_pool()
    return table(
        ("Queue", "Consumer", "Hidden while handled", f"After {MAX_RECEIVES} deliveries"),
        (
            (
                code("piton-<stage>-advance"),
                "step runner",
                f"{visible[Function.STEP_RUNNER]} s",
                code("piton-<stage>-advance-dlq"),
            ),
            (code("piton-<stage>-advance-dlq"), "people", "", ""),
            (
                code("piton-<stage>-worker-<pool>"),
                "the pool's workers",
                (
                    f"{VISIBILITY_FACTOR} times the pool's timeout: "
                    f"{VISIBILITY_FACTOR * pool.timeout_s} s for {code(DEFAULT_POOL)}"
                ),
                code("piton-<stage>-worker-<pool>-dlq"),
            ),
            (
                code("piton-<stage>-worker-<pool>-dlq"),
                "dead letters",
                f"{visible[Function.DEAD_LETTERS]} s",
                code("piton-<stage>-quarantine"),
            ),
            (code("piton-<stage>-quarantine"), "people", "", ""),
            (code("piton-<stage>-undelivered-events"), "people", "", ""),
            (code("piton-<stage>-stream-failures"), "people", "", ""),
        ),
    )


def settings_table() -> str:
    """Render every setting with its default."""
    return table(
        ("Setting", "Default"),
        (
            (code(name), _setting(name, getattr(_SETTINGS, name)))
            for name in Settings.__dataclass_fields__
        ),
    )


def _setting(name: str, value: int) -> str:
    if name.endswith("_ms"):
        return f"{value:,} ms ({seconds(value)})"
    if name.endswith("_bytes"):
        return f"{value:,} bytes ({size(value)})"
    return str(value)


def _default_pool() -> Pool:
    return next(pool for pool in POOLS if pool.name == DEFAULT_POOL)
