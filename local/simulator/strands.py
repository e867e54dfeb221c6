"""Calls that run in threads of their own, but one at a time and only when told to.

The services are plain synchronous code. A strand lets such a call stop at a store call and go on
later, so that other calls happen in between: all interleavings, none of them by chance.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Killed(BaseException):
    """Ends a strand where it stands, as the death of its process would.

    Not an `Exception`: the engine's own handling of errors must not see it.
    """


class _Runner:
    """A thread that carries out one piece of work after another, each when told to."""

    def __init__(self) -> None:
        self.go = threading.Lock()
        self.stopped = threading.Lock()
        self.go.acquire()
        self.stopped.acquire()
        self.work: Callable[[], None] | None = None
        threading.Thread(target=self._run, name="strand", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            if self.work is None:
                return
            self.work()
            self.stopped.release()


class Strands:
    """Makes strands and keeps their threads for the next ones. Close it to end the threads."""

    def __init__(self) -> None:
        self._idle: list[_Runner] = []

    def new(self, body: Callable[[], None]) -> Strand:
        """Return a strand that will run `body`."""
        return Strand(self._idle.pop() if self._idle else _Runner(), self._idle, body)

    def close(self) -> None:
        """End all threads that wait for work."""
        for runner in self._idle:
            runner.work = None
            runner.go.release()
        self._idle.clear()


class Strand:
    """One call that can be stopped and resumed."""

    def __init__(self, runner: _Runner, idle: list[_Runner], body: Callable[[], None]) -> None:
        self._runner = runner
        self._idle = idle
        self._body = body
        self._error: BaseException | None = None
        self._killed = False
        self._started = False
        self._ended = False
        runner.work = self._work

    def has_ended(self) -> bool:
        """True when there is nothing left to resume."""
        return self._ended

    def resume(self) -> None:
        """Let the strand run until it pauses or ends. Raises what its body raised."""
        self._started = True
        self._runner.go.release()
        self._runner.stopped.acquire()
        if self._ended:
            self._idle.append(self._runner)
            if self._error is not None:
                raise self._error

    def pause(self) -> None:
        """Stop here until somebody resumes this strand. Called from within it.

        Raises `Killed` once the strand has been killed.
        """
        if not self._killed:
            self._runner.stopped.release()
            self._runner.go.acquire()
        if self._killed:
            raise Killed

    def kill(self) -> None:
        """End a strand that is paused or has not begun."""
        if self._ended:
            return
        self._killed = True
        if self._started:
            self.resume()
        else:
            self._ended = True
            self._idle.append(self._runner)

    def _work(self) -> None:
        try:
            self._body()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001
            # Named outcome: handed to whoever resumed the strand.
            self._error = error
        finally:
            self._ended = True
