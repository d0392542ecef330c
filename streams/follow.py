"""Listening in: events as they come, in order, each once, leaving nothing behind on the broker.

For a page, a terminal or a test that watches. Whoever must not miss anything while away uses a durable.
"""

# The client's own signatures end in untyped keyword arguments.
# pyright: reportUnknownMemberType=false

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Literal

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamInfo

from ..domain.errors import Unavailable
from . import cloudevents
from .broker import BrokerSettings, close, connect, jetstream, translated
from .closed import decode_closed
from .payloads import RecordedEvent
from .stored_messages import created_at, last_position

_WAIT_SECONDS = 1.0
_BATCH = 256
_GATHER_SECONDS = 0.02
"""How long a batch is gathered once there is a first message; a lone message is given out before."""
_LONGEST_PAUSE = 2.0
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Place:
    """How far a follower is."""

    position: int
    created: str = ""
    sequence: int = 0


async def follow(
    settings: BrokerSettings,
    *,
    names: Sequence[str] = ("*",),
    decode: cloudevents.Decode = decode_closed,
    start: Literal["new", "all"] | int = "new",
) -> AsyncGenerator[RecordedEvent]:
    """Events of these names (``proposal.*`` too): new ones, all the broker holds, or those after a position.

    Without `Log.decode` sealed fields are None. Raises `Unavailable` when the broker does not answer at first;
    once it did, lost connections and streams made anew are seen through. Close it with ``contextlib.aclosing``.
    """
    place: _Place | None = None
    pause = 0.1
    while True:
        try:
            client = await connect(settings, name="follow", reconnect=False)
            try:
                place = await _find(client, settings, place, start)
                async with contextlib.aclosing(_messages(client, settings, names, place)) as messages:
                    async for message in messages:
                        row = cloudevents.read_message(message.data)
                        if row[0] > place.position:
                            for event in await decode([row]):
                                yield event
                            place.position = row[0]
                        place.sequence = message.metadata.sequence.stream
                        pause = 0.1
            finally:
                await close(client)
        except Unavailable as error:
            if place is None:
                raise
            _LOG.debug("following again: %s", error.message)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


async def _find(
    client: Client, settings: BrokerSettings, place: _Place | None, start: Literal["new", "all"] | int
) -> _Place:
    """Where to go on: behind what was seen, or at the beginning of a stream that was made anew."""
    js = jetstream(client, settings)
    with translated():
        info = await js.stream_info(settings.stream("events"))
        if place is None:
            place = await _first(js, info, start)
    if place.created != created_at(info):
        place.created, place.sequence = created_at(info), 0
    return place


async def _first(js: JetStreamContext, info: StreamInfo, start: Literal["new", "all"] | int) -> _Place:
    if start == "all":
        return _Place(0)
    last = await last_position(js, info) or 0
    position = last if start == "new" else start
    # The stream holds every event once and in order, so it is known how far back the first one stands.
    behind = max(0, last - position)
    return _Place(position, created_at(info), max(0, info.state.last_seq - behind))


async def _messages(
    client: Client, settings: BrokerSettings, names: Sequence[str], place: _Place
) -> AsyncGenerator[Msg]:
    js = jetstream(client, settings)
    stream = settings.stream("events")
    several = len(names) > 1
    filters = [settings.event_filter(name) for name in names]
    config = ConsumerConfig(
        filter_subject=None if several else filters[0],
        filter_subjects=filters if several else None,
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=place.sequence + 1,
        ack_policy=AckPolicy.NONE,
        inactive_threshold=30,
        mem_storage=True,
        num_replicas=1,
    )
    with translated():
        consumer = (await js.add_consumer(stream, config)).name
        pull = await js.pull_subscribe_bind(consumer, stream=stream)
        try:
            while True:
                for message in await _fetch(pull, 1, _WAIT_SECONDS):
                    yield message
                    # The first has been given out; what stands right behind it comes in one go.
                    for further in await _fetch(pull, _BATCH, _GATHER_SECONDS):
                        yield further
        finally:
            # One that cannot be removed now goes by itself once nobody asks it any more.
            with contextlib.suppress(nats.errors.Error, OSError):
                await js.delete_consumer(stream, consumer)


async def _fetch(pull: JetStreamContext.PullSubscription, batch: int, seconds: float) -> list[Msg]:
    try:
        return await pull.fetch(batch, timeout=seconds)
    except nats.errors.TimeoutError:
        return []
