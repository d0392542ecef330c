"""Answers about undoing."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from ..operating.views import View


class UndoItem(View):
    """One effect, and what becomes of it."""

    effect: UUID
    """Event id."""
    event: str
    stream: UUID
    """The memory, fact or commitment that it changed."""
    proposal_id: UUID | None = None
    acted: Literal["proposal", "expiry", "closer"]
    recorded_at: datetime
    again: bool = False
    """An undo is taken back, so the effect holds again."""
    reason: str | None = None
    """Why it stays as it is, as a short code; None where it is taken back."""
    says: str | None = None
    """The same in words."""
    later_undo: UUID | None = None
    """The undo that turned it again since."""


class UndoPreview(View):
    """What an undo would take back. Nothing is changed yet."""

    effects: int
    """How many are found in all."""
    items: tuple[UndoItem, ...]
    """A page of them, newest first; what one decision did stands together."""
    possible: int
    """How many of this page would be taken back."""
    next_cursor: str | None = None


class UndoView(View):
    """One undo as it stands."""

    id: UUID
    requested_at: datetime
    requested_by: str
    complete: bool
    undone: int
    refused: int
    items: tuple[UndoItem, ...] = ()
    """What became of each effect, newest first: a hundred of them, those that stay before the others."""
    position: int
