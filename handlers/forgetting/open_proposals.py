"""One open proposal per memory and action, kept by a claim of the log (behaviour.md 1.4; F32)."""

from uuid import UUID

from ...domain.proposal import Proposal
from ...streams.log import Claim

KIND = "open-proposal"


def open_digest(memory_id: UUID, action: str) -> bytes:
    """What the claim is about; ids and a word, so no key is needed."""
    return memory_id.bytes + action.encode()


def open_claim(proposal: Proposal, *, release: bool) -> Claim:
    """Take the slot for a proposal that is staged, or release it when it is decided."""
    digest = open_digest(proposal.memory_id, proposal.action)
    return Claim(KIND, digest, proposal.id if release else None, None if release else proposal.id)
