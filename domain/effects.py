"""Effects: what a decision or a policy did, and what may be taken back (settlement 14; design.md 7.6)."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from .event import Event, event_class, event_names
from .undo_events import EffectUndone

UNREVIEWED = ("expiry", "closer")
"""Causes of a commitment's transition that nobody decided: a stated policy did (settlement 14)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What led to an effect."""

    proposal: UUID | None
    """The accepted proposal."""
    acted: Literal["proposal", "expiry", "closer"]


def origin_of(event: Event) -> Origin | None:
    """What led to this event, if it is an effect; None for what somebody commanded himself."""
    proposal: UUID | None = getattr(event, "proposal", None)
    if proposal is not None:
        return Origin(proposal, "proposal")
    cause = getattr(event, "cause", None)
    return Origin(None, cause) if cause in UNREVIEWED else None


def effect_names() -> frozenset[str]:
    """Stored names of events that may be effects, or take one back."""
    return frozenset(name for name in event_names() if _may_be(event_class(name)))


def _may_be(cls: type[Event] | None) -> bool:
    return cls is not None and (issubclass(cls, EffectUndone) or "proposal" in cls.model_fields)
