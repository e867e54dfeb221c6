"""A fixed set of small workflows, which together use everything that a graph can do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from examples.invoices.batch import SAMPLES, execution_input
from local.crashtest.subject import Subject, load_tasks, stub
from local.simulator.engine import POOLS
from piton.domain.canonical import Json
from piton.domain.compile import Need, NodeSpec
from piton.domain.retry import RetryPolicy
from piton.domain.status import EdgeOn
from piton.tasks import Context, Inputs, Permanent, Task, Transient

_EXAMPLES: Final = Path(SAMPLES).parent.parent
_MODULES: Final = ("examples.hello.tasks", "examples.invoices.tasks")


def hello() -> Subject:
    """The workflow of the tutorial."""
    return _example("hello", {"text": "to be or not to be"})


def invoices() -> Subject:
    """An invoice in XML that is accepted."""
    return _example("invoices", execution_input(SAMPLES / "atelier-F2025-118.xml"))


def chain(length: int = 5) -> Subject:
    """Nodes in a row."""
    specs = [NodeSpec("step-0", task="stub")]
    specs += [
        NodeSpec(f"step-{number}", task="stub", needs=(Need(f"step-{number - 1}"),))
        for number in range(1, length)
    ]
    return Subject("chain", tuple(specs), stub)


def wide(width: int = 5, gate_width: int = 2) -> Subject:
    """Nodes side by side, and a join so wide that its edges go through gates."""
    names = [f"wide-{number}" for number in range(width)]
    join = NodeSpec("join", task="stub", needs=tuple(Need(name) for name in names))
    specs = (*(NodeSpec(name, task="stub") for name in names), join)
    return Subject("wide", specs, stub, max_in_degree=gate_width)


def diamond() -> Subject:
    """A retry, a condition that skips one branch, and a failure edge on the other."""
    specs = (
        NodeSpec("check", task="diamond.check", retry=RetryPolicy(5)),
        NodeSpec("book", task="diamond.book", needs=(Need("check", when="valid"),)),
        NodeSpec("refuse", task="stub", needs=(Need("check", when="!valid"),)),
        NodeSpec("mend", task="stub", needs=(Need("book", EdgeOn.FAILURE),)),
        NodeSpec("report", task="stub", needs=(Need("mend"), Need("refuse"))),
    )
    bodies = {"diamond.check": _check, "diamond.book": _book}

    def find(name: str) -> Task | None:
        return Task(name, bodies[name], None, None) if name in bodies else stub(name)

    return Subject("diamond", specs, find)


SAMPLE_SUBJECTS: Final = (hello, invoices, diamond, chain, wide)


def _example(name: str, content: Mapping[str, Json]) -> Subject:
    text = (_EXAMPLES / name / "workflow.yaml").read_text(encoding="utf-8")
    return Subject.parse(text, load_tasks(_MODULES), content, POOLS)


def _check(context: Context, inputs: Inputs) -> Json:
    del inputs
    if context.attempt == 1:
        raise Transient("TRY_LATER")
    context.progress(0.5)
    return {"valid": True}


def _book(context: Context, inputs: Inputs) -> Json:
    del context, inputs
    raise Permanent("BOOKS_CLOSED")
