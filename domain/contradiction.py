"""The contradiction aggregate: one per pair of memories, both kept until somebody decides (behaviour.md 4.4; D12).

Recency alone never decides, and nothing is merged: the outcome is an entry of its own that names what it replaces.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID, uuid5

from . import events as e
from .contradiction_events import FoundBy, Outcome
from .errors import Conflict, InvalidInput
from .memory import Memory
from .memory_rules import decide_supersede, refuse_unless_live
from .policy import ForgettingPolicy

_OF_PAIRS = UUID("6f1c0a52-8a0e-5d52-b0a6-0c6a3a1b7e90")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """State of one contradiction."""

    id: UUID
    version: int
    status: Literal["open", "resolved"]
    memory_id: UUID
    related_id: UUID
    flagged: e.ContradictionFlagged
    flagged_at: datetime
    outcome: Outcome | None = None
    holds: UUID | None = None
    replaces: UUID | None = None


def contradiction_id(one: UUID, other: UUID) -> UUID:
    """The one id of the contradiction between two memories, whichever is named first: a pair is flagged once."""
    return uuid5(_OF_PAIRS, f"{min(one, other)}:{max(one, other)}")


def evolve_contradiction(
    state: Contradiction | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime
) -> Contradiction:
    """The state after one more event of its stream."""
    if isinstance(event, e.ContradictionFlagged):
        return Contradiction(stream, version, "open", event.memory_id, event.related_id, event, recorded_at)
    if state is None:
        raise ValueError(f"stream {stream} does not begin with contradiction.flagged")
    state = replace(state, version=version)
    match event:
        case e.ContradictionResolved():
            return _resolved(state, event)
        case e.ContradictionEffectUndone() if event.again:
            return _resolved(state, event)
        case e.ContradictionEffectUndone():
            return replace(state, status="open", outcome=None, holds=None, replaces=None)
        case _:
            return state


def _resolved(state: Contradiction, event: e.ContradictionResolved | e.ContradictionEffectUndone) -> Contradiction:
    return replace(state, status="resolved", outcome=event.outcome, holds=event.holds, replaces=event.replaces)


def decide_flag(
    one: UUID, other: UUID, found_by: FoundBy, source: UUID, policy: ForgettingPolicy, now: datetime
) -> e.ContradictionFlagged:
    """Put a pair before the owner that the policy names, by the day that it sets."""
    due_at = None if policy.contradiction_days is None else now + timedelta(days=policy.contradiction_days)
    return e.ContradictionFlagged(
        memory_id=one,
        related_id=other,
        found_by=found_by,
        source=source,
        owner=policy.contradiction_owner,
        due_at=due_at,
    )


def decide_resolve(
    state: Contradiction, memories: Mapping[UUID, Memory], holds: UUID | None, proposal: UUID
) -> tuple[e.ContradictionResolved, dict[UUID, list[e.Event]]]:
    """(the decision, events of the memory that no longer holds). Without ``holds`` both stay as they are.

    The one that does not hold is superseded by the one that does: it was true when it was written, as far as
    anybody knows; who says that it never was refutes it. Raises `Conflict` when it is decided already, when what
    holds has ended itself, and for an event, which is never superseded; `InvalidInput` for a memory of neither
    side.
    """
    refuse_if_resolved(state)
    if holds is None:
        return _decided(state, "both", proposal), {}
    if holds not in (state.memory_id, state.related_id):
        raise InvalidInput("holds", "is neither of the two memories that contradict each other")
    other = state.related_id if holds == state.memory_id else state.memory_id
    refuse_unless_live(memories[holds], "what holds of a contradiction")
    decided = _decided(state, "one", proposal, holds=holds, replaces=other)
    if not memories[other].live:
        return decided, {}
    return decided, {other: decide_supersede(memories[other], memories[holds], proposal)}


def decide_dismiss(state: Contradiction, proposal: UUID) -> list[e.Event]:
    """They do not contradict each other; nothing where that was decided otherwise."""
    return [_decided(state, "none", proposal)] if state.status == "open" else []


def decide_undo_resolution(
    state: Contradiction, effect: e.ContradictionResolved, *, effect_id: UUID, undo: UUID, again: bool
) -> e.ContradictionEffectUndone:
    """Let it wait for a decision again, or with ``again`` be decided as it was.

    Raises `Conflict` where it was decided anew since, or the undo was taken back already.
    """
    if (state.status == "open") != again:
        raise Conflict(
            "the contradiction was decided otherwise since; nothing was undone", contradiction_id=state.id
        )
    return e.ContradictionEffectUndone(
        effect=effect_id,
        undo=undo,
        again=again,
        memory_id=state.memory_id,
        related_id=state.related_id,
        outcome=effect.outcome if again else None,
        holds=effect.holds if again else None,
        replaces=effect.replaces if again else None,
    )


def refuse_if_resolved(state: Contradiction) -> None:
    """A decision is final until it is undone."""
    if state.status != "open":
        raise Conflict("the contradiction is decided already", contradiction_id=state.id, outcome=state.outcome)


def _decided(
    state: Contradiction,
    outcome: Outcome,
    proposal: UUID,
    *,
    holds: UUID | None = None,
    replaces: UUID | None = None,
) -> e.ContradictionResolved:
    return e.ContradictionResolved(
        memory_id=state.memory_id,
        related_id=state.related_id,
        outcome=outcome,
        holds=holds,
        replaces=replaces,
        proposal=proposal,
    )
