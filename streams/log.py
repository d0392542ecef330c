"""The log: append units, read streams and pages. The one door to the event table.

A *unit* is one command's events, claims, command key and new data keys: all of it or nothing (engine-notes 10).
Concurrent units share one durable commit; each caller gets its own outcome.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from ..domain.events import Event
from . import instants, payloads
from .append import AppendQueue, PreparedUnit, call_statement, unit_arrays
from .database import Connection, Database
from .ids import new_id
from .leadership import Leadership
from .pages import EVENT_COLUMNS, Selection, read_rows
from .payloads import Envelope, RecordedEvent
from .portions import portions, uncollected
from .recollection import Recollection
from .vault import DataKeys, Vault, WrappedKey

REKEYED = "rekeyed"
"""The answer to a unit whose data keys are wrapped under a tenant's key that was replaced since."""
FEW_EVENTS = 10
"""A unit of no more is made without a word to the garbage collector."""
FENCE = "erasing"
"""Kind of the claim that the newest erasure of a tenant holds."""
FENCED = b""
"""Digest of that claim."""


class NewEvent(NamedTuple):
    """An event on its way into the log, at the version its stream will have with it."""

    stream: UUID
    version: int
    event: Event
    event_id: UUID | None = None
    """Kept by one that was moved in; None for a new one."""
    envelope: Envelope | None = None
    """Its own, where it was moved in; None for the unit's."""


class Claim(NamedTuple):
    """A rule that spans streams, as compare-and-set: held by ``held_by`` now, by ``holder`` afterwards.

    None means nobody: (None, s) takes, (s, None) releases, (a, b) hands over, (None, None) only demands.
    """

    kind: str
    digest: bytes
    held_by: UUID | None
    holder: UUID | None


class CommandKey(NamedTuple):
    """Makes a command idempotent: ``digest`` is of the client's key, ``hash`` of the command itself."""

    digest: bytes
    hash: bytes

    @classmethod
    def fresh(cls) -> "CommandKey":
        """For a command without a key of its own: still lets an ambiguous commit be recognised."""
        return cls(os.urandom(16), b"")


@dataclass(frozen=True, slots=True)
class Limits:
    """Quotas of a tenant, those that are set."""

    live_memories: int | None
    writes_per_minute: int | None


@dataclass(frozen=True, slots=True)
class Unfenced:
    """Of a unit that does without a fence."""


UNFENCED = Unfenced()


@dataclass(frozen=True, slots=True)
class Unit:
    """What one command appends: all or none."""

    tenant: UUID
    subject: UUID
    """What the command is about; a repeat of it is answered with this id."""
    events: Sequence[NewEvent]
    envelope: Envelope
    claims: Sequence[Claim] = ()
    command: CommandKey = field(default_factory=CommandKey.fresh)
    new_keys: frozenset[UUID] = frozenset()
    """Memories that come to be with this unit and need a data key."""
    limits: Limits | None = None
    """Quotas it must keep to."""
    fence: UUID | Unfenced | None = UNFENCED
    """What `Log.fence` said before anything was read that this unit rests on: it is refused if something of its
    tenant was erased since. Whoever writes what it read, or names somebody, needs it."""


@dataclass(frozen=True, slots=True)
class Appended:
    """It is stored, durably, up to ``position``."""

    position: int
    recorded_at: datetime
    event_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same command was appended before; its position and subject."""

    position: int
    subject: UUID


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """The command key belongs to another command, or to one whose words were erased."""

    subject: UUID
    """What that command was about."""


@dataclass(frozen=True, slots=True)
class VersionMoved:
    """A stream is at another version than the unit was decided from."""

    stream: UUID
    present: int


@dataclass(frozen=True, slots=True)
class ClaimHeld:
    """A claim is held otherwise than the unit demands; nobody where ``holder`` is None."""

    claim: Claim
    holder: UUID | None


@dataclass(frozen=True, slots=True)
class ErasedMeanwhile:
    """Something of the tenant was erased since the unit's fence was taken: read it all again and decide anew."""


