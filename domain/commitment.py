"""The commitment aggregate: a state machine with an owner and a due date, riding on one memory at a time.

behaviour.md 1.5, 1.8, 1.9, 1.14.6; settlement 14; A5 to A7, A20. It goes on its own stream and is found from its
memory by a claim of the log. What becomes of the memory leaves it as it is, but for what supersedes the memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from . import events as e
from .commitment_events import TransitionCause
from .errors import Conflict, InvalidTransition
from .event import Event
from .fields import CommitmentStatus

ALLOWED: Mapping[CommitmentStatus, frozenset[CommitmentStatus]] = {
    "open": frozenset({"waiting", "resolved", "expired"}),
    "waiting": frozenset({"open", "resolved", "expired"}),
    "resolved": frozenset({"open"}),
    "expired": frozenset({"open"}),
}
"""behaviour.md 1.5. The same state again is no transition and succeeds."""
DUE = frozenset[CommitmentStatus]({"open", "waiting"})
"""Statuses in which something is still to be done."""
EXPIRY_GRACE = timedelta(days=14)
"""How long after its due date a commitment stays, unless an operator sets another grace (S3)."""


@dataclass(frozen=True, slots=True)
class Commitment:
    """State of one commitment."""

    id: UUID
    version: int
    memory_id: UUID
    """The memory it rides on now."""
    status: CommitmentStatus
    owner: UUID | None
    due_at: datetime | None
    next_surfacing_at: datetime | None
    recurrence: str | None
    opened_at: datetime
    changed_at: datetime
    """When what led to this state was put on record."""
    resolved_at: datetime | None = None
    expired_due: datetime | None = None
    """The due date for which it expired once: whoever revives it keeps it until there is another due date."""
    moved_at: int = 1
    """Stream version of the event that its status and its memory rest on."""
    undone: UUID | None = None
    """The effect whose undoing they rest on, if they do."""
    undone_at: int = 0
    """Stream version of that effect."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Owner, dates and recurrence; None leaves each as it is."""

    owner: UUID | None = None
    due_at: datetime | None = None
    next_surfacing_at: datetime | None = None
    recurrence: str | None = None


UNSCHEDULED = Schedule()


def evolve_commitment(
    state: Commitment | None, event: Event, *, stream: UUID, version: int, recorded_at: datetime
) -> Commitment:
    """The state after one more event of its stream."""
    if isinstance(event, e.CommitmentOpened):
        return Commitment(
            id=stream,
            version=version,
            memory_id=event.memory_id,
            status="open",
            owner=event.owner,
            due_at=event.due_at,
            next_surfacing_at=event.next_surfacing_at,
            recurrence=event.recurrence,
            opened_at=recorded_at,
            changed_at=recorded_at,
        )
    if state is None:
        raise ValueError(f"stream {stream} does not begin with commitment.opened")
    state = replace(state, version=version, changed_at=recorded_at)
    match event:
        case e.CommitmentTransitioned():
            return replace(_standing(state, event.status, recorded_at), moved_at=version, undone=None)
        case e.CommitmentCarried():
            return replace(state, memory_id=event.memory_id, moved_at=version, undone=None)
        case e.CommitmentScheduled():
            return replace(
                state,
                owner=event.owner,
                due_at=event.due_at,
                next_surfacing_at=event.next_surfacing_at,
                recurrence=event.recurrence,
            )
        case e.CommitmentEffectUndone():
            state = replace(_standing(state, event.status, recorded_at), memory_id=event.memory_id)
            if event.again:
                return replace(state, moved_at=state.undone_at, undone=None)
            return replace(state, undone=event.effect, undone_at=state.moved_at, moved_at=version)
        case _:
            return state


def _standing(state: Commitment, status: CommitmentStatus, at: datetime) -> Commitment:
    if status == state.status:
        return state
    changes: dict[str, Any] = {"status": status, "resolved_at": at if status == "resolved" else None}
    if status == "expired":
        changes["expired_due"] = state.due_at
    return replace(state, **changes)


def decide_open(memory_id: UUID, schedule: Schedule = UNSCHEDULED) -> list[Event]:
    """Open one with the memory that tells of it."""
    return [
        e.CommitmentOpened(
            memory_id=memory_id,
            owner=schedule.owner,
            due_at=schedule.due_at,
            next_surfacing_at=schedule.next_surfacing_at,
            recurrence=schedule.recurrence,
        )
    ]


def decide_transition(
    state: Commitment,
    status: CommitmentStatus,
    cause: TransitionCause,
    *,
    policy: str | None = None,
    proposal: UUID | None = None,
    session: UUID | None = None,
    probability: float | None = None,
    model: str | None = None,
) -> list[Event]:
    """Let it stand otherwise; nothing where it does already. Raises `InvalidTransition` (A6)."""
    if status == state.status:
        return []
    if status not in ALLOWED[state.status]:
        raise InvalidTransition(
            f"a commitment that is {state.status} cannot become {status}, only "
            + " or ".join(sorted(ALLOWED[state.status])),
            commitment_id=state.id,
            memory_id=state.memory_id,
            status=state.status,
        )
    return [
        e.CommitmentTransitioned(
            memory_id=state.memory_id,
            status_before=state.status,
            status=status,
            cause=cause,
            policy=policy,
            proposal=proposal,
            session=session,
            probability=probability,
            model=model,
        )
    ]


