"""Two memories that cannot both hold: flagged, put before somebody, and settled on the record (S4; D12)."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from .event import Event
from .undo_events import EffectUndone

FoundBy = Literal["verdict", "refused_write"]
Outcome = Literal["one", "both", "none"]
"""One of them holds; both stay as they are; or they do not contradict each other at all."""


class ContradictionFlagged(Event):
    """Both are kept. Who has to decide, and by when, says the tenant's policy of that moment."""

    NAME = "contradiction.flagged"
    NAMED = {"owner": "actor"}

    memory_id: UUID
    related_id: UUID
    found_by: FoundBy
    """An accepted verdict, or a write that was refused because of what it contradicts."""
    source: UUID
    """The proposal or the command that led to it."""
    owner: UUID | None = None
    due_at: datetime | None = None


class ContradictionResolved(Event):
    """Somebody decided. What this replaces keeps its text and its history, and names what holds instead."""

    NAME = "contradiction.resolved"

    memory_id: UUID
    related_id: UUID
    outcome: Outcome
    holds: UUID | None = None
    """The memory that holds, where one of them does."""
    replaces: UUID | None = None
    """The memory that it was preferred to; superseded in the same unit, unless it had ended before."""
    proposal: UUID | None = None


class ContradictionEffectUndone(EffectUndone):
    """It waits for a decision again, or is decided as it was."""

    NAME = "contradiction.effect_undone"

    memory_id: UUID
    related_id: UUID
    outcome: Outcome | None = None
    """Of an undo that was undone: what was decided."""
    holds: UUID | None = None
    replaces: UUID | None = None
