"""Published workflow traces as definitions: the DAG of the trace, with bodies that only take time.

The files are extracts of WfCommons instances (https://wfcommons.org): a name and tasks, each with
its id, the ids of its parents and the seconds that it took when it was recorded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from piton.contracts import problems_of
from piton.domain.canonical import Json

TASK: Final = "dag.run"
"""The body of every node; see `examples.dag.tasks`."""

_TIMEOUT_S: Final = 3600


class PublishedError(ValueError):
    """A file is no published workflow; the message names it and the place of the fault."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PublishedTask(_Model):
    """One task of a trace. `runtime_s` is what it took when it was recorded."""

    id: str
    parents: tuple[str, ...] = ()
    runtime_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class PublishedWorkflow(_Model):
    """A trace. Its graph is checked where every graph is: when it is registered."""

    name: str
    tasks: Annotated[tuple[PublishedTask, ...], Field(min_length=1)]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file. Raises `PublishedError`."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise PublishedError(f"{path} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            first = problems_of(error)[0]
            raise PublishedError(f"{path} is no published workflow: {first}") from error

    def definition(self) -> dict[str, Json]:
        """Return the workflow document to register."""
        return {
            "id": self.name,
            "timeout_s": _TIMEOUT_S,
            "nodes": [
                {
                    "id": task.id,
                    "task": TASK,
                    "params": {"runtime_s": task.runtime_s},
                    "needs": list(task.parents),
                }
                for task in self.tasks
            ],
        }

    def scale(self, longest_s: float) -> float:
        """Return the factor that makes the longest task take `longest_s` seconds."""
        longest = max(task.runtime_s for task in self.tasks)
        return longest_s / longest if longest else 1.0
