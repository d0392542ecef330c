"""The undo aggregate: which effects are taken back, and how far that got."""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from . import events as e


@dataclass(frozen=True, slots=True)
class Undo:
    """State of one undo."""

    id: UUID
    version: int
    requested: e.UndoRequested
    requested_at: datetime
    undone: tuple[UUID, ...] = ()
    """Event ids of effects."""
    refused: tuple[e.RefusedUndo, ...] = ()
    complete: bool = False


def evolve_undo(state: Undo | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime) -> Undo:
    """The state after one more event of its stream."""
    if isinstance(event, e.UndoRequested):
        return Undo(stream, version, event, recorded_at)
    if state is None:
        raise ValueError(f"stream {stream} does not begin with undo.requested")
    state = replace(state, version=version)
    if isinstance(event, e.UndoPerformed):
        return replace(
            state,
            undone=(*state.undone, *event.undone),
            refused=(*state.refused, *event.refused),
            complete=event.complete,
        )
    return state
