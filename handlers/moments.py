"""Moments of the record: an instant or a position, as people give them, and both of it, as reads need them."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ..domain.errors import InvalidInput
from ..streams.log import Log


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of the log: the newest position then, and the instant that is meant."""

    position: int
    at: datetime


MOVED_IN = "import"
"""Kind of the claims that say which archives came into a tenant."""


async def has_moved_in(log: Log, tenant: UUID) -> bool:
    """Whether this tenant has history of another log, whose instants are not those of its positions here."""
    return bool(await log.claim_holders(tenant, MOVED_IN, b"", 1))


async def moment_of(log: Log, field: str, asked: datetime | int) -> Moment:
    """The moment of an instant, or of the event at a position.

    Raises `InvalidInput` naming ``field`` for a moment that the record does not have yet.
    """
    if isinstance(asked, int):
        recorded_at = await log.recorded_at(asked)
        if recorded_at is None:
            raise InvalidInput(field, f"is beyond the end of the log, which is at position {await log.head()}")
        return Moment(asked, recorded_at)
    try:
        return Moment(await log.position_at(asked), asked)
    except InvalidInput as error:
        raise InvalidInput(field, error.problem, "Nothing is on record there yet") from None
