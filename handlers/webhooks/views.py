"""What webhooks answer."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from ..operating.views import View

WebhookStatus = Literal["active", "failing", "disabled", "removed"]
DeliveryStatus = Literal["pending", "delivered", "failed", "dropped"]


class WebhookView(View):
    """One webhook as it stands. Its secret is never shown again."""

    id: UUID
    url: str | None
    """None where it cannot be opened any more."""
    names: tuple[str, ...]
    status: WebhookStatus
    registered_at: datetime
    disabled_at: datetime | None = None
    disabled_because: Literal["failing", "gone"] | None = None
    failing_since: datetime | None = None
    """The first failed attempt since the last success."""
    last_success: datetime | None = None
    last_attempt: datetime | None = None
    last_outcome: str | None = None
    """Status code of the last attempt, or a word for what went wrong."""
    delivered: int = 0
    """Deliveries that arrived."""
    failed_attempts: int = 0
    pending: int = 0
    """Deliveries that wait for their next attempt."""
    signs_twice_until: datetime | None = None
    """Until when a secret before the newest one signs too."""


class RegisteredWebhook(View):
    """A webhook and its new secret, which is shown this once."""

    secret: str
    webhook: WebhookView


class WebhookList(View):
    """All webhooks of a tenant; there is a bound to how many it may have."""

    webhooks: tuple[WebhookView, ...]


class Attempt(View):
    """One request."""

    at: datetime
    outcome: str
    """Status code of the answer, or a word: timeout, connection, tls, address_refused, …"""
    milliseconds: int


class DeliveryView(View):
    """One message to one webhook. Its id is what the receiver gets as ``webhook-id``, however often it is sent."""

    id: UUID
    webhook_id: UUID
    event: str
    position: int
    """Of the event; a message to try it out stands at the end of the log of its time."""
    status: DeliveryStatus
    queued_at: datetime
    next_attempt: datetime | None = None
    finished_at: datetime | None = None
    attempts: tuple[Attempt, ...] = ()
    """The last of them, oldest first."""


class DeliveryPage(View):
    """A page of deliveries, newest events first."""

    deliveries: tuple[DeliveryView, ...]
    next_cursor: UUID | None = None


class Replay(View):
    """What was queued again."""

    queued: int
    upto: int
    """Position of the log up to which was looked."""
    next_position: int | None = None
    """Where to go on; None when all was looked at."""
