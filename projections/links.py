"""Which memories hang together: whose each is, what it follows from, and who was shown it.

A table beside the read models, told from the clear part of events alone: opaque ids, names of scopes, times. It is
brought up to a position by whoever needs it there, so that an erasure reads what is new in the log and not all of
it; nothing is ever set aside, unlike in a projection. It may be dropped at any time and is then told anew.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ..domain.events import (
    MemoryMoved,
    MemoryRemembered,
    ProposalAccepted,
    ProposalRejected,
    SessionCloserJudged,
    SessionOpened,
    TenantBudgetReserved,
    VerdictRecorded,
)
from ..streams import payloads
from ..streams.database import Connection, Database
from ..streams.pages import read_rows
from .generations import HOME
from .protection import protect

PAGE = 2_000
OWNER, SCOPE, LINE, SOURCE, USED = "owner", "scope", "line", "source", "used"
SHOWN, DECIDED, RUN = "shown", "decided", "run of"
"""What a row says of its memory: a person or project or scope it was ever filed under; another memory of its
lineage; one it follows from; a run or session of it; a call to a judge or extractor elsewhere that its text was
shown in.
Of `DECIDED` ``memory`` is a proposal about the memory, by whose decision a comment may have come. Of `RUN` it is a
session run, ``about`` the session's name and ``detail`` the user whose it was."""
_DECISIONS = (ProposalAccepted.NAME, ProposalRejected.NAME)
_NAMES = (
    MemoryRemembered.NAME,
    MemoryMoved.NAME,
    VerdictRecorded.NAME,
    SessionCloserJudged.NAME,
    SessionOpened.NAME,
    TenantBudgetReserved.NAME,
    *_DECISIONS,
)
_LOCAL_JUDGES = ("stated", "none")
_LOCK = 7_283_460_118
_TOLD = f"{HOME}.memory_links_told"
"""Up to where they are told. What is told of events changed with its name: those of before are told anew."""
_TABLES = (
    f"drop table if exists {HOME}.memory_links, {HOME}.memory_links_position",
    f"create table {HOME}.memory_links (tenant uuid not null, kind text not null, about text not "
    "null, memory uuid not null, at timestamptz not null, detail text not null default '', "
    "primary key (tenant, kind, about, memory, detail))",
    f"create index memory_links_by_memory on {HOME}.memory_links (tenant, memory, kind)",
    f"create table {_TOLD} (position bigint not null)",
    f"insert into {_TOLD} select 0",
)
_ADD = (
    f"insert into {HOME}.memory_links (tenant, kind, about, memory, at, detail) "
    "select * from unnest(%s::uuid[], %s::text[], %s::text[], %s::uuid[], %s::timestamptz[], %s::text[]) "
    "on conflict do nothing"
)


class Link(NamedTuple):
    """One row. ``about`` is an id as text, or the name of a scope."""

    tenant: UUID
    kind: str
    about: str
    memory: UUID
    at: datetime
    detail: str = ""
    """Of `SHOWN`: the call's id and the judge; of `RUN`: the user."""


async def ensure(database: Database) -> None:
    """Make the tables where they are missing."""
    async with database.transaction() as connection:
        cursor = await connection.execute("select to_regclass(%s)", (_TOLD,))
        if await cursor.fetchone() != (None,):
            return
        await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
        cursor = await connection.execute("select to_regclass(%s)", (_TOLD,))
        if await cursor.fetchone() != (None,):
            return
        await connection.execute(f"create schema if not exists {HOME}")
        for statement in _TABLES:
            await connection.execute(statement)
        await protect(connection, [HOME])


async def catch_up(database: Database, upto: int) -> None:
    """Tell them up to a position, a page to a transaction."""
    await ensure(database)
    more = True
    while more:
        async with database.transaction() as connection:
            more = await _add_page(connection, upto)


async def catch_up_within(connection: Connection, upto: int) -> None:
    """The same inside a transaction of the caller's, for the little that came since `catch_up`."""
    while await _add_page(connection, upto):
        pass


async def read_position(connection: Connection) -> int:
    """Up to where they are told; 0 where there are none yet."""
    cursor = await connection.execute("select to_regclass(%s)", (_TOLD,))
    if await cursor.fetchone() == (None,):
        return 0
    cursor = await connection.execute(f"select position from {_TOLD}")
    [position] = await cursor.fetchone() or (0,)
    return position


async def _add_page(connection: Connection, upto: int) -> bool:
    """Whether there is more."""
    cursor = await connection.execute(f"select position from {_TOLD} for update")
    [after] = await cursor.fetchone() or (0,)
    if after >= upto:
        return False
    # Bounded by positions, not by rows found: a page costs the same however few of its events link memories.
    until = min(upto, after + PAGE)
    rows: Sequence[tuple[Any, ...]] = await read_rows(
        connection,
        after,
        PAGE,
        upto=until,
        columns="tenant, name, stream, recorded_at, case when name = any(%(linking)s) then body end",
        more={"linking": list(_NAMES)},
    )
    links = [link for row in rows if row[4] is not None for link in _links_of(*row)]
    if links:
        await connection.execute(_ADD, [list(column) for column in zip(*links, strict=True)])
    await connection.execute(f"update {_TOLD} set position = %s", (until,))
    return until < upto


def _links_of(tenant: UUID, name: str, stream: UUID, at: datetime, body: bytes) -> Iterable[Link]:
    try:
        clear = payloads.split(body).header.clear
    except payloads.UnreadableEvent:
        return
    if name == TenantBudgetReserved.NAME:
        yield from _shown(tenant, clear.get("judge"), clear["call_id"], clear.get("shown", ()), at)
    elif name == SessionOpened.NAME:
        yield Link(tenant, RUN, str(clear["session"]), stream, at, str(clear.get("user") or ""))
    elif name in _DECISIONS:
        yield Link(tenant, DECIDED, str(clear["memory_id"]), stream, at)
    elif name in (VerdictRecorded.NAME, SessionCloserJudged.NAME):
        yield from _shown(tenant, clear["judge"], clear["call_id"], clear["seen"], at)
    else:
        yield Link(tenant, SCOPE, clear["scope"], stream, at)
        for field in ("subject", "user", "project"):
            if clear.get(field):
                yield Link(tenant, OWNER, str(clear[field]), stream, at)
        if name == MemoryRemembered.NAME:
            yield from _of_memory(tenant, stream, at, clear)


def _of_memory(tenant: UUID, memory: UUID, at: datetime, clear: dict[str, Any]) -> Iterable[Link]:
    for field in ("predecessor", "earlier"):
        if clear.get(field):
            yield Link(tenant, LINE, str(clear[field]), memory, at)
            yield Link(tenant, LINE, str(memory), UUID(str(clear[field])), at)
    for other in clear.get("derived_from", ()):
        yield Link(tenant, SOURCE, str(other), memory, at)
    for field in ("run", "session"):
        if clear.get(field):
            yield Link(tenant, USED, str(clear[field]), memory, at)


def _shown(
    tenant: UUID, judge: str | None, call: object, memories: Iterable[object], at: datetime
) -> Iterable[Link]:
    if judge is None or judge.startswith(_LOCAL_JUDGES):
        return
    for memory in memories:
        yield Link(tenant, SHOWN, str(memory), UUID(str(memory)), at, f"{call} {judge}")
