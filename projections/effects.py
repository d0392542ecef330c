"""The read model of effects: what decisions and policies did, by whom, and whether it was taken back.

One row per effect, which goes by its event id. Ids, names of events and times only; nothing a memory said.
"""

import json
from collections.abc import Sequence
from typing import Any

from ..domain.effects import effect_names, origin_of
from ..domain.undo_events import EffectUndone
from ..streams.database import Connection
from ..streams.payloads import RecordedEvent
from .projection import ClearText, Projection

_COLUMNS: dict[str, str] = {
    "tenant": "uuid not null",
    "effect_id": "uuid not null",
    "stream": "uuid not null",
    "version": "bigint not null",
    "name": "text not null",
    "acted": "text not null",
    "proposal_id": "uuid",
    "actor_kind": "text not null",
    "actor_ref": "uuid not null",
    "session": "uuid",
    "policy": "int",
    "judge": "text",
    "model": "text",
    "correlation": "uuid not null",
    "recorded_at": "timestamptz not null",
    "position": "bigint not null",
}


class Effects:
    """See the module's docstring."""

    name = "effects"
    version = "2"
    tables = ("effects",)
    clear_texts: tuple[ClearText, ...] = ()
    stream_column = "stream"
    wants = effect_names()

    def loading(self, start: int, target: int) -> Projection:
        """Its rows are written once anyhow."""
        return self

    async def create_tables(self, connection: Connection, schema: str) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        await connection.execute(
            f"create table {schema}.effects ({columns}, undone boolean not null default false, last_undo uuid, "
            "last_undo_event uuid, last_undo_at timestamptz, primary key (tenant, effect_id))"
        )

    async def create_indexes(self, connection: Connection, schema: str) -> None:
        for statement in (
            f"create index effects_recency on {schema}.effects (tenant, position desc)",
            f"create index effects_stream on {schema}.effects (tenant, stream)",
            f"create index effects_proposal on {schema}.effects (tenant, proposal_id)",
            f"create index effects_undo on {schema}.effects (tenant, last_undo) where last_undo is not null",
        ):
            await connection.execute(statement)

    async def prepare(self, page: Sequence[RecordedEvent]) -> None:
        """Nothing takes long here."""

    async def apply(
        self, connection: Connection, schema: str, page: Sequence[RecordedEvent], prepared: Any
    ) -> None:
        made = [row for recorded in page if (row := _row(recorded)) is not None]
        undone = {row["effect_id"]: row for recorded in page if (row := _undone(recorded)) is not None}
        if made:
            await connection.execute(_INSERT.format(schema=schema), (json.dumps(made),))
        if undone:
            await connection.execute(_UNDO.format(schema=schema), (json.dumps(list(undone.values())),))


def _row(recorded: RecordedEvent) -> dict[str, Any] | None:
    event, envelope = recorded.event, recorded.envelope
    if event is None or (origin := origin_of(event)) is None:
        return None
    session = envelope.session
    if origin.acted == "closer":
        # No write of the session, and it came of it all the same.
        session = getattr(event, "session", None)
    return {
        "tenant": str(recorded.tenant),
        "effect_id": str(recorded.event_id),
        "stream": str(recorded.stream),
        "version": recorded.version,
        "name": recorded.name,
        "acted": origin.acted,
        "proposal_id": None if origin.proposal is None else str(origin.proposal),
        "actor_kind": envelope.actor.kind,
        "actor_ref": str(envelope.actor.id),
        "session": None if session is None else str(session),
        "policy": envelope.policy,
        "judge": envelope.judge,
        "model": getattr(event, "model", None),
        "correlation": str(envelope.correlation),
        "recorded_at": recorded.recorded_at.isoformat(),
        "position": recorded.position,
    }


def _undone(recorded: RecordedEvent) -> dict[str, Any] | None:
    event = recorded.event
    if not isinstance(event, EffectUndone):
        return None
    return {
        "tenant": str(recorded.tenant),
        "effect_id": str(event.effect),
        "undone": not event.again,
        "last_undo": str(event.undo),
        "last_undo_event": str(recorded.event_id),
        "last_undo_at": recorded.recorded_at.isoformat(),
    }


_TYPED = ", ".join(f"{name} {kind.removesuffix(' not null')}" for name, kind in _COLUMNS.items())
_INSERT = (
    "insert into {schema}.effects (" + ", ".join(_COLUMNS) + ") select "
    f"* from jsonb_to_recordset(%s::jsonb) as r({_TYPED}) on conflict do nothing"
)
_UNDO = (
    "update {schema}.effects e set undone = r.undone, last_undo = r.last_undo, "
    "last_undo_event = r.last_undo_event, last_undo_at = r.last_undo_at "
    "from jsonb_to_recordset(%s::jsonb) as r(tenant uuid, effect_id uuid, undone boolean, last_undo uuid, "
    "last_undo_event uuid, last_undo_at timestamptz) where e.tenant = r.tenant and e.effect_id = r.effect_id"
)
