"""Does the log still say what was written? Recomputes the hash chain over the stored bytes (design.md 4).

Each row stores its hash, and each commit a root over the hashes of its rows and the root before. Recomputing
finds a row that was altered, and a commit whose rows were removed, added or put in another order. Whoever can
rewrite everything, roots and head included, is caught by a checkpoint that was exported before.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from ..domain.errors import InvalidInput, Misconfigured
from .database import Connection, Database
from .pages import EVENT_COLUMNS, read_rows

PAGE = 5_000
_EPOCH = 946_684_800
"""PostgreSQL counts time from 2000-01-01; this is that moment as Unix seconds."""

Problem = Literal[
    "row_altered",
    "rows_do_not_fit_their_root",
    "position_missing",
    "root_missing",
    "head_differs",
    "checkpoint_differs",
]
Report = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """The first place where the log does not fit. ``commit`` is the position of the commit's last row."""

    problem: Problem
    position: int
    commit: int | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the log said at a position; kept outside the database, it proves later that nothing before changed."""

    position: int
    chain: str
    """Root of the commit that ends at this position, hexadecimal."""
    recorded_at: str

    def write(self, file: str | PathLike[str]) -> None:
        """Write it as JSON."""
        Path(file).write_text(self.to_json(), encoding="utf-8")

    def to_json(self) -> str:
        """As it stands in a file."""
        return json.dumps({"lethelog_checkpoint": 1, **asdict(self)}, indent=2) + "\n"

    @classmethod
    def read(cls, file: Path) -> "Checkpoint":
        """Read it back. Raises `InvalidInput` naming what is wrong with the file."""
        try:
            data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            if data["lethelog_checkpoint"] != 1:
                raise ValueError
            bytes.fromhex(data["chain"])
            return cls(int(data["position"]), str(data["chain"]), str(data["recorded_at"]))
        except FileNotFoundError:
            raise InvalidInput("checkpoint", f"there is no file {file}") from None
        except (ValueError, KeyError, TypeError, OSError):
            raise InvalidInput("checkpoint", f"{file} is not a checkpoint of a log") from None


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome: how much was checked, and the first thing that does not fit, if any."""

    events: int
    commits: int
    upto: int
    finding: Finding | None

    @property
    def intact(self) -> bool:
        return self.finding is None


def row_hash(row: tuple[Any, ...]) -> bytes:
    """The hash of (position, tenant, stream, version, name, event_id, recorded_at, body), as the log has it."""
    position, tenant, stream, version, name, event_id, recorded_at, body = row
    return hashlib.sha256(
        b"".join(
            (
                position.to_bytes(8, "big", signed=True),
                tenant.bytes,
                stream.bytes,
                version.to_bytes(8, "big", signed=True),
                event_id.bytes,
                _microseconds(recorded_at).to_bytes(8, "big", signed=True),
                name.encode(),
                b"\x00",
                bytes(body),
            )
        )
    ).digest()


async def checkpoint(database: Database) -> Checkpoint:
    """The log's present end. Raises `Misconfigured` for an empty log."""
    async with database.connection() as connection:
        cursor = await connection.execute("select position, chain, recorded_at from lethelog.head")
        row = await cursor.fetchone()
    if row is None or row[0] == 0:
        raise Misconfigured("the log is empty; there is nothing to keep a checkpoint of")
    return Checkpoint(row[0], bytes(row[1]).hex(), row[2].isoformat())


async def verify(
    database: Database,
    *,
    first: int = 1,
    known: Checkpoint | None = None,
    report: Report = lambda _done, _of: None,
) -> Verification:
    """Recompute everything from the commit that holds the position ``first`` on; with ``known``, hold it against
    that checkpoint."""
    async with database.transaction() as connection:
        await connection.execute("set transaction isolation level repeatable read, read only")
        return await _Verifier(connection, known, report).run(first)


class _Verifier:
    def __init__(self, connection: Connection, known: Checkpoint | None, report: Report) -> None:
        self._connection = connection
        self._known = known
        self._report = report
        self._events = 0
        self._commits = 0

    async def run(self, first: int) -> Verification:
        head, head_chain = await self._one("select position, chain from lethelog.head")
        start, chain = await self._one(
            "select position, chain from lethelog.roots where position < %s order by position desc limit 1", first
        ) or (0, b"")
        position, chain = start, bytes(chain)
        finding: Finding | None = None
        while finding is None:
            roots = await self._all(
                "select position, chain from lethelog.roots where position > %s order by position limit %s",
                position,
                PAGE,
            )
            if not roots:
                break
            for last, root in roots:
                finding = await self._commit(position, last, chain, bytes(root))
                if finding is not None:
                    break
                position, chain = last, bytes(root)
                self._commits += 1
            self._report(position, head)
        finding = finding or await self._ending(position, chain, head, bytes(head_chain))
        return Verification(self._events, self._commits, position, finding)

    async def _commit(self, before: int, last: int, chain: bytes, root: bytes) -> Finding | None:
        running = hashlib.sha256(chain)
        at = before
        while at < last:
            rows = await read_rows(self._connection, at, PAGE, upto=last, columns=f"{EVENT_COLUMNS}, hash")
            if not rows:
                return Finding("position_missing", at + 1, last)
            for *row, stored in rows:
                if row[0] != at + 1:
                    return Finding("position_missing", at + 1, last)
                if row_hash(tuple(row)) != bytes(stored):
                    return Finding("row_altered", row[0], last)
                running.update(bytes(stored))
                at = row[0]
                self._events += 1
        if running.digest() != root:
            return Finding("rows_do_not_fit_their_root", before + 1, last)
        if self._known is not None and last == self._known.position and root.hex() != self._known.chain:
            return Finding("checkpoint_differs", last, last)
        return None

    async def _ending(self, position: int, chain: bytes, head: int, head_chain: bytes) -> Finding | None:
        """What the chain itself cannot show: rows past the last root, a shortened log, a foreign checkpoint."""
        if self._known is not None:
            known = await self._one("select chain from lethelog.roots where position = %s", self._known.position)
            if known is None or bytes(known[0]).hex() != self._known.chain:
                return Finding("checkpoint_differs", self._known.position)
        beyond = await self._one("select min(position) from lethelog.events where position > %s", position)
        if beyond is not None and beyond[0] is not None:
            return Finding("root_missing", beyond[0])
        if head != position or (position and head_chain != chain):
            return Finding("head_differs", min(head, position) + 1)
        return None

    async def _one(self, statement: str, *values: Any) -> Any:
        return await (await self._connection.execute(statement, values)).fetchone()

    async def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await (await self._connection.execute(statement, values)).fetchall()


def _microseconds(at: datetime) -> int:
    delta = at - datetime.fromtimestamp(_EPOCH, tz=at.tzinfo)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
