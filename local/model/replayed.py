"""The real services, one store call at a time.

A service is a function of its arguments and of the answers it was given. So a call in progress is
nothing but the list of those answers: to go on, the service is run again from its beginning, is
given them once more, and stops at the first question that has no answer yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from local.model.asking import (
    AskingRunner,
    AskingStore,
    NoBlobs,
    NoChance,
    OneWorkflow,
    SmallTasks,
)
from local.model.graphs import Small, condition
from local.model.questions import Act, Answer, Call, Finished, Question, Script, Unanswered
from local.model.rows import REF
from local.simulator.engine import NoLambdas
from local.simulator.tally import Tally
from piton.domain.errors import NotYet, Retry, Stale
from piton.domain.messages import Dispatch
from piton.domain.settings import Settings
from piton.services.assembly import Engine, Ports
from piton.services.bodies import PoolProfile
from piton.services.work import Work, WorkerIdentity

SETTINGS: Final = Settings()
_PLENTY_MS: Final = 10**9
_MOST_DUE: Final = 10


class _Stops(BaseException):
    """Leaves a service at a question without an answer. Not for its handling of errors."""

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question


class _Recorded:
    """Answers given so far. Also the clock: each answer has its time.

    `told_time` says whether the service looked at the clock since its last answer.
    """

    def __init__(self, began: int, answers: Sequence[Answer]) -> None:
        self._answers = answers
        self._given = 0
        self._now = began
        self.told_time = False

    def ask(self, question: Question) -> object:
        if self._given == len(self._answers):
            raise _Stops(question)
        answer = self._answers[self._given]
        self._given += 1
        self._now = answer.now
        self.told_time = False
        if answer.value is Unanswered.RETRY:
            raise Retry("no answer")
        return answer.value

    def now_ms(self) -> int:
        self.told_time = True
        return self._now

    def monotonic_ms(self) -> int:
        return 0


class Replayed:
    """Runs calls over one workflow."""

    def __init__(self, small: Small) -> None:
        self._small = small
        self._workflows = OneWorkflow(small.graph)

    def proceed(
        self, call: Call, began: int, answers: Sequence[Answer]
    ) -> tuple[Question | Finished, bool]:
        """Return the next question of a call, or how it ended, and whether it looked at the clock.

        Raises `local.simulator.host.Violation` when the engine contradicts itself.
        """
        script = _Recorded(began, answers)
        next_: Question | Finished = Finished.DONE
        try:
            self.run(script, call)
        except _Stops as stop:
            next_ = stop.question
        except (NotYet, Retry):
            next_ = Finished.AGAIN
        except Stale:
            pass
        return next_, script.told_time

    def run(self, script: Script, call: Call) -> None:
        """Run a call from beginning to end. Raises `Stale` and `Retry` as the services do."""
        engine = self._engine(script, call)
        match call:
            case Call(Act.WORK, dispatch=Dispatch() as dispatch):
                self._worker(engine, script, dispatch).run(dispatch, _PLENTY_MS)
            case Call(Act.SWEEP):
                engine.sweep.run(_MOST_DUE, lambda: _PLENTY_MS)
            case Call(Act.START):
                engine.advance.start(REF)
            case Call(Act.ADVANCE, ordinal):
                engine.advance.node_ended(REF, ordinal)
            case Call(Act.RESUME):
                engine.advance.resume(REF)
            case _:
                engine.advance.ended(REF)

    def _engine(self, script: Script, call: Call) -> Engine:
        ports = Ports(
            store=AskingStore(script),
            workflows=self._workflows,
            blobs=NoBlobs(),
            clock=script,
            random=NoChance(call.nonce),
            metrics=Tally(),
            settings=SETTINGS,
            condition=condition,
        )
        return Engine(ports)

    def _worker(self, engine: Engine, script: Script, dispatch: Dispatch) -> Work:
        return engine.worker(
            tasks=SmallTasks(self._small),
            runner=AskingRunner(script, dispatch),
            invoker=NoLambdas(),
            pool=PoolProfile(_PLENTY_MS, frozenset(), lambda _: None),
            identity=WorkerIdentity("w", "c"),
        )
