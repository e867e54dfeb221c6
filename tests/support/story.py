"""What happens to the nodes of one execution, written as the engine writes it."""

from typing import Any, Final

from piton.domain import canonical
from piton.domain.retry import RetryPolicy
from piton.domain.rows import AttemptPolicy, LogEntry, Value
from piton.storage import keys
from piton.storage import operations as op
from piton.storage.algebra import Operation
from tests.support.api import ApiUnderTest, Event, recorded

DIAMOND: Final = """
id: diamond
nodes:
  - {id: top, task: t.top}
  - {id: left, task: t.left, needs: [top]}
  - {id: right, task: t.right, needs: [top]}
  - {id: bottom, task: t.bottom, needs: [left, right]}
"""
TOP, LEFT, RIGHT, BOTTOM = range(4)


def asking(name: str, execution_id: str | None = None, **arguments: Any) -> Event:
    event = recorded(name)
    event["arguments"] |= arguments
    if execution_id is not None:
        if event["info"]["parentTypeName"] == "Execution":
            event["source"]["id"] = execution_id
        else:
            event["arguments"]["id"] = execution_id
    return event


class Story:
    """One running execution. Every step takes some time."""

    def __init__(self, api: ApiUnderTest, definition: str = DIAMOND) -> None:
        self.api = api
        name = api.register(definition=definition)["workflow"]["id"]
        self.id = api.start(workflow=name, input={"n": 1})
        self.ref = api.run(self.id)

    def tick(self, milliseconds: int = 10) -> int:
        self.api.clock.now += milliseconds
        return self.api.clock.now

    def queue(self, ordinal: int, node_id: str) -> None:
        now = self.tick()
        log = LogEntry("N1", now, fence=1, attempt=1)
        self._apply(
            op.QUEUE_ROOT,
            ordinal,
            log,
            {
                "node_id": node_id,
                "expires_at": 9_999_999_999,
                "pool": "default",
                "scope": "s",
                "now": now,
            },
        )

    def claim(self, ordinal: int, attempt: int = 1) -> None:
        now = self.tick()
        owner = f"default:77/nonce-{attempt}"
        log = LogEntry("N4", now, fence=attempt, attempt=attempt, owner=owner, code="c0de")
        args: dict[str, Value] = {
            "fence": attempt,
            "owner": owner,
            "lease_until": now + 30_000,
            "now": now,
            "policy": AttemptPolicy(600_000, RetryPolicy()).to_value(),
            "code_hash": "c0de",
        }
        self._apply(op.CLAIM, ordinal, log, args)

    def retry(
        self, ordinal: int, fence: int, operation: Operation = op.RETRY, reason: str = "FLAKY"
    ) -> None:
        now = self.tick()
        log = LogEntry(
            str(operation.transition),
            now,
            fence=fence + 1,
            attempt=fence + 1,
            reason=reason,
            not_before=now + 500,
        )
        args: dict[str, Value] = {
            "fence": fence,
            "not_before": now + 500,
            "now": now,
            "reason": reason,
        }
        self._apply(operation, ordinal, log, args)
        self.tick(500)

    def complete(self, ordinal: int, fence: int, result: object) -> None:
        now = self.tick()
        text = canonical.dumps(result)
        stored = self.api.payloads.save(self.ref, text)
        args: dict[str, Value] = {
            "fence": fence,
            "result": stored.body,
            "result_ref": stored.ref,
            "result_hash": stored.hash,
            "now": now,
        }
        self._apply(op.COMPLETE, ordinal, LogEntry("N6", now, fence=fence), args)

    def fail(self, ordinal: int, fence: int, operation: Operation = op.FAIL) -> None:
        now = self.tick()
        log = LogEntry(str(operation.transition), now, fence=fence, reason="BROKEN")
        args: dict[str, Value] = {
            "fence": fence,
            "reason": "BROKEN",
            "now": now,
            "tenant": "acme",
        }
        self._apply(operation, ordinal, log, args)

    def done(self, ordinal: int, node_id: str, result: object) -> None:
        self.queue(ordinal, node_id)
        self.claim(ordinal)
        self.complete(ordinal, 1, result)

    def _apply(
        self, operation: Operation, ordinal: int, log: LogEntry, args: dict[str, Value]
    ) -> None:
        key = keys.node(self.ref, ordinal)
        self.api.write(operation, key, {**args, "log": log.to_value()})
