"""The two times of a read: what was on record then, and what was true then (settlement 2)."""

from collections.abc import Sequence
from uuid import UUID

from ..domain.errors import InvalidInput
from ..domain.fields import Input, Instant, KnownAt, Position
from ..projections.as_of import AsOf
from ..projections.progress import wait_for
from .engine import Engine
from .moments import has_moved_in, moment_of
from .operating.views import AsOfView


class Timed(Input):
    """The times of a read."""

    known_at: KnownAt | None = None
    """What was on record at this instant, or at this position of the log. None for all that is."""
    valid_at: Instant | None = None
    """What held at this instant. None for everything, what ended marked so."""
    after: Position | None = None
    """A log position that the answer must include (read your own write)."""


async def look_from(engine: Engine, tenant: UUID, asked: Timed, *read_models: str) -> AsOf:
    """The times as they apply, once the read models have what they need.

    Raises `InvalidInput` for a moment that the record does not have, and `NotCaughtUp`.
    """
    if asked.known_at is None:
        if asked.after:
            await _wait_for_all(engine, read_models, asked.after)
        return AsOf(engine.clock(), valid_at=asked.valid_at)
    moved_in = not isinstance(asked.known_at, int) and await has_moved_in(engine.log, tenant)
    moment = await moment_of(engine.log, "known_at", asked.known_at)
    known = moment.position
    if asked.after is not None and asked.after > known:
        raise InvalidInput("after", f"lies beyond known_at, which is position {known}", "Leave one of them out")
    needed = await engine.log.head() if moved_in else known
    if needed:
        await _wait_for_all(engine, read_models, needed)
    return AsOf(moment.at, known, moved_in, asked.valid_at)


async def _wait_for_all(engine: Engine, read_models: Sequence[str], position: int) -> None:
    for name in read_models:
        await wait_for(engine.doors, name, position)


def echoed(as_of: AsOf) -> AsOfView | None:
    """The times for the answer; None where a read was of the present."""
    if as_of.known is None and as_of.valid_at is None:
        return None
    return AsOfView(
        known_at=as_of.now if as_of.known is not None else None, position=as_of.known, valid_at=as_of.valid_at
    )


def in_words(as_of: AsOf) -> str:
    """For the end of a sentence about a memory that is not there; empty for the present."""
    words = "" if as_of.known is None else f" on record at position {as_of.known}"
    return words if as_of.valid_at is None else f"{words} that held at {as_of.valid_at.isoformat()}"
