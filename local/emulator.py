"""Lifecycle of the embedded AWS: a MiniStack server and the Lambda processes it starts.

An emulator owns one folder. The folder holds its log, its state record and the temporary folder of
every process it starts, and its path is in the environment of each of them. So its processes are
found by that mark alone: also after the server was killed and its children belong to nobody, and
never those of another emulator.
"""

import fcntl
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import psutil

HOST = "127.0.0.1"
REGION = "us-east-1"
ACCOUNT_ID = "000000000000"

_FOLDER_PREFIX = "piton-emulator-"
_STATE_NAME = "state.json"
_LOCK_NAME = "owner.lock"
_LOG_NAME = "emulator.log"

_START_DEADLINE_S = 30.0
_HEALTH_TIMEOUT_S = 5.0
_HEALTH_INTERVAL_S = 0.02
_PORT_ATTEMPTS = 5
_TERM_GRACE_S = 1.0
_KILL_DEADLINE_S = 10.0
_LOG_TAIL_LINES = 20

# Everything else of the caller's environment (AWS profiles, proxies, PYTHONPATH) would leak into
# the deployed functions.
_INHERITED = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TZ")


class EmulatorError(RuntimeError):
    """The emulator could not be started, found or ended; the message says what to do."""


class _PortTakenError(EmulatorError):
    """Another server answers on the chosen port."""


@dataclass(frozen=True, slots=True)
class _Record:
    """What another process needs to know in order to find and end an emulator."""

    pid: int
    port: int
    folder: str
    detached: bool

    @classmethod
    def read(cls, path: Path) -> Self | None:
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError:
            return None
        except (TypeError, ValueError) as error:
            raise EmulatorError(f"{path} is no state record of an emulator; delete it") from error

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)

    @property
    def mark(self) -> str:
        return str(Path(self.folder) / "tmp")


