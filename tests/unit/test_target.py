"""Which deployment is meant: a file, the environment, both, neither."""

import json
from pathlib import Path

import pytest

from infra.contract import Output
from local.target import STACK_FILE, Target, TargetError

LOCAL = Target("http://127.0.0.1:1/graphql", "pool", "client", "us-east-1", "http://127.0.0.1:2")
OUTPUTS = {
    "PitonData": {Output.REGION: "eu-central-1", Output.EXECUTIONS_TABLE: "t"},
    "PitonApi": {
        Output.API_URL: "https://x.example/graphql",
        Output.USER_POOL_ID: "eu-central-1_p",
        Output.USER_POOL_CLIENT_ID: "c",
    },
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_written_is_found() -> None:
    LOCAL.write(STACK_FILE)
    assert Target.find(None, {}) == LOCAL


def test_the_outputs_of_a_deployment_to_aws_are_read(folder: Path) -> None:
    file = folder / "outputs.json"
    file.write_text(json.dumps(OUTPUTS))
    assert Target.find(file, {}) == Target(
        "https://x.example/graphql", "eu-central-1_p", "c", "eu-central-1"
    )


def test_the_environment_alone_is_enough() -> None:
    found = Target.find(
        None,
        {
            "PITON_API_URL": "https://x.example/graphql",
            "PITON_USER_POOL_ID": "p",
            "PITON_CLIENT_ID": "c",
            "AWS_REGION": "eu-west-1",
        },
    )
    assert found == Target("https://x.example/graphql", "p", "c", "eu-west-1")


def test_the_environment_wins_over_the_file_but_for_the_endpoint() -> None:
    LOCAL.write(STACK_FILE)
    found = Target.find(None, {"PITON_CLIENT_ID": "mine", "AWS_ENDPOINT_URL": "http://elsewhere"})
    assert (found.client_id, found.endpoint_url) == ("mine", LOCAL.endpoint_url)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(TargetError, match="set PITON_API_URL, PITON_CLIENT_ID, AWS_REGION"):
        Target.find(None, {"PITON_USER_POOL_ID": "p"})


@pytest.mark.parametrize("content", ["", "[]", "7", '{"PitonApi": {}}'])
def test_a_file_that_describes_no_deployment_is_refused(folder: Path, content: str) -> None:
    file = folder / "stack.json"
    file.write_text(content)
    with pytest.raises(TargetError):
        Target.find(file, {})


def test_a_file_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(TargetError, match="cannot be read"):
        Target.find(folder / "none.json", {})
