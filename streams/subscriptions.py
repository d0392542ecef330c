"""What a handler subscribes to: events of the log, or the tasks of a queue."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from .broker import BrokerSettings
from .handling import RetryPolicy
from .payloads import RecordedEvent
from .tasks import Task
from .topology import Durable

EventHandler = Callable[[RecordedEvent], Awaitable[None]]
TaskHandler = Callable[[Task], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class EventSubscription:
    """Events of the log, to a handler, which may get one more than once and knows it by its position."""

    name: str
    """Name of the durable; it remembers how far this subscription is."""
    names: tuple[str, ...]
    """Event names; ``proposal.*`` and ``*`` are allowed."""
    handler: EventHandler
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    again: EventHandler | None = None
    """Handles events that come again after later ones were handled; by default the handler does."""
    concurrency: int = 1
    """Events at work at the same time in this process; those of one aggregate stay in order."""
    heartbeat: bool = True
    max_ack_pending: int = 1000
    """Open deliveries in all processes together; 1 keeps the order of the log, and one that fails holds up all."""
    start: Literal["all", "new"] = "all"
    unknown: Literal["park", "deliver"] = "park"
    """What becomes of an event this version does not know: set aside for a newer one, or given with no payload."""


@dataclass(frozen=True, slots=True)
class TaskSubscription:
    """Tasks of a queue, to a handler."""

    queue: str
    handler: TaskHandler
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    concurrency: int = 1
    heartbeat: bool = True

    @property
    def name(self) -> str:
        return f"tasks-{self.queue}"


Subscription = EventSubscription | TaskSubscription


def durables_of(subscription: Subscription, settings: BrokerSettings) -> list[Durable]:
    """What a subscription has on the broker; the first is the one its new messages come from."""
    policy = subscription.policy
    if isinstance(subscription, TaskSubscription):
        subjects = (settings.task_subject(subscription.queue),)
        return [Durable(subscription.name, "tasks", subjects, ack_wait=policy.ack_wait)]
    events = Durable(
        subscription.name,
        "events",
        tuple(settings.event_filter(name) for name in subscription.names),
        ack_wait=policy.ack_wait,
        max_ack_pending=subscription.max_ack_pending,
        start=subscription.start,
    )
    subjects = (settings.retry_subject(subscription.name),)
    return [events, Durable(subscription.name, "retries", subjects, ack_wait=policy.ack_wait)]