def decide_schedule(state: Commitment, schedule: Schedule) -> list[Event]:
    """Set what is given of owner, dates and recurrence; nothing where nothing changes."""
    scheduled = e.CommitmentScheduled(
        memory_id=state.memory_id,
        cause="command",
        owner=schedule.owner or state.owner,
        due_at=schedule.due_at or state.due_at,
        next_surfacing_at=schedule.next_surfacing_at or state.next_surfacing_at,
        recurrence=schedule.recurrence or state.recurrence,
    )
    present = (state.owner, state.due_at, state.next_surfacing_at, state.recurrence)
    after = (scheduled.owner, scheduled.due_at, scheduled.next_surfacing_at, scheduled.recurrence)
    return [] if present == after else [scheduled]


def decide_carry(state: Commitment, successor: UUID, proposal: UUID | None = None) -> list[Event]:
    """Let it ride on another commitment, which supersedes its memory (behaviour.md 1.8 and 1.14.2)."""
    return [e.CommitmentCarried(memory_id=successor, memory_before=state.memory_id, proposal=proposal)]


def decide_close(state: Commitment, proposal: UUID | None = None) -> list[Event]:
    """Its memory is superseded by something that can carry none: then nothing is left to do (A7)."""
    if state.status not in DUE:
        return []
    cause: TransitionCause = "revise" if proposal is None else "proposal"
    return decide_transition(state, "resolved", cause, proposal=proposal)


def decide_expiry(state: Commitment, now: datetime, grace: timedelta) -> list[Event]:
    """Expire what is overdue by more than the grace (strictly, A20).

    Once for a due date: what somebody revived afterwards stays until it has another one.
    """
    due_at = state.due_at
    if state.status not in DUE or due_at is None or due_at == state.expired_due or due_at >= now - grace:
        return []
    return decide_transition(state, "expired", "expiry", policy=expiry_policy(grace))


def expiry_policy(grace: timedelta) -> str:
    """The policy by which commitments expire unreviewed, as it stands on record."""
    return f"commitment_expiry: due_at < now - {grace.days} d"


def decide_surfaced(state: Commitment, now: datetime) -> list[Event]:
    """Clear the time to bring it up once that has passed, where something is still to be done."""
    surfacing = state.next_surfacing_at
    if state.status not in DUE or surfacing is None or surfacing >= now:
        return []
    return [
        e.CommitmentScheduled(
            memory_id=state.memory_id,
            cause="surfaced",
            owner=state.owner,
            due_at=state.due_at,
            recurrence=state.recurrence,
        )
    ]


def moves(event: Event) -> bool:
    """Whether its status or its memory is another after this; owner and dates alone move nothing."""
    return isinstance(event, e.CommitmentTransitioned | e.CommitmentCarried | e.CommitmentEffectUndone)


def is_effect(event: Event) -> bool:
    """Whether it came of an accepted proposal or of a policy that acts unreviewed, so that it can be undone."""
    match event:
        case e.CommitmentTransitioned():
            return event.cause in ("expiry", "closer", "proposal")
        case e.CommitmentCarried():
            return event.proposal is not None
        case _:
            return False


def decide_undo(
    state: Commitment, event: Event, *, version: int, effect: UUID, undo: UUID, again: bool = False
) -> list[Event]:
    """Take an effect back, or with ``again`` let it hold again after it was taken back.

    ``event`` is the effect, at ``version`` of the stream, and ``effect`` its event id. Raises `Conflict` with the
    reason ``later_history`` where the commitment went on since, ``not_undone`` where there is nothing to repeat.
    """
    if not isinstance(event, e.CommitmentTransitioned | e.CommitmentCarried):
        raise ValueError(f"{event.NAME} is no effect of a commitment")
    if again and state.undone != effect:
        raise _refused(state, "the effect was not taken back, or the commitment went on since", "not_undone")
    if not again and state.moved_at != version:
        raise _refused(state, "the commitment went on since, so the effect stays", "later_history")
    status, memory_id = state.status, state.memory_id
    if isinstance(event, e.CommitmentTransitioned):
        status = event.status if again else event.status_before
    else:
        memory_id = event.memory_id if again else event.memory_before
    kind = "commitment.transitioned" if isinstance(event, e.CommitmentTransitioned) else "commitment.carried"
    return [
        e.CommitmentEffectUndone(
            effect=effect, undo=undo, again=again, undone=kind, status=status, memory_id=memory_id
        )
    ]


def _refused(state: Commitment, message: str, reason: str) -> Conflict:
    return Conflict(message, commitment_id=state.id, memory_id=state.memory_id, reason=reason)
