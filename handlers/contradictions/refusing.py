"""Declining to answer from memories that contradict each other, where the tenant's policy says so.

S4: without somebody who decides in time, the honest answer from a contradicted entry is none, and to hand the case
on. Reads that look for an answer (search, briefing, handoff, facts) tell neither side and name both; what is there
to look at a case and decide it (get, list, history, review) tells both as ever. A read of the past is told as it
was.
"""

from collections.abc import Collection, Sequence
from uuid import UUID

from ...projections.as_of import AsOf
from ...projections.contradictions import Contradictions, OpenPair, open_pairs
from ...projections.generations import tenant_read_models
from ...projections.progress import wait_for
from ..engine import Engine
from ..operating.views import RefusedPair

SHOWN = 25
"""Pairs that an answer names, the oldest; `contradictions` lists them all."""


async def refused_pairs(engine: Engine, tenant: UUID, as_of: AsOf, after: int | None) -> list[OpenPair]:
    """Pairs that are not told now; none where the policy does not say so, or a read is of the past."""
    if as_of.known is not None or (await engine.tenants.get(tenant)).policy.on_contradiction != "refuse":
        return []
    if after:
        await wait_for(engine.doors, Contradictions.name, after)
    async with tenant_read_models(engine.doors, tenant) as connection:
        return await open_pairs(connection, tenant, as_of.now)


def sides_of(pairs: Sequence[OpenPair], among: Collection[UUID] | None = None) -> tuple[UUID, ...]:
    """Both sides of every pair, or of those with a side among these."""
    chosen = [one for one in pairs if among is None or not set(among).isdisjoint(one.sides)]
    return tuple(dict.fromkeys(side for one in chosen for side in one.sides))


async def presented(
    engine: Engine, tenant: UUID, pairs: Sequence[OpenPair], among: Collection[UUID]
) -> tuple[RefusedPair, ...]:
    """Those with a side among these, for an answer."""
    touched = [one for one in pairs if not set(among).isdisjoint(one.sides)][:SHOWN]
    names = await engine.directory.names(tenant, {one.owner for one in touched if one.owner is not None})
    return tuple(
        RefusedPair(
            contradiction=one.contradiction_id,
            memories=one.sides,
            owner=None if one.owner is None else names.get(one.owner),
            due_at=one.due_at,
        )
        for one in touched
    )
