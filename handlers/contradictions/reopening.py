"""Taking the decision of a contradiction back, so that somebody is asked anew, and letting it hold again."""

from collections.abc import Mapping
from uuid import UUID

from ...domain import events as e
from ...domain.contradiction import Contradiction, decide_undo_resolution
from ...domain.errors import Conflict
from ...domain.memory import Memory
from ...domain.proposal import decide_withdraw
from ..engine import Engine
from ..forgetting.open_proposals import KIND, release_slot
from ..memories import MemoryCommands
from ..reviewing.changes import Changes, StreamChange
from ..reviewing.loading import load_open
from .flagging import with_review


async def reopening(
    memories: MemoryCommands,
    tenant: UUID,
    state: Contradiction,
    effect: e.ContradictionResolved,
    *,
    effect_id: UUID,
    undo: UUID,
) -> Changes:
    """It waits for a decision again, with a review of its own.

    Raises `Conflict` where it was decided otherwise since, or one of the two was erased.
    """
    undone = decide_undo_resolution(state, effect, effect_id=effect_id, undo=undo, again=False)
    pair = await memories.load_many(tenant, [state.memory_id, state.related_id])
    if len(pair) < 2 or any(memory.erased for memory in pair.values()):
        raise Conflict("a memory of the contradiction was erased since", contradiction_id=state.id)
    one, other = (_brought_back(pair, memory_id, state) for memory_id in (state.memory_id, state.related_id))
    found = with_review(state.id, state.version, [undone], state.flagged, (one, other), undo)
    streams = [StreamChange(new.stream, new.version - 1, [new.event]) for new in found.events]
    return Changes(streams, found.claims)


async def closing_again(
    engine: Engine,
    tenant: UUID,
    state: Contradiction,
    effect: e.ContradictionResolved,
    *,
    effect_id: UUID,
    undo: UUID,
) -> Changes:
    """It is decided as it was, and its open review is taken back."""
    redone = decide_undo_resolution(state, effect, effect_id=effect_id, undo=undo, again=True)
    changes = Changes([StreamChange(state.id, state.version, [redone])])
    slot = state.memory_id.bytes + state.related_id.bytes + b"settle"
    [holder] = await engine.log.holders(tenant, [(KIND, slot)])
    for review in await load_open(engine.log, tenant, [] if holder is None else [holder]):
        withdrawn = decide_withdraw(review, "stale", undo)
        changes.streams.append(StreamChange(review.id, review.version, withdrawn))
        changes.claims += release_slot(review)
    return changes


def _brought_back(pair: Mapping[UUID, Memory], memory_id: UUID, state: Contradiction) -> Memory:
    """The memory as it is once its own end is taken back, which stands in the same unit."""
    memory = pair[memory_id]
    ended_by_it = memory_id == state.replaces and memory.successor == state.holds
    return memory._replace(state_version=memory.state_version + 1) if ended_by_it else memory
