"""The erasure aggregate: previewed, requested, performed, and complete only once every place was looked at.

behaviour.md 4.5; D9 to D11; F01, F05, F08. An erasure that was performed never goes back: it is carried on until
it is verified, whatever fails, and done again where a database was put back from before it.
"""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from . import events as e
from .errors import Conflict, InvalidInput

Phase = Literal["previewed", "requested", "performed", "incomplete", "verified"]
REASON = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""A reason is a code, so that nobody writes there what is to be erased."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """State of one erasure."""

    id: UUID
    version: int
    phase: Phase
    previewed: e.ErasurePreviewed
    previewed_at: datetime
    requested: e.ErasureRequested | None = None
    requested_at: datetime | None = None
    memories: tuple[UUID, ...] = ()
    names: tuple[UUID, ...] = ()
    performed: e.ErasurePerformed | None = None
    """The last one, which carries the counts."""
    performed_at: datetime | None = None
    times_performed: int = 0
    remaining: tuple[tuple[str, str], ...] = ()
    """Place and code, as it was last said to be incomplete."""
    acknowledged: tuple[tuple[str, datetime], ...] = ()
    verified: e.ErasureVerified | None = None
    verified_at: datetime | None = None

    @property
    def open(self) -> bool:
        """Whether there is something to carry on."""
        return self.phase in ("requested", "performed", "incomplete")


def evolve_erasure(
    state: Erasure | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime
) -> Erasure:
    """The state after one more event of its stream."""
    if isinstance(event, e.ErasurePreviewed):
        return Erasure(stream, version, "previewed", event, recorded_at)
    if state is None:
        raise ValueError(f"stream {stream} does not begin with erasure.previewed")
    state = replace(state, version=version)
    match event:
        case e.ErasureRequested():
            return replace(state, phase="requested", requested=event, requested_at=recorded_at)
        case e.ErasurePerformed():
            return _performed(state, event, recorded_at)
        case e.ErasureIncomplete():
            return replace(state, phase="incomplete", remaining=tuple(sorted(event.places.items())))
        case e.ErasureAcknowledged():
            return replace(state, acknowledged=(*state.acknowledged, (event.consumer, recorded_at)))
        case e.ErasureVerified():
            return replace(state, phase="verified", remaining=(), verified=event, verified_at=recorded_at)
        case _:
            return state


def _performed(state: Erasure, event: e.ErasurePerformed, recorded_at: datetime) -> Erasure:
    memories, names = (*state.memories, *event.memories), (*state.names, *event.names)
    if event.final:
        # Only here, for all portions of it: what is done again names the same again.
        memories, names = tuple(dict.fromkeys(memories)), tuple(dict.fromkeys(names))
    return replace(
        state,
        phase="performed",
        memories=memories,
        names=names,
        performed=event if event.final else state.performed,
        performed_at=recorded_at,
        times_performed=state.times_performed + event.final,
        remaining=(),
    )


def decide_request(state: Erasure, reason: str, re_entry: e.ReEntry) -> list[e.Event]:
    """Ask for what was previewed; asking the same again changes nothing.

    Raises `InvalidInput` for a reason that is no code, `Conflict` where it was asked for otherwise before.
    """
    if not REASON.fullmatch(reason):
        raise InvalidInput("reason", "must be a code of 1 to 40 of a-z, 0-9 and _, such as data_subject_request")
    asked = e.ErasureRequested(reason=reason, re_entry=re_entry)
    if state.requested is None:
        return [asked]
    if state.requested != asked:
        raise Conflict(
            f"the erasure was asked for already, with the reason {state.requested.reason} and re-entry "
            f"{state.requested.re_entry}; make a new preview, or see: lethelog erase show {state.id}",
            erasure_id=state.id,
        )
    return []


def decide_incomplete(state: Erasure, places: dict[str, str]) -> list[e.Event]:
    """Say what remains; nothing where that was said already."""
    if state.phase == "incomplete" and state.remaining == tuple(sorted(places.items())):
        return []
    return [e.ErasureIncomplete(places=places)]


def decide_acknowledge(state: Erasure, consumer: str) -> list[e.Event]:
    """A subscriber has erased its copies; a second time changes nothing."""
    if state.performed is None:
        raise Conflict("nothing was erased yet", erasure_id=state.id)
    if any(name == consumer for name, _ in state.acknowledged):
        return []
    return [e.ErasureAcknowledged(consumer=consumer)]
