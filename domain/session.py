"""The session aggregate: a lease that only moves forward, an end, and what the closer made of it.

behaviour.md 1.15. An epoch is a fence, not a proof of life: whoever acts for a session acts for the epoch it saw.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from . import events as e
from .event import Event
from .session_events import ResumedBy

LEASE = timedelta(minutes=30)
"""How long after it was last seen a session counts as running."""
SEEN_EVERY = timedelta(minutes=1)
"""How often it is recorded at most that a session is there."""
FIRST_WAIT = timedelta(minutes=1)
"""How long the closer waits after a failure; twice as long after each further one."""
LONGEST_WAIT = timedelta(hours=4)
LOOKED_AT_WITHIN = timedelta(days=7)
"""A session that ended longer ago is left alone, so that turning the closer on asks about no past."""


@dataclass(frozen=True, slots=True)
class Session:
    """State of one run."""

    id: UUID
    version: int
    session: UUID
    user: UUID | None
    agent: UUID | None
    project: UUID | None
    scope: str | None
    opened_at: datetime
    last_seen_at: datetime
    epoch: int = 1
    closed_at: datetime | None = None
    unlooked: bool = True
    """Whether the closer has not looked at it since it was last taken up."""
    looked_upto: int = 0
    """Position of the log up to which writes were looked at."""
    looked_at: datetime | None = None
    judged: frozenset[UUID] = field(default_factory=frozenset[UUID])
    """Commitments that were judged since it was last taken up."""
    resolved: frozenset[UUID] = field(default_factory=frozenset[UUID])
    """Commitments that the closer ever resolved after it."""
    proposed: frozenset[UUID] = field(default_factory=frozenset[UUID])
    """Those that it proposed to resolve."""
    failures: int = 0
    next_attempt_at: datetime | None = None

    @property
    def settled(self) -> frozenset[UUID]:
        """Commitments that are not asked about now: judged since, or acted on once, for good (S3)."""
        return self.judged | self.resolved | self.proposed

    def running(self, now: datetime) -> bool:
        """Whether it is neither closed nor past its lease (past it from the very instant on)."""
        return self.closed_at is None and now < self.last_seen_at + LEASE


def evolve_session(
    state: Session | None, event: Event, *, stream: UUID, version: int, recorded_at: datetime
) -> Session:
    """The state after one more event of its stream."""
    if isinstance(event, e.SessionOpened):
        return Session(
            id=stream,
            version=version,
            session=event.session,
            user=event.user,
            agent=event.agent,
            project=event.project,
            scope=event.scope,
            opened_at=recorded_at,
            last_seen_at=recorded_at,
        )
    if state is None:
        raise ValueError(f"stream {stream} does not begin with session.opened")
    state = replace(state, version=version)
    match event:
        case e.SessionResumed():
            return replace(
                _seen(state, recorded_at), epoch=event.epoch, closed_at=None, unlooked=True, judged=frozenset()
            )
        case e.SessionSeen():
            return _seen(state, recorded_at)
        case e.SessionClosed():
            return replace(_seen(state, recorded_at), closed_at=recorded_at)
        case e.SessionCloserJudged() | e.SessionCloserFinished() | e.SessionCloserFailed():
            return _looked(state, event, recorded_at)
        case _:
            return state


def _looked(
    state: Session,
    event: e.SessionCloserJudged | e.SessionCloserFinished | e.SessionCloserFailed,
    recorded_at: datetime,
) -> Session:
    match event:
        case e.SessionCloserJudged():
            return replace(
                state,
                judged=state.judged | {event.commitment},
                resolved=state.resolved | ({event.commitment} if event.followed == "resolved" else set()),
                proposed=state.proposed | ({event.commitment} if event.followed == "proposed" else set()),
            )
        case e.SessionCloserFinished():
            return replace(
                state,
                unlooked=False,
                looked_upto=event.upto,
                looked_at=recorded_at,
                failures=0,
                next_attempt_at=None,
            )
        case e.SessionCloserFailed():
            return replace(state, failures=event.failures, next_attempt_at=event.next_attempt_at)


def _seen(state: Session, at: datetime) -> Session:
    return replace(state, last_seen_at=max(state.last_seen_at, at))


def decide_resume(state: Session, by: ResumedBy) -> list[Event]:
    """Take it up: again after its end, or from another process."""
    return [e.SessionResumed(epoch=state.epoch + 1, by=by)]


def decide_seen(state: Session, now: datetime, by: Literal["heartbeat", "write"]) -> list[Event]:
    """Say that it is there. A lease that ran out begins anew; an explicit end stays (1.15)."""
    if state.closed_at is not None:
        return []
    if not state.running(now):
        return decide_resume(state, by)
    return [e.SessionSeen()] if now - state.last_seen_at >= SEEN_EVERY else []


def decide_session_end(state: Session) -> list[Event]:
    """End it; a second time changes nothing."""
    return [] if state.closed_at is not None else [e.SessionClosed()]


def may_be_looked_at(state: Session, now: datetime) -> bool:
    """Whether the closer is to look at it now: it ended not too long ago, and is not put off."""
    if not state.unlooked or state.running(now) or now - state.last_seen_at > LOOKED_AT_WITHIN:
        return False
    return state.next_attempt_at is None or state.next_attempt_at <= now


def decide_looked(state: Session, epoch: int, *, upto: int, asked: int, unanswered: int) -> list[Event]:
    """The closer is through with it; nothing where it went on meanwhile."""
    if state.epoch != epoch:
        return []
    return [e.SessionCloserFinished(epoch=epoch, upto=upto, asked=asked, unanswered=unanswered)]


def decide_closer_failed(state: Session, epoch: int, reason: str, now: datetime) -> list[Event]:
    """Put it off, twice as long each time, up to four hours; nothing where it went on meanwhile."""
    if state.epoch != epoch:
        return []
    failures = state.failures + 1
    wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(failures - 1, 10))
    return [e.SessionCloserFailed(epoch=epoch, failures=failures, next_attempt_at=now + wait, reason=reason)]
