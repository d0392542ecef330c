"""Taking back what an accepted proposal did to a memory, and taking that back (design.md 7.6)."""

from uuid import UUID

from . import events as e
from .errors import Conflict
from .memory import Memory
from .memory_rules import refuse_if_erased, refuse_unless_live


def decide_undo(
    state: Memory,
    effect: e.Event,
    *,
    version: int,
    effect_id: UUID,
    undo: UUID,
    again: bool,
    other: Memory | None = None,
) -> e.MemoryEffectUndone:
    """Take an effect back, or with ``again`` let it hold once more.

    ``version`` is the effect's of its stream, ``other`` the memory that an edge leads to or that superseded this
    one. Raises `Conflict` where later history stands on it: undoing it would not give back what was read before.
    """
    refuse_if_erased(state)
    if isinstance(effect, e.MemoryArchived):
        rests = (state.archived, state.archiving, state.archiving_undone)
        expected = (False, version, effect_id) if again else (True, version, None)
        _refuse_if(rests != expected, state, "its archiving was changed since")
        _refuse_unless_it_would_be_live(state._replace(archived=False))
        return e.MemoryEffectUndone(effect=effect_id, undo=undo, again=again, undone="memory.archived")
    if isinstance(effect, e.MemorySuperseded):
        _refuse_if(state.successor != (None if again else effect.successor), state, "it was revised since")
        _refuse_unless_it_would_be_live(state._replace(successor=None))
        if again and other is not None:
            refuse_unless_live(other, "what supersedes another again")
        return e.MemoryEffectUndone(
            effect=effect_id,
            undo=undo,
            again=again,
            undone="memory.superseded",
            successor=effect.successor,
            edge=effect.edge,
            held_until=effect.held_until,
        )
    if isinstance(effect, e.MemoryEdgeAdded):
        _refuse_if(((effect.to, effect.edge) in state.links) == again, state, "the edge was changed since")
        if again and other is not None:
            refuse_if_erased(other)
        return e.MemoryEffectUndone(
            effect=effect_id,
            undo=undo,
            again=again,
            undone="memory.edge_added",
            linked=effect.to,
            edge=effect.edge,
        )
    raise Conflict(f"{effect.NAME} is nothing that can be undone", memory_id=state.id)


def _refuse_if(otherwise: bool, state: Memory, what: str) -> None:
    if otherwise:
        raise Conflict(f"{what}; nothing was undone", memory_id=state.id, current_version=state.state_version)


def _refuse_unless_it_would_be_live(state: Memory) -> None:
    refuse_unless_live(state, "brought back; it ended otherwise since")
