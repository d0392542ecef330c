"""The webhook aggregate: registered, changed, its secret rotated, disabled and enabled, removed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from . import events as e
from .errors import Conflict, InvalidInput

FAMILIES = ("proposal", "pass", "commitment", "contradiction", "session", "undo", "erasure")
"""Families of events that may be sent: what people decide on and what came of it. All else is for subscribers of
the broker, since an event per memory is too much for a request each."""
DEFAULT_NAMES = ("proposal.*",)
QUIET = frozenset({"proposal.dismissed"})
"""Names that their family does not stand for: a verdict that leads to no proposal is no news unless asked for."""
MOST_EARLIER = 4
"""How many secrets sign beside the newest at most, so that headers stay short."""


class EarlierSecret(NamedTuple):
    """A secret that was replaced, and until when it signs all the same."""

    secret: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Webhook:
    """State of one webhook. ``url`` and ``secret`` are ciphertext as the events hold it."""

    id: UUID
    version: int
    names: tuple[str, ...]
    url: str
    secret: str
    registered_at: datetime
    earlier: tuple[EarlierSecret, ...] = ()
    """Newest first."""
    disabled: e.WebhookDisabled | None = None
    disabled_at: datetime | None = None
    removed: bool = False

    @property
    def active(self) -> bool:
        """Whether events are sent to it."""
        return not self.removed and self.disabled is None

    def wants(self, name: str) -> bool:
        """Whether it was registered for events of this name."""
        if name in self.names:
            return True
        return name not in QUIET and f"{name.partition('.')[0]}.*" in self.names

    def secrets(self, now: datetime) -> tuple[str, ...]:
        """What signs at a moment: the newest, and for a while those before."""
        return (self.secret, *(one.secret for one in self.earlier if one.until > now))

    def signs_twice_until(self, now: datetime) -> datetime | None:
        """Until when more than the newest secret signs; None where that is over."""
        return max((one.until for one in self.earlier if one.until > now), default=None)


def evolve_webhook(
    state: Webhook | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime
) -> Webhook:
    """The state after one more event of its stream."""
    if isinstance(event, e.WebhookRegistered):
        return Webhook(stream, version, event.names, event.url, event.secret, recorded_at)
    if state is None:
        raise ValueError(f"stream {stream} does not begin with webhook.registered")
    state = replace(state, version=version)
    match event:
        case e.WebhookChanged():
            return replace(state, names=event.names or state.names, url=event.url or state.url)
        case e.WebhookSecretRotated():
            return replace(state, secret=event.secret, earlier=_replaced(state, event.previous_until))
        case e.WebhookDisabled():
            return replace(state, disabled=event, disabled_at=recorded_at)
        case e.WebhookEnabled():
            return replace(state, disabled=None, disabled_at=None)
        case e.WebhookRemoved():
            return replace(state, removed=True)
        case _:
            return state


def _replaced(state: Webhook, until: datetime) -> tuple[EarlierSecret, ...]:
    """The secrets before, none of which signs longer than the one that is replaced now.

    A rotation whose answer was lost is tried again: the secret that receivers know goes on signing meanwhile.
    """
    before = (EarlierSecret(one.secret, min(one.until, until)) for one in state.earlier)
    return (EarlierSecret(state.secret, until), *before)[:MOST_EARLIER]


def sendable_names() -> tuple[str, ...]:
    """All event names that may be sent."""
    return tuple(name for family in FAMILIES for name in e.event_names(f"{family}."))


def chosen_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, sorted and without repetition. Raises `InvalidInput` for one that nothing is sent for."""
    for name in names:
        family, _, rest = name.partition(".")
        if family not in FAMILIES or (rest != "*" and name not in e.event_names()):
            families = ", ".join(f"{one}.*" for one in FAMILIES)
            raise InvalidInput("names", "names no event that is sent to webhooks", f"There are: {families}")
    return tuple(sorted(set(names)))


def decide_change(state: Webhook, names: tuple[str, ...] | None, url: str | None) -> list[e.Event]:
    """Other events, another URL, or both."""
    _refuse_removed(state)
    return [e.WebhookChanged(names=names, url=url)]


def decide_rotate(state: Webhook, now: datetime, *, secret: str, overlap: timedelta) -> list[e.Event]:
    """Another secret; those before sign beside it for as long as ``overlap`` at most."""
    _refuse_removed(state)
    return [e.WebhookSecretRotated(secret=secret, previous_until=now + overlap)]


def decide_enable(state: Webhook) -> list[e.Event]:
    """Send again; nothing where it is not disabled."""
    _refuse_removed(state)
    return [] if state.disabled is None else [e.WebhookEnabled()]


def decide_disable(state: Webhook, event: e.WebhookDisabled) -> list[e.Event]:
    """Send no more; nothing where it is so already."""
    return [event] if state.active else []


def decide_remove(state: Webhook) -> list[e.Event]:
    """End it; nothing where it is removed already."""
    return [] if state.removed else [e.WebhookRemoved()]


def _refuse_removed(state: Webhook) -> None:
    if state.removed:
        raise Conflict("this webhook was removed; add another one", webhook_id=state.id)
