"""The proposal aggregate, of every kind: decided once, by a named actor, against the versions it saw.

What accepting does to memories, facts and commitments is the kind's own matter (`proposal_effects`).
behaviour.md 1.14, settlements 5, 6, 9, 19; F31, F32.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from . import events as e
from .errors import Conflict, StaleProposal
from .memory import Memory

ProposalStatus = Literal["proposed", "applied", "rejected", "dismissed", "withdrawn"]
WithdrawnBecause = Literal["sibling_applied", "stale", "erased"]
Said = e.ProposalStaged | e.ProposalDismissed | e.Staged


@dataclass(frozen=True, slots=True)
class Proposal:
    """State of one proposal."""

    id: UUID
    version: int
    kind: e.ProposalKind
    status: ProposalStatus
    action: str
    """What accepting does, in one word; of a retention proposal, the verdict."""
    memory_id: UUID
    related_id: UUID | None
    seen: Mapping[UUID, int]
    source: UUID
    """The pass, session run, proposal or command that led to it."""
    created_at: datetime
    said: Said
    """What was staged, with the kind's own fields."""

    @property
    def subjects(self) -> tuple[UUID, ...]:
        """The memories that accepting rests on; a newer state of one makes it stale.

        Neighbours that were merely shown do not count, nor does what ended and so led to a dependency review.
        """
        if self.related_id is None or self.kind == "dependency":
            return (self.memory_id,)
        return (self.memory_id, self.related_id)

    @property
    def slot(self) -> bytes | None:
        """What is open only once: the memory, and what is proposed about it (F32). None where that was erased."""
        if not isinstance(self.said, e.Staged):
            return self.memory_id.bytes + self.action.encode()
        rest = self.said.slot()
        return None if rest is None else self.memory_id.bytes + rest


def evolve_proposal(
    state: Proposal | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime
) -> Proposal:
    """The state after one more event of its stream."""
    if isinstance(event, e.ProposalStaged | e.ProposalDismissed | e.Staged):
        return _begun(event, stream, version, recorded_at)
    if state is None:
        raise ValueError(f"stream {stream} does not begin with a staged or dismissed proposal")
    state = replace(state, version=version)
    match event:
        case e.ProposalAccepted():
            return replace(state, status="applied")
        case e.ProposalRejected():
            return replace(state, status="rejected")
        case e.ProposalWithdrawn():
            return replace(state, status="withdrawn")
        case _:
            return state


def _begun(said: Said, stream: UUID, version: int, recorded_at: datetime) -> Proposal:
    of_kind = isinstance(said, e.Staged)
    return Proposal(
        id=stream,
        version=version,
        kind=said.KIND if of_kind else said.kind,
        status="dismissed" if isinstance(said, e.ProposalDismissed) else "proposed",
        action=said.action,
        memory_id=said.memory_id,
        related_id=said.related_id,
        seen=said.seen,
        source=said.source if of_kind else said.pass_id,
        created_at=recorded_at,
        said=said,
    )


def changed_since(proposal: Proposal, memories: Mapping[UUID, Memory]) -> dict[UUID, tuple[int, int]]:
    """Memories the proposal rests on whose state version moved: id -> (seen, current)."""
    return {
        memory_id: (proposal.seen[memory_id], memories[memory_id].state_version)
        for memory_id in proposal.subjects
        if memories[memory_id].state_version != proposal.seen[memory_id]
    }


def refuse_if_stale(proposal: Proposal, memories: Mapping[UUID, Memory]) -> None:
    """Raises `StaleProposal` when a memory moved on since (settlement 6; A17)."""
    moved = changed_since(proposal, memories)
    if moved:
        memory_id, (seen, current) = next(iter(moved.items()))
        raise StaleProposal(
            f"memory {memory_id} is at version {current} and the proposal saw {seen}; "
            "reject the proposal, or let the next pass look again",
            proposal_id=proposal.id,
            memory_id=memory_id,
            seen_version=seen,
            current_version=current,
        )


def decide_accept(proposal: Proposal, comment: str | None, effects: tuple[UUID, ...]) -> list[e.Event]:
    """A reviewer agrees; ``effects`` are the memories that this changes. Raises `Conflict` when decided."""
    refuse_if_decided(proposal)
    return [e.ProposalAccepted(memory_id=proposal.memory_id, comment=comment, effects=effects)]


def decide_reject(proposal: Proposal, comment: str | None) -> list[e.Event]:
    """Nothing changes but the proposal (settlement 9). Raises `Conflict` when decided."""
    refuse_if_decided(proposal)
    return [e.ProposalRejected(memory_id=proposal.memory_id, comment=comment)]


def decide_withdraw(proposal: Proposal, reason: WithdrawnBecause, because: UUID) -> list[e.Event]:
    """Take back an open proposal that no longer makes sense; nothing where it is decided."""
    if proposal.status != "proposed":
        return []
    return [e.ProposalWithdrawn(memory_id=proposal.memory_id, reason=reason, because=because)]


def refuse_if_decided(proposal: Proposal) -> None:
    """A decision is final (behaviour.md 1.5)."""
    if proposal.status != "proposed":
        raise Conflict(
            f"the proposal is already {proposal.status}; a decided proposal cannot be decided again",
            proposal_id=proposal.id,
            status=proposal.status,
        )
