"""Open proposals whose memories moved on are taken back by the next pass (settlement 6; F31)."""

from collections.abc import Sequence
from uuid import UUID

from ...domain.commitment import moves
from ...domain.events import ProposalKind, ResolutionStaged
from ...domain.proposal import Proposal, changed_since, decide_withdraw, evolve_proposal
from ...projections.generations import tenant_read_models
from ...streams.folding import fold_stream
from ...streams.log import Log, NewEvent, Unit
from ...streams.payloads import Envelope, RecordedEvent
from ..engine import Engine
from ..memories import MemoryCommands
from .open_proposals import release_slot
from .pass_log import WORKER


async def withdraw_stale(
    engine: Engine, tenant: UUID, pass_id: UUID, cause: UUID, kind: ProposalKind | None = None
) -> int:
    """Withdraw them, of one kind or of all; returns how many. The review queue must be up to date."""
    memories = MemoryCommands(engine)
    proposals = await _open_proposals(engine, tenant, kind)
    moved = await _of_moved_commitments(engine.log, tenant, proposals)
    about = {one for proposal in proposals for one in proposal.subjects}
    present = await memories.load_many(tenant, list(about))
    withdrawn = 0
    for proposal in proposals:
        there = all(one in present for one in proposal.subjects)
        if there and proposal.id not in moved and not changed_since(proposal, present):
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


async def _of_moved_commitments(log: Log, tenant: UUID, proposals: Sequence[Proposal]) -> set[UUID]:
    """Those that would resolve a commitment which moved on."""
    resolving = {one.id: one.said for one in proposals if isinstance(one.said, ResolutionStaged)}
    if not resolving:
        return set()
    streams = await log.read_streams(tenant, {said.commitment for said in resolving.values()})
    return {one for one, said in resolving.items() if moved_on(said, streams.get(said.commitment, ()))}


def moved_on(said: ResolutionStaged, commitment: Sequence[RecordedEvent]) -> bool:
    """Whether the commitment's status or memory is, or was, another since that was proposed."""
    seen = said.seen.get(said.commitment, 0)
    return any(one.version > seen and one.event is not None and moves(one.event) for one in commitment)


async def _open_proposals(engine: Engine, tenant: UUID, kind: ProposalKind | None) -> list[Proposal]:
    async with tenant_read_models(engine.doors, tenant) as connection:
        cursor = await connection.execute(
            "select proposal_id from review_queue where tenant = %(tenant)s and status = 'proposed' "
            "and (%(kind)s::text is null or kind = %(kind)s)",
            {"tenant": tenant, "kind": kind},
        )
        ids = [row[0] for row in await cursor.fetchall()]
    streams = await engine.log.read_streams(tenant, ids)
    loaded = [fold_stream(recorded, evolve_proposal) for recorded in streams.values()]
    return [one for one in loaded if one is not None and one.status == "proposed"]
