"""Proposals as answers: from rows of the queue, or from their own events."""

from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import UUID

from ...domain import events as e
from ...domain import proposal as rules
from ...domain.proposal import Proposal
from ...projections.commitments import MOVED
from ...projections.rows import MemoryRow
from ...streams.folding import fold_stream
from ...streams.payloads import RecordedEvent
from ..access.caller import NAMED_KINDS
from ..engine import Engine
from ..operating.views import ProposalView
from .taken_back import TakenBack, taken_back, who

COLUMNS = (
    "proposal_id",
    "kind",
    "status",
    "action",
    "memory_id",
    "related_id",
    "pair_older",
    "pair_newer",
    "rule",
    "probability",
    "probabilities",
    "threshold",
    "unselected",
    "judge",
    "model",
    "quote",
    "details",
    "texts",
    "seen",
    "source",
    "pass_id",
    "created_at",
    "decided_at",
    "decided_by_kind",
    "decided_by",
    "comment",
    "withdrawn_because",
    "commitment_moved",
)
COMMITMENT_MOVED = "q.kind = 'resolution' and " + MOVED.format(
    tenant="q.tenant",
    commitment="(q.details ->> 'commitment')::uuid",
    version="(q.seen ->> (q.details ->> 'commitment'))::bigint",
)
"""SQL of whether the commitment that a proposal would resolve moved on; the queue's table goes by ``q``."""
SELECTED = ", ".join(f"q.{name}" for name in COLUMNS[:-1]) + f", {COMMITMENT_MOVED} as {COLUMNS[-1]}"
"""SQL of ``COLUMNS``."""


def as_row(values: Sequence[Any]) -> dict[str, Any]:
    """A row of the queue, read by ``COLUMNS``."""
    return dict(zip(COLUMNS, values, strict=True))


def mentioned(rows: Sequence[Mapping[str, Any]]) -> list[UUID]:
    """Ids of the memories that rows of the queue are about."""
    return [one for row in rows for one in (row["memory_id"], row["related_id"]) if one is not None]


async def present_proposals(
    engine: Engine, tenant: UUID, rows: Sequence[Mapping[str, Any]], memories: Mapping[UUID, MemoryRow]
) -> list[ProposalView]:
    """Rows of the queue as answers; ``memories`` tells which are stale."""
    named = {row["decided_by"] for row in rows if row["decided_by_kind"] in NAMED_KINDS}
    names = await engine.directory.names(tenant, named)
    applied = [row["proposal_id"] for row in rows if row["status"] == "applied"]
    undone = await taken_back(engine, tenant, applied)
    return [_view(row, memories, names, undone.get(row["proposal_id"])) for row in rows]


def _view(
    row: Mapping[str, Any],
    memories: Mapping[UUID, MemoryRow],
    names: Mapping[UUID, str],
    undone: TakenBack | None,
) -> ProposalView:
    seen = {UUID(one): version for one, version in cast(dict[str, int], row["seen"]).items()}
    rests_on = [row["memory_id"]]
    if row["related_id"] is not None and row["kind"] != "dependency":
        rests_on.append(row["related_id"])
    stale = row["status"] == "proposed" and (
        row["commitment_moved"]
        or any(one not in memories or memories[one].state_version != seen.get(one) for one in rests_on)
    )
    decided_by = None
    if row["decided_by_kind"] is not None:
        decided_by = who(row["decided_by_kind"], names.get(row["decided_by"]))
    return ProposalView(
        id=row["proposal_id"],
        judged_pair=(row["pair_older"], row["pair_newer"]) if row["pair_older"] is not None else None,
        seen=seen,
        stale=stale,
        decided_by=decided_by,
        texts=row["texts"] or {},
        **_of_undo(undone),
        **{name: row[name] for name in _AS_THEY_ARE},
    )


_AS_THEY_ARE = tuple(
    name
    for name in COLUMNS
    if name
    not in (
        *("proposal_id", "pair_older", "pair_newer", "seen", "texts", "decided_by_kind", "decided_by"),
        "commitment_moved",
    )
)


def _of_undo(undone: TakenBack | None) -> dict[str, Any]:
    return {} if undone is None else {"undone_at": undone.at, "undone_by": undone.by, "undo_id": undone.undo_id}


async def proposal_from_log(engine: Engine, recorded: Sequence[RecordedEvent]) -> ProposalView:
    """A decided proposal as its own events tell it."""
    state = fold_stream(recorded, rules.evolve_proposal)
    assert state is not None
    actors = {one.envelope.actor.id for one in recorded if one.envelope.actor.kind in NAMED_KINDS}
    names = await engine.directory.names(recorded[0].tenant, actors)
    last = recorded[-1]
    decided = len(recorded) > 1
    undone = await taken_back(engine, recorded[0].tenant, [state.id] if state.status == "applied" else [])
    return ProposalView(
        id=state.id,
        kind=state.kind,
        status=state.status,
        action=state.action,
        memory_id=state.memory_id,
        related_id=state.related_id,
        seen=dict(state.seen),
        source=state.source,
        stale=False,
        created_at=state.created_at,
        decided_at=last.recorded_at if decided else None,
        decided_by=who(last.envelope.actor.kind, names.get(last.envelope.actor.id)) if decided else None,
        comment=getattr(last.event, "comment", None),
        withdrawn_because=getattr(last.event, "reason", None),
        **_of_kind(state),
        **_of_undo(undone.get(state.id)),
    )


def _of_kind(state: Proposal) -> dict[str, Any]:
    said = state.said
    if isinstance(said, e.Staged):
        return {
            "probability": said.probability,
            "judge": said.made_by,
            "model": getattr(said, "model", None),
            "details": said.details(),
            "texts": said.texts(),
        }
    judgment = {
        name: getattr(said, name)
        for name in ("judged_pair", "rule", "probability", "probabilities", "judge", "model", "quote", "pass_id")
    }
    return {**judgment, "threshold": said.threshold, "unselected": getattr(said, "unselected", False)}
