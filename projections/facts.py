"""The read model of facts, and reading it as of any moment (behaviour.md 1.10; A11).

A row is a span during which a fact is on record: from its assertion until that was undone, and again from where
the undo was undone. So what was on record at position *k* is what has ``position <= k < until_position``;
``changed_at`` and ``until_at`` say the same in instants, which are those of another log where a fact was moved in
(ADR 9).
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from ..domain.events import FactAsserted, FactEffectUndone, event_names
from ..domain.fields import normalised
from ..streams.database import Connection
from ..streams.payloads import RecordedEvent
from .as_of import AsOf
from .projection import ClearText, Projection

_COLUMNS: dict[str, str] = {
    "tenant": "uuid not null",
    "fact_id": "uuid not null",
    "position": "bigint not null",
    "changed_at": "timestamptz not null",
    "memory_id": "uuid not null",
    "subject": "text not null",
    "predicate": "text not null",
    "value": "text not null",
    # What is looked for; the texts themselves may be too long for an index.
    "subject_digest": "bytea not null",
    "predicate_digest": "bytea not null",
    "confidence": "double precision",
    "valid_from": "timestamptz not null",
    "valid_to": "timestamptz",
    "proposal": "uuid",
    "recorded_at": "timestamptz not null",
}
_NAMES = ", ".join(_COLUMNS)


class Facts:
    """One row per span in which a fact is on record; none for those of erased memories."""

    name = "facts"
    version = "1"
    tables = ("facts",)
    clear_texts = (ClearText("facts", about="memory_id = any(%(memories)s)"),)
    stream_column = "fact_id"
    wants = frozenset(event_names("fact."))

    def loading(self, start: int, target: int) -> Projection:
        """Its rows are written once anyhow."""
        return self

    async def create_tables(self, connection: Connection, schema: str) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        await connection.execute(
            f"create table {schema}.facts ({columns}, until_position bigint, until_at timestamptz, "
            "primary key (tenant, fact_id, position))"
        )

    async def create_indexes(self, connection: Connection, schema: str) -> None:
        for statement in (
            f"create index facts_recency on {schema}.facts (tenant, recorded_at desc, fact_id)",
            f"create index facts_subject on {schema}.facts "
            "(tenant, subject_digest, predicate_digest, recorded_at desc, fact_id)",
            f"create index facts_memory on {schema}.facts (tenant, memory_id)",
        ):
            await connection.execute(statement)

    async def prepare(self, page: Sequence[RecordedEvent]) -> None:
        """Nothing takes long here."""

    async def apply(
        self, connection: Connection, schema: str, page: Sequence[RecordedEvent], prepared: Any
    ) -> None:
        asserted = [row for recorded in page if (row := _row(recorded)) is not None]
        if asserted:
            await connection.execute(_INSERT.format(schema=schema), (json.dumps(asserted, ensure_ascii=False),))
        # In order, since each says something about the span before it; they are few.
        for recorded in page:
            if isinstance(recorded.event, FactEffectUndone):
                statement = _BEGIN if recorded.event.again else _END
                await connection.execute(
                    statement.format(schema=schema),
                    {
                        "tenant": recorded.tenant,
                        "fact": recorded.stream,
                        "position": recorded.position,
                        "at": recorded.recorded_at,
                    },
                )


def _row(recorded: RecordedEvent) -> dict[str, Any] | None:
    """The row of an assertion; None where its texts are erased, and for other events."""
    event = recorded.event
    if not isinstance(event, FactAsserted):
        return None
    if event.subject is None or event.predicate is None or event.value is None:
        return None
    return event.model_dump(mode="json") | {
        "tenant": str(recorded.tenant),
        "fact_id": str(recorded.stream),
        "position": recorded.position,
        "changed_at": recorded.recorded_at.isoformat(),
        "recorded_at": recorded.recorded_at.isoformat(),
        "subject_digest": _bytea(event.subject),
        "predicate_digest": _bytea(event.predicate),
    }


def _digest(text: str) -> bytes:
    return hashlib.sha256(normalised(text).encode()).digest()


def _bytea(text: str) -> str:
    return f"\\x{_digest(text).hex()}"


_TYPED = ", ".join(f"{name} {kind.removesuffix(' not null')}" for name, kind in _COLUMNS.items())
_INSERT = (
    f"insert into {{schema}}.facts ({_NAMES}) select * from jsonb_to_recordset(%s::jsonb) as r({_TYPED}) "
    "on conflict do nothing"
)
_END = (
    "update {schema}.facts set until_position = %(position)s, until_at = %(at)s where tenant = %(tenant)s "
    "and fact_id = %(fact)s and until_position is null and position < %(position)s"
)
_BEGIN = (
    f"insert into {{schema}}.facts ({_NAMES}) select "
    + ", ".join({"position": "%(position)s", "changed_at": "%(at)s"}.get(name, name) for name in _COLUMNS)
    + " from {schema}.facts where tenant = %(tenant)s and fact_id = %(fact)s and position < %(position)s "
    "order by position limit 1 on conflict do nothing"
)


@dataclass(frozen=True, slots=True)
class FactFilter:
    """Which facts are asked for. The tenant is never optional."""

    tenant: UUID
    as_of: AsOf
    subject: str | None = None
    predicate: str | None = None
    memory_id: UUID | None = None
    without: tuple[UUID, ...] = ()
    """Memories whose facts are left out."""

    def where(self) -> str:
        """SQL condition on facts; its values are `values`."""
        as_of = self.as_of
        if as_of.known is None:
            on_record = "until_position is null"
        elif as_of.moved_in:
            on_record = "changed_at <= %(now)s and (until_at is null or %(now)s < until_at)"
        else:
            on_record = "position <= %(known)s and (until_position is null or %(known)s < until_position)"
        parts = ["tenant = %(tenant)s", on_record, _OPEN if as_of.valid_at is None else _HOLDS]
        if self.subject is not None:
            parts.append("subject_digest = %(subject)s")
        if self.predicate is not None:
            parts.append("predicate_digest = %(predicate)s")
        if self.memory_id is not None:
            parts.append("memory_id = %(memory)s")
        if self.without:
            parts.append("memory_id <> all(%(without)s)")
        return " and ".join((*parts, f"not exists ({self._barred()})"))

    def _barred(self) -> str:
        """SQL of a memory whose facts are not told, as it was then: said never to be true, or hidden."""
        whose = "live_memory.tenant = facts.tenant and live_memory.memory_id = facts.memory_id"
        then = replace(self.as_of, valid_at=None).where()
        return f"select from {self.as_of.source} where " + " and ".join((whose, _BARRED, *then))

    def values(self) -> dict[str, Any]:
        """Parameters of `where`."""
        return {
            "tenant": self.tenant,
            **self.as_of.values(),
            "subject": None if self.subject is None else _digest(self.subject),
            "predicate": None if self.predicate is None else _digest(self.predicate),
            "memory": self.memory_id,
            "without": list(self.without),
        }


_OPEN = "valid_to is null"
_HOLDS = "valid_from <= %(valid_at)s and (valid_to is null or %(valid_at)s < valid_to)"
_BARRED = "(refuted or quarantined or suppressed)"


@dataclass(frozen=True, slots=True)
class FactRow:
    """A fact as the view has it."""

    fact_id: UUID
    memory_id: UUID
    subject: str
    predicate: str
    value: str
    confidence: float | None
    valid_from: datetime
    valid_to: datetime | None
    proposal: UUID | None
    recorded_at: datetime


_READ = ", ".join(FactRow.__slots__)


async def list_facts(
    connection: Connection, matching: FactFilter, limit: int, after: tuple[datetime, UUID] | None
) -> tuple[list[FactRow], int]:
    """(facts, exact total): newest first by when they were recorded, then by id; ``after`` is the last of a page.

    On a connection of `generations.read_models`.
    """
    values = matching.values() | {"limit": limit}
    beyond = "true"
    if after is not None:
        beyond = "(recorded_at < %(after_at)s or recorded_at = %(after_at)s and fact_id > %(after_id)s)"
        values |= {"after_at": after[0], "after_id": after[1]}
    cursor = await connection.execute(
        f"with matching as materialized (select {_READ} from facts where {matching.where()}) "
        f"select {_READ}, (select count(*) from matching) from matching where {beyond} "
        "order by recorded_at desc, fact_id limit %(limit)s",
        values,
    )
    rows = await cursor.fetchall()
    if rows:
        return [FactRow(*row[:-1]) for row in rows], rows[0][-1]
    cursor = await connection.execute(f"select count(*) from facts where {matching.where()}", values)
    [total] = await cursor.fetchone() or (0,)
    return [], total


async def memories_of(connection: Connection, matching: FactFilter, among: Sequence[UUID]) -> set[UUID]:
    """Which of these memories the facts asked for are of; on a connection of `generations.read_models`."""
    cursor = await connection.execute(
        f"select distinct memory_id from facts where {matching.where()} and memory_id = any(%(among)s)",
        matching.values() | {"among": list(among)},
    )
    return {row[0] for row in await cursor.fetchall()}


async def said_of(connection: Connection, tenant: UUID, memory_id: UUID) -> list[tuple[str, str, str]]:
    """(subject, predicate, value) of a memory's facts on record, with or without a known end; on a connection of
    `generations.read_models`."""
    cursor = await connection.execute(
        "select distinct subject, predicate, value from facts where tenant = %s and memory_id = %s "
        "and until_position is null",
        (tenant, memory_id),
    )
    return [(subject, predicate, value) for subject, predicate, value in await cursor.fetchall()]
