"""What makes a process a well-behaved daemon: detached, with a log, woken by signals."""

import contextlib
import os
import select
import signal
import sys
from types import FrameType

from .folder import DataFolder
from .logs import bound_log, open_log, stamped


def say(text: str) -> None:
    """Write a line to the supervisor's log, which is its error stream; a full disk is no reason to fail."""
    with contextlib.suppress(OSError):
        print(stamped(text), file=sys.stderr, flush=True)


def detach() -> None:
    """Stop being the child of whoever started us, so that no zombie is left to them."""
    if os.fork() != 0:
        os._exit(0)
    os.umask(0o077)
    os.chdir("/")


def log_to(folder: DataFolder) -> None:
    """Make the error stream the supervisor's log. Raises OSError."""
    folder.logs.mkdir(mode=0o700, exist_ok=True)
    path = folder.logs / "supervisor.log"
    bound_log(path)
    log = open_log(path)
    os.dup2(log, 2)
    os.close(log)


class StopRequest:
    """Whether a stop was asked for by a signal, and a way to sleep that any signal ends: also a child's end."""

    def __init__(self) -> None:
        self.made = False
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._make)
        signal.signal(signal.SIGINT, self._make)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, _wake_only)

    def _make(self, _signal: int, _frame: FrameType | None) -> None:
        self.made = True

    def sleep(self, seconds: float) -> None:
        """Sleep, at most that long."""
        if select.select([self._reader], [], [], seconds)[0]:
            os.read(self._reader, 512)


def _wake_only(_signal: int, _frame: FrameType | None) -> None:
    return
