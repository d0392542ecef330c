"""Keeps, for every live memory that can go stale, which newer memories are nearest to it.

A cache beside the read models: told from `live_memory` alone, kept up to date by difference, and free to be
dropped at any time. Two lists per memory (behaviour.md 1.16): ``pair``, the nearest of the same type, scope and
project (no project counts as one), and ``single``, the nearest of the same type and scope. *Newer* means later in
(occurred_at, memory_id). `nearest` says what near means.

What a refresh guarantees: the lists equal those of a full computation over the memories that are live now, given
the word statistics of each group (`Rarity`). These are counted when a group, one type in one scope, is computed
as a whole; that is so the first time, once more than `RECOUNT_SHARE` of it came or went since, and when a memory
of it was erased, whose words must not stay counted.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from uuid import UUID

from ..domain.errors import NotCaughtUp
from ..domain.policy import STALE_TYPES
from ..streams.database import Connection, Database
from .generations import HOME, follow_pointers, read_models
from .live_memory import LIVE
from .nearest import PRODUCT_WEIGHTS, Weights
from .neighbour_changes import Patch, refresh_changed
from .neighbour_groups import GroupKey, refresh_whole
from .neighbour_lists import TABLES
from .progress import read_progress
from .protection import protect

RULE = "1"
"""Changes whenever the same memories would give other lists; everything is computed anew then."""
RECOUNT_SHARE = 0.1
"""Share of a group's members that may come and go before its words are counted again."""


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What a refresh did."""

    position: int
    """Position of live memory that the lists are now true for."""
    reset: bool
    """Everything was made anew: first time, or other model, number of neighbours or rule."""
    added: int
    removed: int
    groups_whole: int
    groups_changed: int
    lists_written: int
    """Memories whose lists were written."""


@dataclass(slots=True)
class _Change:
    """What came and went in one group."""

    added: list[UUID] = field(default_factory=list[UUID])
    removed: list[UUID] = field(default_factory=list[UUID])
    erased: bool = False


async def ensure(database: Database) -> None:
    """Make the cache's tables where they are missing. The read models must be there."""
    async with database.transaction() as connection:
        cursor = await connection.execute("select to_regclass(%s)", (f"{HOME}.candidate_marks",))
        if await cursor.fetchone() != (None,):
            return
        await connection.execute("select pg_advisory_xact_lock(7283460116)")
        for statement in TABLES:
            await connection.execute(statement)
        await protect(connection, [HOME])


async def clear(database: Database, tenant: UUID) -> None:
    """Drop everything the cache holds of a tenant, for instance after an erasure; a refresh brings it back."""
    await ensure(database)
    async with read_models(database) as connection:
        await _clear(connection, tenant)


async def refresh(
    database: Database,
    tenant: UUID,
    *,
    upto_position: int,
    neighbours: int,
    weights: Weights = PRODUCT_WEIGHTS,
) -> RefreshReport:
    """Bring the lists up to the present state of live memory, which must have reached ``upto_position``.

    ``neighbours`` is the length of the pair lists. One refresh of a tenant runs at a time; others wait for it.
    Raises `NotCaughtUp` and `Unavailable`.
    """
    await ensure(database)
    lock = f"candidates:{tenant}"
    # A connection of its own: the lock ends with it, however this ends, and never goes back to the pool.
    connection = await database.connect()
    try:
        await connection.execute("select pg_advisory_lock(hashtextextended(%s, 0))", (lock,))
        async with connection.transaction():
            # One snapshot for all that is read, taken only now that nobody else writes the lists.
            await connection.execute("set transaction isolation level repeatable read")
            await follow_pointers(connection)
            return await _refresh(connection, tenant, upto_position, neighbours, weights)
    finally:
        await connection.close()


