"""What runs beside the doors: read models, relay, pass manager, judge workers, schedule, webhooks, extraction.

Every role is safe to run in any number of processes: read models and relay have one leader each and others on
standby, the pass manager and the judges compete for messages.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from ...domain.commitment import EXPIRY_GRACE
from ...domain.errors import NotFound
from ...domain.extraction import FactExtractor
from ...domain.webhook import FAMILIES
from ...projections import links
from ...projections.rebuild import drop_retired
from ...projections.runner import ProjectionRunner
from ...streams.acknowledgments import QUEUE
from ...streams.broker import BrokerSettings
from ...streams.ending import end
from ...streams.handling import RetryPolicy
from ...streams.payloads import UnreadableEvent
from ...streams.relay import Relay
from ...streams.subscriptions import (
    EventHandler,
    EventSubscription,
    Subscription,
    TaskHandler,
    TaskSubscription,
    durables_of,
)
from ...streams.tasks import TaskPublisher
from ...streams.topology import Durable
from ..commitments.expiry import ExpirySweep
from ..consolidation.running import Consolidating
from ..consolidation.schedule import ConsolidationSchedule
from ..dependencies.reviews import DependencyReviews
from ..engine import Engine
from ..erasure.acknowledgments import Acknowledgments
from ..erasure.erasures import Erasures
from ..extracting.extracting import Extracting
from ..forgetting.judge_worker import JudgeWorker
from ..forgetting.pass_manager import PassManager
from ..forgetting.requesting import Passes
from ..forgetting.settings import PassSettings, task_queue
from ..sessions.closer import Closer, CloserSettings

if TYPE_CHECKING:
    from ...streams.consumers import Consumers
    from ..webhooks.worker import WebhookWorker

_LOG = logging.getLogger(__name__)
Role = Literal[
    "views",
    "relay",
    "passes",
    "judge",
    "schedule",
    "erasures",
    "webhooks",
    "commitments",
    "sessions",
    "consolidation",
    "dependencies",
    "extraction",
]
ALL_ROLES: frozenset[Role] = frozenset(get_args(Role))
SCHEDULE_SECONDS = 30.0
VECTOR_SECONDS = 5.0
"""How often rows without a vector are looked for."""
RETIRED_SECONDS = 20.0
"""How often retired generations of read models are looked for."""
ERASURE_SECONDS = 10.0
"""How often erasures are looked for that are not verified yet."""
LINK_SECONDS = 10.0
"""How often the links of memories are brought up, so that no erasure has to read a long log first."""
SWEEP_SECONDS = 900.0
"""How often commitments are looked for that are long overdue (behaviour.md 1.14.6)."""
CONSOLIDATION_SECONDS = 60.0
"""How often it is looked whether another hour has begun."""
CLOSER_SECONDS = 60.0
"""How often sessions are looked for that are over."""
DEPENDENCY_SECONDS = 900.0
"""How often memories are looked for that rest on what ended, beside those that events tell of."""
JUDGE_POLICY = RetryPolicy(max_deliveries=8, delays=(0.5, 2.0, 10.0, 60.0), ack_wait=30.0)


class Workers:
    """Runs roles until closed."""

    def __init__(
        self,
        engine: Engine,
        *,
        broker: BrokerSettings | None = None,
        passes: PassSettings | None = None,
        roles: Collection[Role] = ALL_ROLES,
        judge_concurrency: int = 4,
        commitment_grace: timedelta = EXPIRY_GRACE,
        closer: CloserSettings | None = None,
        extractor: FactExtractor | None = None,
    ) -> None:
        self._engine = engine
        self._broker = broker
        self._settings = passes
        self._roles = frozenset(roles)
        self._judge_concurrency = judge_concurrency
        self._extractor = extractor
        self._sweep = ExpirySweep(engine, commitment_grace)
        self._closer = closer
        self._tasks: list[asyncio.Task[None]] = []
        self._relay: Relay | None = None
        self._consumers: Consumers | None = None
        self._publisher: TaskPublisher | None = None
        self.webhooks: WebhookWorker | None = None
        """Counts what came of webhooks; None without that role."""

    async def open(self) -> None:
        """Start the roles. A broker that is down is waited for; writes and read models go on without it."""
        if "views" in self._roles:
            for projection in self._engine.projections:
                engine = self._engine
                runner = ProjectionRunner(engine.database, engine.log, engine.tail, projection)
                self._spawn(runner.run(), f"view-{projection.name}")
            self._spawn(_repeat(VECTOR_SECONDS, self._fill_vectors), "vectors")
            self._spawn(_repeat(RETIRED_SECONDS, self._drop_retired), "retired")
        if self._engine.erasure is not None and "erasures" in self._roles:
            self._spawn(_repeat(ERASURE_SECONDS, self._carry_on_erasures), "erasures")
            self._spawn(_repeat_after(LINK_SECONDS, self._keep_links), "links")
        if "webhooks" in self._roles:
            # The HTTP client takes a while to load, and only this role needs it.
            from ..webhooks.worker import WebhookWorker

            self.webhooks = WebhookWorker(self._engine)
            self._spawn(self.webhooks.run(), "webhooks")
        if "commitments" in self._roles:
            self._spawn(_repeat(SWEEP_SECONDS, self._sweep_commitments), "commitments")
        if self._closer is not None and self._closer.enabled and "sessions" in self._roles:
            self._open_closer(self._closer)
        if "consolidation" in self._roles:
            schedule = ConsolidationSchedule(self._engine)
            self._spawn(_repeat_after(CONSOLIDATION_SECONDS, schedule.look), "consolidation")
        if "dependencies" in self._roles:
            self._spawn(_repeat_after(DEPENDENCY_SECONDS, self._review_dependents), "dependencies")
        if self._broker is not None and "relay" in self._roles:
            self._relay = Relay(self._engine.database, self._engine.tail, self._broker)
            await self._relay.open()
        if self._broker is not None:
            await self._open_consumers(self._broker)

    async def close(self) -> None:
        """Let running handlers finish, then stop."""
        if self._consumers is not None:
            await self._consumers.close()
        await asyncio.gather(*(end(task) for task in self._tasks))
        self._tasks.clear()
        if self._relay is not None:
            await self._relay.close()
        if self._publisher is not None:
            await self._publisher.close()

    async def _open_consumers(self, broker: BrokerSettings) -> None:
        subscriptions: list[Subscription] = []
        if "erasures" in self._roles:
            subscriptions.append(_acknowledgments(Acknowledgments(self._engine, broker).handle))
        if self.webhooks is not None:
            subscriptions.append(_told(self.webhooks.handle))
        if "consolidation" in self._roles:
            subscriptions.append(_consolidations(Consolidating(self._engine).on_requested))
        if "dependencies" in self._roles:
            subscriptions.append(_endings(DependencyReviews(self._engine).on_ended))
        if "extraction" in self._roles and self._extractor is not None:
            subscriptions.append(_texts(Extracting(self._engine, self._extractor).on_remembered))
        if self._settings is not None:
            subscriptions += self._passes(broker, self._settings)
        if subscriptions:
            # Imported here: a command of the shell runs no consumer, and loading FastStream takes longer than it.
            from ...streams.consumers import Consumers

            self._consumers = Consumers(broker, self._engine.log.decode)
            await self._consumers.open(subscriptions, patient=True)

    def _passes(self, broker: BrokerSettings, settings: PassSettings) -> list[Subscription]:
        subscriptions: list[Subscription] = []
        if "passes" in self._roles:
            self._publisher = TaskPublisher(broker)
            manager = PassManager(self._engine, settings, self._publisher)
            subscriptions += [_requests(manager.on_requested), _verdicts(manager.on_verdict)]
            self._spawn(manager.run(), "passes")
        if "judge" in self._roles:
            worker = JudgeWorker(self._engine, settings)
            subscriptions.append(_tasks(settings.judge.identity, worker.handle, self._judge_concurrency))
        if "schedule" in self._roles and settings.enabled:
            self._spawn(_repeat(SCHEDULE_SECONDS, self._request_due), "schedule")
        return subscriptions

    async def _fill_vectors(self) -> None:
        while await self._engine.live_memory.fill_vectors(self._engine.database):
            pass

    async def _drop_retired(self) -> None:
        for projection in self._engine.projections:
            await drop_retired(self._engine.database, projection, self._engine.grace)

    async def _sweep_commitments(self) -> None:
        await self._sweep.sweep()

    def _open_closer(self, settings: CloserSettings) -> None:
        if settings.judge.closes_nothing_because is not None:
            _LOG.warning("the session closer does nothing: %s", settings.judge.closes_nothing_because)
            return
        closer = Closer(self._engine, settings.judge)

        async def look() -> None:
            await closer.look()
            await asyncio.sleep(CLOSER_SECONDS)

        # One process at a time: a second one would ask the judge the same.
        self._spawn(self._engine.log.leadership("session-closer").lead(look), "sessions")

    async def _review_dependents(self) -> None:
        await DependencyReviews(self._engine).sweep()

    async def _carry_on_erasures(self) -> None:
        await Erasures(self._engine).carry_on_open()

    async def _keep_links(self) -> None:
        await links.catch_up(self._engine.database, await self._engine.log.head())

    async def _request_due(self) -> None:
        assert self._settings is not None
        passes = Passes(self._engine, self._settings)
        for tenant in await self._engine.vault.tenants():
            try:
                await passes.request_scheduled(tenant, self._engine.clock())
            except NotFound:
                continue
            except UnreadableEvent as error:
                # Damaged, or written by a newer version: it holds no other tenant's pass up.
                _LOG.warning("a tenant was left out of the schedule of passes: %s", error.code)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"lethelog-{name}"))


def _requests(handle: EventHandler) -> EventSubscription:
    policy = RetryPolicy(max_deliveries=20, delays=(0.5, 2.0, 10.0, 30.0))
    return EventSubscription("pass-manager", ("pass.requested",), handle, policy=policy, concurrency=2)


def _verdicts(handle: EventHandler) -> EventSubscription:
    return EventSubscription("pass-verdicts", ("verdict.*",), handle, concurrency=16)


def _tasks(judge: str, handle: TaskHandler, concurrency: int) -> TaskSubscription:
    return TaskSubscription(task_queue(judge), handle, policy=JUDGE_POLICY, concurrency=concurrency)


def _acknowledgments(handle: TaskHandler) -> TaskSubscription:
    return TaskSubscription(QUEUE, handle)


def _told(handle: EventHandler) -> EventSubscription:
    names = tuple(f"{family}.*" for family in FAMILIES)
    # An event of a newer version is told of by its name and position, too.
    return EventSubscription("webhooks", names, handle, concurrency=8, unknown="deliver")


def _consolidations(handle: EventHandler) -> EventSubscription:
    policy = RetryPolicy(max_deliveries=20, delays=(0.5, 2.0, 10.0, 30.0))
    return EventSubscription("consolidation", ("consolidation.requested",), handle, policy=policy)


def _endings(handle: EventHandler) -> EventSubscription:
    names = ("memory.superseded", "memory.refuted", "erasure.performed")
    return EventSubscription("dependencies", names, handle, concurrency=2)


def _texts(handle: EventHandler) -> EventSubscription:
    # What was written before there was an extractor is read where somebody asks for it.
    policy = RetryPolicy(max_deliveries=5, delays=(5.0, 60.0, 600.0))
    names = ("memory.remembered",)
    return EventSubscription("extraction", names, handle, policy=policy, concurrency=4, start="new")


def durables_of_roles(broker: BrokerSettings, roles: Collection[str], judge: str) -> list[Durable]:
    """What roles consume by, with the judge of this identity; for comparing with what the broker has."""

    async def unused(_message: object) -> None:
        return None

    subscriptions: list[Subscription] = []
    if "passes" in roles:
        subscriptions += [_requests(unused), _verdicts(unused)]
    if "judge" in roles:
        subscriptions.append(_tasks(judge, unused, 1))
    if "erasures" in roles:
        subscriptions.append(_acknowledgments(unused))
    if "webhooks" in roles:
        subscriptions.append(_told(unused))
    if "consolidation" in roles:
        subscriptions.append(_consolidations(unused))
    if "dependencies" in roles:
        subscriptions.append(_endings(unused))
    if "extraction" in roles:
        subscriptions.append(_texts(unused))
    return [one for subscription in subscriptions for one in durables_of(subscription, broker)]


async def _repeat_after(seconds: float, once: Callable[[], Awaitable[None]]) -> None:
    """The same for what has no hurry: a process that lives for a moment only does none of it."""
    await asyncio.sleep(seconds)
    await _repeat(seconds, once)


async def _repeat(seconds: float, once: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await once()
        except Exception as error:
            _LOG.warning("a background step failed with %s; it is tried again", type(error).__name__)
        await asyncio.sleep(seconds)
