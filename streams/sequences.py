"""The order of events per aggregate, for one durable in one process.

An event may be handled when no earlier event of its aggregate is at work, waits to be tried again or is parked; a
durable alone does not know that, since it counts messages and not aggregates. Nothing is asked of the broker as
long as this process got every delivery in a row and holds all that is open. Where others work on the same durable,
or messages were put off, the broker is asked what is open, and the stream what it is about.
"""

# The client's own signatures end in untyped dictionaries.
# pyright: reportUnknownMemberType=false

import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo

from . import unhandled
from .broker import BrokerSettings, translated
from .cloudevents import SHARDS, Place, place_of
from .stored_messages import delete_message, next_message
from .unsettled_events import Key, UnsettledEvents

Kind = Literal["now", "later", "after_retried", "after_parked", "held_already"]
_LOOK_BACK = 64
"""Events of the same shard that are looked at; behind more of them an event is put off without knowing."""
_REMEMBERED = 10_000
_SHORTEST_WAIT, _LONGEST_WAIT = 0.05, 2.0


@dataclass(slots=True)
class Turn:
    """What may happen with a delivery."""

    kind: Kind
    delay: float = 0.0
    """Seconds until it should come again, for ``later``."""
    of_retry: bool = False
    """Whether it is tried again, so that later events may have been handled before."""
    twin: int | None = None
    """Where the same event is parked still: a replay that was cut short."""
    goes_on: bool = False
    """Set by whoever did not end the event with this delivery: it comes again, here or from another place."""


