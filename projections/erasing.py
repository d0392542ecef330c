"""Taking what memories said out of every copy of every read model, and counting what is still there.

Every copy: the one that is read, one that is being filled, one that was retired and waits to be dropped, one made
to compare, and replays. Rows stay where a rebuild would make them again, without what was sealed in their events.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from ..streams.database import Connection
from .embedders import elsewhere
from .generations import HOME
from .projection import ClearText, Projection
from .replay import PREFIX
from .scratch import COMPARING, REPLAYING

NEIGHBOURS = ("candidate_neighbours", "candidate_groups", "candidate_marks")


@dataclass(frozen=True)
class Gone:
    """Whose texts go."""

    tenant: UUID
    memories: Sequence[UUID]
    everything: bool = False
    """All of the tenant, whatever ``memories`` says."""

    def where(self, about: str) -> str:
        """SQL condition on rows that are about these; ``about`` is that of a `ClearText`."""
        return "tenant = %(tenant)s" if self.everything else f"tenant = %(tenant)s and ({about})"

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """What `where` names. Made once: every copy is asked twice, and there may be a hundred thousand."""
        return {
            "tenant": self.tenant,
            "memories": list(self.memories),
            "texts": [str(one) for one in self.memories],
        }


async def erase_clear_texts(connection: Connection, projections: Sequence[Projection], gone: Gone) -> None:
    """Take them out of every copy, inside a transaction of the caller's, who keeps everybody else from writing."""
    async for schema, text in _clear_texts(connection, projections):
        where = f"{gone.where(text.about)} and {text.clear}"
        table = f"{schema}.{text.table}"
        if text.becomes is None:
            await connection.execute(f"delete from {table} where {where}", gone.values)
        else:
            await connection.execute(f"update {table} set {text.becomes} where {where}", gone.values)
    await _erase_neighbours(connection, gone)


async def count_clear_texts(
    connection: Connection, projections: Sequence[Projection], gone: Gone
) -> dict[str, int]:
    """How many entries still say something of them, by place: each table, over all copies but replays, ``replays``
    and ``neighbour cache``."""
    counts = dict.fromkeys(places_of(projections), 0)
    async for schema, text in _clear_texts(connection, projections):
        where = f"{gone.where(text.about)} and {text.clear}"
        cursor = await connection.execute(f"select count(*) from {schema}.{text.table} where {where}", gone.values)
        [found] = await cursor.fetchone() or (0,)
        counts[_place(schema, text)] += found
    if await _exists(connection, HOME, NEIGHBOURS[0]):
        where = gone.where("memory_id = any(%(memories)s)")
        cursor = await connection.execute(
            f"select count(*) from {HOME}.{NEIGHBOURS[0]} where {where}", gone.values
        )
        [counts["neighbour cache"]] = await cursor.fetchone() or (0,)
    return counts


class SentElsewhere(NamedTuple):
    """That an embedding model on a server was given these texts."""

    model: str
    memories: int
    first_at: datetime
    """When the first of them was recorded. It was sent soon afterwards, and again with each rebuild."""
    last_at: datetime


async def find_sent_elsewhere(
    connection: Connection, projections: Sequence[Projection], gone: Gone
) -> list[SentElsewhere]:
    """Which servers embedded them, as the copies that there still are say; to be asked before they are erased."""
    found: dict[str, SentElsewhere] = {}
    async for schema, text in _clear_texts(connection, projections):
        if text.model is None:
            continue
        cursor = await connection.execute(
            f"select {text.model}, count(distinct memory_id), min(recorded_at), max(recorded_at) "
            f"from {schema}.{text.table} where {gone.where(text.about)} and {text.model} is not null group by 1",
            gone.values,
        )
        for row in await cursor.fetchall():
            here = SentElsewhere(*row)
            if not elsewhere(here.model):
                continue
            before = found.get(here.model, here)
            found[here.model] = SentElsewhere(
                here.model,
                max(before.memories, here.memories),
                min(before.first_at, here.first_at),
                max(before.last_at, here.last_at),
            )
    return [found[model] for model in sorted(found)]


async def find_others(connection: Connection, projections: Sequence[Projection], gone: Gone) -> set[str]:
    """Places in which the same look finds entries of other memories: the control of a look that found nothing."""
    found: set[str] = set()
    async for schema, text in _clear_texts(connection, projections):
        if (place := _place(schema, text)) in found:
            continue
        where = f"not ({gone.where(text.about)}) and {text.clear}"
        cursor = await connection.execute(
            f"select exists (select from {schema}.{text.table} where {where})", gone.values
        )
        if await cursor.fetchone() == (True,):
            found.add(place)
    if await _exists(connection, HOME, NEIGHBOURS[0]):
        where = gone.where("memory_id = any(%(memories)s)")
        cursor = await connection.execute(
            f"select exists (select from {HOME}.{NEIGHBOURS[0]} where not ({where}))", gone.values
        )
        if await cursor.fetchone() == (True,):
            found.add("neighbour cache")
    return found


def places_of(projections: Sequence[Projection]) -> tuple[str, ...]:
    """The places that `count_clear_texts` looks at."""
    tables = dict.fromkeys(text.table for one in projections for text in one.clear_texts)
    return (*tables, "replays", "neighbour cache")


async def _clear_texts(
    connection: Connection, projections: Sequence[Projection]
) -> AsyncGenerator[tuple[str, ClearText]]:
    cursor = await connection.execute(
        "select n.nspname::text, c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where c.relkind = 'r' and (n.nspname::text = %s or starts_with(n.nspname::text, %s) "
        "or starts_with(n.nspname::text, %s) or starts_with(n.nspname::text, %s) "
        "or starts_with(n.nspname::text, %s)) order by 1, 2",
        (HOME, f"{HOME}_", PREFIX, COMPARING, REPLAYING),
    )
    by_table: dict[str, list[ClearText]] = {}
    for one in projections:
        for text in one.clear_texts:
            by_table.setdefault(text.table, []).append(text)
    for schema, table in await cursor.fetchall():
        for text in by_table.get(table, ()):
            yield schema, text


async def _erase_neighbours(connection: Connection, gone: Gone) -> None:
    """The lists of the groups they were in go as a whole: their words were counted there, and are counted anew."""
    if not await _exists(connection, HOME, NEIGHBOURS[0]):
        return
    if gone.everything:
        for table in NEIGHBOURS:
            await connection.execute(f"delete from {HOME}.{table} where tenant = %(tenant)s", gone.values)
        return
    where = gone.where("memory_id = any(%(memories)s)")
    cursor = await connection.execute(
        f"select distinct memory_type, scope from {HOME}.{NEIGHBOURS[0]} where {where}", gone.values
    )
    for memory_type, scope in await cursor.fetchall():
        for table in ("candidate_neighbours", "candidate_groups"):
            await connection.execute(
                f"delete from {HOME}.{table} where tenant = %s and memory_type = %s and scope = %s",
                (gone.tenant, memory_type, scope),
            )


def _place(schema: str, text: ClearText) -> str:
    return "replays" if schema.startswith((PREFIX, REPLAYING)) else text.table


async def _exists(connection: Connection, schema: str, table: str) -> bool:
    cursor = await connection.execute("select to_regclass(%s) is not null", (f"{schema}.{table}",))
    return await cursor.fetchone() == (True,)
