"""Binds handlers to durables: one FastStream subscriber per worker, each asking for one message at a time.

So no message waits in a buffer while its ack_wait runs (F43), and a slow one holds up one worker only:
``batch_size=N`` waits for all N before it asks again, and ``max_workers=N`` takes more than N.
"""

import json
from collections.abc import Awaitable, Callable

from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, PullSub
from faststream.nats.message import NatsMessage
from faststream.nats.subscriber.usecases import PullStreamSubscriber

from . import cloudevents, unhandled
from .broker import BrokerSettings
from .handling import Park
from .subscriptions import (
    EventHandler,
    EventSubscription,
    Subscription,
    TaskHandler,
    TaskSubscription,
    durables_of,
)
from .tasks import Task

PULL_SECONDS = 1.0
"""How long one request for a message waits. Also how late a worker notices that the broker is back."""
RETRY_WORKERS = 4
"""Events of one subscription that are tried again at the same time in one process, at most."""

Handler = Callable[[NatsMessage], Awaitable[None]]


def bind(
    broker: NatsBroker, settings: BrokerSettings, subscription: Subscription, decode: cloudevents.Decode
) -> list[PullStreamSubscriber]:
    """The subscribers of a subscription, on all of its durables."""
    if isinstance(subscription, TaskSubscription):
        handlers = [_task_handler(subscription.queue, subscription.handler)]
    else:
        handlers = _event_handlers(subscription, decode)
    bound: list[PullStreamSubscriber] = []
    for durable, handler in zip(durables_of(subscription, settings), handlers, strict=True):
        workers = subscription.concurrency
        if durable.stream == "retries":
            workers = min(workers, RETRY_WORKERS)
        for _ in range(workers):
            subscriber = broker.subscriber(
                durable.filter_subjects[0],
                stream=JStream(settings.stream(durable.stream), declare=False),
                durable=durable.name,
                pull_sub=PullSub(batch_size=1, timeout=PULL_SECONDS),
                ack_policy=AckPolicy.MANUAL,
                no_reply=True,
                decoder=_undecoded,
            )
            assert isinstance(subscriber, PullStreamSubscriber)
            subscriber(handler)
            bound.append(subscriber)
    return bound


def _event_handlers(subscription: EventSubscription, decode: cloudevents.Decode) -> list[Handler]:
    """One for new events, one for those that come again."""
    handlers = (subscription.handler, subscription.again or subscription.handler)
    return [_event_handler(one, subscription.unknown, decode) for one in handlers]


def _event_handler(handle: EventHandler, unknown: str, decode: cloudevents.Decode) -> Handler:
    async def handle_event(message: NatsMessage) -> None:
        event = await cloudevents.open_message(message.raw_message.data, decode)
        if event.event is None and unknown == "park":
            raise Park("UnknownEvent")
        await handle(event)

    return handle_event


def _task_handler(queue: str, handle: TaskHandler) -> Handler:
    async def handle_task(message: NatsMessage) -> None:
        raw = message.raw_message
        try:
            body = dict(json.loads(raw.data))
        except (ValueError, TypeError):
            raise Park("UnreadableTask") from None
        identity, put_off = unhandled.task_id(raw).removeprefix(f"{queue}:"), unhandled.so_far(raw).put_off
        await handle(Task(queue, identity, body, raw.metadata.num_delivered, put_off))

    return handle_task


async def _undecoded(message: NatsMessage) -> NatsMessage:
    return message
