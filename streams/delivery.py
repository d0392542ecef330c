"""What becomes of a delivery: acknowledged after its handler returned, put off, parked or refused.

FastStream's own policies either lose a failed message or deliver it again at once (engine-notes 2.4), so every
subscriber here acknowledges by this one middleware and by nothing else.
"""

import asyncio
import contextlib
import logging
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import nats.errors
from faststream import BaseMiddleware
from faststream.nats.message import NatsMessage
from nats.aio.msg import Msg

from ..domain.errors import LethelogError, Unavailable
from .payloads import UnreadableEvent

_LOG = logging.getLogger(__name__)
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


ParkMessage = Callable[[Msg, str], Awaitable[object]]


class DeliveryRule:
    """The middleware of all subscribers of one broker: ``NatsBroker(middlewares=[rule])``."""

    def __init__(self, park: ParkMessage) -> None:
        self._park = park
        self._terms: dict[str, tuple[RetryPolicy, bool]] = {}
        self._failures: OrderedDict[tuple[str, str, int], int] = OrderedDict()
        self._settling: set[asyncio.Task[None]] = set()
        self.running: Counter[str] = Counter()
        """Handlers at work, by durable."""
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """How deliveries ended, by durable and outcome; names only, so that metrics stay few."""

    def add(self, durable: str, policy: RetryPolicy, *, heartbeat: bool) -> None:
        self._terms[durable] = (policy, heartbeat)

    def __call__(self, msg: Any, *, context: Any) -> "_Delivery":
        return _Delivery(msg, context=context, rule=self)

    async def settled(self) -> None:
        """Wait until deliveries given back by cancelled handlers are on their way."""
        if self._settling:
            await asyncio.wait(self._settling, timeout=1)

    async def handle(self, message: NatsMessage, work: Callable[[], Awaitable[object]]) -> None:
        """Run a handler and settle its delivery by what it did."""
        raw = message.raw_message
        durable = raw.metadata.consumer
        policy, heartbeat = self._terms[durable]
        if raw.metadata.num_delivered > policy.most_deliveries:
            await self._set_aside(message, "TooManyDeliveries")
            return
        self.running[durable] += 1
        try:
            async with _kept_alive(message, policy.ack_wait / 3 if heartbeat else None):
                async with asyncio.timeout(policy.time_limit):
                    await work()
        except asyncio.CancelledError:
            # The cancelled task may not be able to wait any more.
            self._later(self._settle(message, "put_off", message.nack))
            raise
        except RetryLater as later:
            await self._put_off(message, later.delay)
        except Unavailable:
            # A server that is down is not the message's fault; parking everything would hide what happened.
            await self._put_off(message, policy.delay(1))
        except Reject:
            await self._settle(message, "rejected", message.reject)
        except Park as parked:
            await self._set_aside(message, parked.reason)
        except UnreadableEvent as unreadable:
            await self._set_aside(message, type(unreadable).__name__)
        except Exception as error:
            await self._failed(message, policy, error)
        else:
            self._failures.pop(_identity(raw), None)
            await self._settle(message, "handled", message.ack)
        finally:
            self.running[durable] -= 1

    async def _failed(self, message: NatsMessage, policy: RetryPolicy, error: Exception) -> None:
        raw = message.raw_message
        # Counted here and not by the server, whose count also grows when a message is put off.
        failures = self._failures.pop(_identity(raw), 0) + 1
        # The error's text may hold content, so its kind is all that is told.
        _LOG.warning("%s: %s, failure %d", raw.metadata.consumer, type(error).__name__, failures)
        if failures >= policy.max_deliveries:
            await self._set_aside(message, type(error).__name__)
            return
        self._failures[_identity(raw)] = failures
        while len(self._failures) > _REMEMBERED:
            self._failures.popitem(last=False)
        delay = policy.delay(failures)
        await self._settle(message, "failed", lambda: message.nack(delay=delay))

    async def _put_off(self, message: NatsMessage, delay: float) -> None:
        await self._settle(message, "put_off", lambda: message.nack(delay=delay))

    async def _set_aside(self, message: NatsMessage, reason: str) -> None:
        """Park, then end the delivery. Later events of the same memory are not held back yet."""
        try:
            await self._park(message.raw_message, reason)
        except Unavailable:
            await self._put_off(message, 1.0)
            return
        self._failures.pop(_identity(message.raw_message), None)
        await self._settle(message, "parked", message.reject)

    async def _settle(
        self, message: NatsMessage, outcome: str, answer: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        self.outcomes[message.raw_message.metadata.consumer, outcome] += 1
        # An answer that does not get through is as none: the message comes again after its ack_wait.
        with contextlib.suppress(nats.errors.Error, OSError):
            await answer()

    def _later(self, settling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(settling)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)


class _Delivery(BaseMiddleware):
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


def _identity(message: Msg) -> tuple[str, str, int]:
    about = message.metadata
    return about.stream, about.consumer, about.sequence.stream
