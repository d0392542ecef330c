"""Accepting a fact that an extractor read: it comes to be, and nothing else changes (behaviour.md 1.14.3)."""

from uuid import UUID, uuid5

from ...domain.events import FactStaged
from ...domain.fact import decide_accepted
from ...domain.fields import normalised
from ...domain.proposal import Proposal, refuse_if_stale
from ...streams.sealing import keyed_digest
from ...streams.vault import Vault
from ..engine import Engine
from ..memories import MemoryCommands
from .changes import Changes, Decision, StreamChange
from .loading import load_subjects


def fact_of(proposal: UUID) -> UUID:
    """The id of the fact that accepting a proposal makes."""
    return uuid5(proposal, "fact")


async def claim_of(vault: Vault, tenant: UUID, subject: str, predicate: str, value: str) -> str:
    """What is claimed, as a keyed digest in hex: the same claim about a memory is open once."""
    key = await vault.purpose_key(tenant, "claims")
    said = (normalised(subject).encode(), normalised(predicate).encode(), value.encode())
    return keyed_digest(key, b"fact", *said).hex()


class AssertFact:
    """Its memory must still be live, at the state that was read; else the proposal stays open."""

    def __init__(self, engine: Engine, memories: MemoryCommands) -> None:
        self._engine = engine
        self._memories = memories

    async def effects(self, proposal: Proposal, decision: Decision) -> Changes:
        said = proposal.said
        assert isinstance(said, FactStaged)
        memories = await load_subjects(self._memories, decision.caller.tenant, proposal)
        fact = decide_accepted(said, memories[proposal.memory_id], proposal.id, self._engine.clock())
        refuse_if_stale(proposal, memories)
        return Changes([StreamChange(fact_of(proposal.id), 0, [fact])])
