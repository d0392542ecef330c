"""What reaches a terminal or a pipe: text that can do no harm, JSON that stays JSON, colour only where it shows.

Memories hold whatever somebody wrote. Shown as it is, an escape sequence would move the reader's cursor and a
bracket would be read as Rich's markup; so text is made harmless first and never parsed.
"""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Generator
from datetime import datetime
from functools import cached_property
from typing import Any

from pydantic import BaseModel
from rich.console import Console, RenderableType
from rich.text import Text

from ...domain.display import counted as counted
from ...domain.display import moment as moment
from ...domain.display import one_line as one_line
from ...domain.display import shown as shown

_NOT_IN_JSON = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_PIPE_WIDTH = 120
"""Columns where nobody looks: Rich would take 80 and fold more than needed."""


def safe(text: object, style: str = "") -> Text:
    """Text for Rich: harmless, and not parsed as markup."""
    return Text(shown(text), style=style)


def as_json(document: Any) -> str:
    """One JSON document. What a terminal could act on is escaped, which changes nothing for whoever parses it."""
    text = json.dumps(document, ensure_ascii=not _speaks_utf8(), indent=2, default=_plain)
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Printer:
    """Where a command prints: answers to the output, everything else to the error stream."""

    def __init__(self, *, json_only: bool = False) -> None:
        self.json_only = json_only

    @cached_property
    def out(self) -> Console:
        """The console of answers."""
        return _console(stderr=False)

    @cached_property
    def err(self) -> Console:
        """The console of progress, notes and errors."""
        return _console(stderr=True)

    def answer(self, document: Any, *readable: RenderableType) -> None:
        """Print an answer: the document with ``--json``, the readable form without."""
        if self.json_only:
            self.document(document)
            return
        for one in readable:
            # A line of text is never folded, so that what stands in it can be searched and copied.
            self.out.print(one, soft_wrap=isinstance(one, Text))

    def document(self, document: Any) -> None:
        """Print a JSON document."""
        write(as_json(document))

    def line(self, *parts: str | Text) -> None:
        """One line that is never folded or cut, so that ids can be copied whole."""
        self.out.print(Text.assemble(*parts), soft_wrap=True)

    def note(self, text: str) -> None:
        """A remark beside the answer; nothing with ``--json``."""
        if text and not self.json_only:
            self.err.print(safe(text), soft_wrap=True)

    @contextlib.contextmanager
    def waiting(self, text: str, *, left: str = "") -> Generator[None]:
        """Say what is waited for, while the block runs, to whoever watches; and what Ctrl-C leaves (``left``)."""
        with contextlib.ExitStack() as stack:
            if self.watched:
                stack.enter_context(self.err.status(text))
            try:
                yield
            except KeyboardInterrupt:
                self.note(left)
                raise

    @contextlib.contextmanager
    def progress(self, text: str, *, left: str) -> "Generator[Callable[[int, int], None]]":
        """A bar for whoever watches, its speed and the time that is left; called with (done, of).

        On Ctrl-C it says how far it came, and ``left``: what is there of it and how to go on.
        """
        came = (0, 0)
        with self._bar(text) as show:

            def report(done: int, of: int) -> None:
                nonlocal came
                came = (done, of)
                show(done, of)

            try:
                yield report
            except KeyboardInterrupt:
                self.note(f"{text}: stopped at {came[0]} of {came[1] or '?'}; {left}")
                raise

    @contextlib.contextmanager
    def _bar(self, text: str) -> "Generator[Callable[[int, int], None]]":
        if not self.watched:
            yield _report_nothing
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from .speed import SpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), SpeedColumn())
        with Progress(*columns, TimeRemainingColumn(), console=self.err, transient=True) as bar:
            task = bar.add_task(text, total=None)

            def report(done: int, of: int) -> None:
                bar.update(task, completed=done, total=of)

            yield report

    @property
    def watched(self) -> bool:
        """Whether somebody watches progress on a terminal."""
        return not self.json_only and self.err.is_terminal


def _report_nothing(_done: int, _of: int) -> None:
    return


def write(text: str) -> None:
    """Write a line to the output as it is."""
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] - None where it was closed
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE_WIDTH
    return console


def _speaks_utf8() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return encoding.lower().replace("-", "") in ("utf8", "utf8sig")


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return value.isoformat() if isinstance(value, datetime) else str(value)
