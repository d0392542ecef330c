"""What becomes of a delivery: acknowledged after its handler returned, put off, tried again, parked or refused.

FastStream's own policies either lose a failed message or deliver it again at once (engine-notes 2.4), so every
subscriber here acknowledges by this one middleware and by nothing else.
"""

import asyncio
import contextlib
import logging
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import nats.errors
from faststream import BaseMiddleware
from faststream.nats.message import NatsMessage
from nats.aio.msg import Msg

from ..domain.errors import LethelogError, Unavailable
from . import parking
from .parking import BEHIND
from .payloads import UnreadableEvent
from .sequences import Sequences, Turn

_LOG = logging.getLogger(__name__)
RENEWED = 100
"""Deliveries after which a message that waits to be tried again is put there anew."""
_REMEMBERED = 10_000
"""Messages whose failures are counted at the same time; the oldest count is dropped first."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and when a failed message comes again."""

    max_deliveries: int = 5
    """Failures after which it is parked. A message that was put off has not failed."""
    delays: tuple[float, ...] = (1.0, 5.0, 30.0, 120.0)
    """Seconds until it comes again, by failure; the last one holds for all later ones."""
    ack_wait: float = 30.0
    """Seconds of silence after which a delivery counts as lost and comes again."""
    time_limit: float | None = 900.0
    """Seconds a handler may take; then it is cancelled, which is a failure. None sets no limit."""
    most_deliveries: int = 500
    """Deliveries of any outcome after which it is parked: for a message that ends the process it comes to."""

    def delay(self, failures: int) -> float:
        return self.delays[min(failures, len(self.delays)) - 1] if self.delays and failures else 0.0


class RetryLater(LethelogError):
    """Raised by a handler: not now, and not the message's fault. It comes again and is not counted as failed."""

    code = "retry_later"

    def __init__(self, delay: float) -> None:
        super().__init__(f"to be tried again in {delay} seconds")
        self.delay = delay


class Park(LethelogError):
    """Raised by a handler: no retry will help, an operator must look. The reason is a code, never content."""

    code = "parked"

    def __init__(self, reason: str) -> None:
        super().__init__(f"parked: {reason}")
        self.reason = reason


class Reject(LethelogError):
    """Raised by a handler: the message is of no use any more; it ends here without a trace."""

    code = "rejected"

    def __init__(self) -> None:
        super().__init__("rejected")


