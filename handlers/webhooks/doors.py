"""``memory.webhooks``: the verbs of webhooks, for one caller."""

from collections.abc import Sequence

from ...domain.webhook import DEFAULT_NAMES
from ..arguments import AnyId
from ..engine import Engine
from ..tenancy.doors import Calling
from .views import DeliveryPage, DeliveryStatus, DeliveryView, RegisteredWebhook, Replay, WebhookList, WebhookView
from .webhooks import DEFAULT_OVERLAP_SECONDS, Webhooks


class AsyncWebhooks:
    """The webhooks of the caller's tenant; for whoever holds ``tenant:admin``."""

    def __init__(self, engine: Engine, caller: Calling) -> None:
        self._webhooks = Webhooks(engine)
        self._caller = caller

    async def add(self, url: str, *, names: Sequence[str] = DEFAULT_NAMES) -> RegisteredWebhook:
        """Tell a URL of events of these names, such as ``proposal.*``. The secret is told this once.

        Raises `Conflict` where the tenant has as many as it may have.
        """
        return await self._webhooks.add(await self._caller(), {"url": url, "names": names})

    async def list(self) -> WebhookList:
        """All webhooks, and how they do."""
        return await self._webhooks.list(await self._caller())

    async def show(self, webhook_id: AnyId) -> WebhookView:
        """One webhook, and how it does."""
        return await self._webhooks.show(await self._caller(), {"webhook_id": webhook_id})

    async def change(
        self, webhook_id: AnyId, *, url: str | None = None, names: Sequence[str] | None = None
    ) -> WebhookView:
        """Another URL, other events, or both."""
        arguments = {"webhook_id": webhook_id, "url": url, "names": names}
        return await self._webhooks.change(await self._caller(), arguments)

    async def enable(self, webhook_id: AnyId) -> WebhookView:
        """Send again, from now on, after it was disabled; see `replay` for what happened meanwhile."""
        return await self._webhooks.enable(await self._caller(), {"webhook_id": webhook_id})

    async def rotate(
        self, webhook_id: AnyId, *, overlap_seconds: int = DEFAULT_OVERLAP_SECONDS
    ) -> RegisteredWebhook:
        """Another secret, told this once; for the overlap messages are signed with both."""
        arguments = {"webhook_id": webhook_id, "overlap_seconds": overlap_seconds}
        return await self._webhooks.rotate(await self._caller(), arguments)

    async def remove(self, webhook_id: AnyId) -> WebhookView:
        """End a webhook and drop what waits for it."""
        return await self._webhooks.remove(await self._caller(), {"webhook_id": webhook_id})

    async def test(self, webhook_id: AnyId, *, seconds: int = 15) -> DeliveryView:
        """Have the worker send a message that tells of nothing; gives what came of it, waiting so long at most."""
        arguments = {"webhook_id": webhook_id, "seconds": seconds}
        return await self._webhooks.test(await self._caller(), arguments)

    async def deliveries(
        self,
        webhook_id: AnyId,
        *,
        status: DeliveryStatus | None = None,
        limit: int = 50,
        cursor: AnyId | None = None,
    ) -> DeliveryPage:
        """A page of what was sent and how that went, newest events first."""
        arguments = {"webhook_id": webhook_id, "status": status, "limit": limit, "cursor": cursor}
        return await self._webhooks.deliveries(await self._caller(), arguments)

    async def replay(self, webhook_id: AnyId, from_position: int, *, limit: int = 500) -> Replay:
        """Send events again, a page of them from this position of the log on; go on at ``next_position``."""
        arguments = {"webhook_id": webhook_id, "from_position": from_position, "limit": limit}
        return await self._webhooks.replay(await self._caller(), arguments)

    async def replay_delivery(self, delivery_id: AnyId) -> DeliveryView:
        """Send one delivery again, now, under its id."""
        return await self._webhooks.replay_delivery(await self._caller(), {"delivery_id": delivery_id})
