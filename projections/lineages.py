"""Memories with all that they were revised from and into, read from the rows of live memory."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ..streams.database import Connection
from .as_of import AsOf
from .rows import MEMORY_COLUMNS, MemoryRow, memory_row


class Beginning(NamedTuple):
    """The first memory of a lineage, and when it was said."""

    memory_id: UUID
    at: datetime


async def read_lineage(connection: Connection, tenant: UUID, memory_id: UUID, as_of: AsOf) -> list[MemoryRow]:
    """The rows of a lineage that a memory is of, oldest first; empty where there is no such memory.

    Only what was revised counts: a memory that a proposal closed in favour of another ends its lineage.
    """
    then = " and ".join(("live_memory.tenant = %(tenant)s", *as_of.where()))
    step = f"live_memory.memory_id, live_memory.predecessor, live_memory.successor from {as_of.source}"
    cursor = await connection.execute(
        "with recursive line(one, before, behind) as ("
        f"select {step} where memory_id = %(memory)s and {then} union select {step} join line "
        "on live_memory.memory_id = any(array[line.before, line.behind]) "
        f"and (live_memory.predecessor = line.one or line.before = live_memory.memory_id) where {then}) "
        f"select {MEMORY_COLUMNS} from {as_of.source} where memory_id in (select one from line) and {then}",
        {**as_of.values(), "tenant": tenant, "memory": memory_id},
    )
    return _in_order([memory_row(row) for row in await cursor.fetchall()])


async def read_beginnings(connection: Connection, tenant: UUID, memories: Sequence[UUID]) -> dict[UUID, Beginning]:
    """Where the lineage of each memory began, as far back as it was not erased."""
    cursor = await connection.execute(
        "with recursive line(last, one, before, at, step) as ("
        "select memory_id, memory_id, predecessor, occurred_at, 0 from live_memory "
        "where tenant = %(tenant)s and memory_id = any(%(memories)s) union all "
        "select line.last, m.memory_id, m.predecessor, m.occurred_at, line.step + 1 from line "
        "join live_memory m on m.tenant = %(tenant)s and m.memory_id = line.before) "
        "select distinct on (last) last, one, at from line order by last, step desc",
        {"tenant": tenant, "memories": list(memories)},
    )
    return {last: Beginning(one, at) for last, one, at in await cursor.fetchall()}


def _in_order(rows: Iterable[MemoryRow]) -> list[MemoryRow]:
    by_predecessor = {row.predecessor: row for row in rows}
    ids = {row.memory_id for row in by_predecessor.values()}
    first = next((row for before, row in by_predecessor.items() if before not in ids), None)
    ordered: list[MemoryRow] = []
    while first is not None:
        ordered.append(first)
        first = by_predecessor.get(first.memory_id)
    return ordered
