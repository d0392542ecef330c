"""What accepting does, by kind of proposal: one table, so that no kind is forgotten.

A kind whose effects are memories' events alone is a function of `domain.proposal_effects`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import get_args
from uuid import UUID

from ...domain.events import ProposalKind
from ...domain.memory import Memory
from ...domain.proposal import Proposal, refuse_if_stale
from ...domain.proposal_effects import Effects, dependency_effects, edge_effects, retention_effects
from ..claims import TextClaims
from ..engine import Engine
from ..memories import MemoryCommands, apply_events
from .changes import Acceptance, Changes, Decision, StreamChange
from .loading import load_subjects

EffectsOf = Callable[[Proposal, Mapping[UUID, Memory]], Effects]


class OnMemories:
    """Accepting changes memories, and nothing else."""

    def __init__(self, engine: Engine, memories: MemoryCommands, effects_of: EffectsOf) -> None:
        self._engine = engine
        self._memories = memories
        self._effects_of = effects_of

    async def effects(self, proposal: Proposal, decision: Decision) -> Changes:
        tenant = decision.caller.tenant
        memories = await load_subjects(self._memories, tenant, proposal)
        refuse_if_stale(proposal, memories)
        return await changes_of_memories(self._engine, tenant, memories, self._effects_of(proposal, memories))


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


def acceptances(engine: Engine, memories: MemoryCommands) -> Mapping[ProposalKind, Acceptance]:
    """The kinds that can be accepted."""
    table: dict[ProposalKind, Acceptance] = {
        "retention": OnMemories(engine, memories, retention_effects),
        "consolidation": OnMemories(engine, memories, edge_effects),
        "dependency": OnMemories(engine, memories, dependency_effects),
    }
    return MappingProxyType(table)


KINDS: tuple[ProposalKind, ...] = get_args(ProposalKind)
