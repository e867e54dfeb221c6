"""What must hold after a run. Each check yields a sentence per violation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from local.demo.ledger import (
    ENDS_OF_EXECUTIONS,
    ENDS_OF_NODES,
    BodyStart,
    Drop,
    Evidence,
    ExecutionRecord,
    Expected,
    Fact,
    Kill,
    NodeRecord,
    Resume,
)
from piton.domain.status import LIVE_NODE_STATUSES, ExecutionStatus, NodeStatus
from piton.ports import Counter as Figure


@dataclass(slots=True)
class Book:
    """Everything about one execution, by node."""

    record: ExecutionRecord
    starts: dict[str, list[BodyStart]]
    ends: dict[str, set[Fact]]
    terminal: set[Fact]

    @property
    def id(self) -> str:
        """Id of the execution."""
        return self.record.id

    def ended_at(self, node: NodeRecord) -> int | None:
        """When the node ended, whoever told of it first."""
        moments = [fact.occurred_at for fact in self.ends[node.id]]
        if node.status.terminal and node.finished_at is not None:
            moments.append(node.finished_at)
        return min(moments, default=None)


class Books:
    """The evidence sorted by execution. Repeated deliveries of one fact count once."""

    def __init__(self, evidence: Evidence) -> None:
        starts: dict[tuple[str, str], list[BodyStart]] = defaultdict(list)
        for start in evidence.bodies:
            starts[start.execution_id, start.node_id].append(start)
        ends: dict[tuple[str, str], set[Fact]] = defaultdict(set)
        terminal: dict[str, set[Fact]] = defaultdict(set)
        for fact in evidence.facts:
            if fact.node_id is not None and fact.type in ENDS_OF_NODES:
                ends[fact.execution_id, fact.node_id].add(fact)
            elif fact.type in ENDS_OF_EXECUTIONS:
                terminal[fact.execution_id].add(fact)
        self.books = [
            Book(
                record,
                {node.id: starts.get((record.id, node.id), []) for node in record.nodes},
                {node.id: ends.get((record.id, node.id), set()) for node in record.nodes},
                terminal.get(record.id, set()),
            )
            for record in evidence.records
        ]

    @property
    def ids(self) -> set[str]:
        """Ids of the executions that there is a record of."""
        return {book.id for book in self.books}

    def each(self, check: Callable[[Book], Iterable[str]]) -> Iterator[str]:
        """Yield what a check finds in any of the books."""
        for book in self.books:
            yield from check(book)


def reruns(book: Book) -> Iterator[str]:
    """Bodies that started although their node had ended."""
    for node in book.record.nodes:
        ended = book.ended_at(node)
        for start in book.starts[node.id]:
            if ended is not None and start.at > ended:
                yield f"{book.id}/{node.id}: attempt {start.attempt} started after the node's end"


def lost(book: Book) -> Iterator[str]:
    """Nodes that should have ended and have not, and executions that never did."""
    record = book.record
    if not record.status.terminal or not book.terminal:
        yield f"{book.id} has not ended ({record.status}, {len(book.terminal)} terminal events)"
    for node in record.nodes:
        finished_whole = record.status is ExecutionStatus.COMPLETED
        owed = not node.status.terminal if finished_whole else node.status in LIVE_NODE_STATUSES
        forgotten = not node.status.terminal and book.ends[node.id]
        if record.status.terminal and (owed or forgotten):
            yield f"{book.id}/{node.id} is {node.status} under a {record.status} execution"


def doubles(book: Book) -> Iterator[str]:
    """Ends that were recorded more than once."""
    if len(book.terminal) > 1:
        yield f"{book.id} has {len(book.terminal)} ends: {_types(book.terminal)}"
    for node_id, ends in book.ends.items():
        if len(ends) > 1:
            yield f"{book.id}/{node_id} has {len(ends)} ends: {_types(ends)}"


def mismatches(book: Book) -> Iterator[str]:
    """Rows, events and bodies that contradict each other."""
    if not book.record.status.terminal:
        return
    for fact in book.terminal:
        if ENDS_OF_EXECUTIONS[fact.type] is not book.record.status:
            yield f"{book.id} is {book.record.status} and sent {fact.type}"
    for node in book.record.nodes:
        place = f"{book.id}/{node.id}"
        announced = {ENDS_OF_NODES[fact.type] for fact in book.ends[node.id]}
        announces = node.status in ENDS_OF_NODES.values()
        if announced != ({node.status} if announces else set()):
            yield f"{place} is {node.status} and announced {sorted(announced) or 'nothing'}"
        starts = book.starts[node.id]
        if node.status is NodeStatus.COMPLETED and not starts:
            yield f"{place} is completed and no body ran"
        if node.status in (NodeStatus.SKIPPED, NodeStatus.PENDING) and starts:
            yield f"{place} is {node.status} and {len(starts)} bodies ran"
        for fence, times in Counter(start.fence for start in starts).items():
            if times > 1:
                yield f"{place}: {times} bodies ran under fence {fence}"


def unexpected(
    records: Iterable[ExecutionRecord], expected: Mapping[str, Expected]
) -> Iterator[str]:
    """Outcomes other than those that were planned."""
    for record in records:
        wanted = expected[record.id]
        if record.status is not wanted.status:
            yield f"{record.id} is {record.status} ({record.reason}), not {wanted.status}"
        for node in record.nodes:
            status = wanted.nodes.get(node.id, node.status)
            if node.status is not status:
                yield f"{record.id}/{node.id} is {node.status}, not {status}"


def unhealed(
    metrics: Mapping[str, float],
    kills: Sequence[Kill],
    claims: Sequence[float | None],
    drops: Sequence[Drop],
    advances: Sequence[float | None],
) -> Iterator[str]:
    """Faults without the recovery they ask for, by the watchdog and nobody else."""
    for kill, claim in zip(kills, claims, strict=True):
        if claim is None:
            yield f"not every victim of process {kill.pid} was claimed again"
    for drop, advance in zip(drops, advances, strict=True):
        if advance is None:
            yield f"{drop.execution_id}/{drop.node_id}: nothing followed the dropped message"
    for faults, figure in ((kills, Figure.STALL_RECOVERED), (drops, Figure.FRONTIER_RECOVERED)):
        if metrics.get(figure, 0) < len(faults):
            yield f"the watchdog counted {metrics.get(figure, 0):.0f} {figure}"
    if metrics.get(Figure.PARKED, 0):
        yield f"the watchdog parked {metrics[Figure.PARKED]:.0f} execution(s)"


def reruns_after_resume(
    books: Books, kills: Sequence[Kill], resumes: Sequence[Resume]
) -> Iterator[str]:
    """Nodes of a resumed execution that ran before and ran again, and no kill explains it."""
    killed = {(v.execution_id, v.node_id) for kill in kills for v in kill.victims}
    resumed = {resume.execution_id: resume for resume in resumes}
    for book in books.books:
        resume = resumed.get(book.id)
        if resume is None:
            continue
        for node_id, starts in book.starts.items():
            running_then = any(start.at <= resume.answered for start in starts)
            again = sum(start.at > resume.answered for start in starts)
            if running_then and again and (book.id, node_id) not in killed:
                yield f"{book.id}/{node_id} ran again after resumeExecution"


def _types(facts: Iterable[Fact]) -> str:
    return ", ".join(sorted(fact.type.value for fact in facts))
