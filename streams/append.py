"""Sharing a commit: concurrent units go to the database in one call, each with its own outcome.

One writer task gathers what waits and calls ``lethelog.append``. Two units that touch the same stream, claim or
command key never share a call; the later one waits for the next. A lone caller waits for nobody.

One call is in the database at a time, and meanwhile the callers of the one before make their next units: the
answers of a call are given once the next call is on its way, or, where nobody waits, half of them before it.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import psycopg

from ..domain.errors import Unavailable
from .arrays import BigintArray, ByteaArray, IntArray, PackedArray, TextArray, UuidArray
from .database import Connection, Pool, unavailable
from .vault import WrappedKey

UNITS_PER_CALL = 500
QUEUE_LIMIT = 10_000
"""Units that may wait; more are refused at once instead of piling up."""
ANSWERS_AT_ONCE = 16
"""Fewer than twice these are answered together: two calls cost more than is won by their overlapping."""
ATTEMPTS = 4
"""How often a call is tried when the connection fails; command keys make a second try safe."""


class _Key(Protocol):
    @property
    def digest(self) -> bytes: ...
    @property
    def hash(self) -> bytes: ...


@dataclass(slots=True)
class PreparedUnit:
    """A unit as rows, sealed and ready."""

    tenant: UUID
    subject: UUID
    command: _Key
    keys: Sequence[WrappedKey] = ()
    events: list[tuple[UUID, int, str, UUID, bytes]] = field(
        default_factory=list[tuple[UUID, int, str, UUID, bytes]]
    )
    claims: list[tuple[str, bytes, UUID | None, UUID | None]] = field(
        default_factory=list[tuple[str, bytes, UUID | None, UUID | None]]
    )
    limits: tuple[int | None, int | None] | None = None
    """Quotas it is judged by: live memories of its tenant, and memories written in a minute."""
    demands: int = 0
    """How many of the last claims are only demanded."""

    def add_event(self, stream: UUID, version: int, name: str, event_id: UUID, body: bytes) -> None:
        self.events.append((stream, version, name, event_id, body))

    def add_claim(self, kind: str, digest: bytes, held_by: UUID | None, holder: UUID | None) -> None:
        self.claims.append((kind, digest, held_by, holder))

    def demand(self, kind: str, digest: bytes, holder: UUID | None) -> None:
        """Demand that a claim is held like this; any number of units may at once, and none may change it."""
        self.demands += 1
        self.add_claim(kind, digest, holder, holder)

    @property
    def event_ids(self) -> list[UUID]:
        return [row[3] for row in self.events]

    def touches(self) -> list[int | bytes]:
        """What must not be touched twice in one call: numbers of ids, and digests.

        Without tenant and kind: should two of them share an id or a digest, one waits for the next call.
        """
        return [
            self.command.digest,
            *[row[0].int for row in self.events],
            *[claim[1] for claim in self.claims[: len(self.claims) - self.demands]],
            *[kept.key_id.int for kept in self.keys],
        ]


class UnitResult(NamedTuple):
    """One row of ``lethelog.append``."""

    outcome: str
    position: int
    at: datetime | None
    detail: int
    subject: UUID | None


@dataclass(slots=True)
class _Waiting:
    unit: PreparedUnit
    answer: asyncio.Future[UnitResult]
    result: UnitResult | None = None
    """The answer, from when the database gave it until the caller is given it."""
    tried: bool = False
    """Whether an earlier call may have stored it already."""

    def give(self) -> None:
        if self.result is not None and not self.answer.done():
            self.answer.set_result(self.result)


class AppendQueue:
    """The writer. Open and use it inside one event loop."""

    def __init__(self, database: Pool, *, function: str = "lethelog.append") -> None:
        self._database = database
        self._statement = call_statement(function).encode()
        self._limited = call_statement(function, limits=LIMITS).encode()
        self._waiting: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._closing = False
        self._connection: Connection | None = None

    async def open(self) -> None:
        self._closing = False
        self._writer = asyncio.create_task(self._write(), name="lethelog-append")

    async def close(self) -> None:
        """Store what waits, then stop."""
        self._closing = True
        self._wake.set()
        if self._writer is not None:
            await self._writer
            self._writer = None
        await self._drop_connection()

    async def submit(self, unit: PreparedUnit) -> UnitResult:
        """Queue a unit and wait for its own outcome. A cancelled caller's unit is still stored, once."""
        if self._closing or self._writer is None:
            raise Unavailable("the log is closing; nothing was written")
        if len(self._waiting) >= QUEUE_LIMIT:
            raise Unavailable(f"{QUEUE_LIMIT} writes are waiting for the database; slow down and try again")
        waiting = _Waiting(unit, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._wake.set()
        # Not shielded: the writer passes over an answer that nobody waits for, and stores the unit all the same.
        return await waiting.answer

    async def _write(self) -> None:
        stored: Sequence[_Waiting] = ()
        try:
            while True:
                if self._waiting:
                    # They run once the call waits for the database, and are the next to wait for this writer.
                    asyncio.get_running_loop().call_soon(_answer, stored)
                    batch, stored = self._next_batch(), ()
                    await self._store(batch)
                    stored = batch
                elif stored:
                    now = len(stored) // 2 if len(stored) >= 2 * ANSWERS_AT_ONCE else len(stored)
                    _answer(stored[:now])
                    stored = stored[now:]
                    await asyncio.sleep(0)
                elif self._closing:
                    return
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            _answer(stored)

    def _next_batch(self) -> list[_Waiting]:
        if len(self._waiting) == 1:
            return [self._waiting.popleft()]
        batch: list[_Waiting] = []
        held: list[_Waiting] = []
        touched: set[int | bytes] = set()
        while self._waiting and len(batch) < UNITS_PER_CALL:
            waiting = self._waiting.popleft()
            touches = waiting.unit.touches()
            # A held one marks its keys too, so that a third does not overtake it.
            (batch if touched.isdisjoint(touches) else held).append(waiting)
            touched.update(touches)
        self._waiting.extendleft(reversed(held))
        return batch

    async def _store(self, batch: list[_Waiting]) -> None:
        """Store a batch by one call, or unit by unit where the database cannot take one of them."""
        try:
            await self._call_with_retry(batch)
        except Unavailable as error:
            _fail(batch, error)
        except Exception as error:
            if len(batch) == 1:
                _fail(batch, error)
            else:
                await self._store_each(batch)

    async def _store_each(self, batch: list[_Waiting]) -> None:
        for number, waiting in enumerate(batch):
            try:
                await self._call_with_retry([waiting])
            except Unavailable as error:
                # The others would wait as long, one after another.
                _fail(batch[number:], error)
                return
            except Exception as error:
                _fail([waiting], error)

    async def _call_with_retry(self, batch: list[_Waiting]) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._call(batch)
                return
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                # The commit may have happened before the connection died; the next try then meets the units'
                # own command keys and is answered "repeat".
                for waiting in batch:
                    waiting.tried = True
                await self._drop_connection()
                if attempt == ATTEMPTS:
                    raise unavailable(error) from error
            except Unavailable:
                if attempt == ATTEMPTS:
                    raise
            await asyncio.sleep(0.1 * 4 ** (attempt - 1))

    async def _call(self, batch: list[_Waiting]) -> None:
        if self._connection is None:
            self._connection = await self._database.connect()
        cursor = self._connection.cursor(binary=True)
        units = [w.unit for w in batch]
        arrays, limits = unit_arrays(units), limit_arrays(units)
        await cursor.execute(self._limited if limits else self._statement, [*arrays, *limits], prepare=True)
        for unit, outcome, position, at, detail, subject in await cursor.fetchall():
            number: int = unit
            waiting = batch[number - 1]
            result = UnitResult(outcome, position or 0, at, detail or 0, subject)
            if outcome == "claimed":
                first = sum(len(w.unit.claims) for w in batch[: number - 1])
                result = UnitResult(outcome, 0, None, detail - first - 1, subject)
            elif outcome == "repeat" and waiting.tried:
                result = await self._own(waiting.unit, result)
            waiting.result = result

    async def _own(self, unit: PreparedUnit, repeat: UnitResult) -> UnitResult:
        """A repeat as it is, or the first answer again where it is this very unit that is stored."""
        assert self._connection is not None
        if not unit.events:
            return repeat
        cursor = await self._connection.execute(
            "select lethelog.recorded_at(%s, %s)", (repeat.position, unit.event_ids[-1])
        )
        row = await cursor.fetchone()
        return (
            repeat
            if row is None or row[0] is None
            else UnitResult("ok", repeat.position, row[0], 0, repeat.subject)
        )

    async def _drop_connection(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                await self._connection.close()
            self._connection = None


def _answer(batch: Sequence[_Waiting]) -> None:
    for waiting in batch:
        waiting.give()


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    for waiting in batch:
        if not waiting.answer.done():
            waiting.answer.set_exception(error)
            # A caller that was cancelled never looks; without this Python would report an unretrieved exception.
            waiting.answer.exception()


_TYPES = "uuid bytea bytea uuid int uuid bigint text uuid bytea int text bytea uuid uuid int uuid bytea"
LIMITS = ("bigint", "bigint")


def call_statement(function: str = "lethelog.append", *, limits: Sequence[str] = ()) -> str:
    """The statement that appends units. Its parameters are `unit_arrays`, and `limit_arrays` with `LIMITS`."""
    parameters = ", ".join(f"%b::{kind}[]" for kind in (*_TYPES.split(), *limits))
    return f"select unit, outcome, pos, at, detail, subject from {function}({parameters})"


def unit_arrays(units: Sequence[PreparedUnit]) -> list[PackedArray]:
    """Units as the parallel arrays of ``lethelog.append``."""
    events = [(number, *row) for number, unit in enumerate(units, 1) for row in unit.events]
    claims = [(number, *row) for number, unit in enumerate(units, 1) for row in unit.claims]
    keys = [(number, kept.key_id, kept.wrapped) for number, unit in enumerate(units, 1) for kept in unit.keys]
    event = _columns(events, 6)
    claim = _columns(claims, 5)
    key = _columns(keys, 3)
    return [
        UuidArray([unit.tenant for unit in units]),
        ByteaArray([unit.command.digest for unit in units]),
        ByteaArray([unit.command.hash for unit in units]),
        UuidArray([unit.subject for unit in units]),
        IntArray(event[0]),
        UuidArray(event[1]),
        BigintArray(event[2]),
        TextArray(event[3]),
        UuidArray(event[4]),
        ByteaArray(event[5]),
        IntArray(claim[0]),
        TextArray(claim[1]),
        ByteaArray(claim[2]),
        UuidArray(claim[3]),
        UuidArray(claim[4]),
        IntArray(key[0]),
        UuidArray(key[1]),
        ByteaArray(key[2]),
    ]


def limit_arrays(units: Sequence[PreparedUnit]) -> list[PackedArray]:
    """Quotas of units as the last arrays of ``lethelog.append``; nothing where no unit has one."""
    limits = [unit.limits or (None, None) for unit in units]
    if all(one == (None, None) for one in limits):
        return []
    return [BigintArray([most for most, _ in limits]), BigintArray([rate for _, rate in limits])]


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> Sequence[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width
