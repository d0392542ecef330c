"""The subscriber kit: a read model of one's own, fed from the broker, in a few lines.

Events come one at a time and in order. The subscriber stores an event's position together with what it made of
the event, in one transaction of its own; then a repeated event is recognised, a crash loses nothing, and a read
model that was emptied or put back from a backup is filled again from where it stands, whatever the broker
remembers.
"""

import asyncio
import fnmatch
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import nats.js.errors
from nats.js import JetStreamContext

from ..domain.events import ErasurePerformed
from .acknowledgments import acknowledge
from .broker import BrokerSettings, close, connect, jetstream, translated
from .closed import decode_closed
from .consumers import Consumers
from .ending import until_cancelled
from .handling import RetryPolicy
from .leadership import RETRY_SECONDS, Leadership
from .log import Log
from .payloads import RecordedEvent
from .stored_messages import delete_message, next_message, position_at
from .subscriptions import EventSubscription, durables_of
from .tasks import TaskPublisher
from .topology import Topology

Apply = Callable[[RecordedEvent], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased and must go from a subscriber's copies as well. Large erasures come in several of these."""

    erasure: UUID
    tenant: UUID
    position: int
    """Of the event that says so, to be stored as the position of any other event."""
    memories: tuple[UUID, ...]
    names: tuple[UUID, ...]
    """Opaque ids of people and projects whose names are gone."""
    everything: bool
    """Whether all of the tenant is."""


Erase = Callable[[Erased], Awaitable[None]]
POLICY = RetryPolicy(ack_wait=5.0)
"""What holds unless a subscriber says otherwise. One killed at work holds up its successor for that long."""
_PAGE = 500
_LOG = logging.getLogger(__name__)


async def subscribe(
    settings: BrokerSettings,
    name: str,
    events: Sequence[str],
    apply: Apply,
    *,
    position: Callable[[], int],
    log: Log | None = None,
    policy: RetryPolicy | None = None,
    erased: Erase | None = None,
) -> None:
    """Apply events of these names (``proposal.*`` and ``*`` are allowed), until cancelled.

    ``name`` is the durable's: one per read model; several processes with one name take turns. ``position`` tells
    the last position the read model holds, 0 when it is empty: then everything comes again, from the first event.
    An event that fails is tried again where it stands and holds up what is behind it; once it is parked, so are
    later ones of its aggregate, until an operator sends them again (``lethelog parked retry``). Those come late,
    below the read model's position, and may come twice: key what is written by the event's position.

    With ``log`` sealed text is opened and what the broker no longer holds is read from the log; without, sealed
    fields are None, and events that are missing are told in a warning.

    ``erased`` erases the subscriber's own copies of what was erased; once it returned for all of an erasure, that
    is acknowledged, which puts it on record. It may be called again for the same, also below the position.

    Raises `Unavailable` when the broker does not answer at first.
    """

    async def once(event: RecordedEvent) -> None:
        if event.position > position():
            await apply(event)

    async def feed() -> None:
        async with TaskPublisher(settings) as publisher:
            if erased is None:
                names, first, again = tuple(events), once, apply
            else:
                wanted = _wanted(ErasurePerformed.NAME, events)
                names = tuple(events) if wanted else (*events, ErasurePerformed.NAME)
                hook = _Erasing(name, events, erased, publisher)
                first, again = hook.before(once), hook.before(apply)
            subscription = EventSubscription(
                name,
                names,
                first,
                policy=policy or POLICY,
                again=again,
                # One delivery open at a time in all processes: that is what keeps the order.
                max_ack_pending=1,
                unknown="deliver",
            )
            await _run(settings, subscription, position, log)

    await until_cancelled(feed())


class _Erasing:
    """Lets a subscriber erase, and says that it has."""

    def __init__(self, consumer: str, events: Sequence[str], erased: Erase, publisher: TaskPublisher) -> None:
        self._consumer = consumer
        self._events = events
        self._erased = erased
        self._publisher = publisher

    def before(self, apply: Apply) -> Apply:
        """Whatever the position: what was erased but not acknowledged comes again, and erasing twice does no harm.

        The subscriber's own look at the event comes first, since erasing moves the position beyond it.
        """

        async def handle(event: RecordedEvent) -> None:
            if _wanted(event.name, self._events):
                await apply(event)
            if isinstance(event.event, ErasurePerformed):
                await self._erase(event, event.event)

        return handle

    async def _erase(self, event: RecordedEvent, performed: ErasurePerformed) -> None:
        await self._erased(
            Erased(
                event.stream,
                event.tenant,
                event.position,
                performed.memories,
                performed.names,
                performed.tenant_key,
            )
        )
        if performed.final:
            await acknowledge(self._publisher, self._consumer, event)


def _wanted(event: str, names: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(event, name) for name in names)


async def _run(
    settings: BrokerSettings, subscription: EventSubscription, position: Callable[[], int], log: Log | None
) -> None:
    name = subscription.name
    client = await connect(settings, name="subscribe", reconnect=False)
    try:
        with translated():
            js = jetstream(client, settings)
            oldest = await _oldest(js, settings, log)
            done = await _done(js, settings, name)
            # Asked for last: another process of this name may be applying and acknowledging events meanwhile.
            if done > (held := position()):
                await _begin_anew(js, settings, name, held)
        # Whoever erases while it still reads from the log has to be known, or its acknowledgment is nobody's.
        await Topology(settings, durables_of(subscription, settings)).ensure(client)
    finally:
        await close(client)
    if log is not None:
        duty = log.leadership(f"subscriber {settings.prefix} {name}")
        try:
            await _catch_up(log, duty, subscription, position, oldest)
        finally:
            await duty.release()
    elif position() < oldest - 1:
        # Whether events of these names were among them cannot be known from here.
        _LOG.warning(
            "%s: the broker no longer holds the events between positions %d and %d; give subscribe a log to read "
            "them from",
            name,
            position(),
            oldest,
        )
    consumers = Consumers(settings, decode_closed if log is None else log.decode)
    try:
        await consumers.open([subscription])
        await asyncio.Event().wait()
    finally:
        await consumers.close()


async def _catch_up(
    log: Log, duty: Leadership, subscription: EventSubscription, position: Callable[[], int], oldest: int
) -> None:
    """Apply from the log what is older than the broker's oldest event, in one process at a time."""
    after = position()
    while after < oldest - 1:
        while not await duty.acquire():  # noqa: ASYNC110 - the lock is on the server
            await asyncio.sleep(RETRY_SECONDS)
        after = max(after, position())
        page = await log.read_page(after, _PAGE, oldest - 1)
        for event in page:
            # What was moved in is history, not news: the broker never carried it either (ADR 9).
            news = event.envelope.origin is None
            if news and _wanted(event.name, subscription.names):
                await subscription.handler(event)
        after = page[-1].position if page else oldest


async def _oldest(js: JetStreamContext, settings: BrokerSettings, log: Log | None) -> int:
    """Position of the oldest event the broker holds, or the next one it will, as far as is known."""
    stream = settings.stream("events")
    try:
        info = await js.stream_info(stream)
    except nats.js.errors.NotFoundError:
        return 0  # it is made with the subscriber's durable, and filled by the first relay
    if info.state.messages:
        return await position_at(js, stream, info.state.first_seq) or 0
    if not info.state.last_seq:
        return 0
    # Everything aged out. A sequence is a position where the stream was never made anew, and lower where it was.
    return (await log.head() if log is not None else info.state.last_seq) + 1


async def _done(js: JetStreamContext, settings: BrokerSettings, name: str) -> int:
    """Position up to which the durable counts events as done; 0 when there is none."""
    stream = settings.stream("events")
    try:
        info = await js.consumer_info(stream, name)
    except nats.js.errors.NotFoundError:
        return 0
    done = info.ack_floor.stream_seq if info.ack_floor else 0
    # What stood there may have aged out; then only an empty read model is surely behind.
    return (await position_at(js, stream, done) or 1) if done else 0


async def _begin_anew(js: JetStreamContext, settings: BrokerSettings, name: str, position: int) -> None:
    """Let everything come again. For an empty read model that includes what was parked: it is built anew."""
    if not position:
        await _empty(js, settings.stream("retries"), settings.retry_subject(name))
        await _empty(js, settings.stream("parked"), settings.parked_subject(name))
    await js.delete_consumer(settings.stream("events"), name)


async def _empty(js: JetStreamContext, stream: str, subject: str) -> None:
    at = 1
    while (found := await next_message(js, stream, subject, at)) is not None:
        assert found.seq is not None
        await delete_message(js, stream, found.seq)
        at = found.seq + 1
