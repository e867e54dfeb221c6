"""Who is refused what, and how it is said. Everything goes through the front."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local.client import Api, ApiRejected
from local.deploy import assembly
from local.stack import Stack
from local.wiring import Wiring
from tests.e2e.scene import Scene, definition

NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def refusal_of(call: Callable[..., Any], *arguments: Any) -> tuple[str, str]:
    with pytest.raises(ApiRejected) as refusal:
        call(*arguments)
    return refusal.value.code, refusal.value.message


def test_a_foreign_execution_looks_like_none(scene: Scene, stranger: Api) -> None:
    id_ = scene.run(definition("foreign", {"a": (2, []), "b": (0, ["a"])}))
    for call in (stranger.resume, stranger.cancel):
        foreign, missing = refusal_of(call, id_), refusal_of(call, NOBODY)
        assert foreign == missing
        assert foreign[0] == "EXECUTION_NOT_FOUND"
    assert stranger.execution(id_) is None
    assert stranger.nodes(id_) == []
    assert id_ not in json.dumps(stranger.execute("{ listExecutions { items { id } } }", {}))
    scene.ends(id_)
    execution = scene.api.execution(id_)
    assert execution is not None
    assert (execution["status"], execution["resumes"]) == ("COMPLETED", 0)


def test_resume_takes_a_running_execution_and_nothing_else(scene: Scene) -> None:
    id_ = scene.run(definition("over", {"a": (0, [])}))
    scene.ends(id_)
    code, message = refusal_of(scene.api.resume, id_)
    assert code == "EXECUTION_ENDED"
    assert "completed" in message
    assert refusal_of(scene.api.resume, "../META")[0] == "INVALID_INPUT"
    with pytest.raises(ApiRejected, match="Unknown argument"):
        scene.api.execute(
            'mutation { resumeExecution(executionId: "x", from: "a") { error { code } } }', {}
        )
    assert len(scene.starts(id_)) == 1


def test_viewers_read_and_change_nothing(scene: Scene, viewer: Api) -> None:
    text = definition("viewed", {"a": (0, [])})
    id_ = scene.run(text)
    scene.ends(id_)
    assert viewer.execution(id_) is not None
    assert refusal_of(viewer.register, text)[0] == "FORBIDDEN"
    assert refusal_of(viewer.start, {"workflow": "viewed"})[0] == "FORBIDDEN"
    assert refusal_of(viewer.resume, id_)[0] == "FORBIDDEN"
    assert refusal_of(viewer.cancel, id_)[0] == "FORBIDDEN"


@pytest.mark.parametrize("token", ["", "x", "a.b.c"])
def test_nobody_gets_past_the_front(stack: Stack, token: str) -> None:
    api = Api(stack.api_url, token)
    assert refusal_of(api.execution, NOBODY)[0] == "UNAUTHENTICATED"
    assert refusal_of(api.resume, NOBODY)[0] == "UNAUTHENTICATED"


def test_every_field_refuses_a_null_identity(stack: Stack) -> None:
    """What AppSync lets through without a caller still meets a resolver that wants one."""
    wired = Wiring.read(assembly(stack.emulator)).functions
    assert len(wired) >= 12
    for (type_name, field), function in wired.items():
        event: dict[str, Any] = {
            "info": {"parentTypeName": type_name, "fieldName": field, "selectionSetList": []},
            "arguments": {"input": {"workflow": "x"}, "definition": "{}", "executionId": NOBODY}
            if type_name == "Mutation"
            else {"id": NOBODY},
            "source": {"id": NOBODY},
            "identity": None,
            "request": {"headers": {}},
        }
        answer = stack.aws.functions.invoke(FunctionName=function, Payload=json.dumps(event))
        payload = json.load(answer["Payload"])
        said = payload["error"]["code"] if type_name == "Mutation" else payload["errorMessage"]
        assert said.startswith("UNAUTHENTICATED"), f"{type_name}.{field}"


def test_an_unknown_workflow_cannot_be_started(scene: Scene) -> None:
    code, message = refusal_of(scene.api.start, {"workflow": "no-such-workflow"})
    assert code == "WORKFLOW_NOT_FOUND"
    assert "register it first" in message


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("id: [\n", "line "),
        ("id: x\nnodes: []\n", "nodes"),
        ("id: x\nnodes: [{id: a, task: t, needs: [b]}]\n", "nodes[0].needs[0]"),
        ("id: x\nnodes: [{id: a, task: t, when: 1}]\n", "nodes[0].when"),
        ("id: x\nnodes: [{id: a, task: t, timeout_s: 500}]\n", "nodes[0].timeout_s"),
    ],
)
def test_a_malformed_workflow_is_refused_with_the_place(
    scene: Scene, text: str, place: str
) -> None:
    code, message = refusal_of(scene.api.register, text)
    assert code == "INVALID_DEFINITION"
    assert place in message


def test_too_large_an_input_is_refused(scene: Scene) -> None:
    workflow = scene.api.register(definition("large", {"a": (0, [])}))["id"]
    fits = scene.start(workflow, {"text": "x" * 500_000})
    code, message = refusal_of(scene.start, workflow, {"text": "x" * 950_000})
    assert code == "INPUT_TOO_LARGE"
    assert "pass its address" in message
    assert refusal_of(scene.start, workflow, {"text": "x" * 1_100_000})[0] == "INVALID_INPUT"
    scene.ends(fits)
    execution = scene.api.execution(fits)
    assert execution is not None
    assert execution["status"] == "COMPLETED"


def test_the_command_line_reads_what_up_writes(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "stack.json"
    stack.target.write(file)
    assert type(stack.target).find(file, {}) == stack.target
