"""From the events of a stream to the state they make."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

from ..domain.events import Event
from .payloads import RecordedEvent

S = TypeVar("S")


class Evolve(Protocol[S]):
    """The evolve function of an aggregate."""

    def __call__(
        self, state: S | None, event: Event, *, stream: UUID, version: int, recorded_at: datetime
    ) -> S: ...


def fold_states(
    recorded: Iterable[RecordedEvent], evolve: Evolve[S], state: S | None = None
) -> Iterator[tuple[RecordedEvent, S]]:
    """Each event of one stream, in order, with the state it leads to. ``state`` is what earlier ones led to.

    Events of a name this version does not know are left out: what they say is not guessed at.
    """
    for one in recorded:
        if one.event is not None:
            state = evolve(state, one.event, stream=one.stream, version=one.version, recorded_at=one.recorded_at)
            yield one, state


def fold_stream(recorded: Iterable[RecordedEvent], evolve: Evolve[S]) -> S | None:
    """The state of one stream, from its events in order; None where there are none that are known."""
    last: S | None = None
    for _, state in fold_states(recorded, evolve):
        last = state
    return last
