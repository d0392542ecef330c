"""A server process that is kept running."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from ...domain.errors import LethelogError, Unavailable
from .account import Account
from .failure import explain_os_error

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_LONGEST_PAUSE = 5.0
_STABLE_AFTER = 10.0
_LONGEST_WAIT_FOR_REMAINS = 60.0
_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "TZ", "TMPDIR", "LD_LIBRARY_PATH")

StopSignals = Sequence[tuple[signal.Signals, float]]
"""Signals from kind to unkind, each with the seconds it is given."""


class Program(Protocol):
    """What is particular about one server."""

    name: str
    home: Path
    start_limit: float
    stop_signals: StopSignals

    def launch(self) -> "subprocess.Popen[bytes] | None":
        """Start the process, or answer None when it must wait for the last one's remains to go."""
        ...

    def is_ready(self, process: "subprocess.Popen[bytes]") -> bool:
        """Whether it answers."""
        ...

    def is_reachable(self) -> bool:
        """Whether clients can still find a running one, and it does its work; if not, it is started again."""
        ...

    def why_ended(self, status: int) -> tuple[LethelogError, bool]:
        """Why it ended while starting, and whether that passes by itself."""
        ...


def spawn(
    arguments: Sequence[str | Path],
    *,
    folder: Path,
    log: int,
    account: Account | None,
    on_our_death: signal.Signals,
) -> "subprocess.Popen[bytes]":
    """Start a server: nothing inherited but a few harmless variables, and not to outlive this process."""
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment["LC_ALL"] = "C.UTF-8"
    return subprocess.Popen(
        arguments,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=die_with_parent(on_our_death),  # safe: the supervisor has no threads
        user=account.as_user if account else None,
        group=account.as_group if account else None,
        extra_groups=account.as_groups if account else None,
    )


def die_with_parent(wanted: signal.Signals) -> Callable[[], None]:
    """What a child calls before it becomes another program, to be sent ``wanted`` when this one ends."""
    parent = os.getpid()

    def ask() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(wanted))
        if os.getppid() != parent:  # it ended before the kernel knew
            os._exit(1)

    return ask


class KeptRunning:
    """Starts a program and starts it again, with growing pauses, whenever it ends."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.process: subprocess.Popen[bytes] | None = None
        self.phase: Literal["down", "starting", "up"] = "down"
        self.restarts = 0
        self.failures = 0
        self.has_been_up = False
        self.last_error: LethelogError | None = None
        self._since = time.monotonic()
        self._next_try = 0.0
        self._first_wait: float | None = None

    @property
    def pid(self) -> int | None:
        """The id of the running process."""
        return self.process.pid if self.process else None

    def tick(self) -> None:
        """Look after the process; never waits."""
        now = time.monotonic()
        if self.phase == "down":
            if now >= self._next_try:
                self._launch(now)
        elif self.phase == "starting":
            self._watch_start(now)
        else:
            self._watch(now)

    def _launch(self, now: float) -> None:
        try:
            self.process = self.program.launch()
        except LethelogError as error:
            self._failed(error, now)
            return
        except OSError as error:
            self._failed(explain_os_error(error, Path(str(error.filename or self.program.home))), now)
            return
        if self.process is not None:
            self.phase, self._since = "starting", now
        else:
            self._wait_for_remains(now)

    def _wait_for_remains(self, now: float) -> None:
        if self._first_wait is None:
            self._first_wait = now
        self._next_try = now + 0.05
        if now - self._first_wait > _LONGEST_WAIT_FOR_REMAINS:
            self._first_wait = None
            self._failed(Unavailable(f"Processes of an earlier {self.program.name} do not end."), now)

    def _watch_start(self, now: float) -> None:
        if self.process is None:
            return
        status = self.process.poll()
        if status is not None:
            error, passes = self.program.why_ended(status)
            if passes:
                self.phase, self.process = "down", None
                self._wait_for_remains(now)
            else:
                self._failed(error, now)
        elif self.program.is_ready(self.process):
            self.phase, self._since, self.has_been_up, self._first_wait = "up", now, True, None
        elif now - self._since > self.program.start_limit:
            self.process.kill()
            self.process.wait()
            seconds = f"{self.program.start_limit:g} seconds"
            self._failed(Unavailable(f"{self.program.name} did not answer within {seconds}."), now)

    def _watch(self, now: float) -> None:
        if self.process is None:
            return
        status = self.process.poll()
        if now - self._since > _STABLE_AFTER:
            self.failures = 0
        if status is None and not self.program.is_reachable():
            stop_all([self])
            status = self.process.poll() if self.process else 0
            self.last_error = Unavailable(f"{self.program.name} was no longer reachable and was started again.")
        elif status is not None:
            self.last_error = Unavailable(f"{self.program.name} ended with status {status}.")
        if status is not None:
            self.restarts += 1
            self._pause(now)

    def _failed(self, error: LethelogError, now: float) -> None:
        self.failures += 1
        self.last_error = error
        self._pause(now)

    def _pause(self, now: float) -> None:
        self.phase, self.process = "down", None
        self._next_try = now + min(0.05 * 2**self.failures, _LONGEST_PAUSE)


def stop_all(children: Sequence[KeptRunning]) -> None:
    """Stop the programs side by side: kindly at first, for certain in the end."""
    living = [(child, list(child.program.stop_signals)) for child in children if child.process]
    deadlines = dict.fromkeys(range(len(living)), 0.0)
    while any(child.process and child.process.poll() is None for child, _ in living):
        now = time.monotonic()
        for index, (child, steps) in enumerate(living):
            if steps and child.process and child.process.poll() is None and now >= deadlines[index]:
                wanted, seconds = steps.pop(0)
                child.process.send_signal(wanted)
                deadlines[index] = now + seconds
        time.sleep(0.01)