@dataclass(frozen=True, slots=True)
class OverQuota:
    """It would exceed a quota: ``live`` by so many memories, or ``rate``, until so many seconds from now."""

    quota: Literal["live", "rate"]
    by: int


Outcome = Appended | Repeated | KeyTaken | VersionMoved | ClaimHeld | ErasedMeanwhile | OverQuota


class Log:
    """Append and read events of all tenants. Belongs to the event loop that opened it."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        self._doors = database.doors
        self._queue = AppendQueue(database.appender)

    @property
    def recollection(self) -> Recollection:
        """What this process may remember."""
        return self._vault.recollection

    async def open(self) -> None:
        await self._queue.open()

    async def close(self) -> None:
        """Drain what waits, then stop."""
        await self._queue.close()

    async def append(self, unit: Unit) -> Outcome:
        """Append one unit. Raises `Unavailable` when the database does not answer.

        A caller that is cancelled neither loses nor doubles its unit: it is stored once or not at all, and the
        same command key tells which.
        """
        turn = self.recollection.turn()
        prepared, fresh = await self._prepare(unit)
        result = await self._queue.submit(prepared)
        while result.outcome == REKEYED:
            self._vault.forget_tenant_keys(unit.tenant)
            prepared, fresh = await self._prepare(unit)
            result = await self._queue.submit(prepared)
        if result.outcome == "ok":
            for key_id, key in fresh.items():
                self._vault.remember(unit.tenant, key_id, key, turn)
            assert result.at is not None
            return Appended(result.position, result.at, tuple(prepared.event_ids))
        if result.outcome == "repeat":
            assert result.subject is not None
            return Repeated(result.position, result.subject)
        if result.outcome == "version":
            assert result.subject is not None
            return VersionMoved(result.subject, result.detail)
        if result.outcome == "live" or result.outcome == "rate":
            return OverQuota(result.outcome, result.detail)
        if result.outcome == "claimed" and result.detail == len(unit.claims):
            self.recollection.forget()
            return ErasedMeanwhile()
        if result.outcome == "claimed":
            return ClaimHeld(unit.claims[result.detail], result.subject)
        assert result.subject is not None
        return KeyTaken(result.subject)

    async def append_within(self, connection: Connection, unit: Unit) -> Outcome:
        """Append one unit by a transaction of the caller's, together with what else is done there.

        Nobody else appends until that transaction ends. What comes of it is only true if that commits.
        """
        while True:
            prepared, _ = await self._prepare(unit)
            cursor = await connection.execute(call_statement(), unit_arrays([prepared]))
            rows: list[tuple[int, str, int, Any, int, UUID]] = await cursor.fetchall()
            [(_, outcome, position, at, detail, subject)] = rows
            if outcome != REKEYED:
                break
            self._vault.forget_tenant_keys(unit.tenant)
        if outcome == "ok":
            return Appended(position, at, tuple(prepared.event_ids))
        if outcome == "version":
            return VersionMoved(subject, detail)
        if outcome == "claimed":
            return ClaimHeld(unit.claims[detail - 1], subject)
        return Repeated(position, subject) if outcome == "repeat" else KeyTaken(subject)

    async def fence(self, tenant: UUID) -> UUID | None:
        """What to give a unit of this tenant as its fence: the newest erasure, or None where there was none."""
        recollection = self.recollection
        if tenant not in recollection.fences:
            turn = recollection.turn()
            [newest] = await self.holders(tenant, [(FENCE, FENCED)])
            if not recollection.may_keep(turn):
                return newest
            recollection.fences[tenant] = newest
        return recollection.fences[tenant]

    async def read_stream(self, tenant: UUID, stream: UUID, *, after: int = 0) -> list[RecordedEvent]:
        """Events of one stream after a version, in order; empty where there is none for this tenant."""
        rows = await self._doors.rows(
            tenant,
            f"select {EVENT_COLUMNS} from lethelog.events "
            "where tenant = %s and stream = %s and version > %s order by version",
            (tenant, stream, after),
        )
        return await self.decode(rows)

    async def read_streams(
        self, tenant: UUID, streams: Iterable[UUID], *, upto: int = 2**62
    ) -> dict[UUID, list[RecordedEvent]]:
        """Events of several streams up to a position, by one query; streams without events are absent."""
        rows = await self._doors.rows(
            tenant,
            f"select {EVENT_COLUMNS} from lethelog.events "
            "where tenant = %s and stream = any(%s) and position <= %s order by stream, version",
            (tenant, list(streams), upto),
        )
        found: dict[UUID, list[RecordedEvent]] = {}
        for event in await self.decode(rows):
            found.setdefault(event.stream, []).append(event)
        return found

    async def read_beginnings(self, tenant: UUID, streams: Iterable[UUID]) -> dict[UUID, RecordedEvent]:
        """First event of each stream, however long it is; streams without events are absent."""
        rows = await self._doors.rows(
            tenant,
            f"select {EVENT_COLUMNS} from lethelog.events where tenant = %s and stream = any(%s) and version = 1",
            (tenant, list(streams)),
        )
        return {event.stream: event for event in await self.decode(rows)}

    async def read_page(
        self,
        after: int,
        limit: int,
        upto: int | None = None,
        *,
        only: Selection | None = None,
        namespaces: Sequence[str] | None = None,
    ) -> list[RecordedEvent]:
        """The next events after a position, in order: of all tenants, or those selected.

        With ``namespaces`` only events of those (``memory``) are read; the others stand for their positions.
        An event that cannot be read is carried as ``broken``, so that the reader can say where it stands.
        """
        opened = self._database.connection() if only is None else self._doors.tenant(only.tenant)
        async with opened as connection:
            rows = await read_rows(connection, after, limit, upto=upto, only=only, namespaces=namespaces)
        return await self.decode(rows, carry_broken=True)

    async def last_of_their_streams(self, first: int, last: int, upto: int) -> set[int]:
        """Positions of the events between two, both included, whose stream has no other behind up to a third."""
        async with self._database.connection() as connection, connection.cursor(binary=True) as cursor:
            await cursor.execute(
                "select e.position from lethelog.events e where e.position between %s and %s and not exists "
                "(select from lethelog.events n where n.tenant = e.tenant and n.stream = e.stream "
                "and n.version = e.version + 1 and n.position <= %s)",
                (first, last, upto),
            )
            return {position for (position,) in await cursor.fetchall()}

    def leadership(self, duty: str) -> Leadership:
        """The right to do a duty that only one process at this log may do at a time."""
        return Leadership(self._database, duty)

    async def head(self) -> int:
        """Position of the newest event; 0 for an empty log."""
        async with self._doors.connection() as connection:
            row = await (await connection.execute("select position from lethelog.head")).fetchone()
        assert row is not None
        return row[0]

    async def now(self) -> datetime:
        """The time by which the log records."""
        async with self._doors.connection() as connection:
            row = await (await connection.execute("select clock_timestamp()")).fetchone()
        assert row is not None
        return row[0]

    async def position_at(self, instant: datetime) -> int:
        """See `instants.position_at`."""
        return await instants.position_at(self._doors, instant)

    async def recorded_at(self, position: int) -> datetime | None:
        """See `instants.recorded_at`."""
        return await instants.recorded_at(self._doors, position)

    async def stream_names(self, tenant: UUID, streams: Iterable[UUID]) -> dict[UUID, str]:
        """First event name of each stream that exists: says what kind of thing an id belongs to (F50)."""
        rows = await self._doors.rows(
            tenant,
            "select stream, name from lethelog.events where tenant = %s and stream = any(%s) and version = 1",
            (tenant, list(streams)),
        )
        return {stream: name for stream, name in rows}  # noqa: C416 - typed

    async def beginnings(
        self, tenant: UUID, namespace: str, *, after: int, upto: int, limit: int
    ) -> list[tuple[int, UUID]]:
        """(position, stream) of the streams that begin with an event of a namespace, in the order of the log."""
        rows = await self._doors.rows(
            tenant,
            "select position, stream from lethelog.events where tenant = %s and version = 1 "
            "and position > %s and position <= %s and starts_with(name, %s) order by position limit %s",
            (tenant, after, upto, namespace, limit),
        )
        return [(row[0], row[1]) for row in rows]

    async def event_ids(self, tenant: UUID, streams: Iterable[UUID]) -> dict[UUID, list[UUID]]:
        """Ids of the events of several streams, in order; streams without events are absent."""
        rows = await self._doors.rows(
            tenant,
            "select stream, array_agg(event_id order by version) from lethelog.events "
            "where tenant = %s and stream = any(%s) group by stream",
            (tenant, list(streams)),
        )
        return {row[0]: list(row[1]) for row in rows}

    async def newest_name(self, tenant: UUID, stream: UUID) -> str | None:
        """Name of a stream's newest event; None where it has none."""
        rows = await self._doors.rows(
            tenant,
            "select name from lethelog.events where tenant = %s and stream = %s order by version desc limit 1",
            (tenant, stream),
        )
        return rows[0][0] if rows else None

    async def newest_position(self, tenant: UUID, stream: UUID) -> int:
        """Position of a stream's newest event; 0 where it has none."""
        rows = await self._doors.rows(
            tenant,
            "select position from lethelog.events where tenant = %s and stream = %s order by version desc limit 1",
            (tenant, stream),
        )
        return rows[0][0] if rows else 0

    async def holders(self, tenant: UUID, wanted: Sequence[tuple[str, bytes]]) -> list[UUID | None]:
        """Who holds each (kind, digest) now, in the order asked."""
        rows = await self._doors.rows(
            tenant,
            "select (select c.holder from lethelog.claims c "
            "where c.tenant = %s and c.kind = x.kind and c.digest = x.digest) "
            "from unnest(%s::text[], %s::bytea[]) with ordinality x(kind, digest, o) order by x.o",
            (tenant, [kind for kind, _ in wanted], [digest for _, digest in wanted]),
        )
        return [row[0] for row in rows]

    async def claim_holders(self, tenant: UUID, kind: str, after: bytes, limit: int) -> list[UUID]:
        """Who holds the claims of a kind, in the order of their digests, after one of them."""
        rows = await self._doors.rows(
            tenant,
            "select holder from lethelog.claims where tenant = %s and kind = %s and digest > %s "
            "order by digest limit %s",
            (tenant, kind, after, limit),
        )
        return [row[0] for row in rows]

    async def count_claims(self, tenant: UUID, kind: str) -> int:
        """How many claims of a kind are held."""
        [(count,)] = await self._doors.rows(
            tenant, "select count(*) from lethelog.claims where tenant = %s and kind = %s", (tenant, kind)
        )
        return count

    async def find_command(self, tenant: UUID, key: CommandKey) -> Repeated | KeyTaken | None:
        """What an earlier command with this key led to, if there was one."""
        rows = await self._doors.rows(
            tenant,
            "select hash, position, subject from lethelog.commands where tenant = %s and digest = %s",
            (tenant, key.digest),
        )
        for known, position, subject in rows:
            return Repeated(position, subject) if known == key.hash else KeyTaken(subject)
        return None

    async def decode(self, rows: Iterable[Sequence[Any]], *, carry_broken: bool = False) -> list[RecordedEvent]:
        """Rows of the event table as events, with one key query per tenant for keys not cached.

        Raises what an unreadable body or an unusable key raises, or carries it as a ``broken`` event.
        """
        taken_apart: list[tuple[Sequence[Any], payloads.Body | Exception | None]] = []
        # By the number of the tenant: the hash of a UUID is computed in Python.
        wanted: dict[int, tuple[UUID, dict[int, UUID]]] = {}
        async for portion in portions(list(rows)):
            with uncollected():
                for row in portion:
                    body = _take_apart(row[7], carry_broken=carry_broken)
                    taken_apart.append((row, body))
                    if isinstance(body, payloads.Body) and body.parts:
                        tenant: UUID = row[1]
                        _, ids = wanted.get(tenant.int) or wanted.setdefault(tenant.int, (tenant, {}))
                        for key_id, _ in body.parts:
                            ids[key_id.int] = key_id
        keys = {
            number: await self._vault.data_keys(tenant, ids.values()) for number, (tenant, ids) in wanted.items()
        }
        decoded: list[RecordedEvent] = []
        async for portion in portions(taken_apart):
            with uncollected():
                decoded += [
                    _recorded(row, body, keys.get(row[1].int, _NO_KEYS), carry_broken=carry_broken)
                    for row, body in portion
                ]
        return decoded

    async def _prepare(self, unit: Unit) -> tuple[PreparedUnit, dict[UUID, bytes]]:
        fresh, wrapped = await self._vault.new_data_keys(unit.tenant, unit.new_keys) if unit.new_keys else ({}, [])
        sealed = [payloads.sealed_under(new.event, new.stream) for new in unit.events]
        needed = {key_id for groups in sealed for key_id in groups if key_id not in fresh}
        known = await self._vault.data_keys(unit.tenant, needed) if needed else DataKeys()
        known.usable.update(fresh)
        if len(unit.events) <= FEW_EVENTS:
            return _assembled(unit, wrapped, sealed, known), fresh
        with uncollected():
            return _assembled(unit, wrapped, sealed, known), fresh


