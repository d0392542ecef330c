"""Which effects an undo is about (design.md 7.6): one, one decision's, one pass's, or all of a cause."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self
from uuid import UUID

from pydantic import Field, model_validator

from ...domain.events import UndoRequested
from ...domain.fields import Id, Input, Instant, Name
from ...projections.generations import tenant_read_models
from ..engine import Engine

SELECTORS = ("effect", "proposal_id", "undo_id", "pass_id", "judge", "policy", "reviewer", "session")


class UndoSelector(Input):
    """What to take back: exactly one of these, and from when on for those that go on happening."""

    effect: Id | None = None
    """Event id of one effect; what else its decision did goes with it, together or not at all."""
    proposal_id: Id | None = None
    """Everything that accepting this proposal did."""
    undo_id: Id | None = None
    """What an earlier undo did; then the effects hold again."""
    pass_id: Id | None = None
    """Everything that came of this pass."""
    judge: Name | None = None
    """Identity of a judge or extractor, or name of a model."""
    policy: int | None = Field(default=None, ge=1)
    """Everything decided under this version of the tenant's policy."""
    reviewer: Name | None = None
    """Everything that this person, agent or importer accepted, by name."""
    session: Id | None = None
    """Everything done in this session run, and what the closer did after it."""
    since: Instant | None = None
    """Only effects recorded at this moment or later."""

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        given = [name for name in SELECTORS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(SELECTORS)}")
        return self


class Effect(NamedTuple):
    """One effect, as the read model tells it."""

    id: UUID
    stream: UUID
    name: str
    proposal: UUID | None
    acted: Literal["proposal", "expiry", "closer"]
    correlation: UUID
    """Effects of one decision have the same."""
    recorded_at: datetime
    position: int
    undone: bool
    last_undo: UUID | None
    last_undo_at: datetime | None


EFFECT_COLUMNS = (
    "e.effect_id, e.stream, e.name, e.proposal_id, e.acted, e.correlation, e.recorded_at, e.position, e.undone, "
    "e.last_undo, e.last_undo_at"
)
"""Of the read model, by the fields of `Effect`; its table goes by ``e``."""
_OF_PROPOSALS = (
    "e.proposal_id in (select proposal_id from review_queue q "
    "where q.tenant = %(tenant)s and q.status = 'applied' and "
)
_CONDITIONS = {
    "effect": "(e.effect_id = %(effect)s or e.proposal_id = (select o.proposal_id from effects o "
    "where o.tenant = %(tenant)s and o.effect_id = %(effect)s))",
    "proposal_id": "e.proposal_id = %(proposal_id)s",
    "undo": "e.last_undo in (%(undo)s, %(this)s)",
    "pass_id": _OF_PROPOSALS + "q.source = %(pass_id)s)",
    "judge": "(e.acted = 'closer' and (e.judge = %(judge)s or e.model = %(judge)s) or "
    + _OF_PROPOSALS
    + "(q.judge = %(judge)s or q.model = %(judge)s)))",
    "policy": "e.policy = %(policy)s",
    "reviewer": "e.acted = 'proposal' and e.actor_ref = %(reviewer)s",
    "session": "e.session = %(session)s",
}


class Selection(NamedTuple):
    """What an undo is about, with names as opaque ids, as its first event keeps it."""

    said: UndoRequested
    this: UUID | None = None
    """The undo that is carried on: what it took back already is found, too."""

    def where(self) -> tuple[str, dict[str, Any]]:
        """SQL that finds its effects, and its values; those that are as the undo would make them fall out."""
        [given] = [name for name in _CONDITIONS if getattr(self.said, name) is not None]
        parts = ["e.tenant = %(tenant)s", "e.position <= %(upto)s", _CONDITIONS[given]]
        if given not in ("effect", "undo"):
            parts.append("(not e.undone or e.last_undo = %(this)s)")
        if self.said.since is not None:
            parts.append("e.recorded_at >= %(since)s")
        return " and ".join(parts), self.said.model_dump() | {"this": self.this}


async def select_decisions(
    engine: Engine, tenant: UUID, selection: Selection, *, limit: int, below: int | None = None
) -> tuple[list[list[Effect]], int]:
    """Effects by the decision that made them, newest decision first, and how many effects there are in all.

    ``below`` goes on behind an earlier page: with decisions whose newest effect stands below this position.
    """
    where, values = selection.where()
    values |= {"tenant": tenant, "limit": limit, "below": below}
    async with tenant_read_models(engine.doors, tenant) as connection:
        cursor = await connection.execute(f"select count(*) from effects e where {where}", values)
        [total] = await cursor.fetchone() or (0,)
        having = "" if below is None else "having max(e.position) < %(below)s"
        cursor = await connection.execute(
            f"select {EFFECT_COLUMNS} from effects e join ("
            "select e.correlation, max(e.position) as newest from effects e "
            f"where {where} group by 1 {having} order by 2 desc limit %(limit)s) d using (correlation) "
            f"where {where} order by d.newest desc, e.position desc",
            values,
        )
        rows = [Effect(*row) for row in await cursor.fetchall()]
    return _by_decision(rows), total


async def select_effects(engine: Engine, tenant: UUID, ids: Sequence[UUID]) -> list[Effect]:
    """Effects by their ids, the newest first."""
    async with tenant_read_models(engine.doors, tenant) as connection:
        cursor = await connection.execute(
            f"select {EFFECT_COLUMNS} from effects e where e.tenant = %s and e.effect_id = any(%s) "
            "order by e.position desc",
            (tenant, list(ids)),
        )
        return [Effect(*row) for row in await cursor.fetchall()]


def _by_decision(rows: Sequence[Effect]) -> list[list[Effect]]:
    decisions: dict[UUID, list[Effect]] = {}
    for row in rows:
        decisions.setdefault(row.correlation, []).append(row)
    return list(decisions.values())


def requested(said: UndoSelector, reviewer: UUID | None, upto: int) -> UndoRequested:
    """A selector with its name as an opaque id; effects behind ``upto`` are none of its business."""
    return UndoRequested(
        effect=said.effect,
        proposal_id=said.proposal_id,
        undo=said.undo_id,
        pass_id=said.pass_id,
        judge=said.judge,
        policy=said.policy,
        reviewer=reviewer,
        session=said.session,
        since=said.since,
        upto=upto,
    )
