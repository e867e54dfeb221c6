"""`make up` and `make down`: what stays between commands, and what stays after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.client import Api
from local.demo.clock import until
from local.emulator import Emulator
from local.stack import down, up
from local.target import Target
from local.users import Users
from piton.domain.names import Tenant
from piton.services.caller import Group
from tests.e2e.scene import have_died

PASSWORD = "Choose-1-of-your-own"


def test_up_stays_up_until_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state, file = tmp_path / "emulator.json", tmp_path / "stack.json"
    try:
        up(state, file)
        target = Target.find(file, {})
        assert target.api_url in capsys.readouterr().out
        users = Users(target)
        users.create("ann", Tenant("acme"), [Group.OPERATORS], PASSWORD)
        api = Api(target.api_url, users.sign_in("ann", PASSWORD))
        workflow = api.register("id: kept\nnodes: [{id: a, task: dag.run}]\n")

        # Once more: what has not changed stays as it is, data included.
        up(state, file)
        again = Target.find(file, {})
        assert again.endpoint_url == target.endpoint_url
        api = Api(again.api_url, users.sign_in("ann", PASSWORD))
        id_ = api.start({"workflow": workflow["id"]})["execution"]["id"]
        until(lambda: _status(api, id_) == "COMPLETED", 90, "the end of an execution")

        running = Emulator.attach(state)
        assert running is not None
        pids = running.processes()
        assert len(pids) >= 4
    finally:
        down(state, file)
    assert have_died(pids)
    assert not state.exists()
    assert not file.exists()
    capsys.readouterr()
    down(state, file)
    assert capsys.readouterr().out == "Nothing runs.\n"


def _status(api: Api, execution_id: str) -> str:
    execution = api.execution(execution_id)
    return str(execution and execution["status"])
