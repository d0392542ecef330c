"""What happens to a commitment: a promise that a memory tells of, with an owner and a due date (behaviour.md 1.4,
1.5, 1.8, 1.9; S3).

Nothing here is personal text: the memory says what was promised.
"""

from datetime import datetime
from typing import Literal
from uuid import UUID

from .event import Event
from .fields import CommitmentStatus
from .undo_events import EffectUndone

TransitionCause = Literal["command", "revise", "expiry", "closer", "proposal"]
"""What moved it: somebody's `resolve`, a revision of its memory into something else, one of the two policies that
act unreviewed (settlement 14), or an accepted proposal."""


class CommitmentOpened(Event):
    """A memory of this kind came to be, and with it what was promised."""

    NAME = "commitment.opened"
    NAMED = {"owner": "actor"}

    memory_id: UUID
    owner: UUID | None = None
    """Who is to keep it."""
    due_at: datetime | None = None
    next_surfacing_at: datetime | None = None
    """When it is to be brought up again."""
    recurrence: str | None = None
    """How often it comes again, as a recurrence rule of RFC 5545; told to whoever reads it, and followed by nobody
    here."""


class CommitmentTransitioned(Event):
    """It stands otherwise now."""

    NAME = "commitment.transitioned"
    SCHEMA = 2

    memory_id: UUID
    """The memory it rides on."""
    status_before: CommitmentStatus
    status: CommitmentStatus
    cause: TransitionCause
    policy: str | None = None
    """The policy that acted unreviewed, in words, such as ``commitment_expiry: due_at < now - 14 d``."""
    proposal: UUID | None = None
    session: UUID | None = None
    """The session run after which the closer looked."""
    probability: float | None = None
    """How sure the closer's judge was."""
    model: str | None = None
    """The model that the closer's judge answered by; its identity stands in the envelope."""


class CommitmentScheduled(Event):
    """Owner, dates or recurrence were set; each stands here as it is from now on."""

    NAME = "commitment.scheduled"
    NAMED = {"owner": "actor"}

    memory_id: UUID
    cause: Literal["command", "surfaced"]
    """``surfaced``: the time to bring it up has passed, and was cleared."""
    owner: UUID | None = None
    due_at: datetime | None = None
    next_surfacing_at: datetime | None = None
    recurrence: str | None = None


class CommitmentCarried(Event):
    """The memory was superseded by another commitment, and this one rides on that now."""

    NAME = "commitment.carried"

    memory_id: UUID
    """The successor."""
    memory_before: UUID
    proposal: UUID | None = None


class CommitmentEffectUndone(EffectUndone):
    """The commitment is again as if the effect had not been, or had."""

    NAME = "commitment.effect_undone"

    undone: Literal["commitment.transitioned", "commitment.carried"]
    """What kind of event the effect is."""
    status: CommitmentStatus
    """As it stands from now on."""
    memory_id: UUID
    """The memory it rides on from now on."""
