"""Taking back what a decision or a policy did. An undo stands on record like what it undoes, and can be undone.

An *effect* is an event that came of an accepted proposal, or of one of the policies that act unreviewed
(settlement 14); it goes by its event id.
"""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from .event import Event
from .fields import Edge, LinkEdge


class EffectUndone(Event):
    """Root of what stands on the stream of an effect that was taken back. Not stored itself."""

    effect: UUID
    """Event id of the effect."""
    undo: UUID
    """The undo that it is part of."""
    again: bool = False
    """The effect holds again: this takes an earlier undo back."""


class MemoryEffectUndone(EffectUndone):
    """The memory is again as if the effect had not been, or had."""

    NAME = "memory.effect_undone"

    undone: Literal["memory.archived", "memory.superseded", "memory.edge_added"]
    """What kind of event the effect is."""
    successor: UUID | None = None
    edge: Edge | LinkEdge | None = None
    linked: UUID | None = None
    """Of an edge: the older memory."""
    held_until: datetime | None = None


class UndoRequested(Event):
    """Somebody asked for effects to be taken back, one or all that a selector finds."""

    NAME = "undo.requested"
    NAMED = {"reviewer": "actor"}

    effect: UUID | None = None
    proposal_id: UUID | None = None
    undo: UUID | None = None
    """An earlier undo that is to be undone as a whole."""
    pass_id: UUID | None = None
    judge: str | None = None
    """Identity of a judge, or name of its model."""
    policy: int | None = None
    """Version of the tenant's policy."""
    reviewer: UUID | None = None
    session: UUID | None = None
    since: datetime | None = None
    upto: int
    """Position of the log: later effects are none of its business."""


class RefusedUndo(BaseModel):
    """An effect that was not taken back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    effect: UUID
    reason: str
    """A short code, such as ``later_history``."""


class UndoPerformed(Event):
    """A part of what was asked for is done."""

    NAME = "undo.performed"

    undone: tuple[UUID, ...] = ()
    """Event ids of effects."""
    refused: tuple[RefusedUndo, ...] = ()
    complete: bool
