"""The figures of the evaluation: `make permissions` -> build/reports/permissions.json.

Exits with 1 unless every documented decision is right, nothing that is needed is denied, nothing
is granted in vain without a reason, every attack is refused and every mutant is noticed.
"""

import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.iam.attack import Outcome, succeeds
from tests.iam.attacks import attacks
from tests.iam.coverage import reasons, unused
from tests.iam.documented import documented_decisions
from tests.iam.enforce import Judge
from tests.iam.exercise import Exercise, deployment, exercise
from tests.iam.mutants import caught
from tests.iam.template import Deployment

REPORT: Final = Path(__file__).resolve().parents[2] / "build" / "reports" / "permissions.json"


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted. `granted_unused` leaves out what has a reason, `granted_explained` not."""

    functions: int
    decisions_checked: int
    decisions_right: int
    requests_judged: int
    denied_needed: int
    granted_unused: int
    granted_explained: int
    attacks: int
    attacks_denied: int
    attacks_possible: int
    policy_mutants: int
    policy_mutants_caught: int

    @property
    def good(self) -> bool:
        """Whether everything is as it has to be."""
        return (
            self.decisions_right == self.decisions_checked
            and self.denied_needed == self.granted_unused == 0
            and self.attacks_denied == self.attacks
            and self.policy_mutants_caught == self.policy_mutants
        )


def figures(deployed: Deployment, exercised: Exercise) -> Figures:
    """Count. `attacks_possible` are those that docs/security.md lists as residual."""
    judge = Judge(deployed)
    decisions = documented_decisions()
    spare = unused(deployed, exercised.judged)
    explained = [grant for grant in spare if any(each.covers(grant) for each in reasons())]
    tried = attacks(deployed)
    by_iam = [attack for attack in tried if attack.expect is Outcome.DENIED]
    denied = [attack for attack in by_iam if not succeeds(attack, judge, deployed)]
    mutants = caught(deployed)
    return Figures(
        functions=len({role.function for role in deployed.roles if role.function}),
        decisions_checked=len(decisions),
        decisions_right=sum(row.decided is row.allowed for row in decisions),
        requests_judged=len(exercised.judged),
        denied_needed=sum(not entry.allowed for entry in exercised.judged),
        granted_unused=len(spare) - len(explained),
        granted_explained=len(explained),
        attacks=len(by_iam) + len(exercised.refused),
        attacks_denied=len(denied) + sum(exercised.refused.values()),
        attacks_possible=len(tried) - len(by_iam),
        policy_mutants=len(mutants),
        policy_mutants_caught=sum(mutants.values()),
    )


def main() -> int:
    """Evaluate everything and write the report."""
    with tempfile.TemporaryDirectory(prefix="piton-permissions-") as folder:
        shared = Path(folder)
        found = figures(deployment(shared), exercise(shared))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(found), indent=2)
    REPORT.write_text(f"{text}\n")
    sys.stdout.write(f"{text}\n")
    return 0 if found.good else 1


if __name__ == "__main__":
    sys.exit(main())