class Elsewhere(Protocol):
    """Where messages go that were not handled; see `parking`. Both raise `Unavailable`."""

    async def park(self, message: Msg, error: str, failures: int) -> None: ...

    async def retry_later(self, message: Msg, failures: int, delay: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for the deliveries of one durable."""

    policy: RetryPolicy
    heartbeat: bool = True
    sequences: Sequences | None = None
    """Keeps events of one aggregate in order; None for tasks, which have none."""
    in_place: bool = True
    """Whether a message that is to come again stays where it is; with one open at a time it holds up the rest."""


class DeliveryRule:
    """The middleware of all subscribers of one broker: ``NatsBroker(middlewares=[rule])``."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self._elsewhere = elsewhere
        self._terms: dict[str, Terms] = {}
        self._failures: OrderedDict[tuple[str, str, int], int] = OrderedDict()
        self._settling: set[asyncio.Task[bool]] = set()
        self.running: Counter[str] = Counter()
        """Handlers at work, by durable."""
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """How deliveries ended, by durable and outcome; names only, so that metrics stay few."""

    def add(self, durable: str, terms: Terms) -> None:
        self._terms[durable] = terms

    def __call__(self, msg: Any, *, context: Any) -> "_Middleware":
        return _Middleware(msg, context=context, rule=self)

    async def settled(self) -> None:
        """Wait until deliveries given back by cancelled handlers are on their way."""
        if self._settling:
            await asyncio.wait(self._settling, timeout=1)

    async def handle(self, message: NatsMessage, work: Callable[[], Awaitable[object]]) -> None:
        """Run a handler when it is the message's turn, and settle its delivery by what it did."""
        durable = message.raw_message.metadata.consumer
        terms = self._terms[durable]
        self.running[durable] += 1
        try:
            async with _kept_alive(message, terms.policy.ack_wait / 3 if terms.heartbeat else None):
                if terms.sequences is None:
                    await self._run(_Delivery(message, terms, Turn("now")), work)
                else:
                    async with terms.sequences.turn(message.raw_message) as turn:
                        await self._take_turn(_Delivery(message, terms, turn), work)
        except asyncio.CancelledError:
            # The cancelled task may not be able to wait any more.
            self._later(self._settle(message, "put_off", message.nack))
            raise
        except Unavailable:
            # The broker could not say whose turn it is.
            await self._settle(message, "put_off", lambda: message.nack(delay=1.0))
        finally:
            self.running[durable] -= 1

    async def _take_turn(self, delivery: "_Delivery", work: Callable[[], Awaitable[object]]) -> None:
        match delivery.turn.kind:
            case "now":
                await self._run(delivery, work)
            case "after_retried" if delivery.terms.in_place:
                await self._put_off(delivery, 0.2)
            case "after_retried":
                await self._again(delivery, "behind", failures=0, delay=0.0)
            case "after_parked":
                await self._set_aside(delivery, BEHIND)
            case "held_already":
                delivery.turn.goes_on = True
                await self._settle(delivery.message, "repeated", delivery.message.ack)
            case "later" if delivery.turn.of_retry and _deliveries(delivery) >= RENEWED:
                # A new message, so that what only waits never seems to be one that ends its processes.
                await self._move(delivery, "put_off", self._failures_of(delivery), delivery.turn.delay)
            case "later":
                await self._put_off(delivery, delivery.turn.delay)

    async def _run(self, delivery: "_Delivery", work: Callable[[], Awaitable[object]]) -> None:
        message, policy = delivery.message, delivery.terms.policy
        if _deliveries(delivery) > policy.most_deliveries:
            await self._set_aside(delivery, "TooManyDeliveries")
            return
        try:
            async with asyncio.timeout(policy.time_limit):
                await work()
        except RetryLater as later:
            await self._again(delivery, "put_off", failures=self._failures_of(delivery), delay=later.delay)
        except Unavailable:
            # A server that is down is not the message's fault; parking everything would hide what happened.
            await self._put_off(delivery, policy.delay(1))
        except Reject:
            await self._end(delivery, "rejected", message.reject)
        except Park as parked:
            await self._set_aside(delivery, parked.reason)
        except UnreadableEvent as unreadable:
            await self._set_aside(delivery, type(unreadable).__name__)
        except Exception as error:
            await self._failed(delivery, error)
        else:
            await self._end(delivery, "handled", message.ack)

    def _failures_of(self, delivery: "_Delivery") -> int:
        raw = delivery.message.raw_message
        return parking.failures_before(raw) + self._failures.get(_identity(raw), 0)

    async def _failed(self, delivery: "_Delivery", error: Exception) -> None:
        raw, policy = delivery.message.raw_message, delivery.terms.policy
        # Counted here and not by the server, whose count also grows when a message is put off.
        self._failures[_identity(raw)] = self._failures.pop(_identity(raw), 0) + 1
        while len(self._failures) > _REMEMBERED:
            self._failures.popitem(last=False)
        failures = self._failures_of(delivery)
        # The error's text may hold content, so its kind is all that is told.
        _LOG.warning("%s: %s, failure %d", raw.metadata.consumer, type(error).__name__, failures)
        if failures >= policy.max_deliveries:
            await self._set_aside(delivery, type(error).__name__)
        else:
            await self._again(delivery, "failed", failures=failures, delay=policy.delay(failures))

    async def _again(self, delivery: "_Delivery", outcome: str, *, failures: int, delay: float) -> None:
        """Let a message come again: where it is, or from the retries, so that others are not held up."""
        message = delivery.message
        delivery.turn.goes_on = True
        if delivery.terms.in_place or delivery.turn.of_retry:
            await self._settle(message, outcome, lambda: message.nack(delay=delay))
        else:
            await self._move(delivery, outcome, failures, delay)

    async def _move(self, delivery: "_Delivery", outcome: str, failures: int, delay: float) -> None:
        message = delivery.message
        delivery.turn.goes_on = True
        try:
            await self._elsewhere.retry_later(message.raw_message, failures, delay)
        except Unavailable:
            await self._put_off(delivery, 1.0)
            return
        self._failures.pop(_identity(message.raw_message), None)
        await self._settle(message, outcome, message.ack)

    async def _put_off(self, delivery: "_Delivery", delay: float) -> None:
        delivery.turn.goes_on = True
        await self._settle(delivery.message, "put_off", lambda: delivery.message.nack(delay=delay))

    async def _set_aside(self, delivery: "_Delivery", reason: str) -> None:
        """Park, then end the delivery."""
        raw = delivery.message.raw_message
        try:
            await self._elsewhere.park(raw, reason, self._failures_of(delivery))
        except Unavailable:
            await self._put_off(delivery, 1.0)
            return
        delivery.turn.goes_on = True
        self._failures.pop(_identity(raw), None)
        await self._settle(delivery.message, "parked", delivery.message.reject)

    async def _end(
        self, delivery: "_Delivery", outcome: str, answer: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Settle a message that is done with, for good."""
        self._failures.pop(_identity(delivery.message.raw_message), None)
        if delivery.terms.sequences is not None and delivery.turn.twin is not None:
            with contextlib.suppress(Unavailable):
                await delivery.terms.sequences.forget_twin(delivery.turn)
        if not await self._settle(delivery.message, outcome, answer):
            delivery.turn.goes_on = True

    async def _settle(
        self, message: NatsMessage, outcome: str, answer: Callable[[], Coroutine[Any, Any, None]]
    ) -> bool:
        """Answer the broker; False when that did not get through."""
        self.outcomes[message.raw_message.metadata.consumer, outcome] += 1
        # An answer that does not get through is as none: the message comes again after its ack_wait.
        try:
            await answer()
        except (nats.errors.Error, OSError):
            return False
        return True

    def _later(self, settling: Coroutine[Any, Any, bool]) -> None:
        task = asyncio.create_task(settling)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)


@dataclass(frozen=True, slots=True)
class _Delivery:
    message: NatsMessage
    terms: Terms
    turn: Turn


class _Middleware(BaseMiddleware):
    def __init__(self, msg: Any, *, context: Any, rule: DeliveryRule) -> None:
        super().__init__(msg, context=context)
        self._rule = rule

    async def consume_scope(self, call_next: Callable[[Any], Awaitable[Any]], msg: Any) -> Any:
        await self._rule.handle(msg, lambda: call_next(msg))


@contextlib.asynccontextmanager
async def _kept_alive(message: NatsMessage, every: float | None) -> AsyncGenerator[None]:
    """Tell the broker that a long handler is still at it, or it would deliver the message once more (F43)."""

    async def beat(seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            with contextlib.suppress(nats.errors.Error, OSError):
                await message.in_progress()

    task = None if every is None else asyncio.create_task(beat(every))
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


def _deliveries(delivery: _Delivery) -> int:
    return delivery.message.raw_message.metadata.num_delivered


def _identity(message: Msg) -> tuple[str, str, int]:
    about = message.metadata
    return about.stream, about.consumer, about.sequence.stream