class Sequences:
    """Says of each delivery of one durable whether it is its event's turn."""

    def __init__(
        self, settings: BrokerSettings, durable: str, names: Sequence[str], js: Callable[[], JetStreamContext]
    ) -> None:
        self._settings = settings
        self._durable = durable
        self._names = tuple(names)
        self._js = js
        self._events = settings.stream("events")
        self._unsettled = UnsettledEvents(settings, durable)
        self._in_hand: dict[int, Key | None] = {}
        self._done: OrderedDict[int, int] = OrderedDict()
        self._seen: int | None = None
        """Up to this delivery everything was this process's or its trace was read; None: not known."""
        self._ends_open = 0
        """Deliveries that ended with their event still to be handled."""

    async def notice(self) -> None:
        """Forget what streams held that were deleted since. Raises `Unavailable`."""
        with translated():
            await self._unsettled.notice(self._js())

    @contextlib.asynccontextmanager
    async def turn(self, message: Msg) -> AsyncGenerator[Turn]:
        """Whose turn it is; the message counts as in hand inside the block. Raises `Unavailable`."""
        place = place_of(message.data)
        about = message.metadata
        if about.stream != self._events:
            with translated():
                found = await self._turn_of_retry(message, place)
            yield found
            return
        sequence = about.sequence.stream
        if sequence in self._in_hand:
            yield Turn("later", _wait(about.num_delivered))
            return
        self._in_hand[sequence] = _key(place)
        turn = Turn("later", goes_on=True)
        try:
            with translated():
                turn = await self._turn_of_new(message, place)
            yield turn
        except BaseException:
            turn.goes_on = True
            raise
        finally:
            del self._in_hand[sequence]
            if turn.goes_on:
                self._seen = None
                self._ends_open += 1
            elif place is not None:
                self._remember(sequence, place.position)

    async def forget_twin(self, turn: Turn) -> None:
        """Take the parked copy of a handled event out. Raises `Unavailable`."""
        if turn.twin is not None:
            with translated():
                await delete_message(self._js(), self._settings.stream("parked"), turn.twin)

    async def _turn_of_retry(self, message: Msg, place: Place | None) -> Turn:
        if (due := unhandled.due_in(message)) > 0:
            return Turn("later", due, of_retry=True)
        if place is None:
            return Turn("now", of_retry=True)
        key, js = (place.tenant, place.aggregate), self._js()
        lowest = await self._unsettled.lowest(js, key)
        if lowest.get("parked", place.position) < place.position:
            twin = await self._unsettled.holds(js, "parked", key, place.position)
            return Turn("held_already" if twin else "after_parked", of_retry=True)
        if lowest.get("retries", place.position) < place.position:
            return Turn("later", _wait(message.metadata.num_delivered), of_retry=True)
        twin = await self._unsettled.holds(js, "parked", key, place.position)
        return Turn("now", of_retry=True, twin=twin)

    async def _turn_of_new(self, message: Msg, place: Place | None) -> Turn:
        about = message.metadata
        in_a_row = self._seen is not None and about.sequence.consumer == self._seen + 1
        if in_a_row:
            self._seen = about.sequence.consumer
        if place is None:
            return Turn("now")
        key = (place.tenant, place.aggregate)
        if in_a_row and not self._earlier_here(key, about.sequence.stream) and not self._unsettled.mentions(key):
            return Turn("now")
        wait = Turn("later", _wait(about.num_delivered))
        before, alone_upto = self._ends_open, None
        if not in_a_row:
            in_hand = set(self._in_hand)
            info = await self._js().consumer_info(self._events, self._durable)
            if (info.num_ack_pending or 0) <= len(in_hand & set(self._in_hand)):
                alone_upto = info.delivered.consumer_seq if info.delivered else 0
            elif await self._is_earlier_open(_floor(info) + 1, about.sequence.stream, place):
                return wait
        held = await self._turn_behind_others(key, about.sequence.stream, place.position)
        if alone_upto is not None and before == self._ends_open:
            # Only now is read what others left among the retries and the parked before they acknowledged it.
            self._seen = max(self._seen or 0, alone_upto)
        return held or wait

    async def _turn_behind_others(self, key: Key, sequence: int, position: int) -> Turn | None:
        """The turn by what is in hand here, retried or parked; None behind one in hand."""
        while True:
            was_behind = self._earlier_here(key, sequence)
            held = await self._turn_among_held(key, position)
            if self._earlier_here(key, sequence):
                return None
            if not was_behind:
                return held
            # The one before ended during the reading, and may have gone where that had looked already.

    async def _turn_among_held(self, key: Key, position: int) -> Turn:
        js = self._js()
        lowest = await self._unsettled.lowest(js, key)
        if not lowest:
            return Turn("now")
        for where in ("parked", "retries"):
            if await self._unsettled.holds(js, where, key, position):
                return Turn("held_already")
        if lowest.get("parked", position) < position:
            return Turn("after_parked")
        return Turn("after_retried" if lowest.get("retries", position) < position else "now")

    def _earlier_here(self, key: Key, sequence: int) -> bool:
        return any(one == key and at < sequence for at, one in self._in_hand.items())

    async def _is_earlier_open(self, at: int, sequence: int, place: Place) -> bool:
        """Whether from this sequence on an earlier event of the aggregate may be open."""
        js = self._js()
        subject = f"{self._settings.prefix}.events.{place.tenant.hex}.{place.aggregate.int % SHARDS}.>"
        for _ in range(_LOOK_BACK):
            found = await next_message(js, self._events, subject, at)
            if found is None or not found.seq or found.seq >= sequence:
                return False
            at = found.seq + 1
            other = place_of(found.data or b"")
            if (
                other is not None
                and (other.tenant, other.aggregate) == (place.tenant, place.aggregate)
                and self._done.get(found.seq) != other.position
                and self._is_wanted(found.subject or "")
            ):
                return True
        return True

    def _is_wanted(self, subject: str) -> bool:
        """Whether this durable gets messages of this subject at all."""
        name = subject.split(".", 4)[4]
        return any(
            wanted == "*" or (wanted.endswith(".*") and name.startswith(wanted[:-1])) or wanted == name
            for wanted in self._names
        )

    def _remember(self, sequence: int, position: int) -> None:
        self._done[sequence] = position
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)


def _key(place: Place | None) -> Key | None:
    return None if place is None else (place.tenant, place.aggregate)


def _wait(deliveries: int) -> float:
    """Seconds until an event that waits for another one should come again."""
    return min(_SHORTEST_WAIT * 2 ** min(deliveries - 1, 10), _LONGEST_WAIT)


def _floor(info: ConsumerInfo) -> int:
    return (info.ack_floor.stream_seq if info.ack_floor else 0) or 0
