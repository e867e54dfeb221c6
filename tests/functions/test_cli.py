"""`piton` against the whole way in: commands, answers, exit codes."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local import cli
from local.target import STACK_FILE, Target
from tests.support.api import ApiUnderTest
from tests.support.emulator import Clients
from tests.support.front import PASSWORD, UserPool, open_front
from tests.support.story import DIAMOND

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Piton = Callable[..., Result]


@pytest.fixture(scope="module")
def pool(aws: Clients) -> UserPool:
    return UserPool.create(aws)


@pytest.fixture
def target(api: ApiUnderTest, aws: Clients, pool: UserPool) -> Iterator[Target]:
    with open_front(api, aws, pool) as opened:
        yield opened


@pytest.fixture
def piton(
    target: Target,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Piton:
    """Run a command line in a folder that `make up` has been run in."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("PITON_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PITON_PASSWORD", PASSWORD)
    target.write(STACK_FILE)

    def run(*arguments: str) -> Result:
        capsys.readouterr()
        code = cli.main(arguments)
        out, err = capsys.readouterr()
        # The functions run in this process, and write their figures where the command answers.
        answer = [
            line for line in out.splitlines(keepends=True) if '"CloudWatchMetrics"' not in line
        ]
        return Result(code, "".join(answer), err)

    return run


@pytest.fixture
def olga(piton: Piton, monkeypatch: pytest.MonkeyPatch) -> Piton:
    """The same, signed in as an operator."""
    piton("user", "create", "olga", "--tenant", "acme", "--group", "operators")
    monkeypatch.setenv("PITON_TOKEN", piton("token", "olga").out.strip())
    return piton


def test_a_user_is_created_and_signs_in(piton: Piton) -> None:
    created = piton("user", "create", "una", "--tenant", "acme", "--group", "viewers")
    assert created == Result(0, "created una of tenant acme in viewers\n", "")
    assert piton("user", "tenant", "una") == Result(0, "acme\n", "")
    assert piton("token", "una").out.count(".") == 2
    again = piton("user", "create", "una", "--tenant", "acme")
    assert (again.code, again.err.partition(":")[0]) == (1, "USER_EXISTS")


def test_a_user_joins_and_leaves_groups(piton: Piton, aws: Clients, pool: UserPool) -> None:
    def groups() -> list[str]:
        found = aws.cognito.admin_list_groups_for_user(Username="ugo", UserPoolId=pool.id)
        return [group["GroupName"] for group in found["Groups"]]

    assert piton("user", "create", "ugo", "--tenant", "acme").code == 0
    assert piton("user", "group", "ugo", "operators").code == 0
    assert groups() == ["operators"]
    assert piton("user", "group", "ugo", "operators", "--remove", "--json").json == {
        "user": "ugo",
        "left": "operators",
    }
    assert groups() == []


def test_a_wrong_password_is_refused(piton: Piton, monkeypatch: pytest.MonkeyPatch) -> None:
    piton("user", "create", "ursula", "--tenant", "acme")
    monkeypatch.setenv("PITON_PASSWORD", "wrong")
    result = piton("token", "ursula")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("UNAUTHENTICATED: ")


@pytest.mark.parametrize("tenant", ["A", "a", "a#b", "a" * 34])
def test_a_tenant_that_is_none_is_wrong_usage(piton: Piton, tenant: str) -> None:
    result = piton("user", "create", "uwe", "--tenant", tenant)
    assert (result.code, result.err.partition(":")[0]) == (2, "USAGE")


def test_a_workflow_is_registered_and_run(olga: Piton, api: ApiUnderTest) -> None:
    Path("w.yaml").write_text(DIAMOND)
    assert olga("register", "w.yaml").out == "registered diamond version 1 with 4 nodes\n"
    started = olga("start", "diamond", "--input", '{"n": 1}')
    execution_id = started.out.strip()
    assert (started.code, len(execution_id)) == (0, 26)
    shown = olga("show", execution_id)
    assert shown.code == 0
    assert "diamond v1  pending" in shown.out
    assert "4 pending" in shown.out
    api.run(execution_id)
    assert olga("resume", execution_id).out == f"resumed {execution_id}, 1 time(s) in all\n"
    cancelled = olga("cancel", execution_id, "--reason", "a test")
    assert cancelled.out == f"{execution_id} is cancelled\n"
    assert '"a test"' in olga("show", execution_id).out