class Emulator:
    """One embedded AWS on a local port.

    Without `state_file` it belongs to this process: use it as a context manager, and the next
    emulator that starts on this machine ends it if this process dies first. With `state_file` it
    outlives this process, and `attach` finds it again through that file.
    """

    def __init__(self, *, state_file: Path | None = None) -> None:
        self._state_file = state_file
        self._record: _Record | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._lock: IO[bytes] | None = None

    @classmethod
    def attach(cls, state_file: Path) -> Self | None:
        """Return the emulator that was started with this `state_file`, dead or alive, or None."""
        record = _Record.read(state_file)
        if record is None:
            return None
        emulator = cls(state_file=state_file)
        emulator._record = record
        return emulator

    def start(self, port: int = 0) -> Self:
        """Start the server and return once it answers.

        `port` 0 takes a free one. Raises EmulatorError if it is started already, if the given port
        is taken, or if the server does not answer in time (the message ends with its log).
        """
        if self._record is not None or (self._state_file and self._state_file.exists()):
            raise EmulatorError("This emulator is started already; stop it first")
        end_abandoned()
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            try:
                return self._launch(port or _free_port())
            except _PortTakenError:
                if port or attempt == _PORT_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """End the server and every process it started, and remove its folder; idempotent.

        Raises EmulatorError if a process survives SIGKILL.
        """
        record, self._record = self._record, None
        if record is None:
            return
        _remove(record)
        if self._child is not None:
            self._child.wait()
            self._child = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._state_file is not None:
            self._state_file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self if self._record else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def is_alive(self) -> bool:
        """Whether this very server answers now."""
        return self._record is not None and _answers(self._record)

    @property
    def pid(self) -> int:
        return self._started().pid

    @property
    def port(self) -> int:
        return self._started().port

    @property
    def folder(self) -> Path:
        """The emulator's own folder; it is gone after `stop`."""
        return Path(self._started().folder)

    @property
    def log_file(self) -> Path:
        return self.folder / _LOG_NAME

    @property
    def endpoint_url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def client_env(self) -> dict[str, str]:
        """Environment that points an AWS SDK, CDK included, at this emulator and nowhere else."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": f"{HOST},localhost",
            "no_proxy": f"{HOST},localhost",
        }

    def member_env(self) -> dict[str, str]:
        """Environment of a process that belongs to this emulator: `stop` ends it as well."""
        return self.client_env() | {"TMPDIR": self._started().mark}

    def processes(self) -> list[int]:
        """Pids of the server and of everything it started that still runs."""
        return sorted(process.pid for process in _marked(self._started()))

    def lambda_processes(self, function_name: str) -> list[int]:
        """Pids of the warm processes of one Lambda function on this emulator."""
        record = self._started()
        place = re.compile(
            re.escape(f"{record.mark}{os.sep}ministack-lambda-{function_name}-") + r"[a-z0-9_]{8}/"
        )
        return sorted(
            process.pid
            for process in psutil.process_iter()
            if any(place.match(argument) for argument in _command(process))
            and _is_marked(process, record)
        )

    def _started(self) -> _Record:
        if self._record is None:
            raise EmulatorError("The emulator is not started")
        return self._record

    def _launch(self, port: int) -> Self:
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
        (folder / "tmp").mkdir()
        if self._state_file is None:
            self._lock = (folder / _LOCK_NAME).open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        with (folder / _LOG_NAME).open("wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "ministack"],
                cwd=folder,
                env=_server_env(folder, port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._child = child
        record = _Record(
            pid=child.pid,
            port=port,
            folder=str(folder),
            detached=self._state_file is not None,
        )
        self._record = record
        record.write(folder / _STATE_NAME)
        if self._state_file is not None:
            record.write(self._state_file)
        try:
            _await_answer(child, record)
        except BaseException:
            self.stop()
            raise
        return self


def end_abandoned() -> list[Path]:
    """End emulators whose owning process is gone; return the folders that were removed.

    The owner holds a lock on a file in the folder, which the kernel drops when the owner dies.
    """
    removed = []
    for state in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*/{_STATE_NAME}"):
        record = _Record.read(state)
        if record is None or record.detached:
            continue
        try:
            with state.with_name(_LOCK_NAME).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(record)
        except (BlockingIOError, FileNotFoundError, PermissionError):
            continue  # owned, ended meanwhile by someone else, or another user's
        removed.append(state.parent)
    return removed


def _server_env(folder: Path, port: int) -> dict[str, str]:
    env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return env | {
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "HOME": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "STATE_DIR": str(folder / "tmp" / "state"),
        "S3_DATA_DIR": str(folder / "tmp" / "s3"),
        # Otherwise it also opens port 8883 on every interface.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        # At start and stop it removes containers that look like its own: keep it off a daemon.
        "DOCKER_HOST": f"unix://{folder}/no-docker.sock",
        # Echoed by the health answer: tells this server from another one on the same port.
        "MINISTACK_EDITION": folder.name,
        "MINISTACK_REGION": REGION,
        "MINISTACK_ACCOUNT_ID": ACCOUNT_ID,
    }


def _await_answer(child: subprocess.Popen[bytes], record: _Record) -> None:
    deadline = time.monotonic() + _START_DEADLINE_S
    while time.monotonic() < deadline:
        if child.poll() is not None:
            log = _tail(record)
            kind = _PortTakenError if "already in use" in log else EmulatorError
            raise kind(f"The emulator ended while starting on port {record.port}:\n{log}")
        if _answers(record):
            return
        time.sleep(_HEALTH_INTERVAL_S)
    raise EmulatorError(
        f"The emulator did not answer in {_START_DEADLINE_S:.0f} s:\n{_tail(record)}"
    )


def _answers(record: _Record) -> bool:
    connection = http.client.HTTPConnection(HOST, record.port, timeout=_HEALTH_TIMEOUT_S)
    try:
        connection.request("GET", "/_ministack/health")
        health: Mapping[str, object] = json.load(connection.getresponse())
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return health.get("edition") == Path(record.folder).name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _marked(record: _Record) -> set[psutil.Process]:
    """Every live process that carries the emulator's mark, with its descendants."""
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        if _is_marked(process, record):
            with suppress(psutil.Error):
                found.update((process, *process.children(recursive=True)))
    return found


def _is_marked(process: psutil.Process, record: _Record) -> bool:
    try:
        return bool(process.environ().get("TMPDIR") == record.mark)
    except psutil.Error:
        return False  # gone, a zombie, or another user's


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _remove(record: _Record) -> None:
    folder = Path(record.folder)
    if not folder.name.startswith(_FOLDER_PREFIX):
        raise EmulatorError(f"{folder} is not an emulator's folder; it was left alone")
    running = _marked(record)
    _send(running, signal.SIGTERM)
    psutil.wait_procs(running, timeout=_TERM_GRACE_S)
    deadline = time.monotonic() + _KILL_DEADLINE_S
    # The server may have started another process between a look and its own end: look again.
    while running := _marked(record):
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in running)
            raise EmulatorError(f"Processes of the emulator survive SIGKILL: {pids}")
        _send(running, signal.SIGKILL)
        psutil.wait_procs(running, timeout=_TERM_GRACE_S)
    shutil.rmtree(folder, ignore_errors=True)


def _send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def _tail(record: _Record) -> str:
    log = (Path(record.folder) / _LOG_NAME).read_text(errors="replace")
    return "\n".join(log.splitlines()[-_LOG_TAIL_LINES:])
