"""What accepting does, by kind of proposal: one table, so that no kind is forgotten.

A kind whose effects are memories' events alone is a function of `domain.proposal_effects`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import get_args
from uuid import UUID

from ...domain.events import MemorySuperseded, ProposalKind
from ...domain.memory import Memory
from ...domain.proposal import Proposal, refuse_if_stale
from ...domain.proposal_effects import Effects, dependency_effects, edge_effects, retention_effects
from ..claims import TextClaims
from ..commitments.riding import Commitments
from ..engine import Engine
from ..memories import MemoryCommands, apply_events
from .changes import Acceptance, Changes, Decision, StreamChange
from .loading import load_subjects

EffectsOf = Callable[[Proposal, Mapping[UUID, Memory]], Effects]


class OnMemories:
    """Accepting changes memories, and with one that is superseded the commitment that rides on it (1.14.2)."""

    def __init__(self, engine: Engine, memories: MemoryCommands, effects_of: EffectsOf) -> None:
        self._engine = engine
        self._memories = memories
        self._effects_of = effects_of
        self._commitments = Commitments(engine.log, engine.directory)

    async def effects(self, proposal: Proposal, decision: Decision) -> Changes:
        tenant = decision.caller.tenant
        memories = await load_subjects(self._memories, tenant, proposal)
        refuse_if_stale(proposal, memories)
        effects = self._effects_of(proposal, memories)
        changes = await changes_of_memories(self._engine, tenant, memories, effects)
        for memory_id, events in effects.items():
            for event in events:
                if isinstance(event, MemorySuperseded):
                    older, newer = memories[memory_id], memories[event.successor]
                    riding = await self._commitments.of_succession(tenant, older, newer, proposal.id)
                    changes.streams += [
                        StreamChange(one.stream, one.version - 1, [one.event]) for one in riding.events
                    ]
                    changes.claims += riding.claims
        return changes


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
