"""The read model of proposals: what waits for a reviewer, what was decided, and what the anti-joins need.

Dismissed ones are kept and never listed (behaviour.md 1.14.1). Evidence and comments are personal text and
stand here in clear, as in every read model.
"""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ..domain.events import (
    ProposalAccepted,
    ProposalDismissed,
    ProposalRejected,
    ProposalStaged,
    ProposalWithdrawn,
    Staged,
    event_names,
)
from ..streams.database import Connection
from ..streams.payloads import RecordedEvent
from .projection import ClearText, Projection

_COLUMNS: dict[str, str] = {
    "tenant": "uuid not null",
    "proposal_id": "uuid not null",
    "kind": "text not null",
    "status": "text not null",
    "action": "text not null",
    "memory_id": "uuid not null",
    "related_id": "uuid",
    "pair_older": "uuid",
    "pair_newer": "uuid",
    "rule": "text",
    "probability": "double precision",
    "probabilities": "jsonb not null",
    "threshold": "double precision",
    "unselected": "boolean not null",
    "judge": "text",
    "model": "text",
    "seen": "jsonb not null",
    "source": "uuid not null",
    "pass_id": "uuid",
    "ref": "text",
    "policy": "int",
    "evidence_memory": "uuid",
    "quote": "text",
    "details": "jsonb not null",
    "texts": "jsonb",
    "verdict_event": "uuid",
    "staged_event": "uuid not null",
    "correlation": "uuid not null",
    "created_at": "timestamptz not null",
    "position": "bigint not null",
}


class ReviewQueue:
    """One row per proposal or dismissal."""

    name = "review_queue"
    version = "2"
    tables = ("review_queue",)
    clear_texts = (
        ClearText(
            "review_queue",
            about="evidence_memory = any(%(memories)s)",
            clear="quote is not null",
            becomes="quote = null",
        ),
        ClearText(
            "review_queue",
            about="memory_id = any(%(memories)s)",
            clear="comment is not null or texts is not null",
            becomes="comment = null, texts = null",
        ),
    )
    stream_column = "proposal_id"
    wants = frozenset(event_names("proposal."))

    def loading(self, start: int, target: int) -> Projection:
        """Its rows are written once anyhow."""
        return self

    async def create_tables(self, connection: Connection, schema: str) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        await connection.execute(
            f"create table {schema}.review_queue ({columns}, "
            "decided_at timestamptz, decided_by_kind text, decided_by uuid, decided_event uuid, comment text, "
            "withdrawn_because text, primary key (tenant, proposal_id), "
            "check (kind <> 'retention' or (action in ('supersede', 'conflict')) = (related_id is not null)))"
        )

    async def create_indexes(self, connection: Connection, schema: str) -> None:
        for statement in (
            f"create index review_queue_listing on {schema}.review_queue "
            "(tenant, status, created_at, proposal_id)",
            f"create index review_queue_memory on {schema}.review_queue (tenant, memory_id, created_at)",
            f"create index review_queue_pair on {schema}.review_queue "
            "(tenant, least(pair_older, pair_newer), greatest(pair_older, pair_newer)) "
            "where pair_older is not null",
            f"create index review_queue_related on {schema}.review_queue (tenant, related_id) "
            "where related_id is not null",
        ):
            await connection.execute(statement)

    async def prepare(self, page: Sequence[RecordedEvent]) -> None:
        """Nothing takes long here."""

    async def apply(
        self, connection: Connection, schema: str, page: Sequence[RecordedEvent], prepared: Any
    ) -> None:
        made = [_row(e) for e in page if isinstance(e.event, ProposalStaged | ProposalDismissed | Staged)]
        decided = [
            _decision(e)
            for e in page
            if isinstance(e.event, ProposalAccepted | ProposalRejected | ProposalWithdrawn)
        ]
        if made:
            await connection.execute(_INSERT.format(schema=schema), (json.dumps(made, ensure_ascii=False),))
        if decided:
            await connection.execute(_DECIDE.format(schema=schema), (json.dumps(decided, ensure_ascii=False),))


def _row(recorded: RecordedEvent) -> dict[str, Any]:
    event = recorded.event
    assert isinstance(event, ProposalStaged | ProposalDismissed | Staged)
    said = _staged(event) if isinstance(event, Staged) else _judged(event)
    row = dict.fromkeys(_COLUMNS) | said
    return row | {
        "tenant": str(recorded.tenant),
        "proposal_id": str(recorded.stream),
        "policy": recorded.envelope.policy,
        "staged_event": str(recorded.event_id),
        "correlation": str(recorded.envelope.correlation),
        "created_at": recorded.recorded_at.isoformat(),
        "position": recorded.position,
    }


def _judged(event: ProposalStaged | ProposalDismissed) -> dict[str, Any]:
    """A retention proposal, or a dismissal: what a judge said."""
    data = event.model_dump(mode="json")
    pair = data["judged_pair"] or (None, None)
    return {name: data[name] for name in _COLUMNS if name in data} | {
        "status": "proposed" if isinstance(event, ProposalStaged) else "dismissed",
        "pair_older": pair[0],
        "pair_newer": pair[1],
        "unselected": data.get("unselected", False),
        "source": data["pass_id"],
        "details": {},
    }


def _staged(event: Staged) -> dict[str, Any]:
    """A proposal of another kind."""
    data = event.model_dump(mode="json")
    return {
        "kind": event.KIND,
        "status": "proposed",
        "action": event.action,
        "memory_id": data["memory_id"],
        "related_id": data["related_id"],
        "probability": event.probability,
        "probabilities": {},
        "unselected": False,
        "judge": event.made_by,
        "model": data.get("model"),
        "seen": data["seen"],
        "source": data["source"],
        "details": event.details(),
        "texts": event.texts() or None,
    }


def _decision(recorded: RecordedEvent) -> dict[str, Any]:
    event = recorded.event
    status = {
        "proposal.accepted": "applied",
        "proposal.rejected": "rejected",
        "proposal.withdrawn": "withdrawn",
    }[recorded.name]
    actor: UUID = recorded.envelope.actor.id
    return {
        "tenant": str(recorded.tenant),
        "proposal_id": str(recorded.stream),
        "status": status,
        "decided_at": recorded.recorded_at.isoformat(),
        "decided_by_kind": recorded.envelope.actor.kind,
        "decided_by": str(actor),
        "decided_event": str(recorded.event_id),
        "comment": getattr(event, "comment", None),
        "withdrawn_because": getattr(event, "reason", None),
        "position": recorded.position,
    }


_TYPED = ", ".join(f"{name} {kind.removesuffix(' not null')}" for name, kind in _COLUMNS.items())
_INSERT = (
    "insert into {schema}.review_queue (" + ", ".join(_COLUMNS) + ") select "
    f"* from jsonb_to_recordset(%s::jsonb) as r({_TYPED}) on conflict do nothing"
)
_DECIDE = (
    "update {schema}.review_queue q set status = r.status, decided_at = r.decided_at, "
    "decided_by_kind = r.decided_by_kind, decided_by = r.decided_by, decided_event = r.decided_event, "
    "comment = r.comment, withdrawn_because = r.withdrawn_because, position = r.position "
    "from jsonb_to_recordset(%s::jsonb) as r(tenant uuid, proposal_id uuid, status text, decided_at timestamptz, "
    "decided_by_kind text, decided_by uuid, decided_event uuid, comment text, withdrawn_because text, "
    "position bigint) where q.tenant = r.tenant and q.proposal_id = r.proposal_id"
)
