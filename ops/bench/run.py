"""One run: servers, every chosen measure in its turn, and what machine it was on."""

import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from .bench import Bench, Measure
from .row import Row
from .servers import Servers

Watch = Callable[[int, str], None]
"""Called with (measures done, what is going on)."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and when the figures come from."""

    measured_at: str
    version: str
    commit: str | None
    python: str
    processor: str
    cores: int
    load: tuple[float, float]
    """Load of the last minute before the run, and at its end: other work on the same cores."""
    seconds: float
    quick: bool


@dataclass(frozen=True, slots=True)
class Result:
    """All rows of a run."""

    rows: tuple[Row, ...]
    machine: Machine

    @property
    def missed(self) -> list[Row]:
        """Rows below their target."""
        return [row for row in self.rows if row.met is False]


async def run(
    measures: Sequence[Measure], servers: AbstractAsyncContextManager[Servers], *, quick: bool, watch: Watch
) -> Result:
    """Measure. Whatever the run made on the servers is gone afterwards, also when it is cancelled."""
    began, before, commit = time.monotonic(), os.getloadavg()[0], _commit()
    rows: list[Row] = []
    watch(0, "starting the servers")
    async with servers as running:
        for done, measure in enumerate(measures):
            watch(done, measure.title)

            def say(text: str, done: int = done, title: str = measure.title) -> None:
                watch(done, f"{title}: {text}")

            measured = await measure.run(Bench(running, quick, say))
            load = os.getloadavg()[0]
            rows += [replace(row, load=load) for row in measured]
    watch(len(measures), "done")
    return Result(tuple(rows), _machine(commit, before, time.monotonic() - began, quick))


def _machine(commit: str | None, load_before: float, seconds: float, quick: bool) -> Machine:
    return Machine(
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=version("lethelog"),
        commit=commit,
        python=platform.python_version(),
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load=(load_before, os.getloadavg()[0]),
        seconds=seconds,
        quick=quick,
    )


def _commit() -> str | None:
    """The commit this runs from, with a plus where files differ from it; None outside a clone."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return None
    try:
        name = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", "*.py", "*.sql")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{name}{'+' if changed else ''}"


def _git(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True, timeout=10)
    return ran.stdout.strip()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()
