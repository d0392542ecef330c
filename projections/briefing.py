"""The sections of a briefing: a bounded list and the exact count of what it is cut from, by one statement."""

from dataclasses import dataclass, fields, replace
from datetime import datetime
from uuid import UUID

from ..streams.database import Connection
from .commitments import DUE, PRESENT
from .filters import MemoryFilter
from .rows import MEMORY_COLUMNS, MemoryRow, memory_row

NEWEST = "recorded_at desc, memory_id"
OLDEST = "fresh_at, memory_id"
SURFACING = "next_surfacing_at, due_at, commitment_id"
LATEST_DUE = "due_at, commitment_id"


@dataclass(frozen=True, slots=True)
class SectionRows:
    """What a section shows, and how much there is."""

    rows: tuple[MemoryRow, ...]
    count: int
    commitments: tuple["CommitmentRow", ...] = ()
    """Of each row its commitment, in a section of these."""


@dataclass(frozen=True, slots=True)
class CommitmentRow:
    """A commitment that is still to be done."""

    commitment_id: UUID
    status: str
    owner: UUID | None
    due_at: datetime | None
    next_surfacing_at: datetime | None


async def read_section(connection: Connection, matching: MemoryFilter, order: str, limit: int) -> SectionRows:
    """The first ``limit`` (at least 1) of what matches, in an order; on a connection of `read_models`."""
    source, where = matching.as_of.source, matching.where()
    cursor = await connection.execute(
        f"select {MEMORY_COLUMNS}, (select count(*) from {source} where {where}) "
        f"from {source} where {where} order by {order} limit %(limit)s",
        {**matching.values(), "limit": limit},
    )
    rows = await cursor.fetchall()
    return SectionRows(tuple(map(memory_row, rows)), rows[0][-1] if rows else 0)


async def read_commitments(
    connection: Connection, matching: MemoryFilter, order: str, limit: int, *, due_before: datetime | None = None
) -> SectionRows:
    """The same of commitments still to be done on memories that match; ``due_before`` is strict."""
    as_of = matching.as_of
    then = [PRESENT] if as_of.known is None else replace(as_of, valid_at=None).where()
    kept = ["tenant = %(tenant)s", DUE, *then]
    if due_before is not None:
        kept.append("due_at < %(due_before)s")
    joined = (
        f"from (select {MEMORY_COLUMNS} from {as_of.source} where {matching.where()}) m join "
        f"(select memory_id, {_COMMITMENT} from commitments where {' and '.join(kept)}) c using (memory_id)"
    )
    cursor = await connection.execute(
        f"select {MEMORY_COLUMNS}, {_COMMITMENT}, (select count(*) {joined}) {joined} "
        f"order by {order} limit %(limit)s",
        {**matching.values(), "limit": limit, "due_before": due_before},
    )
    rows = await cursor.fetchall()
    width = len(fields(CommitmentRow))
    return SectionRows(
        tuple(map(memory_row, rows)),
        rows[0][-1] if rows else 0,
        tuple(CommitmentRow(*row[-1 - width : -1]) for row in rows),
    )


_COMMITMENT = ", ".join(one.name for one in fields(CommitmentRow))
