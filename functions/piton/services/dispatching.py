"""Sending a dispatch again, and giving an attempt that will not end a disposition."""

from __future__ import annotations

from enum import StrEnum

from piton.domain.retry import RetryPolicy
from piton.domain.rows import ExecutionRef, LogEntry, NodeRow, Value
from piton.ports import Applied, Clock, Counter, Metrics, Outcome, Random, Store
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Operation


class Disposition(StrEnum):
    """What became of an attempt.

    A failure is exactly one of `RETRY`, `DEAD_LETTER` and `CANCEL`. `STALE`: a newer attempt owns
    the node and this one's outcome was dropped.
    """

    COMPLETED = "completed"
    RETRY = "retry"
    DEAD_LETTER = "dead_letter"
    CANCEL = "cancel"
    STALE = "stale"


class Dispatching:
    """Guarded writes that move a node between attempts."""

    def __init__(self, store: Store, clock: Clock, random: Random, metrics: Metrics) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._metrics = metrics

    def send_again(self, ref: ExecutionRef, row: NodeRow) -> bool:
        """Repeat the dispatch of a queued node under the same fence (N9)."""
        outcome = self._store.apply(
            op.RESEND,
            keys.node(ref, row.ordinal),
            {"fence": row.fence, "seen_sends": row.sends, "now": self._clock.now_ms()},
        )
        if isinstance(outcome, Applied):
            self._metrics.count(Counter.DISPATCH_RESENT)
        return isinstance(outcome, Applied)

    def settle_failure(
        self,
        ref: ExecutionRef,
        row: NodeRow,
        reason: str,
        *,
        retry: Operation,
        fail: Operation,
        ends_by: int,
        default_policy: RetryPolicy | None = None,
        permanent: bool = False,
        seen_lease: int | None = None,
    ) -> Disposition:
        """Queue the next attempt while attempts and time are left, else dead-letter the node.

        `retry` and `fail` are the operations of the caller's own transition (N7/N8 or N10).
        `ends_by` is the execution's end in epoch milliseconds. A refusal is `STALE`.
        """
        reason = str(reason)
        policy = row.policy.retry if row.policy else default_policy or RetryPolicy()
        now = self._clock.now_ms()
        again = not permanent and policy.attempts_left(row.attempt) and now < ends_by
        key = keys.node(ref, row.ordinal)
        args: dict[str, Value] = {
            "fence": row.fence,
            "now": now,
            "reason": reason,
            "seen_lease": seen_lease,
        }
        outcome: Outcome
        if again:
            not_before = now + policy.delay_ms(row.attempt, self._random.uniform)
            entry = LogEntry(
                str(retry.transition),
                now,
                fence=row.fence + 1,
                attempt=row.attempt + 1,
                reason=reason,
                not_before=not_before,
            )
            args |= {"not_before": not_before, "log": entry.to_value()}
            outcome = self._store.apply(retry, key, args)
        else:
            entry = LogEntry(str(fail.transition), now, fence=row.fence, reason=reason)
            args |= {"tenant": ref.tenant, "log": entry.to_value()}
            outcome = self._store.apply(fail, key, args)
        if not isinstance(outcome, Applied):
            self._metrics.count(Counter.STALE_WRITE_REFUSED)
            return Disposition.STALE
        self._metrics.count(Counter.NODE_RETRIED if again else Counter.NODE_DEAD_LETTERED)
        return Disposition.RETRY if again else Disposition.DEAD_LETTER
