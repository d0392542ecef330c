"""Unsettled events: which ones of a durable are being tried again or parked, and so hold back later ones.

Both are read from the broker as far as they grew since the last time; what was known of is looked at once more
before it counts, since it may be gone. With nothing new that is three requests, and they are made only where the
order is in doubt.
"""

# The client's own signatures end in untyped dictionaries.
# pyright: reportUnknownMemberType=false

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

import nats.js.errors
from nats.js import JetStreamContext
from nats.js.api import RawStreamMsg

from .broker import BrokerSettings
from .cloudevents import Place, place_of
from .parking_place import ParkedMessage
from .stored_messages import created_at, next_message

Key = tuple[UUID, UUID]
"""Tenant and aggregate."""
Where = Literal["retries", "parked"]


@dataclass(slots=True)
class _Read:
    """What was read of one subject: by aggregate, the sequence numbers by position."""

    stream: str
    subject: str
    created: str = ""
    upto: int = 0
    known: dict[Key, dict[int, int]] = field(default_factory=dict[Key, dict[int, int]])


class UnsettledEvents:
    """The events of one durable that hold back later ones of their aggregates."""

    def __init__(self, settings: BrokerSettings, durable: str) -> None:
        self._reading = asyncio.Lock()
        self._read: dict[Where, _Read] = {
            "retries": _Read(settings.stream("retries"), settings.retry_subject(durable)),
            "parked": _Read(settings.stream("parked"), settings.parked_subject(durable)),
        }

    def mentions(self, key: Key) -> bool:
        """Whether anything of this aggregate was known to be held when last read."""
        return any(key in read.known for read in self._read.values())

    async def lowest(self, js: JetStreamContext, key: Key) -> dict[Where, int]:
        """The first position of an aggregate in each place that holds any. Raises the client's errors."""
        async with self._reading:
            while True:
                # What moves from one place to the other is in the second before it leaves the first.
                for where in ("parked", "retries", "parked"):
                    await self._grow(js, self._read[where])
                found: dict[Where, int] = {
                    where: min(read.known[key]) for where, read in self._read.items() if key in read.known
                }
                gone = [
                    one for one in found.items() if not await self._is_there(js, self._read[one[0]], key, one[1])
                ]
                if not gone:
                    return found

    async def holds(self, js: JetStreamContext, where: Where, key: Key, position: int) -> int | None:
        """Where in the stream this event stands, if it is held there. Raises the client's errors."""
        read = self._read[where]
        async with self._reading:
            sequence = read.known.get(key, {}).get(position)
            return sequence if sequence and await self._is_there(js, read, key, position) else None

    async def notice(self, js: JetStreamContext) -> None:
        """Start over where a stream was deleted and made anew. Raises the client's errors."""
        for read in self._read.values():
            created = created_at(await js.stream_info(read.stream))
            async with self._reading:
                if read.created != created:
                    read.created, read.upto, read.known = created, 0, {}

    async def _grow(self, js: JetStreamContext, read: _Read) -> None:
        while (message := await next_message(js, read.stream, read.subject, read.upto + 1)) is not None:
            assert message.seq is not None
            read.upto = message.seq
            if (place := event_of(message)) is not None:
                read.known.setdefault((place.tenant, place.aggregate), {})[place.position] = message.seq

    async def _is_there(self, js: JetStreamContext, read: _Read, key: Key, position: int) -> bool:
        sequence = read.known[key][position]
        with contextlib.suppress(nats.js.errors.NotFoundError):
            place = event_of(await js.get_msg(read.stream, seq=sequence))
            if place is not None and (place.tenant, place.aggregate, place.position) == (*key, position):
                return True
        del read.known[key][position]
        if not read.known[key]:
            del read.known[key]
        return False


def event_of(message: RawStreamMsg) -> Place | None:
    """Where the event stands that a stored message is, or is about; None for anything else."""
    return place_of(message.data or b"") or ParkedMessage.read(message).place