def test_json_has_everything(olga: Piton) -> None:
    started = olga("start", "invoices", "--input", '{"n": 1}', "--json").json
    assert started["created"] is True
    shown = olga("--json", "show", started["execution"]["id"]).json
    assert (shown["status"], shown["input"], shown["output"]) == ("PENDING", {"n": 1}, None)
    assert [node["id"] for node in shown["nodes"]] == ["extract", "post"]
    assert [entry["transition"] for entry in shown["history"]] == ["E1"]


def test_a_document_is_taken_in_once(olga: Piton) -> None:
    arguments = ("start", "invoices", "--document", "inbox/a.xml", "--operation-version", "2")
    first = olga(*arguments)
    again = olga(*arguments)
    assert again.out == f"was started before: {first.out}"
    other = olga(*arguments, "--input", '{"other": 1}')
    assert (other.code, other.err.partition(":")[0]) == (1, "IDEMPOTENCY_CONFLICT")


@pytest.mark.parametrize("way", ["@input.json", "-"])
def test_input_comes_from_a_file_or_standard_input(
    olga: Piton, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    text = '{"from": "elsewhere"}'
    Path("input.json").write_text(text)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    started = olga("start", "invoices", "--input", way, "--json").json
    shown = olga("show", started["execution"]["id"], "--json").json
    assert shown["input"] == {"from": "elsewhere"}


def test_a_definition_comes_from_standard_input(
    olga: Piton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(DIAMOND))
    assert olga("register", "-").code == 0


def test_a_faulty_definition_is_refused_with_its_place(olga: Piton) -> None:
    Path("w.yaml").write_text("id: w\nnodes:\n  - id: a\n    task: t\n    needs: [b]\n")
    assert olga("register", "w.yaml") == Result(
        1, "", "INVALID_DEFINITION: nodes[0].needs[0] (line 5): no node 'b'\n"
    )


def test_a_deadline_and_a_version_are_passed_on(olga: Piton) -> None:
    result = olga("start", "invoices", "--version", "7")
    assert (result.code, "version 7" in result.err) == (1, True)
    result = olga("start", "invoices", "--deadline", "2026-01-01T00:00:00Z")
    assert (result.code, "future" in result.err) == (1, True)


def test_watching_ends_with_the_execution(olga: Piton, api: ApiUnderTest) -> None:
    execution_id = olga("start", "invoices").out.strip()
    api.complete(api.run(execution_id))
    watched = olga("show", execution_id, "--watch")
    assert (watched.code, "completed" in watched.out) == (0, True)


@pytest.mark.parametrize(
    "arguments", [("show",), ("show", "--watch"), ("resume",), ("cancel",), ("show", "--json")]
)
def test_an_execution_that_is_not_there_is_refused(olga: Piton, arguments: tuple[str, ...]) -> None:
    result = olga(*arguments, "01KDV4QZ8M6X3T9B2C7R5W1YHN")
    assert result.code == 1
    assert "EXECUTION_NOT_FOUND" in result.out + result.err


def test_an_error_can_be_json(olga: Piton) -> None:
    result = olga("start", "unheard-of", "--json")
    assert (result.code, result.err) == (1, "")
    assert result.json["error"]["code"] == "WORKFLOW_NOT_FOUND"


def test_a_user_in_the_environment_signs_in_by_the_way(
    piton: Piton, monkeypatch: pytest.MonkeyPatch
) -> None:
    piton("user", "create", "ulf", "--tenant", "acme", "--group", "operators")
    assert piton("start", "invoices").code == 2
    monkeypatch.setenv("PITON_USERNAME", "ulf")
    assert piton("start", "invoices").code == 0


@pytest.mark.parametrize("text", ["[", "[]", "7", "@missing.json"])
def test_input_that_is_no_object_is_wrong_usage(olga: Piton, text: str) -> None:
    assert olga("start", "invoices", "--input", text).code == 2


def test_without_a_deployment_the_way_to_one_is_told(piton: Piton) -> None:
    STACK_FILE.unlink()
    result = piton("show", "x")
    assert (result.code, "make up" in result.err) == (2, True)


def test_a_deployment_that_does_not_answer_is_code_3(
    olga: Piton, target: Target, tmp_path: Path
) -> None:
    gone = Target("http://127.0.0.1:9/graphql", *[getattr(target, n) for n in target.__slots__[1:]])
    gone.write(tmp_path / "gone.json")
    result = olga("show", "x", "--stack", "gone.json")
    assert (result.code, result.err.partition(":")[0]) == (3, "UNREACHABLE")


@pytest.mark.parametrize("arguments", [[], ["unheard"], ["start"], ["user", "create", "x"]])
def test_a_command_line_that_cannot_be_read_is_code_2(arguments: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "local.cli", *arguments], cwd=ROOT, check=False, capture_output=True
    )
    assert ended.returncode == 2
