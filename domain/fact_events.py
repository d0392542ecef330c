"""Facts: what a memory says, as subject, predicate and value, with the window in which it holds.

A fact is only ever added. A later one of the same subject and predicate closes no earlier one; several may hold
(behaviour.md 1.10).
"""

from datetime import datetime
from uuid import UUID

from .event import Event
from .undo_events import EffectUndone


class FactAsserted(Event):
    """A fact came to be: said together with its memory, or accepted by a reviewer."""

    NAME = "fact.asserted"
    SEALED_FOR = {"subject": "memory_id", "predicate": "memory_id", "value": "memory_id"}

    memory_id: UUID
    """The memory it was read in."""
    subject: str | None = None
    predicate: str | None = None
    value: str | None = None
    confidence: float | None = None
    valid_from: datetime
    valid_to: datetime | None = None
    """Half-open: at this instant it holds no longer. None where no end is known."""
    proposal: UUID | None = None
    """The proposal that a reviewer accepted; None for one that was said together with its memory."""


class FactEffectUndone(EffectUndone):
    """The fact is as if it had never been accepted; or, ``again``, as if that had not been undone."""

    NAME = "fact.effect_undone"

    memory_id: UUID
