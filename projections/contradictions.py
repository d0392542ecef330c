"""The read model of contradictions: which pairs wait for whom, and how others were decided.

There is no personal text here; what contradicts each other stands in the memories.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ..domain.events import (
    ContradictionEffectUndone,
    ContradictionFlagged,
    ContradictionResolved,
    event_names,
)
from ..streams.database import Connection
from ..streams.payloads import RecordedEvent
from .live_memory import RETRIEVABLE
from .projection import ClearText, Projection

MOST_PAIRS = 10_000
"""Pairs that are refused at once, the oldest; more wait for nobody who decides them."""

_FLAGGED: dict[str, str] = {
    "tenant": "uuid not null",
    "contradiction_id": "uuid not null",
    "memory_id": "uuid not null",
    "related_id": "uuid not null",
    "found_by": "text not null",
    "source": "uuid not null",
    "owner": "uuid",
    "due_at": "timestamptz",
    "flagged_at": "timestamptz not null",
    "position": "bigint not null",
}
_DECIDED: dict[str, str] = {
    "outcome": "text",
    "holds": "uuid",
    "replaces": "uuid",
    "proposal": "uuid",
    "decided_at": "timestamptz",
    "decided_by_kind": "text",
    "decided_by": "uuid",
}
"""Empty as long as nobody decided."""


class Contradictions:
    """One row per pair that was ever flagged."""

    name = "contradictions"
    version = "1"
    tables = ("contradictions",)
    clear_texts: tuple[ClearText, ...] = ()
    stream_column = "contradiction_id"
    wants = frozenset(event_names("contradiction."))

    def loading(self, start: int, target: int) -> Projection:
        """There are few of them."""
        return self

    async def create_tables(self, connection: Connection, schema: str) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in (_FLAGGED | _DECIDED).items())
        await connection.execute(
            f"create table {schema}.contradictions ({columns}, primary key (tenant, contradiction_id))"
        )

    async def create_indexes(self, connection: Connection, schema: str) -> None:
        await connection.execute(
            f"create index contradictions_listing on {schema}.contradictions "
            "(tenant, flagged_at, contradiction_id)"
        )

    async def prepare(self, page: Sequence[RecordedEvent]) -> None:
        """Nothing takes long here."""

    async def apply(
        self, connection: Connection, schema: str, page: Sequence[RecordedEvent], prepared: Any
    ) -> None:
        flagged = [_flagged(one, one.event) for one in page if isinstance(one.event, ContradictionFlagged)]
        if flagged:
            await connection.execute(_INSERT.format(schema=schema), (json.dumps(flagged),))
        # In order: a decision, its undo and the next decision may stand on one page.
        for one in page:
            if isinstance(one.event, ContradictionResolved | ContradictionEffectUndone):
                decided = _decided(one, one.event)
                await connection.execute(_UPDATE.format(schema=schema), (json.dumps(decided),))


def _flagged(recorded: RecordedEvent, event: ContradictionFlagged) -> dict[str, Any]:
    said = event.model_dump(mode="json")
    return {name: said[name] for name in _FLAGGED if name in said} | {
        "tenant": str(recorded.tenant),
        "contradiction_id": str(recorded.stream),
        "flagged_at": recorded.recorded_at.isoformat(),
        "position": recorded.position,
    }


def _decided(recorded: RecordedEvent, event: ContradictionResolved | ContradictionEffectUndone) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(_DECIDED)
    if isinstance(event, ContradictionResolved) or event.again:
        said = event.model_dump(mode="json")
        actor = recorded.envelope.actor
        row |= {name: said[name] for name in _DECIDED if name in said} | {
            "decided_at": recorded.recorded_at.isoformat(),
            "decided_by_kind": actor.kind,
            "decided_by": str(actor.id),
        }
    return row | {
        "tenant": str(recorded.tenant),
        "contradiction_id": str(recorded.stream),
        "position": recorded.position,
    }


def _typed(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind.removesuffix(' not null')}" for name, kind in columns.items())


_INSERT = (
    "insert into {schema}.contradictions (" + ", ".join(_FLAGGED) + ") "
    f"select * from jsonb_to_recordset(%s::jsonb) as r({_typed(_FLAGGED)}) on conflict do nothing"
)
_CHANGED = {name: _FLAGGED[name] for name in ("tenant", "contradiction_id", "position")} | _DECIDED
_UPDATE = (
    "update {schema}.contradictions c set position = r.position, "
    + ", ".join(f"{name} = r.{name}" for name in _DECIDED)
    + f" from jsonb_to_record(%s::jsonb) as r({_typed(_CHANGED)}) "
    "where c.tenant = r.tenant and c.contradiction_id = r.contradiction_id and c.position < r.position"
)


@dataclass(frozen=True, slots=True)
class OpenPair:
    """Two memories that cannot both hold, as long as nobody decided."""

    contradiction_id: UUID
    memory_id: UUID
    related_id: UUID
    owner: UUID | None
    due_at: datetime | None

    @property
    def sides(self) -> tuple[UUID, UUID]:
        return self.memory_id, self.related_id


async def open_pairs(connection: Connection, tenant: UUID, now: datetime) -> list[OpenPair]:
    """Undecided pairs of which a read would tell both, the oldest first; on a connection of
    `generations.read_models`.

    Where one side ended by itself there is nothing left to refuse: the other stands alone.
    """
    cursor = await connection.execute(_OPEN_PAIRS, {"tenant": tenant, "now": now, "limit": MOST_PAIRS})
    return [OpenPair(*row) for row in await cursor.fetchall()]


_OPEN_PAIRS = (
    "select c.contradiction_id, c.memory_id, c.related_id, c.owner, c.due_at from contradictions c "
    "where c.tenant = %(tenant)s and c.outcome is null and (select count(*) from live_memory "
    "where live_memory.tenant = c.tenant and live_memory.memory_id in (c.memory_id, c.related_id) "
    f"and {RETRIEVABLE} and successor is null) = 2 order by c.flagged_at, c.contradiction_id limit %(limit)s"
)
