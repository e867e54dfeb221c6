"""One run of everything on the emulator, made once and read by all who ask for its outcome."""

import fcntl
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from local.emulator import ACCOUNT_ID, REGION, Emulator
from tests.iam.enforce import Judged
from tests.iam.faults import FAULTS
from tests.iam.refusals import REFUSALS
from tests.iam.scenarios import SCENARIOS
from tests.iam.services import service_requests
from tests.iam.template import Deployment
from tests.iam.world import World
from tests.infra.synthesis import Variant, synthesize
from tests.support.emulator import Clients

VARIANT: Final = Variant.FULL
"""What is exercised: the largest deployment, with a key of the account and a second pool."""


@dataclass(frozen=True, slots=True)
class Exercise:
    """What the functions asked for, and which attacks code and guards refused."""

    judged: tuple[Judged, ...]
    refused: Mapping[str, bool]

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what `text` kept."""
        document = json.loads(text)
        judged = (
            Judged(**{**entry, "attributes": tuple(entry["attributes"])})
            for entry in document["judged"]
        )
        return cls(tuple(judged), document["refused"])

    @property
    def text(self) -> str:
        """The outcome as text."""
        return json.dumps(asdict(self))


def deployment(shared: Path) -> Deployment:
    """Return the exercised deployment, in the emulator's account."""
    return Deployment(synthesize(VARIANT, shared), ACCOUNT_ID, REGION)


def exercise(shared: Path) -> Exercise:
    """Return the outcome; the first of all test processes makes it in `shared`."""
    place = shared / "exercise.json"
    with (shared / "exercise.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            place.write_text(_run(deployment(shared)).text)
    return Exercise.read(place.read_text())


def _run(deployed: Deployment) -> Exercise:
    with Emulator() as emulator:
        world = World(deployed, Clients(emulator.endpoint_url))
        for scenario in (*SCENARIOS, *FAULTS):
            scenario(world)
        for role, request in service_requests(deployed):
            world.enforcer.note(role, request)
        judged = tuple(world.enforcer.judged)
        refused = {refusal.__name__: refusal(world) for refusal in REFUSALS}
        later = [entry for entry in world.enforcer.judged if not entry.allowed]
        return Exercise((*judged, *later), refused)
