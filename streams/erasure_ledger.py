"""The erasure ledger: a file outside the database that says what was erased, for good.

A database can be put back from before an erasure; this file is not put back with it. Whoever opens the log holds
it against the file first, and destroys again what came back (F08, D11). Each line carries the hash of the one
before, so that a line that was taken out or changed shows. It holds opaque ids, and nothing that was said.

A line is on the disk before the first key is destroyed. One that was cut short by a crash is no line: nothing was
destroyed after it.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from ..domain.errors import Misconfigured

_BEGINNING = "0" * 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One erasure, as far as it has to be done again."""

    tenant: UUID
    erasure: UUID
    kind: str
    reason: str
    re_entry: str
    at: datetime
    memories: tuple[UUID, ...] = ()
    names: tuple[UUID, ...] = ()
    everything: bool = False
    """All of the tenant."""


class Ledger:
    """The file. Any number of processes may append to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._memories: tuple[tuple[int, int], frozenset[UUID]] = ((-1, -1), frozenset())

    def read(self) -> list[Entry]:
        """All entries, in order; none where there is no file yet. Raises `Misconfigured` for a damaged one."""
        try:
            with self.path.open("rb") as file:
                return [entry for entry, _ in _entries(file.read(), self.path)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error) from None

    def erased(self, ids: Collection[UUID]) -> set[UUID]:
        """Those of these memories that were ever erased, whatever a database says. Raises `Misconfigured`."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return set()
        state = (found.st_size, found.st_mtime_ns)
        if self._memories[0] != state:
            self._memories = (state, frozenset(one for entry in self.read() for one in entry.memories))
        return set(self._memories[1] & set(ids))

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries, and return when they are on the disk. Raises `Misconfigured` where that cannot be."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked() as file:
                held = file.read()
                chained = [chain for _, chain in _entries(held, self.path)]
                before = chained[-1] if chained else _BEGINNING
                # What was cut short is no line.
                file.truncate(held.rfind(b"\n") + 1)
                file.seek(0, os.SEEK_END)
                for entry in entries:
                    line, before = _line(entry, before)
                    file.write(line)
                file.flush()
                os.fsync(file.fileno())
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise self._unusable(error) from None

    @contextmanager
    def _locked(self) -> Generator[IO[bytes]]:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _unusable(self, error: OSError) -> Misconfigured:
        return Misconfigured(
            f"the erasure ledger {self.path} cannot be used ({error.strerror}); nothing is erased without it, see "
            "LETHELOG_ERASURE_LEDGER",
            setting="LETHELOG_ERASURE_LEDGER",
        )


def _entries(held: bytes, path: Path) -> Generator[tuple[Entry, str]]:
    before = _BEGINNING
    for number, line in enumerate(held[: held.rfind(b"\n") + 1].splitlines(), 1):
        try:
            document = json.loads(line)
            chain = document.pop("chain")
            entry = Entry(
                tenant=UUID(document["tenant"]),
                erasure=UUID(document["erasure"]),
                kind=document["kind"],
                reason=document["reason"],
                re_entry=document["re_entry"],
                at=datetime.fromisoformat(document["at"]),
                memories=tuple(map(UUID, document["memories"])),
                names=tuple(map(UUID, document["names"])),
                everything=document["everything"],
            )
            fits = chain == _chain(document, before)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _damaged(path, number) from None
        if not fits:
            raise _damaged(path, number)
        yield entry, chain
        before = chain


def _damaged(path: Path, number: int) -> Misconfigured:
    return Misconfigured(
        f"line {number} of the erasure ledger {path} does not fit the one before: it was changed, or one was "
        "taken out; put the file back from a copy",
        setting="LETHELOG_ERASURE_LEDGER",
    )


def _line(entry: Entry, before: str) -> tuple[bytes, str]:
    document: dict[str, Any] = json.loads(json.dumps(asdict(entry), default=str))
    document["at"] = entry.at.isoformat()
    chain = _chain(document, before)
    return json.dumps({**document, "chain": chain}, separators=(",", ":")).encode() + b"\n", chain


def _chain(document: dict[str, Any], before: str) -> str:
    said = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(before.encode() + said).hexdigest()
