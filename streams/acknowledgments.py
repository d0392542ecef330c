"""What subscribers say of erasures over the broker, and who could say something.

An acknowledgment is a task on a queue of its own: it waits there until a worker has put it on record. It names
opaque ids and the subscriber's durable, nothing else.
"""

import nats.js.errors
from nats.js import JetStreamContext

from .broker import BrokerSettings, close, connect, jetstream, translated
from .payloads import RecordedEvent
from .tasks import TaskPublisher

QUEUE = "acknowledgments"
_PAGE = 256
"""Consumers that the broker lists at once."""


async def acknowledge(publisher: TaskPublisher, consumer: str, performed: RecordedEvent) -> None:
    """Say that a subscriber erased its copies of what this ``erasure.performed`` names.

    Raises `Unavailable` when the broker did not take it; it may be said again.
    """
    body = {"tenant": str(performed.tenant), "erasure": str(performed.stream), "consumer": consumer}
    await publisher.publish_task(QUEUE, body, f"{performed.event_id}:{consumer}")


async def consumers_of_events(settings: BrokerSettings) -> frozenset[str]:
    """Names of the durables that there are on the stream of events. Raises `Unavailable`."""
    client = await connect(settings, name="acknowledgments", reconnect=False)
    try:
        with translated():
            return frozenset(await _durables(jetstream(client, settings), settings.stream("events")))
    finally:
        await close(client)


async def _durables(js: JetStreamContext, stream: str) -> set[str]:
    found: set[str] = set()
    listed = 0
    try:
        while page := await js.consumers_info(stream, listed):
            found.update(one.config.durable_name for one in page if one.config.durable_name)
            listed += len(page)
            if len(page) < _PAGE:
                break
    except nats.js.errors.NotFoundError:
        pass  # nothing was carried yet
    return found
