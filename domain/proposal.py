"""The proposal aggregate (retention kind): decided once, by a named actor, against the versions it saw.

behaviour.md 1.14.5, settlements 5, 6, 9, 19; A26, A27; F31, F32.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from . import events as e
from .errors import Conflict, StaleProposal
from .judging import Action
from .memory import Memory
from .memory_rules import decide_archive, decide_supersede

ProposalStatus = Literal["proposed", "applied", "rejected", "dismissed", "withdrawn"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """State of one proposal."""

    id: UUID
    version: int
    status: ProposalStatus
    action: Action
    memory_id: UUID
    related_id: UUID | None
    seen: Mapping[UUID, int]
    pass_id: UUID
    created_at: datetime


def evolve_proposal(
    state: Proposal | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime
) -> Proposal:
    """The state after one more event of its stream."""
    if isinstance(event, e.ProposalStaged | e.ProposalDismissed):
        return Proposal(
            id=stream,
            version=version,
            status="proposed" if isinstance(event, e.ProposalStaged) else "dismissed",
            action=event.action,
            memory_id=event.memory_id,
            related_id=event.related_id,
            seen=event.seen,
            pass_id=event.pass_id,
            created_at=recorded_at,
        )
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


def changed_since(proposal: Proposal, memories: Mapping[UUID, Memory]) -> dict[UUID, tuple[int, int]]:
    """Memories the proposal is about whose state version moved: id -> (seen, current).

    Only the memory and its related one count; neighbours that were merely shown do not.
    """
    subjects = [proposal.memory_id] + ([proposal.related_id] if proposal.related_id else [])
    return {
        memory_id: (proposal.seen[memory_id], memories[memory_id].state_version)
        for memory_id in subjects
        if memories[memory_id].state_version != proposal.seen[memory_id]
    }


def decide_accept(
    proposal: Proposal, memories: Mapping[UUID, Memory], comment: str | None
) -> tuple[list[e.Event], dict[UUID, list[e.Event]]]:
    """Events of the proposal, and the effects per memory, to be appended together.

    Raises `Conflict` when already decided, and `StaleProposal` when a memory moved on since (settlement 6).
    """
    refuse_if_decided(proposal)
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
    effects: dict[UUID, list[e.Event]] = {}
    judged = memories[proposal.memory_id]
    if proposal.action == "archive":
        effects[judged.id] = decide_archive(judged, proposal=proposal.id)
    elif proposal.action == "supersede":
        assert proposal.related_id is not None
        effects[judged.id] = decide_supersede(judged, memories[proposal.related_id], proposal.id)
    accepted = e.ProposalAccepted(
        memory_id=proposal.memory_id,
        comment=comment,
        effects=tuple(memory_id for memory_id, events in effects.items() if events),
    )
    return [accepted], {memory_id: events for memory_id, events in effects.items() if events}


def decide_reject(proposal: Proposal, comment: str | None) -> list[e.Event]:
    """Nothing changes but the proposal; final for that memory until its freshness moves (settlement 9)."""
    refuse_if_decided(proposal)
    return [e.ProposalRejected(memory_id=proposal.memory_id, comment=comment)]


def decide_withdraw(
    proposal: Proposal, reason: Literal["sibling_applied", "stale", "erased"], because: UUID
) -> list[e.Event]:
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
