"""A row of live memory as a value, and reading rows by id and in order."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from ..domain.fields import LinkEdge, Status
from ..streams.database import Connection
from .as_of import AsOf
from .filters import MemoryFilter


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One memory as the view has it, with opaque references."""

    memory_id: UUID
    version: int
    state_version: int
    position: int
    memory_type: str
    scope: str
    project: UUID | None
    topic: str
    content: str
    tags: list[str]
    metadata: dict[str, Any] | None
    user_ref: UUID | None
    agent_ref: UUID | None
    run_ref: UUID | None
    session_ref: UUID | None
    subject_ref: UUID | None
    producer: str
    trust: str
    core: bool
    pinned: bool
    verified: bool
    occurred_at: datetime
    recorded_at: datetime
    fresh_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    expires_at: datetime | None
    derived_from: list[str]
    links: dict[str, list[LinkEdge]]
    predecessor: UUID | None
    earlier: UUID | None
    successor: UUID | None
    edge: str | None
    held_until: datetime | None
    archived: bool
    suppressed: bool
    refuted: bool
    quarantined: bool

    def status(self, now: datetime) -> Status:
        """One word for the state, as `domain.memory.Memory.status` says it."""
        if self.refuted:
            return "refuted"
        if self.quarantined:
            return "quarantined"
        if self.successor is not None:
            return "superseded"
        if self.archived:
            return "archived"
        if self.suppressed:
            return "suppressed"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    def current(self, now: datetime) -> bool:
        """Neither superseded nor past its own end."""
        return self.successor is None and not (self.valid_to is not None and self.valid_to <= now)

    def references(self) -> tuple[UUID | None, ...]:
        """Every opaque reference, for the directory."""
        return (
            self.project,
            self.user_ref,
            self.agent_ref,
            self.run_ref,
            self.session_ref,
            self.subject_ref,
        )


MEMORY_COLUMNS = ", ".join(field.name for field in fields(MemoryRow))
_WIDTH = len(fields(MemoryRow))
_METADATA = [field.name for field in fields(MemoryRow)].index("metadata")


def memory_row(values: Sequence[Any]) -> MemoryRow:
    """A `MemoryRow` from the first columns of a query over `MEMORY_COLUMNS`."""
    columns = list(values[:_WIDTH])
    if columns[_METADATA] is not None:
        columns[_METADATA] = json.loads(columns[_METADATA])
    return MemoryRow(*columns)


async def read_rows(
    connection: Connection, tenant: UUID, ids: Sequence[UUID], as_of: AsOf
) -> Mapping[UUID, MemoryRow]:
    """Rows of any status by id, on a connection of `read_models`; unknown and foreign ids are absent."""
    where = " and ".join(("tenant = %(tenant)s", "memory_id = any(%(ids)s)", *as_of.where()))
    cursor = await connection.execute(
        f"select {MEMORY_COLUMNS} from {as_of.source} where {where}",
        {**as_of.values(), "tenant": tenant, "ids": list(ids)},
    )
    return {row.memory_id: row for row in map(memory_row, await cursor.fetchall())}


async def matching_ids(connection: Connection, matching: MemoryFilter, among: Sequence[UUID]) -> set[UUID]:
    """Which of these memories match; on a connection of `generations.read_models`."""
    cursor = await connection.execute(
        f"select memory_id from {matching.as_of.source} where {matching.where()} and memory_id = any(%(among)s)",
        matching.values() | {"among": list(among)},
    )
    return {row[0] for row in await cursor.fetchall()}


async def list_rows(
    connection: Connection, matching: MemoryFilter, limit: int, after: tuple[datetime, UUID] | None
) -> tuple[list[MemoryRow], int]:
    """(rows, exact total): newest first by when it was said, then by id; ``after`` is the last row of a page."""
    values, source = matching.values(), matching.as_of.source
    beyond = ""
    if after is not None:
        beyond = " and (occurred_at, memory_id) < (%(after_at)s, %(after_id)s)"
        values |= {"after_at": after[0], "after_id": after[1]}
    cursor = await connection.execute(
        f"select {MEMORY_COLUMNS}, (select count(*) from {source} where {matching.where()}) "
        f"from {source} where {matching.where()}{beyond} "
        "order by occurred_at desc, memory_id desc limit %(limit)s",
        {**values, "limit": limit},
    )
    rows = await cursor.fetchall()
    if rows:
        return [memory_row(row) for row in rows], rows[0][-1]
    cursor = await connection.execute(f"select count(*) from {source} where {matching.where()}", values)
    counted = await cursor.fetchone()
    assert counted is not None
    return [], counted[0]


async def projects_of(connection: Connection, matching: MemoryFilter) -> list[UUID]:
    """The projects that memories under a filter are filed in."""
    cursor = await connection.execute(
        f"select distinct project from {matching.as_of.source} where {matching.where()} and project is not null",
        matching.values(),
    )
    return [project for (project,) in await cursor.fetchall()]
