"""The forgetting pass: one scheduled per tenant and day, one open at a time, resumable (settlement 7).

A pass is an event-sourced process manager: `PassState` says how far it got, so that a second delivery, a
second process or a restart goes on where it stopped and repeats nothing.
"""

from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Literal
from uuid import UUID, uuid5

from . import events as e
from .thresholds import Thresholds

_SCHEDULED = UUID("5d3a8f0e-6f0b-5c52-9d0e-0f2d6f2b9a11")
PassPhase = Literal["requested", "started", "selected", "dispatched", "completed", "failed"]


@dataclass(frozen=True, slots=True)
class PassState:
    """How far a pass got."""

    id: UUID
    version: int
    phase: PassPhase
    trigger: Literal["schedule", "hand"]
    requested_at: datetime
    judge: str
    """Identity of the judge it was requested for."""
    settings: e.PassStarted | None = None
    items: tuple[e.CandidateItem, ...] = ()
    completed: e.PassCompleted | None = None
    failed_because: str | None = None
    counts: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def open(self) -> bool:
        """Whether it still holds the tenant's one slot."""
        return self.phase not in ("completed", "failed")

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds it froze when it started."""
        assert self.settings is not None
        values = self.settings.thresholds
        return Thresholds(
            self.settings.judge,
            archive=values["archive"],
            supersede=values["supersede"],
            conflict=values["conflict"],
            selected=not self.settings.unselected,
        )

    def item(self, ref: str) -> e.CandidateItem:
        """The item with this reference."""
        return next(item for item in self.items if item.ref == ref)


def evolve_pass(
    state: PassState | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime
) -> PassState:
    """The state after one more event of its stream."""
    if isinstance(event, e.PassRequested):
        return PassState(stream, version, "requested", event.trigger, recorded_at, event.judge)
    if state is None:
        raise ValueError(f"stream {stream} does not begin with pass.requested")
    state = replace(state, version=version)
    match event:
        case e.PassStarted():
            return replace(state, phase="started", settings=event)
        case e.PassCandidatesSelected():
            counts = {"stale_singles": event.stale_singles, "pairs": event.pairs}
            return replace(state, phase="selected", items=event.items, counts=counts)
        case e.PassDispatched():
            return replace(state, phase="dispatched")
        case e.PassCompleted():
            return replace(state, phase="completed", completed=event)
        case e.PassFailed():
            return replace(state, phase="failed", failed_because=event.reason)
        case _:
            return state


def scheduled_pass_id(tenant: UUID, day: date) -> UUID:
    """The one id of a tenant's scheduled pass of a UTC day; asking twice means the same pass."""
    return uuid5(_SCHEDULED, f"{tenant}:{day.isoformat()}")


def verdict_id(pass_id: UUID, ref: str) -> UUID:
    """Stream of the verdict on one item of a pass."""
    return uuid5(pass_id, f"verdict:{ref}")


def proposal_id(pass_id: UUID, ref: str) -> UUID:
    """Stream of the proposal or dismissal that one item of a pass leads to."""
    return uuid5(pass_id, f"proposal:{ref}")


def call_id(pass_id: UUID, refs: tuple[str, ...], attempt: int) -> UUID:
    """One judge call, by what it asks: the same items on the same attempt are the same charge."""
    return uuid5(pass_id, f"call:{attempt}:" + ",".join(refs))
