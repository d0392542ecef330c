"""Accepting that a commitment is done, as the session closer proposed: the ordinary checks of `resolve`, on the
reviewer's name (behaviour.md 1.14.4)."""

from ...domain.commitment import decide_transition, evolve_commitment
from ...domain.errors import Conflict, StaleProposal
from ...domain.events import ResolutionStaged
from ...domain.proposal import Proposal, refuse_if_stale
from ...streams.folding import fold_stream
from ...streams.log import Claim
from ..commitments.riding import CLAIM
from ..engine import Engine
from ..forgetting.stale_proposals import moved_on
from ..memories import MemoryCommands
from .changes import Changes, Decision, StreamChange
from .loading import load_subjects


class ResolveCommitment:
    """The commitment must stand as it was when the judge was asked; else the proposal stays open."""

    def __init__(self, engine: Engine, memories: MemoryCommands) -> None:
        self._engine = engine
        self._memories = memories

    async def effects(self, proposal: Proposal, decision: Decision) -> Changes:
        said, tenant = proposal.said, decision.caller.tenant
        assert isinstance(said, ResolutionStaged)
        refuse_if_stale(proposal, await load_subjects(self._memories, tenant, proposal))
        recorded = await self._engine.log.read_stream(tenant, said.commitment)
        state = fold_stream(recorded, evolve_commitment)
        if state is None:
            raise Conflict("its commitment is not here; reject the proposal", proposal_id=proposal.id)
        if moved_on(said, recorded):
            raise StaleProposal(
                f"the commitment is {state.status} by now, at version {state.version}, and the proposal saw "
                f"{said.seen.get(said.commitment, 0)}; reject the proposal, or resolve the commitment by hand",
                proposal_id=proposal.id,
                memory_id=state.memory_id,
                seen_version=said.seen.get(said.commitment, 0),
                current_version=state.version,
            )
        events = decide_transition(
            state,
            "resolved",
            "proposal",
            proposal=proposal.id,
            session=said.session,
            probability=said.judged_at,
            model=said.model,
        )
        rides = Claim(CLAIM, said.memory_id.bytes, state.id, state.id)
        return Changes([StreamChange(state.id, state.version, events)], [rides])
