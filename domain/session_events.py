"""What happens to a session: one run of an agent, with a lease (behaviour.md 1.4, 1.15).

Every write names the session run that it was made in, in its envelope.
"""

from typing import Literal
from uuid import UUID

from .event import Event
from .fields import Scope

ResumedBy = Literal["open", "resume", "heartbeat", "write"]


class SessionOpened(Event):
    """A run began. User, agent and session together name it."""

    NAME = "session.opened"
    NAMED = {"user": "user", "agent": "agent", "session": "session", "project": "project"}

    session: UUID
    user: UUID | None = None
    agent: UUID | None = None
    project: UUID | None = None
    scope: Scope | None = None


class SessionResumed(Event):
    """It goes on after it was closed, or after its lease ran out, or another process took it up."""

    NAME = "session.resumed"

    epoch: int
    """How often it was taken up; whatever rests on an earlier one has no say any more."""
    by: ResumedBy


class SessionSeen(Event):
    """It is still there; recorded at most once a minute."""

    NAME = "session.seen"


class SessionClosed(Event):
    """Somebody said that it is over."""

    NAME = "session.closed"
