"""Accepting that changes memories, and what rides on them."""

from collections.abc import Callable, Mapping
from uuid import UUID

from ...domain.events import MemorySuperseded
from ...domain.memory import Memory
from ...domain.proposal import Proposal, refuse_if_stale
from ...domain.proposal_effects import Effects
from ..claims import TextClaims
from ..commitments.riding import Commitments
from ..engine import Engine
from ..memories import MemoryCommands, apply_events
from .changes import Changes, Decision, StreamChange
from .loading import load_subjects

EffectsOf = Callable[[Proposal, Mapping[UUID, Memory]], Effects]


class OnMemories:
    """Accepting changes memories."""

    def __init__(self, engine: Engine, memories: MemoryCommands, effects_of: EffectsOf) -> None:
        self._engine = engine
        self._memories = memories
        self._effects_of = effects_of

    async def effects(self, proposal: Proposal, decision: Decision) -> Changes:
        tenant = decision.caller.tenant
        memories = await load_subjects(self._memories, tenant, proposal)
        refuse_if_stale(proposal, memories)
        effects = self._effects_of(proposal, memories)
        return await accepted_changes(self._engine, tenant, memories, effects, proposal.id)


async def changes_of_memories(
    engine: Engine, tenant: UUID, memories: Mapping[UUID, Memory], effects: Effects
) -> Changes:
    """Events of memories with the claims on their texts."""
    texts = await TextClaims.of(engine.log, engine.vault, tenant)
    changes = Changes(changed=tuple(effects))
    for memory_id, events in effects.items():
        before = memories[memory_id]
        changes.streams.append(StreamChange(memory_id, before.version, events))
        changes.claims += await texts.of_change(before, apply_events(before, events))
    return changes


async def accepted_changes(
    engine: Engine, tenant: UUID, memories: Mapping[UUID, Memory], effects: Effects, proposal: UUID
) -> Changes:
    """The same for an accepted proposal: with a memory that is superseded goes the commitment that rides on it
    (behaviour.md 1.14.2)."""
    changes = await changes_of_memories(engine, tenant, memories, effects)
    commitments = Commitments(engine.log, engine.directory)
    for memory_id, events in effects.items():
        for event in events:
            if isinstance(event, MemorySuperseded):
                older, newer = memories[memory_id], memories[event.successor]
                riding = await commitments.of_succession(tenant, older, newer, proposal)
                changes.streams += [
                    StreamChange(one.stream, one.version - 1, [one.event]) for one in riding.events
                ]
                changes.claims += riding.claims
    return changes
