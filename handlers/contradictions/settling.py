"""What accepting and rejecting the review of a contradiction does (behaviour.md 4.4; D12)."""

from uuid import UUID

from ...domain import events as e
from ...domain.contradiction import decide_dismiss, decide_resolve, refuse_if_resolved
from ...domain.errors import Conflict
from ...domain.memory import Memory
from ...domain.proposal import Proposal, refuse_if_stale
from ...domain.proposal_effects import retention_effects
from ..engine import Engine
from ..memories import MemoryCommands
from ..reviewing.changes import Changes, Decision, StreamChange
from ..reviewing.effects import OnMemories, accepted_changes
from ..reviewing.loading import load_subjects
from .flagging import flag, load_contradiction


class Settling:
    """Accepting decides a contradiction: one memory holds, or both stay."""

    def __init__(self, engine: Engine, memories: MemoryCommands) -> None:
        self._engine = engine
        self._memories = memories

    async def effects(self, proposal: Proposal, decision: Decision) -> Changes:
        """The decision on record, and in the same unit the end of the memory that does not hold."""
        tenant = decision.caller.tenant
        memories = await load_subjects(self._memories, tenant, proposal)
        state = await load_contradiction(self._engine.log, tenant, _contradiction(proposal))
        refuse_if_resolved(state)
        refuse_if_stale(proposal, memories)
        decided, ended = decide_resolve(state, memories, decision.holds, proposal.id)
        changes = await accepted_changes(self._engine, tenant, memories, ended, proposal.id)
        changes.streams.append(StreamChange(state.id, state.version, [decided]))
        return changes

    async def dismissed(self, tenant: UUID, proposal: Proposal) -> list[StreamChange]:
        """Rejecting says that the two do not contradict each other."""
        state = await load_contradiction(self._engine.log, tenant, _contradiction(proposal))
        return [StreamChange(state.id, state.version, decide_dismiss(state, proposal.id))]


class OnVerdicts(OnMemories):
    """Accepting what a judge said; that two memories are in conflict changes neither, and flags the pair (A27)."""

    def __init__(self, engine: Engine, memories: MemoryCommands) -> None:
        super().__init__(engine, memories, retention_effects)

    async def effects(self, proposal: Proposal, decision: Decision) -> Changes:
        changes = await super().effects(proposal, decision)
        if proposal.action != "conflict":
            return changes
        tenant = decision.caller.tenant
        memories = await load_subjects(self._memories, tenant, proposal)
        one, other = (memories[memory_id] for memory_id in proposal.subjects)
        _refuse_unless_two(one, other, proposal)
        flagged = await flag(self._engine, tenant, one, other, found_by="verdict", source=proposal.id)
        changes.streams += [StreamChange(new.stream, new.version - 1, [new.event]) for new in flagged.events]
        changes.claims += flagged.claims
        return changes


def _refuse_unless_two(one: Memory, other: Memory, proposal: Proposal) -> None:
    if one.id == other.id:
        raise Conflict("a memory cannot contradict itself; reject the proposal", proposal_id=proposal.id)


def _contradiction(proposal: Proposal) -> UUID:
    assert isinstance(proposal.said, e.ContradictionStaged)
    return proposal.said.contradiction
