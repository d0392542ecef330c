"""Asking for a consolidation pass, by hand or by the hourly schedule, and showing one (behaviour.md 1.13)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from ...domain import events as e
from ...domain.consolidation import (
    ConsolidationState,
    evolve_consolidation,
    hour_of,
    scheduled_consolidation_id,
)
from ...domain.errors import Conflict, KeyReused, NotFound
from ...domain.fields import CommandKey as KeyText
from ...domain.fields import Id, Input, parse
from ...domain.policy import ForgettingPolicy
from ...projections.embedders.floors import consolidation_floor_for
from ...projections.generations import read_models, tenant_read_models
from ...streams.folding import fold_stream
from ...streams.ids import new_id
from ...streams.log import Appended, Claim, ClaimHeld, CommandKey, Log, NewEvent, Repeated, Unit
from ...streams.payloads import Envelope
from ..access.caller import Caller
from ..command_keys import command_key
from ..engine import Engine
from ..forgetting.pass_log import WORKER
from ..kinds import refuse_other_kind
from .views import ConsolidationView

OPEN, LATEST = "open-consolidation", "latest-consolidation"
"""Kinds of claims: the pass of a tenant that is open, and the last one that was completed."""
DIGEST = b"consolidation"
PATIENCE = timedelta(minutes=5)
"""How long a pass is left to the process that took it up, before another one goes on with it."""
Trigger = Literal["schedule", "hand"]


class RequestConsolidation(Input):
    """Ask for a pass now."""

    key: KeyText | None = None


class ConsolidationQuery(Input):
    pass_id: Id


class Consolidations:
    """Requests and shows passes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def request(self, caller: Caller, arguments: Mapping[str, Any] | None = None) -> ConsolidationView:
        """Open a pass; it runs as soon as a worker takes it up. It changes no memory.

        Raises `Conflict` when one is open already, `AccessDenied`, `KeyReused`.
        """
        caller.require("memory:write")
        command = parse(RequestConsolidation, arguments or {})
        tenant = await self._engine.tenants.get(caller.tenant, fresh=True)
        pass_id = new_id()
        key = await command_key(self._engine.vault, caller.tenant, command, command.key)
        envelope = Envelope(caller.actor, cause=pass_id, correlation=pass_id, policy=tenant.policy_version)
        requested = self._requested("hand", tenant.policy)
        outcome = await self._engine.log.append(_opening(tenant.id, pass_id, requested, envelope, key))
        if isinstance(outcome, ClaimHeld):
            raise Conflict(
                f"consolidation pass {outcome.holder} is still open; wait for it", pass_id=outcome.holder
            )
        if not isinstance(outcome, Appended | Repeated):
            raise KeyReused("this command key was used for another command; use a new key for a new command")
        found = outcome.subject if isinstance(outcome, Repeated) else pass_id
        return await self._view(tenant.id, found)

    async def show(self, caller: Caller, arguments: Mapping[str, Any]) -> ConsolidationView:
        """One pass as it stands. Raises `NotFound` or `WrongKind`."""
        caller.require("memory:read")
        return await self._view(caller.tenant, parse(ConsolidationQuery, arguments).pass_id)

    async def staged(self, caller: Caller, pass_id: UUID) -> int:
        """How many proposals of a pass stand in the queue by now."""
        caller.require("memory:read")
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            cursor = await connection.execute(
                "select count(*) from review_queue where tenant = %s and source = %s", (caller.tenant, pass_id)
            )
            [counted] = await cursor.fetchone() or (0,)
        return counted

    async def request_scheduled(self, tenant: UUID, now: datetime) -> UUID | None:
        """The hour's pass, requested at most once; one that stands still, so that it is carried on; None where
        there is nothing to do.

        A tenant whose policy says that memories are brought together elsewhere, or never, has no schedule, and one
        in which nothing changed since the last pass has nothing to be compared.
        """
        [held] = await self._engine.log.holders(tenant, [(OPEN, DIGEST)])
        if held is not None:
            standing = await load_consolidation(self._engine.log, tenant, held)
            return None if await is_at_work(self._engine.log, standing) else held
        state = await self._engine.tenants.get(tenant, fresh=True)
        requested = self._requested("schedule", state.policy)
        if state.policy.consolidation not in (None, "offline") or requested.floor is None:
            return None
        if not await self._changed(tenant, requested):
            return None
        pass_id = scheduled_consolidation_id(tenant, now)
        envelope = Envelope(WORKER, cause=pass_id, correlation=pass_id, policy=state.policy_version)
        key = CommandKey(pass_id.bytes, b"consolidation")
        outcome = await self._engine.log.append(_opening(tenant, pass_id, requested, envelope, key))
        return pass_id if isinstance(outcome, Appended) else None

    async def _changed(self, tenant: UUID, requested: e.ConsolidationRequested) -> bool:
        after = changed_after(await latest(self._engine.log, tenant), requested)
        async with read_models(self._engine.database) as connection:
            cursor = await connection.execute(
                "select exists (select from live_memory where tenant = %s and position > %s)",
                (tenant, -1 if after is None else after),
            )
            return await cursor.fetchone() == (True,)

    def _requested(self, trigger: Trigger, policy: ForgettingPolicy) -> e.ConsolidationRequested:
        model = self._engine.embedder.model
        measured = consolidation_floor_for(model)
        selected = policy.consolidation_floor is None and measured is not None
        floor = measured.floor if selected and measured is not None else policy.consolidation_floor
        return e.ConsolidationRequested(
            trigger=trigger,
            hour=hour_of(self._engine.clock()),
            embedding_model=model,
            floor=floor,
            floor_from="selected" if selected else ("none" if floor is None else "policy"),
            recurring_collapses=measured.recurring_collapses if selected and measured is not None else None,
        )

    async def _view(self, tenant: UUID, pass_id: UUID) -> ConsolidationView:
        return view_of(await load_consolidation(self._engine.log, tenant, pass_id), await self._engine.log.head())


