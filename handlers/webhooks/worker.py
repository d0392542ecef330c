"""The worker's role ``webhooks``: queues what the broker brings, and sends what is due.

An event becomes one delivery for each webhook that wants it, in the table from which any number of processes send.
So an outage of the broker keeps nothing from being sent that was queued, and one of a receiver keeps nothing from
being queued.
"""

import asyncio
import logging
from collections import Counter
from datetime import timedelta
from functools import partial

from ...domain import webhook as rules
from ...domain.errors import Erased, NotFound, Unavailable
from ...domain.events import WebhookDisabled
from ...streams.ending import end
from ...streams.payloads import RecordedEvent
from ...streams.sealing import SealBroken, UnusableKey
from ..engine import Engine
from ..forgetting.pass_log import WORKER
from . import deliveries
from .deliveries import Queue, Taken
from .lanes import Lane
from .registry import Found, Registry
from .sending import Answer, Sender
from .settings import DELAYS
from .signature import signed_headers
from .telling import messages_about
from .views import Attempt

POLL_SECONDS = 1.0
"""How often is looked for what is due; at once when something was queued here."""
CLEAR_SECONDS = 60.0
LANES = 16
"""Webhooks that are sent to at the same time, each one message after another."""
_TURN_SECONDS = 10.0
"""After this long with one webhook others get their turn."""
_LEASE_SPARE = 30.0
_LOG = logging.getLogger(__name__)


