"""Consumers: plain async functions bound to durables of the broker, supervised.

Handlers know nothing of the broker. Several processes with the same subscription compete for its messages.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import nats.errors
from faststream.nats import NatsBroker
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo

from ..domain.errors import LethelogError, Unavailable
from . import cloudevents, parking_place, unhandled
from .binding import bind
from .broker import (
    BrokerSettings,
    close,
    connection_options,
    jetstream,
    keep_reconnecting,
    translated,
)
from .delivery import DeliveryRule, Terms
from .ending import end
from .pull import PatientPull
from .sequences import Sequences
from .subscriptions import Subscription, TaskSubscription, durables_of
from .topology import Durable, Topology

CHECK_SECONDS = 5.0
"""How often durables are compared with what they should be; at once when a worker meets trouble."""
_LOST_SECONDS = 10.0
"""After this long without the broker a connection is made anew, since a client may have given up reconnecting."""
_STALLED_AFTER = 3
_LONGEST_PAUSE = 5.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DurableState:
    """How a durable stands, for status and metrics."""

    name: str
    waiting: int
    """Messages not delivered yet."""
    open: int
    """Deliveries at work or put off."""
    redelivered: int
    retrying: int = 0
    """Events that wait to be tried again, and those that wait behind them."""
    parked: int = 0
    """Messages that wait for an operator."""


class Consumers:
    """Runs subscriptions until closed, through restarts of the broker and durables deleted under it."""

    def __init__(self, settings: BrokerSettings, decode: cloudevents.Decode, *, grace: float = 10.0) -> None:
        """``decode`` is `Log.decode`; ``grace`` is how many seconds running handlers get at close."""
        self._settings = settings
        self._decode = decode
        self._grace = grace
        self._subscriptions: tuple[Subscription, ...] = ()
        self._rule = DeliveryRule(self)
        self._sequences: dict[str, Sequences] = {}
        self._broker: NatsBroker | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._trouble = asyncio.Event()
        self._stalled = 0
        self.problem: str | None = None
        """Why nothing is consumed at the moment; None when all is well."""

    @property
    def rule(self) -> DeliveryRule:
        """Counts of what runs and how deliveries ended."""
        return self._rule

    async def open(self, subscriptions: Sequence[Subscription], *, patient: bool = False) -> None:
        """Start consuming; returns once it does.

        Raises `Unavailable` or `Misconfigured` when that cannot be; with ``patient`` it goes on trying instead.
        """
        self._subscriptions = tuple(subscriptions)
        for subscription in self._subscriptions:
            self._rule.add(subscription.name, self._terms(subscription))
        if not patient:
            try:
                await self._start()
            except BaseException:
                await self._stop()
                raise
        self._supervisor = asyncio.create_task(self._supervise(), name="lethelog-consumers")

    async def close(self) -> None:
        """Take no more messages, let running handlers finish, and give back those that do not."""
        if self._supervisor is not None:
            await end(self._supervisor)
            self._supervisor = None
        await self._stop()

    async def states(self) -> list[DurableState]:
        """How each durable stands. Raises `Unavailable`."""
        js = self._jetstream()
        retrying = await parking_place.retrying_counts(js, self._settings)
        parked = await parking_place.parked_counts(js, self._settings)
        return [
            DurableState(
                info.name,
                info.num_pending or 0,
                info.num_ack_pending or 0,
                info.num_redelivered or 0,
                retrying.get(info.name, 0),
                parked.get(info.name, 0),
            )
            for info in await self._infos()
            if info.stream_name != self._settings.stream("retries")
        ]

    def _jetstream(self) -> JetStreamContext:
        return jetstream(self._client(), self._settings)

    async def _infos(self) -> list[ConsumerInfo]:
        js = self._jetstream()
        with translated():
            return [await js.consumer_info(self._settings.stream(d.stream), d.name) for d in self._durables()]

    def _durables(self) -> list[Durable]:
        return [one for subscription in self._subscriptions for one in durables_of(subscription, self._settings)]

    def _topology(self) -> Topology:
        return Topology(self._settings, self._durables())

    def _terms(self, subscription: Subscription) -> Terms:
        slots = asyncio.Semaphore(subscription.concurrency)
        if isinstance(subscription, TaskSubscription):
            return Terms(subscription.policy, subscription.heartbeat, slots=slots)
        sequences = Sequences(self._settings, subscription.name, subscription.names, self._jetstream)
        self._sequences[subscription.name] = sequences
        in_place = subscription.max_ack_pending == 1
        if in_place:
            slots = asyncio.Semaphore(1)
        return Terms(subscription.policy, subscription.heartbeat, sequences, slots, in_place)

    async def park(self, message: Msg, error: str, failures: int) -> None:
        """See `unhandled.park`; for the delivery rule."""
        await unhandled.park(self._client(), self._settings, message, error, failures)

    async def retry_later(self, message: Msg, so_far: unhandled.SoFar, delay: float) -> None:
        """See `unhandled.retry_later`; for the delivery rule."""
        await unhandled.retry_later(self._client(), self._settings, message, so_far, delay)

    def _client(self) -> Client:
        if self._broker is None:
            raise Unavailable("the broker does not answer; is NATS running?")
        return self._broker.connection

    async def _start(self) -> None:
        # What is wrong with the broker shows here; FastStream leaves the sockets of failed attempts open.
        await self._topology().ensure()
        broker = self._broker = NatsBroker(
            **connection_options(self._settings, "consumers"),
            allow_reconnect=False,
            disconnected_cb=self._look,
            reconnected_cb=self._look,
            apply_types=False,
            # FastStream logs the text of handlers' errors, which may hold content.
            logger=None,
            graceful_timeout=self._grace,
            middlewares=[self._rule],
        )
        subscribers = [
            one
            for subscription in self._subscriptions
            for one in bind(broker, self._settings, subscription, self._decode)
        ]
        with translated():
            async with asyncio.timeout(self._settings.answer_timeout * 2):
                await broker.connect()
                # A client that gives up closes its connection; from now on it never does.
                keep_reconnecting(broker.connection)
                await broker.start()
        for subscriber in subscribers:
            pull = subscriber.subscription
            assert isinstance(pull, JetStreamContext.PullSubscription)
            subscriber.subscription = PatientPull(pull, self._trouble.set)  # type: ignore[assignment]
        self._rule.stopping.clear()
        self._trouble.clear()
        self._stalled = 0
        self.problem = None

    async def _look(self) -> None:
        self._trouble.set()

    async def _supervise(self) -> None:
        pause = 0.2
        while True:
            began = time.monotonic()
            try:
                if self._broker is None:
                    await self._start()
                await self._watch()
            except LethelogError as error:
                self.problem = error.message
                _LOG.warning("consumers start over: %s", error.code)
            except Exception as error:
                self.problem = type(error).__name__
                _LOG.warning("consumers start over: %s", type(error).__name__)
            await self._stop()
            if time.monotonic() - began > _LOST_SECONDS:
                pause = 0.2
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _watch(self) -> None:
        """Compare and mend until starting over is the better way; returns then."""
        assert self._broker is not None
        client = self._broker.connection
        heard = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._trouble.wait(), CHECK_SECONDS)
            self._trouble.clear()
            if client.is_closed:
                return
            if not client.is_connected:
                # It reconnects by itself and its subscriptions with it. Handlers at work are not cut short for it.
                self.problem = "the broker does not answer; is NATS running?"
                if time.monotonic() - heard > _LOST_SECONDS and not self._rule.running.total():
                    return
                await asyncio.sleep(0.1)
                self._trouble.set()
                continue
            heard = time.monotonic()
            try:
                for change in await self._topology().ensure(client):
                    _LOG.warning("%s was %s", change.what, change.kind)
                for sequences in self._sequences.values():
                    await sequences.notice()
                infos = await self._infos()
            except Unavailable as error:
                # Just back, or just gone: the connection says which.
                self.problem = error.message
                await asyncio.sleep(0.2)
                self._trouble.set()
                continue
            self.problem = None
            if self._is_stalled(infos):
                _LOG.warning("consumers start over: messages wait and nobody asks for them")
                return

    def _is_stalled(self, infos: Sequence[Any]) -> bool:
        """Whether messages wait although no worker asks for them or is at work, several checks on end."""
        idle = [
            info
            for info in infos
            if (info.num_pending or info.num_ack_pending)
            and not info.num_waiting
            and not self._rule.running[info.name]
        ]
        self._stalled = self._stalled + 1 if idle else 0
        return self._stalled >= _STALLED_AFTER

    async def _stop(self) -> None:
        broker, self._broker = self._broker, None
        if broker is None:
            return
        self._rule.stopping.set()
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError, ExceptionGroup):
            await asyncio.gather(*(s.stop() for s in broker.subscribers))
        await self._rule.settled()
        client = broker._connection  # pyright: ignore[reportPrivateUsage] - the property raises before it is made
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError, ExceptionGroup):
            await broker.stop()
        # Draining needs a connection; without one the client would go on reconnecting for ever.
        if client is not None and not client.is_closed:
            await close(client)