def _opening(
    tenant: UUID, pass_id: UUID, requested: e.ConsolidationRequested, envelope: Envelope, key: CommandKey
) -> Unit:
    return Unit(
        tenant=tenant,
        subject=pass_id,
        events=[NewEvent(pass_id, 1, requested)],
        envelope=envelope,
        claims=[Claim(OPEN, DIGEST, None, pass_id)],
        command=key,
    )


async def load_consolidation(log: Log, tenant: UUID, pass_id: UUID) -> ConsolidationState:
    """The pass's state. Raises `NotFound` or `WrongKind`."""
    recorded = await log.read_stream(tenant, pass_id)
    refuse_other_kind(pass_id, recorded, "consolidation")
    state = fold_stream(recorded, evolve_consolidation)
    if state is None:
        raise NotFound(f"no consolidation pass {pass_id}", pass_id=pass_id)
    return state


async def is_at_work(log: Log, state: ConsolidationState) -> bool:
    """Whether an open pass is new enough for whoever asked for it, or heard of it first, to be at it still."""
    return await log.now() - state.requested_at < PATIENCE


async def latest(log: Log, tenant: UUID) -> ConsolidationState | None:
    """The pass of a tenant that was completed last."""
    [held] = await log.holders(tenant, [(LATEST, DIGEST)])
    return None if held is None else await load_consolidation(log, tenant, held)


def changed_after(earlier: ConsolidationState | None, requested: e.ConsolidationRequested) -> int | None:
    """From which position on a memory must have changed for its pairs to be new; None where an earlier pass did
    not look at all of them, or by other vectors or another floor."""
    if earlier is None or earlier.selected is None or not earlier.selected.whole:
        return None
    before = earlier.requested
    if (before.embedding_model, before.floor) != (requested.embedding_model, requested.floor):
        return None
    return earlier.selected.position


def view_of(state: ConsolidationState, position: int) -> ConsolidationView:
    """A pass as an answer."""
    asked, selected, done = state.requested, state.selected, state.completed
    return ConsolidationView(
        id=state.id,
        phase=state.phase,
        trigger=asked.trigger,
        requested_at=state.requested_at,
        embedding_model=asked.embedding_model,
        floor=asked.floor,
        floor_from=asked.floor_from,
        recurring_collapses=asked.recurring_collapses,
        looked_at=selected.looked_at if selected else 0,
        skipped=selected.skipped if selected else {},
        chosen=len(selected.pairs) if selected else 0,
        staged=done.staged if done else {},
        already_there=done.already_there if done else 0,
        position=position,
    )
