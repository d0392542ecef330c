"""``memory.webhooks`` for programs without asyncio."""

from collections.abc import Sequence

from ...domain.webhook import DEFAULT_NAMES
from ..arguments import AnyId
from ..tenancy.blocking_doors import Run
from .doors import AsyncWebhooks
from .views import DeliveryPage, DeliveryStatus, DeliveryView, RegisteredWebhook, Replay, WebhookList, WebhookView
from .webhooks import DEFAULT_OVERLAP_SECONDS


class BlockingWebhooks:
    """See `AsyncWebhooks`."""

    def __init__(self, run: Run, webhooks: AsyncWebhooks) -> None:
        self._run = run
        self._webhooks = webhooks

    def add(self, url: str, *, names: Sequence[str] = DEFAULT_NAMES) -> RegisteredWebhook:
        """See `AsyncWebhooks.add`."""
        return self._run(self._webhooks.add(url, names=names))

    def list(self) -> WebhookList:
        """See `AsyncWebhooks.list`."""
        return self._run(self._webhooks.list())

    def show(self, webhook_id: AnyId) -> WebhookView:
        """See `AsyncWebhooks.show`."""
        return self._run(self._webhooks.show(webhook_id))

    def change(
        self, webhook_id: AnyId, *, url: str | None = None, names: Sequence[str] | None = None
    ) -> WebhookView:
        """See `AsyncWebhooks.change`."""
        return self._run(self._webhooks.change(webhook_id, url=url, names=names))

    def enable(self, webhook_id: AnyId) -> WebhookView:
        """See `AsyncWebhooks.enable`."""
        return self._run(self._webhooks.enable(webhook_id))

    def rotate(self, webhook_id: AnyId, *, overlap_seconds: int = DEFAULT_OVERLAP_SECONDS) -> RegisteredWebhook:
        """See `AsyncWebhooks.rotate`."""
        return self._run(self._webhooks.rotate(webhook_id, overlap_seconds=overlap_seconds))

    def remove(self, webhook_id: AnyId) -> WebhookView:
        """See `AsyncWebhooks.remove`."""
        return self._run(self._webhooks.remove(webhook_id))

    def test(self, webhook_id: AnyId, *, seconds: int = 15) -> DeliveryView:
        """See `AsyncWebhooks.test`."""
        return self._run(self._webhooks.test(webhook_id, seconds=seconds))

    def deliveries(
        self,
        webhook_id: AnyId,
        *,
        status: DeliveryStatus | None = None,
        limit: int = 50,
        cursor: AnyId | None = None,
    ) -> DeliveryPage:
        """See `AsyncWebhooks.deliveries`."""
        return self._run(self._webhooks.deliveries(webhook_id, status=status, limit=limit, cursor=cursor))

    def replay(self, webhook_id: AnyId, from_position: int, *, limit: int = 500) -> Replay:
        """See `AsyncWebhooks.replay`."""
        return self._run(self._webhooks.replay(webhook_id, from_position, limit=limit))

    def replay_delivery(self, delivery_id: AnyId) -> DeliveryView:
        """See `AsyncWebhooks.replay_delivery`."""
        return self._run(self._webhooks.replay_delivery(delivery_id))
