"""What is proposed about a memory is open once, kept by a claim of the log (behaviour.md 1.4; F32)."""

from uuid import UUID

from ...domain.proposal import Proposal
from ...streams.log import Claim

KIND = "open-proposal"


def take_slot(slot: bytes, proposal: UUID) -> Claim:
    """The claim of a proposal that is staged. A slot begins with the bytes of the memory it is about."""
    return Claim(KIND, slot, None, proposal)


def release_slot(proposal: Proposal) -> list[Claim]:
    """The claim to be given up when an open proposal is decided; none where an erasure took it along."""
    slot = proposal.slot
    return [] if slot is None else [Claim(KIND, slot, proposal.id, None)]
