"""The embedded AWS starts alone, keeps to itself and leaves nothing behind."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from local.emulator import HOST, Emulator, EmulatorError, end_abandoned
from tests.support.emulator import Clients

# Reports its pid over a socket and then waits for as long as the socket stays open.
HANDLER = """
import os, socket

def environment(event, context):
    return dict(os.environ)

def hold(event, context):
    with socket.create_connection(tuple(event["report_to"])) as line:
        line.sendall(f"{os.getpid()}\\n".encode())
        line.recv(1)
"""
DEADLINE_S = 30.0


@pytest.fixture
def own() -> Iterator[Emulator]:
    """An emulator that the test may kill."""
    with Emulator() as running:
        yield running


def deploy(clients: Clients, name: str, handler: str) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("tasks.py", HANDLER)
    clients.functions.create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/test",
        Handler=f"tasks.{handler}",
        Code={"ZipFile": archive.getvalue()},
        Timeout=60,
    )


def invoke(clients: Clients, name: str, payload: dict[str, Any]) -> Any:
    answer = clients.functions.invoke(FunctionName=name, Payload=json.dumps(payload))
    return json.load(answer["Payload"])


def hold(clients: Clients, name: str) -> tuple[int, socket.socket]:
    """Put a function into the middle of an invocation; return its pid and the line to it."""
    with socket.create_server((HOST, 0)) as server:
        server.settimeout(DEADLINE_S)
        clients.functions.invoke(
            FunctionName=name,
            InvocationType="Event",
            Payload=json.dumps({"report_to": server.getsockname()}),
        )
        line, _ = server.accept()
    line.settimeout(DEADLINE_S)
    with line.makefile() as words:
        return int(words.readline()), line


def gone(pids: list[int]) -> bool:
    """Whether none of the processes runs; one that only awaits its parent's notice is gone."""
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            continue
    return True


def test_listens_on_loopback_only(emulator: Emulator) -> None:
    listening = [
        connection.laddr
        for pid in emulator.processes()
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert [(address.ip, address.port) for address in listening] == [(HOST, emulator.port)]


def test_stop_ends_idle_and_busy_functions_and_removes_the_folder() -> None:
    with Emulator() as running:
        clients = Clients(running.endpoint_url)
        deploy(clients, "idle", "environment")
        deploy(clients, "busy", "hold")
        invoke(clients, "idle", {})
        busy, line = hold(clients, "busy")
        pids = running.processes()
        folder = running.folder
        assert running.pid in pids
        assert busy in pids
        assert len(pids) == 3
    with line:
        assert line.recv(1) == b""
    assert gone(pids)
    assert not folder.exists()
    assert not running.is_alive()


def test_stop_after_the_server_was_killed(own: Emulator) -> None:
    clients = Clients(own.endpoint_url)
    deploy(clients, "busy", "hold")
    busy, line = hold(clients, "busy")
    folder = own.folder

    psutil.Process(own.pid).kill()
    psutil.Process(own.pid).wait(DEADLINE_S)
    assert not own.is_alive()
    assert own.lambda_processes("busy") == [busy]

    own.stop()
    with line:
        assert line.recv(1) == b""
    assert gone([busy])
    assert not folder.exists()


def test_a_function_is_told_from_one_whose_name_starts_alike(own: Emulator) -> None:
    clients = Clients(own.endpoint_url)
    for name in ("worker", "worker-pool"):
        deploy(clients, name, "environment")
        invoke(clients, name, {})
    short, long = own.lambda_processes("worker"), own.lambda_processes("worker-pool")
    assert len(short) == len(long) == 1
    assert short != long
    assert own.lambda_processes("work") == []


def test_emulators_side_by_side_share_nothing(emulator: Emulator, own: Emulator) -> None:
    Clients(own.endpoint_url).sqs.create_queue(QueueName="only-here")
    assert emulator.port != own.port
    assert not set(emulator.processes()) & set(own.processes())
    elsewhere = Clients(emulator.endpoint_url).sqs.list_queues(QueueNamePrefix="only-here")
    assert elsewhere.get("QueueUrls", []) == []

    own.stop()
    assert emulator.is_alive()


def test_the_callers_environment_stays_out_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    leaks = {
        "AWS_PROFILE": "private",
        "AWS_ENDPOINT_URL": "http://192.0.2.1",
        "HTTP_PROXY": "http://192.0.2.1",
        "PYTHONPATH": "/nowhere",
    }
    with monkeypatch.context() as shell:
        for name, value in leaks.items():
            shell.setenv(name, value)
        running = Emulator().start()
    with running:
        clients = Clients(running.endpoint_url)
        deploy(clients, "look", "environment")
        seen = invoke(clients, "look", {})
        assert seen["AWS_ENDPOINT_URL"] == running.endpoint_url
    assert not seen.keys() & (leaks.keys() - {"AWS_ENDPOINT_URL"})


def test_a_given_port_that_is_taken_is_refused() -> None:
    with socket.create_server((HOST, 0)) as other:
        emulator = Emulator()
        with pytest.raises(EmulatorError, match="already in use"):
            emulator.start(other.getsockname()[1])
    with pytest.raises(EmulatorError, match="not started"):
        emulator.processes()


def test_a_second_start_is_refused(own: Emulator) -> None:
    with pytest.raises(EmulatorError, match="stop it first"):
        own.start()


def test_another_process_finds_and_stops_it(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "emulator.json"
    script = (
        "import sys, pathlib; from local.emulator import Emulator;"
        "Emulator(state_file=pathlib.Path(sys.argv[1])).start()"
    )
    subprocess.run([sys.executable, "-c", script, state], check=True, timeout=DEADLINE_S)

    found = Emulator.attach(state)
    assert found is not None
    assert found.is_alive()
    with pytest.raises(EmulatorError, match="stop it first"):
        Emulator(state_file=state).start()
    pids = found.processes()
    assert pids == [found.pid]

    found.stop()
    assert gone(pids)
    assert Emulator.attach(state) is None


def test_client_environment_reaches_this_emulator(emulator: Emulator) -> None:
    script = (
        "import boto3; print(boto3.client('sts').meta.endpoint_url,"
        "boto3.client('sts').get_caller_identity()['Account'])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        timeout=DEADLINE_S,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HTTP_PROXY": "http://192.0.2.1"} | emulator.client_env(),
    )
    assert answer.stdout.split() == [emulator.endpoint_url, "000000000000"]


def test_an_emulator_whose_owner_died_is_ended_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "import json; from local.emulator import Emulator; running = Emulator().start();"
        "print(json.dumps([str(running.folder), running.processes()]), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        folder, pids = json.loads(owner.stdout.readline())
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        assert end_abandoned() == []
        assert not gone(pids)

        owner.send_signal(signal.SIGKILL)
        owner.wait(DEADLINE_S)
    assert end_abandoned() == [Path(folder)]
    assert gone(pids)
    assert not Path(folder).exists()


def test_a_record_that_names_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    state = tmp_path / "emulator.json"
    state.write_text(json.dumps({"pid": 1, "port": 1, "folder": str(precious), "detached": True}))
    found = Emulator.attach(state)
    assert found is not None
    with pytest.raises(EmulatorError, match="left alone"):
        found.stop()
    assert precious.exists()

    state.write_text("[]")
    with pytest.raises(EmulatorError, match="delete it"):
        Emulator.attach(state)