class WebhookWorker:
    """Queues and sends, until closed."""

    def __init__(self, engine: Engine, sender: Sender | None = None) -> None:
        self._engine = engine
        self._settings = engine.webhooks
        self._registry = Registry(engine)
        self._sender = sender or Sender(engine.webhooks)
        self._queue = Queue(engine, timedelta(seconds=engine.webhooks.timeout + _LEASE_SPARE))
        self._lanes: dict[Lane, asyncio.Task[None]] = {}
        self._queued = asyncio.Event()
        self._closing = False
        self.outcomes: Counter[str] = Counter()
        """What came of deliveries and attempts: queued, delivered, retried, failed, dropped, disabled. Words only,
        so that metrics stay few."""

    async def handle(self, recorded: RecordedEvent) -> None:
        """Queue an event for every webhook of its tenant that wants it. Doing so twice queues it once."""
        if self._engine.clock() - recorded.recorded_at > self._settings.log_kept:
            # A stream of the broker that was made anew begins with the oldest event, and what was sent long ago is
            # in the log of deliveries no more. Such events are sent by a replay only.
            return
        for found in await self._registry.all(recorded.tenant):
            if not found.state.active or recorded.position <= found.since or not found.state.wants(recorded.name):
                continue
            messages = await messages_about(self._engine.log, found.state.id, [recorded])
            lane = Lane(recorded.tenant, found.state.id)
            async with self._engine.database.connection() as connection:
                self.outcomes["queued"] += await deliveries.queue(connection, lane, messages, self._engine.clock())
            self._queued.set()

    async def run(self) -> None:
        """Send what is due, until cancelled; what is being sent then is finished first."""
        clearing = asyncio.create_task(self._clear_again_and_again(), name="lethelog-webhooks-clearing")
        try:
            while True:
                try:
                    await self._fill_lanes()
                except Unavailable:
                    pass
                except Exception as error:
                    _LOG.warning("looking for due deliveries failed: %s", type(error).__name__)
                await self._until_something_may_be_due()
        finally:
            self._closing = True
            await end(clearing)
            if self._lanes:
                # Each is at most one attempt and its record away from its end.
                await asyncio.wait(self._lanes.values(), timeout=self._settings.timeout + 1)
            for task in list(self._lanes.values()):
                await end(task)
            await self._sender.close()

    async def send_due(self) -> None:
        """Send all that is due at this moment, and return when nothing is."""
        while lanes := await self._queue.lanes(LANES):
            for lane in lanes:
                await self._send_in(lane)

    async def clear(self) -> None:
        """Delete what the log of deliveries keeps no longer."""
        before = self._engine.clock() - self._settings.log_kept
        while await self._queue.clear(before) >= deliveries.CLEARED_AT_ONCE:
            pass

    async def _until_something_may_be_due(self) -> None:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._queued.wait()
        except TimeoutError:
            return
        self._queued.clear()

    async def _fill_lanes(self) -> None:
        self._lanes = {lane: task for lane, task in self._lanes.items() if not task.done()}
        if len(self._lanes) >= LANES:
            return
        # Those at work are still due for all that the table knows, so more is asked for than can begin.
        for lane in await self._queue.lanes(2 * LANES):
            if lane not in self._lanes and len(self._lanes) < LANES:
                name = f"lethelog-webhook-{lane.webhook}"
                self._lanes[lane] = asyncio.create_task(self._run_lane(lane), name=name)

    async def _run_lane(self, lane: Lane) -> None:
        try:
            await self._send_in(lane)
        except Unavailable:
            # What was sent and could not be recorded is sent again, under the same id.
            return
        except Exception as error:
            _LOG.warning("webhook %s: %s", lane.webhook, type(error).__name__)
            return
        # Another webhook may have waited for this lane.
        self._queued.set()

    async def _send_in(self, lane: Lane) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + _TURN_SECONDS
        while not self._closing and loop.time() < ends:
            found = await self._found(lane)
            if found is None or not found.state.active:
                self.outcomes["dropped"] += await self._queue.drop(lane)
                return
            taken = await self._queue.take(lane)
            if taken is None or not await self._send(found, taken):
                return

    async def _send(self, found: Found, taken: Taken) -> bool:
        """Send one delivery and record that; whether the webhook is sent to still."""
        at = self._engine.clock()
        began = asyncio.get_running_loop().time()
        answer = await self._post(found, taken)
        milliseconds = round((asyncio.get_running_loop().time() - began) * 1_000)
        attempt = Attempt(at=at, outcome=answer.outcome, milliseconds=milliseconds)
        delay = None if answer.succeeded or answer.gone else delay_after(taken.failures + 1, answer)
        next_attempt = None if delay is None else self._engine.clock() + timedelta(seconds=delay)
        failing_since = await self._queue.record(taken, attempt, next_attempt)
        self.outcomes["delivered" if answer.succeeded else "failed" if delay is None else "retried"] += 1
        if answer.gone:
            await self._disable(taken.lane, WebhookDisabled(reason="gone"))
            return False
        if failing_since is not None and at - failing_since >= self._settings.disable_after:
            await self._disable(taken.lane, WebhookDisabled(reason="failing", failing_since=failing_since))
            return False
        return True

    async def _post(self, found: Found, taken: Taken) -> Answer:
        tenant, state, now = taken.lane.tenant, found.state, self._engine.clock()
        try:
            url = await self._registry.unseal(tenant, state.id, "url", state.url)
            keys = [await self._registry.unseal(tenant, state.id, "secret", one) for one in state.secrets(now)]
        except (SealBroken, UnusableKey):
            return Answer("unreadable")
        body = taken.body.encode()
        return await self._sender.post(url, signed_headers(str(taken.id), now, body, keys), body)

    async def _disable(self, lane: Lane, event: WebhookDisabled) -> None:
        await self._registry.decide(lane.tenant, WORKER, lane.webhook, partial(rules.decide_disable, event=event))
        self.outcomes["disabled"] += 1
        self.outcomes["dropped"] += await self._queue.drop(lane)
        _LOG.warning("webhook %s is disabled: %s", lane.webhook, event.reason)

    async def _found(self, lane: Lane) -> Found | None:
        try:
            # Asked first: of an erased tenant nothing opens, and nothing more is written.
            await self._engine.vault.tenant_keys(lane.tenant)
            return await self._registry.get(lane.tenant, lane.webhook)
        except (Erased, NotFound):
            return None
        except UnusableKey:
            return await self._registry.get(lane.tenant, lane.webhook)

    async def _clear_again_and_again(self) -> None:
        while True:
            try:
                await self.clear()
            except Exception as error:
                _LOG.info("clearing the log of deliveries failed: %s", type(error).__name__)
            await asyncio.sleep(CLEAR_SECONDS)


def delay_after(failures: int, answer: Answer) -> float | None:
    """Seconds until the next attempt after so many failed ones; None where there is none.

    A receiver may ask for more, up to the longest of them.
    """
    if failures > len(DELAYS):
        return None
    return max(DELAYS[failures - 1], min(answer.retry_after or 0.0, DELAYS[-1]))