_NO_KEYS = DataKeys()


def _assembled(
    unit: Unit, wrapped: Sequence[WrappedKey], sealed: Sequence[Mapping[UUID, set[str]]], keys: DataKeys
) -> PreparedUnit:
    prepared = PreparedUnit(tenant=unit.tenant, subject=unit.subject, command=unit.command, keys=wrapped)
    envelope = payloads.envelope_json(unit.envelope)
    for new, groups in zip(unit.events, sealed, strict=True):
        body = payloads.assemble(
            new.event,
            envelope if new.envelope is None else payloads.envelope_json(new.envelope),
            groups,
            tenant=unit.tenant,
            stream=new.stream,
            version=new.version,
            key_of=keys.get,
        )
        prepared.add_event(new.stream, new.version, new.event.NAME, new.event_id or new_id(), body)
    if unit.limits is not None:
        prepared.limits = (unit.limits.live_memories, unit.limits.writes_per_minute)
    for claim in unit.claims:
        prepared.add_claim(claim.kind, claim.digest, claim.held_by, claim.holder)
    if not isinstance(unit.fence, Unfenced):
        # The last one, by which `append` knows it; nobody who demands it hinders another.
        prepared.demand(FENCE, FENCED, unit.fence)
    return prepared


def _take_apart(body: bytes | None, *, carry_broken: bool) -> payloads.Body | Exception | None:
    if body is None:
        return None
    try:
        return payloads.split(body)
    except payloads.UnreadableEvent as error:
        if not carry_broken:
            raise
        return error


def _recorded(
    row: Sequence[Any], body: payloads.Body | Exception | None, keys: DataKeys, *, carry_broken: bool
) -> RecordedEvent:
    position, tenant, stream, version, name, event_id, recorded_at, _ = row
    envelope, event, error = payloads.NOBODY, None, body if isinstance(body, Exception) else None
    if isinstance(body, payloads.Body):
        try:
            envelope = payloads.decode_envelope(body)
            event = payloads.decode_event(
                name, body, tenant=tenant, stream=stream, version=version, key_of=keys.get
            )
        except Exception as problem:
            if not carry_broken:
                raise
            error = problem
    broken = None if error is None else type(error).__name__
    at = payloads.recorded_first(envelope, recorded_at)
    return RecordedEvent(position, tenant, stream, version, name, event_id, at, envelope, event, broken)
