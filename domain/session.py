"""The session aggregate: a lease that only moves forward, and an end (behaviour.md 1.15).

An epoch is a fence, not a proof of life: whoever acts for a session acts for the epoch it saw.
"""

from dataclasses import dataclass, replace
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
            return replace(_seen(state, recorded_at), epoch=event.epoch, closed_at=None)
        case e.SessionSeen():
            return _seen(state, recorded_at)
        case e.SessionClosed():
            return replace(_seen(state, recorded_at), closed_at=recorded_at)
        case _:
            return state


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
