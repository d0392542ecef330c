"""What deciding does, by kind of proposal: one table, so that no kind is forgotten.

A kind whose effects are memories' events alone is a function of `domain.proposal_effects`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ...domain.events import ProposalKind
from ...domain.proposal_effects import dependency_effects, edge_effects
from ..contradictions.settling import OnVerdicts, Settling
from ..engine import Engine
from ..memories import MemoryCommands
from .changes import Acceptance, Rejection
from .effects import OnMemories
from .facts import AssertFact
from .resolutions import ResolveCommitment


def acceptances(engine: Engine, memories: MemoryCommands) -> Mapping[ProposalKind, Acceptance]:
    """The kinds that can be accepted."""
    table: dict[ProposalKind, Acceptance] = {
        "retention": OnVerdicts(engine, memories),
        "consolidation": OnMemories(engine, memories, edge_effects),
        "contradiction": Settling(engine, memories),
        "dependency": OnMemories(engine, memories, dependency_effects),
        "fact": AssertFact(engine, memories),
        "resolution": ResolveCommitment(engine, memories),
    }
    return MappingProxyType(table)


def rejections(engine: Engine, memories: MemoryCommands) -> Mapping[ProposalKind, Rejection]:
    """The kinds of which rejecting changes something beside the proposal."""
    table: dict[ProposalKind, Rejection] = {"contradiction": Settling(engine, memories)}
    return MappingProxyType(table)
