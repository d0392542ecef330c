"""The read model of what happened to each memory: one entry per event that concerns it.

Entries of a memory's own stream carry what it said before and after (F11: each entry's ``old`` is the last
one's ``new``); entries of proposals and verdicts about it, of facts that were read in it, and of commitments that
ride on it, stand between them. Their order is that in which they were recorded, and within one commit that of
``happened_at``: the position in the log where it happened.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from ..domain.events import (
    ErasurePerformed,
    Event,
    MemoryRemembered,
    SessionCloserJudged,
    VerdictRecorded,
    event_class,
    event_names,
)
from ..streams.database import Connection
from ..streams.payloads import RecordedEvent
from .projection import ClearText, Projection

_COLUMNS: dict[str, str] = {
    "tenant": "uuid not null",
    "memory_id": "uuid not null",
    "position": "bigint not null",
    "happened_at": "bigint not null",
    "stream": "uuid not null",
    "version": "bigint not null",
    "name": "text not null",
    "event_id": "uuid not null",
    "recorded_at": "timestamptz not null",
    "actor_kind": "text not null",
    "actor_ref": "uuid not null",
    "cause": "uuid not null",
    "correlation": "uuid not null",
    "policy": "int",
    "judge": "text",
    "session": "uuid",
    "detail": "jsonb not null",
}


def _array(fields: Iterable[str]) -> str:
    return "array[{}]".format(", ".join(f"'{field}'" for field in sorted(fields)))


def _sealed(prefix: str) -> set[str]:
    """Names of personal fields of these events in ``detail``, but for quotes, which go by other memories."""
    classes = [event_class(one) or Event for one in event_names(prefix)]
    own = set[str]().union(*(one.SEALED for one in classes))
    return own | {name for one in classes for name, about in one.SEALED_FOR.items() if about == "memory_id"}


_SEALED = _array(_sealed("memory."))
_OF_PROPOSALS = _array(_sealed("proposal."))
_OF_FACTS = _array(_sealed("fact."))
_TEXTLESS = frozenset({"content", "topic", "tags", "metadata"})


class MemoryHistory:
    """One row per (memory, event)."""

    name = "memory_history"
    version = "5"
    tables = ("memory_history",)
    clear_texts = (
        ClearText(
            "memory_history",
            about="memory_id = any(%(memories)s)",
            clear="name = 'memory.remembered' and "
            "coalesce(detail->>'new', detail->>'topic', detail->>'tags') is not null",
            becomes='detail = detail || \'{"new": null, "topic": null, "tags": null}\'',
        ),
        ClearText(
            "memory_history",
            about="memory_id = any(%(memories)s)",
            clear=f"name like 'memory.%%' and name <> 'memory.remembered' and detail ?| {_SEALED}",
            becomes=f"detail = detail - {_SEALED}",
        ),
        ClearText(
            "memory_history",
            about="detail->>'evidence_memory' = any(%(texts)s)",
            clear="detail ? 'quote'",
            becomes="detail = detail - 'quote'",
        ),
        ClearText(
            "memory_history",
            about="detail->>'memory_id' = any(%(texts)s)",
            clear=f"name like 'proposal.%%' and detail ?| {_OF_PROPOSALS}",
            becomes=f"detail = detail - {_OF_PROPOSALS}",
        ),
        ClearText(
            "memory_history",
            about="memory_id = any(%(memories)s)",
            clear=f"name like 'fact.%%' and detail ?| {_OF_FACTS}",
            becomes=f"detail = detail - {_OF_FACTS}",
        ),
    )
    stream_column = "stream"
    wants = frozenset(event_names("memory.")) | frozenset(
        (
            *event_names("verdict."),
            *event_names("proposal."),
            *event_names("commitment."),
            *event_names("contradiction."),
            *event_names("extraction."),
            *event_names("fact."),
            ErasurePerformed.NAME,
            SessionCloserJudged.NAME,
        )
    )

    def loading(self, start: int, target: int) -> Projection:
        """Its rows are written once anyhow."""
        return self

    async def create_tables(self, connection: Connection, schema: str) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        await connection.execute(
            f"create table {schema}.memory_history ({columns}, primary key (tenant, memory_id, position))"
        )

    async def create_indexes(self, connection: Connection, schema: str) -> None:
        await connection.execute(
            f"create index memory_history_event on {schema}.memory_history (tenant, event_id)"
        )
        await connection.execute(
            f"create index memory_history_session on {schema}.memory_history (tenant, session, position) "
            "where session is not null"
        )

    async def prepare(self, page: Sequence[RecordedEvent]) -> None:
        """Nothing takes long here."""

    async def apply(
        self, connection: Connection, schema: str, page: Sequence[RecordedEvent], prepared: Any
    ) -> None:
        rows = [row for recorded in page if recorded.event is not None for row in _rows(recorded, recorded.event)]
        if rows:
            await connection.execute(_INSERT.format(schema=schema), (json.dumps(rows, ensure_ascii=False),))


def concerned(recorded: RecordedEvent, event: Event) -> tuple[UUID, ...]:
    """The memories an event tells something about."""
    if recorded.name.startswith("memory."):
        return (recorded.stream,)
    if isinstance(event, ErasurePerformed):
        return event.memories
    memory_id: UUID = getattr(event, "memory_id")  # noqa: B009 - each of the other events has it
    related: UUID | None = getattr(event, "related_id", None) or getattr(event, "memory_before", None)
    return (memory_id,) if related is None else (memory_id, related)


def _rows(recorded: RecordedEvent, event: Event) -> list[dict[str, Any]]:
    detail = event.model_dump(mode="json", exclude_none=True)
    if isinstance(event, ErasurePerformed):
        # Each memory is told of itself only.
        detail = {"because": event.because}
    if isinstance(event, VerdictRecorded | SessionCloserJudged):
        detail.pop("state_digest", None)
    if isinstance(event, MemoryRemembered):
        texts = {name: detail.pop(name, None) for name in _TEXTLESS}
        detail |= {"old": None, "new": texts["content"], "topic": texts["topic"], "tags": texts["tags"]}
    envelope = recorded.envelope
    return [
        {
            "tenant": str(recorded.tenant),
            "memory_id": str(memory_id),
            "position": recorded.position,
            "happened_at": recorded.happened_at,
            "stream": str(recorded.stream),
            "version": recorded.version,
            "name": recorded.name,
            "event_id": str(recorded.event_id),
            "recorded_at": recorded.recorded_at.isoformat(),
            "actor_kind": envelope.actor.kind,
            "actor_ref": str(envelope.actor.id),
            "cause": str(envelope.cause),
            "correlation": str(envelope.correlation),
            "policy": envelope.policy,
            "judge": envelope.judge,
            "session": None if envelope.session is None else str(envelope.session),
            "detail": detail,
        }
        for memory_id in concerned(recorded, event)
    ]


_TYPED = ", ".join(f"{name} {kind.removesuffix(' not null')}" for name, kind in _COLUMNS.items())
_INSERT = (
    "insert into {schema}.memory_history (" + ", ".join(_COLUMNS) + ") select "
    f"* from jsonb_to_recordset(%s::jsonb) as r({_TYPED}) on conflict do nothing"
)
