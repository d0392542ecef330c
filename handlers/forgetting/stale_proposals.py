"""Open proposals whose memories moved on are taken back by the next pass (settlement 6; F31)."""

from uuid import UUID

from ...domain.proposal import Proposal, changed_since, decide_withdraw, evolve_proposal
from ...projections.generations import tenant_read_models
from ...streams.folding import fold_stream
from ...streams.log import NewEvent, Unit
from ...streams.payloads import Envelope
from ..engine import Engine
from ..memories import MemoryCommands
from .open_proposals import release_slot
from .pass_log import WORKER


async def withdraw_stale(engine: Engine, tenant: UUID, pass_id: UUID, cause: UUID) -> int:
    """Withdraw them; returns how many. The review queue must be up to date."""
    memories = MemoryCommands(engine)
    proposals = await _open_proposals(engine, tenant)
    about = {one for proposal in proposals for one in proposal.subjects}
    present = await memories.load_many(tenant, list(about))
    withdrawn = 0
    for proposal in proposals:
        if all(one in present for one in proposal.subjects) and not changed_since(proposal, present):
            continue
        events = decide_withdraw(proposal, "stale", pass_id)
        await engine.log.append(
            Unit(
                tenant=tenant,
                subject=proposal.id,
                events=[NewEvent(proposal.id, proposal.version + n, event) for n, event in enumerate(events, 1)],
                envelope=Envelope(WORKER, cause=cause, correlation=pass_id),
                claims=release_slot(proposal),
            )
        )
        withdrawn += 1
    return withdrawn


async def _open_proposals(engine: Engine, tenant: UUID) -> list[Proposal]:
    async with tenant_read_models(engine.doors, tenant) as connection:
        cursor = await connection.execute(
            "select proposal_id from review_queue where tenant = %s and status = 'proposed'",
            (tenant,),
        )
        ids = [row[0] for row in await cursor.fetchall()]
    streams = await engine.log.read_streams(tenant, ids)
    loaded = [fold_stream(recorded, evolve_proposal) for recorded in streams.values()]
    return [one for one in loaded if one is not None and one.status == "proposed"]
