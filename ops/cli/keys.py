"""Single keys from a terminal, or lines from a pipe; the terminal is left as it was found, whatever happens."""

import os
import re
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

_LONGEST_KEY = 64
_ESCAPE_SEQUENCE = re.compile(rb"\x1b.*", re.DOTALL)


class Keys(Protocol):
    """Where a reviewer's keys come from."""

    def key(self) -> str | None:
        """The next key, lower case; empty for one that means nothing; None when there is no more."""
        ...

    def line(self, prompt: str) -> str | None:
        """A line of text, such as a comment; None when there is no more."""
        ...


class LineKeys:
    """From a pipe or a file: the first letter of each line."""

    def key(self) -> str | None:
        line = sys.stdin.readline()
        if not line:
            return None
        return line.strip()[:1].lower()

    def line(self, prompt: str) -> str | None:
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None


class TerminalKeys:
    """From a terminal, without waiting for Enter.

    What was typed before the question stood there is dropped: nothing is decided that was not seen. A key that
    comes with others, as arrow keys and pasted text do, means nothing.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._descriptor = sys.stdin.fileno()
        self._show = show

    def key(self) -> str | None:
        import termios
        import tty

        before = termios.tcgetattr(self._descriptor)
        try:
            tty.setcbreak(self._descriptor, termios.TCSAFLUSH)
            typed = os.read(self._descriptor, _LONGEST_KEY)
        finally:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)
        if not typed or typed == b"\x04":  # Ctrl-D
            return None
        text = _ESCAPE_SEQUENCE.sub(b"", typed).decode("utf-8", "replace")
        return text.lower() if len(text) == 1 else ""

    def line(self, prompt: str) -> str | None:
        self._show(prompt)
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None


@contextmanager
def reading_keys(show: Callable[[str], None]) -> Generator[Keys]:
    """Keys from whatever stdin is. SIGTERM ends the block in order, so that the terminal is put back first."""
    if not sys.stdin.isatty():
        yield LineKeys()
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield TerminalKeys(show)
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
