"""What happens to a session: one run of an agent, with a lease (behaviour.md 1.4, 1.15).

Every write names the session run that it was made in, in its envelope. What the closer does afterwards is no write
of the session, and stands here with the run it looked at.
"""

from datetime import datetime
from typing import ClassVar, Literal
from uuid import UUID

from .event import Event
from .fields import Scope

ResumedBy = Literal["open", "resume", "heartbeat", "write"]
Followed = Literal["resolved", "proposed", "proposed_before", "nothing"]
"""What came of an answer about a commitment. ``proposed_before``: another proposal to resolve it waits already."""


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


class SessionCloserJudged(Event):
    """After the session a judge was asked whether a commitment is done, given what was written."""

    NAME = "session.closer_judged"
    SEALED_FOR: ClassVar[dict[str, str]] = {"quote": "evidence_memory", "state_digest": "memory_id"}

    epoch: int
    """How often the session had been taken up when it was asked."""
    commitment: UUID
    memory_id: UUID
    """The memory it rides on."""
    probability: float
    """That it is done."""
    probabilities: dict[str, float]
    followed: Followed
    policy: str
    """From where on it acts unreviewed, in words."""
    proposal_id: UUID | None = None
    """The proposal that it made; no effect of one, which would be a ``proposal``."""
    judge: str
    """Identity of the judge."""
    model: str
    seen: dict[UUID, int]
    """State version of every memory that was shown, by id."""
    evidence_memory: UUID | None = None
    quote: str | None = None
    """The sentence the answer rests on; sealed under the memory it was read in."""
    call_id: UUID
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    request_id: str | None = None
    reply_digest: str | None = None
    state_digest: str | None = None
    """SHA-256 of the rendered state; of text, hence sealed."""
    raw_probabilities: dict[str, float] | None = None


class SessionCloserFinished(Event):
    """What was written is looked at; nothing more is asked until the session goes on."""

    NAME = "session.closer_finished"

    epoch: int
    upto: int
    """Position of the log up to which writes were looked at."""
    asked: int
    """About how many commitments the judge was asked."""
    unanswered: int = 0
    """Without a usable answer."""


class SessionCloserFailed(Event):
    """Looking did not come to its end; it is tried again later."""

    NAME = "session.closer_failed"

    epoch: int
    failures: int
    """In a row."""
    next_attempt_at: datetime
    reason: str
    """A short code."""