async def _refresh(
    connection: Connection, tenant: UUID, upto_position: int, neighbours: int, weights: Weights
) -> RefreshReport:
    progress = await read_progress(connection, "live_memory")
    if progress.position < upto_position:
        raise NotCaughtUp(
            f"live memory is at position {progress.position} and the lists are wanted for {upto_position}",
            read_model="live_memory",
            position=upto_position,
        )
    # The version of live memory names the embedding model, so that a change of it makes everything anew.
    made_by = f"{RULE}/{neighbours}/{weights.vector}:{weights.words}/{progress.version}"
    cursor = await connection.execute("select made_by from candidate_marks where tenant = %s", (tenant,))
    reset = await cursor.fetchone() != (made_by,)
    if reset:
        await _clear(connection, tenant)
    changes = await _changes(connection, tenant)
    removed = [one for change in changes.values() for one in change.removed]
    if removed:
        await connection.execute(
            "delete from candidate_neighbours where tenant = %s and memory_id = any(%s)",
            (tenant, removed),
        )
    cursor = await connection.execute(
        "select memory_type, scope, members, changes from candidate_groups where tenant = %s", (tenant,)
    )
    counted = {(row[0], row[1]): (row[2], row[3]) for row in await cursor.fetchall()}
    written = whole = 0
    patched: list[Patch] = []
    for group, change in sorted(changes.items()):
        members, so_far = counted.get(group, (0, 0))
        moved = so_far + len(change.added) + len(change.removed)
        key = GroupKey(tenant, *group, neighbours, weights)
        if change.erased or moved > RECOUNT_SHARE * members:
            written += await refresh_whole(connection, key)
            whole += 1
        else:
            patched.append(Patch(key, members, moved))
    written += await refresh_changed(connection, patched, removed)
    await connection.execute(
        "insert into candidate_marks (tenant, position, made_by) values (%s, %s, %s) "
        "on conflict (tenant) do update set position = excluded.position, made_by = excluded.made_by, "
        "refreshed_at = now()",
        (tenant, progress.position, made_by),
    )
    return RefreshReport(
        position=progress.position,
        reset=reset,
        added=sum(len(change.added) for change in changes.values()),
        removed=len(removed),
        groups_whole=whole,
        groups_changed=len(changes) - whole,
        lists_written=written,
    )


async def _clear(connection: Connection, tenant: UUID) -> None:
    for table in ("candidate_neighbours", "candidate_groups", "candidate_marks"):
        await connection.execute(f"delete from {table} where tenant = %s", (tenant,))


async def _changes(connection: Connection, tenant: UUID) -> dict[tuple[str, str], _Change]:
    """What the lists do not know yet, by (type, scope). A memory that moved leaves one group and enters another.

    Compared by state, not by position: pins and reaffirmations change no list, a vector that was filled in later
    does without any event, and an erased memory leaves no row behind.
    """
    cursor = await connection.execute(
        f"""
        with live as (
            select memory_id, memory_type, scope, project, embedding_model from live_memory
            where tenant = %(tenant)s and memory_type = any(%(types)s) and {LIVE}
        ), listed as (
            select memory_id, memory_type, scope, project, embedding_model from candidate_neighbours
            where tenant = %(tenant)s
        )
        select memory_id, live.memory_type, live.scope, listed.memory_type, listed.scope,
            live.memory_id is null and not exists (
                select from live_memory m where m.tenant = %(tenant)s and m.memory_id = listed.memory_id)
        from live full join listed using (memory_id)
        where live.memory_type is null or listed.memory_type is null
            or (live.scope, live.project, live.embedding_model)
                is distinct from (listed.scope, listed.project, listed.embedding_model)
        """,
        {"tenant": tenant, "types": list(STALE_TYPES)},
    )
    changes: dict[tuple[str, str], _Change] = defaultdict(_Change)
    for memory_id, live_type, live_scope, listed_type, listed_scope, erased in await cursor.fetchall():
        if live_type is not None:
            changes[(live_type, live_scope)].added.append(memory_id)
        if listed_type is not None:
            change = changes[(listed_type, listed_scope)]
            change.removed.append(memory_id)
            change.erased |= erased
    return changes
