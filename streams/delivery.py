"""What becomes of a delivery: acknowledged after its handler returned, put off, tried again, parked or refused.

FastStream's own policies either lose a failed message or deliver it again at once (engine-notes 2.4), so every
subscriber here acknowledges by this one middleware and by nothing else.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import nats.errors
from faststream import BaseMiddleware
from faststream.nats.message import NatsMessage
from nats.aio.msg import Msg

from ..domain.errors import Unavailable
from . import unhandled
from .handling import Park, Reject, RetryLater, RetryPolicy
from .heartbeat import kept_alive
from .payloads import UnreadableEvent
from .sequences import Sequences, Turn
from .unhandled import BEHIND, SoFar

_LOG = logging.getLogger(__name__)
HELD_SECONDS = 60.0
"""How long a message stays at its worker while a server is down; then others get their turn."""
_LONGEST_PAUSE = 5.0
"""Seconds between two tries of one that stays, at most: how late it notices that the server is back."""
_IN_PLACE_PAUSE = 0.2
_REMEMBERED = 10_000
"""Messages whose failures are counted at the same time; the oldest count is dropped first."""


class Elsewhere(Protocol):
    """Where messages go that were not handled; see `unhandled`. Both raise `Unavailable`."""

    async def park(self, message: Msg, error: str, failures: int) -> None: ...

    async def retry_later(self, message: Msg, so_far: SoFar, delay: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for the deliveries of one subscription."""

    policy: RetryPolicy
    heartbeat: bool = True
    sequences: Sequences | None = None
    """Keeps events of one aggregate in order; None for tasks, which have none."""
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """As many handlers as may be at work in this process, with new messages and those that come again."""
    in_place: bool = True
    """Whether a message that failed stays where it is; with one open at a time it holds up the rest."""


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
        self.stopping = asyncio.Event()
        """Set while no more messages are taken: what only waits is given back."""

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
            async with kept_alive(message, terms.policy.ack_wait / 3 if terms.heartbeat else None):
                if terms.sequences is None:
                    await self._take_turn(_Delivery(message, terms, _turn_of_task(message.raw_message)), work)
                    return
                while True:
                    async with terms.sequences.turn(message.raw_message) as turn:
                        delivery = _Delivery(message, terms, turn)
                        waits = turn.kind == "after_retried" and terms.in_place
                        if not (waits and await self._waited(delivery, _IN_PLACE_PAUSE)):
                            await self._take_turn(delivery, work)
                            return
                        turn.goes_on = True
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
                await self._put_off(delivery, _IN_PLACE_PAUSE)
            case "after_retried":
                await self._move(delivery, "behind", SoFar(), 0.0)
            case "after_parked":
                await self._set_aside(delivery, BEHIND)
            case "held_already":
                delivery.turn.goes_on = True
                await self._settle(delivery.message, "repeated", delivery.message.ack)
            case "later" if (
                delivery.turn.of_retry and _deliveries(delivery) >= delivery.terms.policy.many_deliveries
            ):
                # A new message, so that what only waits never seems to be one that ends its processes.
                await self._move(delivery, "put_off", self._so_far(delivery), delivery.turn.delay)
            case "later":
                await self._put_off(delivery, delivery.turn.delay)

    async def _run(self, delivery: "_Delivery", work: Callable[[], Awaitable[object]]) -> None:
        policy, movable = delivery.terms.policy, not (delivery.terms.in_place or delivery.turn.of_retry)
        if movable and _deliveries(delivery) > policy.many_deliveries:
            # It waited long for others, or ended its processes: among the retries that shows.
            await self._move(delivery, "put_off", self._so_far(delivery), 0.0)
        elif _deliveries(delivery) > policy.most_deliveries:
            await self._set_aside(delivery, "TooManyDeliveries")
        else:
            await self._work(delivery, work)

    async def _work(self, delivery: "_Delivery", work: Callable[[], Awaitable[object]]) -> None:
        message, policy = delivery.message, delivery.terms.policy
        began = time.monotonic()
        try:
            while (not_now := await self._try(delivery, work)) is not None:
                # A server that is down is so for the next message too, and parking all would hide what happened.
                stays = delivery.keeps_its_place or (
                    isinstance(not_now, Unavailable) and time.monotonic() - began < HELD_SECONDS
                )
                delay = not_now.delay if isinstance(not_now, RetryLater) else min(policy.delay(1), _LONGEST_PAUSE)
                if not (stays and await self._waited(delivery, delay)):
                    await self._not_now(delivery, not_now, delay)
                    return
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

    async def _try(
        self, delivery: "_Delivery", work: Callable[[], Awaitable[object]]
    ) -> RetryLater | Unavailable | None:
        """Run the handler; gives what it raised where that says nothing against the message."""
        try:
            async with delivery.terms.slots, asyncio.timeout(delivery.terms.policy.time_limit):
                await work()
        except (RetryLater, Unavailable) as not_now:
            return not_now
        return None

    async def _waited(self, delivery: "_Delivery", seconds: float) -> bool:
        """Wait with a message in hand; False where it is to be given back instead."""
        if not delivery.terms.heartbeat:
            return False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)
        return not self.stopping.is_set()

    async def _not_now(self, delivery: "_Delivery", why: RetryLater | Unavailable, delay: float) -> None:
        so_far = self._so_far(delivery)
        if delivery.keeps_its_place or (self.stopping.is_set() and isinstance(why, Unavailable)):
            await self._put_off(delivery, delay)
        elif isinstance(why, RetryLater):
            await self._move(delivery, "put_off", replace(so_far, put_off=so_far.put_off + 1), delay)
        else:
            await self._move(delivery, "put_off", so_far, delay)

    def _so_far(self, delivery: "_Delivery") -> SoFar:
        raw = delivery.message.raw_message
        before = unhandled.so_far(raw)
        return SoFar(before.failures + self._failures.get(_identity(raw), 0), before.put_off)

    async def _failed(self, delivery: "_Delivery", error: Exception) -> None:
        raw, policy = delivery.message.raw_message, delivery.terms.policy
        # Counted here and not by the server, whose count also grows when a message is put off.
        self._failures[_identity(raw)] = self._failures.pop(_identity(raw), 0) + 1
        while len(self._failures) > _REMEMBERED:
            self._failures.popitem(last=False)
        so_far = self._so_far(delivery)
        # The error's text may hold content, so its kind is all that is told.
        _LOG.warning("%s: %s, failure %d", raw.metadata.consumer, type(error).__name__, so_far.failures)
        delay = policy.delay(so_far.failures)
        if so_far.failures >= policy.max_deliveries:
            await self._set_aside(delivery, type(error).__name__)
        elif delivery.terms.in_place or delivery.turn.of_retry:
            delivery.turn.goes_on = True
            await self._settle(delivery.message, "failed", lambda: delivery.message.nack(delay=delay))
        else:
            await self._move(delivery, "failed", so_far, delay)

    async def _move(self, delivery: "_Delivery", outcome: str, so_far: SoFar, delay: float) -> None:
        """Put a message on the broker anew, where it holds up no others and its deliveries count from one."""
        message = delivery.message
        delivery.turn.goes_on = True
        try:
            await self._elsewhere.retry_later(message.raw_message, so_far, delay)
        except Unavailable:
            # A broker that takes nothing, with its disk full, may stay so for hours.
            await self._put_off(delivery, delivery.terms.policy.delay(_deliveries(delivery)))
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
            await self._elsewhere.park(raw, reason, self._so_far(delivery).failures)
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

    @property
    def keeps_its_place(self) -> bool:
        """Whether it holds up all that are behind it, so that the order of the whole log is kept."""
        return self.terms.in_place and self.terms.sequences is not None and not self.turn.of_retry


class _Middleware(BaseMiddleware):
    def __init__(self, msg: Any, *, context: Any, rule: DeliveryRule) -> None:
        super().__init__(msg, context=context)
        self._rule = rule

    async def consume_scope(self, call_next: Callable[[Any], Awaitable[Any]], msg: Any) -> Any:
        await self._rule.handle(msg, lambda: call_next(msg))


def _turn_of_task(message: Msg) -> Turn:
    due = unhandled.due_in(message)
    return Turn("later", due) if due > 0 else Turn("now")


def _deliveries(delivery: _Delivery) -> int:
    return delivery.message.raw_message.metadata.num_delivered


def _identity(message: Msg) -> tuple[str, str, int]:
    about = message.metadata
    return about.stream, about.consumer, about.sequence.stream
