"""One undo as an answer: who asked for it, how far it is, and what became of each effect."""

from collections.abc import Sequence
from uuid import UUID

from ...domain.errors import Conflict, NotFound
from ...domain.undo import Undo, evolve_undo
from ...streams.folding import fold_stream
from ...streams.log import Log
from ..access.caller import NAMED_KINDS
from ..engine import Engine
from ..kinds import refuse_other_kind
from ..reviewing.taken_back import who
from .selecting import Effect, select_effects
from .views import UndoItem, UndoView

SHOWN = 100
_SAYS = {"erased": "it was erased", "later_history": "later history stands on it"}


async def load_undo(log: Log, tenant: UUID, undo_id: UUID) -> Undo:
    """Its state. Raises `NotFound` or `WrongKind`."""
    recorded = await log.read_stream(tenant, undo_id)
    refuse_other_kind(undo_id, recorded, "undo")
    state = fold_stream(recorded, evolve_undo)
    if state is None:
        raise NotFound(f"no undo {undo_id}", undo_id=undo_id)
    return state


async def show_undo(engine: Engine, tenant: UUID, undo_id: UUID, told: Sequence[UndoItem] = ()) -> UndoView:
    """The undo as it stands; ``told`` is what was said of effects as they were taken back just now.

    Raises `NotFound` or `WrongKind`.
    """
    state = await load_undo(engine.log, tenant, undo_id)
    [request] = (await engine.log.read_beginnings(tenant, [undo_id])).values()
    actor = request.envelope.actor
    names = await engine.directory.names(tenant, {actor.id} if actor.kind in NAMED_KINDS else ())
    return UndoView(
        id=state.id,
        requested_at=state.requested_at,
        requested_by=who(actor.kind, names.get(actor.id)),
        complete=state.complete,
        undone=len(state.undone),
        refused=len(state.refused),
        items=await _items(engine, tenant, state, told),
        position=await engine.log.head(),
    )


def item_of(effect: Effect, *, again: bool, why: Conflict | None = None) -> UndoItem:
    """An effect that is taken back, or that is not and why."""
    return _item(effect, again, None if why is None else code_of(why), None if why is None else str(why))


def code_of(why: Conflict) -> str:
    """Why an effect stays, as it is put on record."""
    return "erased" if why.code == "erased" else "later_history"


async def _items(engine: Engine, tenant: UUID, state: Undo, told: Sequence[UndoItem]) -> tuple[UndoItem, ...]:
    reasons = {one.effect: one.reason for one in state.refused}
    effects = await select_effects(engine, tenant, [*reasons, *state.undone][:SHOWN])
    again = await _turns_back(engine.log, tenant, state)
    just = {one.effect: one for one in told}
    return tuple(just.get(one.id) or _on_record(one, state, again, reasons.get(one.id)) for one in effects)


async def _turns_back(log: Log, tenant: UUID, state: Undo) -> bool:
    """Whether it lets effects hold again: the undo of an undo does, and the undo of that does not."""
    again = False
    while state.requested.undo is not None:
        again = not again
        state = await load_undo(log, tenant, state.requested.undo)
    return again


def _on_record(effect: Effect, state: Undo, again: bool, reason: str | None) -> UndoItem:
    item = _item(effect, again, reason, None if reason is None else _SAYS.get(reason))
    if effect.last_undo_at is None or effect.last_undo_at <= state.requested_at:
        return item
    later = effect.last_undo if effect.last_undo != state.id else None
    return item.model_copy(update={"later_undo": later})


def _item(effect: Effect, again: bool, reason: str | None, says: str | None) -> UndoItem:
    return UndoItem(
        effect=effect.id,
        event=effect.name,
        stream=effect.stream,
        proposal_id=effect.proposal,
        acted=effect.acted,
        recorded_at=effect.recorded_at,
        again=again,
        reason=reason,
        says=says,
    )
