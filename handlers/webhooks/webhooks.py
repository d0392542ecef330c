"""What a tenant's administrators do with its webhooks."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Self
from uuid import UUID, uuid4

from pydantic import Field, StringConstraints, model_validator

from ...domain import webhook as rules
from ...domain.errors import Conflict, InvalidInput, NotFound
from ...domain.events import WebhookRegistered
from ...domain.fields import Id, Input, Name, parse
from ...domain.webhook import DEFAULT_NAMES
from ...streams.ids import new_id
from ...streams.pages import Selection
from ..access.caller import Caller
from ..engine import Engine
from . import deliveries
from .addresses import URL_LIMIT, check_url
from .deliveries import Message
from .health import Health, forget_failures, healths
from .lanes import Lane
from .payload import TEST, body_of_test
from .registry import Found, Registry
from .signature import new_secret
from .telling import messages_about
from .views import (
    DeliveryPage,
    DeliveryStatus,
    DeliveryView,
    RegisteredWebhook,
    Replay,
    WebhookList,
    WebhookStatus,
    WebhookView,
)

DEFAULT_OVERLAP_SECONDS = 86_400
_POLL_SECONDS = 0.05
_NEVER = Health()


Url = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=URL_LIMIT)]


class AddWebhook(Input):
    """A new webhook."""

    url: Url
    names: tuple[Name, ...] = Field(default=DEFAULT_NAMES, min_length=1, max_length=20)


class WebhookQuery(Input):
    """One webhook by its id."""

    webhook_id: Id


class ChangeWebhook(WebhookQuery):
    """Another URL, or other events."""

    url: Url | None = None
    names: tuple[Name, ...] | None = Field(default=None, min_length=1, max_length=20)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.url is None and self.names is None:
            raise ValueError("nothing to change: give url, names or both")
        return self


class RotateSecret(WebhookQuery):
    """Another secret."""

    overlap_seconds: int = Field(default=DEFAULT_OVERLAP_SECONDS, ge=0, le=2_592_000)
    """How long the present one signs beside it."""


class TryWebhook(WebhookQuery):
    """A message that tells of nothing."""

    seconds: int = Field(default=15, ge=0, le=300)
    """How long to wait for what comes of it."""


class DeliveriesQuery(WebhookQuery):
    """A page of the log of deliveries."""

    status: DeliveryStatus | None = None
    limit: int = Field(default=50, ge=1, le=500)
    cursor: Id | None = None


class ReplayEvents(WebhookQuery):
    """Events from a position on, to be sent again."""

    from_position: int = Field(ge=1, le=2**62)
    limit: int = Field(default=500, ge=1, le=2_000)
    """How many events to look at."""


class ReplayDelivery(Input):
    """One delivery, to be sent again."""

    delivery_id: Id


class Webhooks:
    """The webhooks of a caller's tenant; all of it needs ``tenant:admin``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._registry = Registry(engine)

    async def add(self, caller: Caller, arguments: Mapping[str, Any]) -> RegisteredWebhook:
        """A webhook, and its secret, which is told this once. Raises `InvalidInput`, `Conflict`."""
        caller.require("tenant:admin")
        command = parse(AddWebhook, arguments)
        names, url = rules.chosen_names(command.names), self._checked(command.url)
        webhook, secret = new_id(), new_secret()
        event = WebhookRegistered(
            names=names,
            url=await self._registry.seal(caller.tenant, webhook, "url", url),
            secret=await self._registry.seal(caller.tenant, webhook, "secret", secret),
        )
        await self._registry.register(caller.tenant, caller.actor, webhook, event)
        return RegisteredWebhook(secret=secret, webhook=await self.show(caller, {"webhook_id": webhook}))

    async def list(self, caller: Caller) -> WebhookList:
        """All webhooks of the tenant that are not removed."""
        caller.require("tenant:admin")
        return WebhookList(webhooks=await self._present(caller.tenant, await self._registry.all(caller.tenant)))

    async def show(self, caller: Caller, arguments: Mapping[str, Any]) -> WebhookView:
        """One webhook. Raises `NotFound`, `WrongKind`."""
        caller.require("tenant:admin")
        webhook = parse(WebhookQuery, arguments).webhook_id
        [view] = await self._present(caller.tenant, [await self._registry.get(caller.tenant, webhook)])
        return view

    async def change(self, caller: Caller, arguments: Mapping[str, Any]) -> WebhookView:
        """Another URL, other events, or both. Raises `InvalidInput`, `Conflict`."""
        caller.require("tenant:admin")
        command = parse(ChangeWebhook, arguments)
        webhook = command.webhook_id
        names = None if command.names is None else rules.chosen_names(command.names)
        url = None if command.url is None else self._checked(command.url)
        sealed = None if url is None else await self._registry.seal(caller.tenant, webhook, "url", url)
        decide = partial(rules.decide_change, names=names, url=sealed)
        await self._registry.decide(caller.tenant, caller.actor, webhook, decide)
        return await self.show(caller, {"webhook_id": webhook})

    async def enable(self, caller: Caller, arguments: Mapping[str, Any]) -> WebhookView:
        """Send again what happens from now on; what happened meanwhile is sent by `replay`."""
        caller.require("tenant:admin")
        webhook = parse(WebhookQuery, arguments).webhook_id
        # First, so that the worker does not count the old failures against it.
        await self._registry.get(caller.tenant, webhook)
        async with self._engine.doors.tenant(caller.tenant) as connection:
            await forget_failures(connection, Lane(caller.tenant, webhook))
        await self._registry.decide(caller.tenant, caller.actor, webhook, rules.decide_enable)
        return await self.show(caller, {"webhook_id": webhook})

    async def rotate(self, caller: Caller, arguments: Mapping[str, Any]) -> RegisteredWebhook:
        """Another secret, told this once; for a while those before sign too, so that receivers need no pause."""
        caller.require("tenant:admin")
        command = parse(RotateSecret, arguments)
        secret = new_secret()
        decide = partial(
            rules.decide_rotate,
            now=self._engine.clock(),
            secret=await self._registry.seal(caller.tenant, command.webhook_id, "secret", secret),
            overlap=timedelta(seconds=command.overlap_seconds),
        )
        await self._registry.decide(caller.tenant, caller.actor, command.webhook_id, decide)
        view = await self.show(caller, {"webhook_id": command.webhook_id})
        return RegisteredWebhook(secret=secret, webhook=view)

    async def remove(self, caller: Caller, arguments: Mapping[str, Any]) -> WebhookView:
        """End a webhook; what waits to be sent to it is dropped."""
        caller.require("tenant:admin")
        webhook = parse(WebhookQuery, arguments).webhook_id
        await self._registry.decide(caller.tenant, caller.actor, webhook, rules.decide_remove)
        return await self.show(caller, {"webhook_id": webhook})

    async def test(self, caller: Caller, arguments: Mapping[str, Any]) -> DeliveryView:
        """Send a message that tells of nothing, and what came of it; still ``pending`` without an attempt where no
        worker took it in time."""
        caller.require("tenant:admin")
        command = parse(TryWebhook, arguments)
        await self._active(caller.tenant, command.webhook_id)
        now, position = self._engine.clock(), await self._engine.log.head()
        message = Message(uuid4(), TEST, position, body_of_test(now, command.webhook_id))
        async with self._engine.doors.tenant(caller.tenant) as connection:
            await deliveries.queue(connection, Lane(caller.tenant, command.webhook_id), [message], now)
        deadline = asyncio.get_running_loop().time() + command.seconds
        while True:
            async with self._engine.doors.tenant(caller.tenant) as connection:
                found = await deliveries.find(connection, caller.tenant, message.id)
            assert found is not None
            if found.attempts or found.status != "pending" or asyncio.get_running_loop().time() >= deadline:
                return found
            await asyncio.sleep(_POLL_SECONDS)

    async def deliveries(self, caller: Caller, arguments: Mapping[str, Any]) -> DeliveryPage:
        """A page of what was sent to a webhook and how that went, newest events first."""
        caller.require("tenant:admin")
        query = parse(DeliveriesQuery, arguments)
        await self._registry.get(caller.tenant, query.webhook_id)
        lane = Lane(caller.tenant, query.webhook_id)
        async with self._engine.doors.tenant(caller.tenant) as connection:
            if query.cursor is not None and await deliveries.find(connection, caller.tenant, query.cursor) is None:
                raise InvalidInput("cursor", "is not a delivery that is still in the log", "Start without one")
            found = await deliveries.page(connection, lane, query.status, query.cursor, query.limit + 1)
        page, more = found[: query.limit], found[query.limit :]
        return DeliveryPage(deliveries=tuple(page), next_cursor=page[-1].id if more else None)

    async def replay(self, caller: Caller, arguments: Mapping[str, Any]) -> Replay:
        """Send events again, from a position of the log on: a page of them, and where the next one begins.

        Each keeps its id, so that a receiver that has it already sees that.
        """
        caller.require("tenant:admin")
        command = parse(ReplayEvents, arguments)
        found = await self._active(caller.tenant, command.webhook_id)
        head = await self._engine.log.head()
        names = tuple(name for name in rules.sendable_names() if found.state.wants(name))
        selection = Selection(caller.tenant, names, None)
        events = await self._engine.log.read_page(
            command.from_position - 1, command.limit + 1, head, only=selection
        )
        page, more = events[: command.limit], events[command.limit :]
        # What came in with an archive happened in another installation, and was told there.
        own = [one for one in page if one.envelope.origin is None]
        messages = await messages_about(self._engine.log, command.webhook_id, own)
        async with self._engine.doors.tenant(caller.tenant) as connection:
            lane = Lane(caller.tenant, command.webhook_id)
            queued = await deliveries.queue_again(connection, lane, messages, self._engine.clock())
        return Replay(
            queued=queued,
            upto=page[-1].position if more else head,
            next_position=more[0].position if more else None,
        )

    async def replay_delivery(self, caller: Caller, arguments: Mapping[str, Any]) -> DeliveryView:
        """Send one delivery again, now, under the id that it has. Raises `NotFound`, `Conflict`."""
        caller.require("tenant:admin")
        delivery = parse(ReplayDelivery, arguments).delivery_id
        async with self._engine.doors.tenant(caller.tenant) as connection:
            found = await deliveries.find(connection, caller.tenant, delivery)
        if found is None:
            raise NotFound(
                f"no delivery {delivery} in the log of deliveries; send its event again by its position",
                delivery_id=delivery,
            )
        await self._active(caller.tenant, found.webhook_id)
        async with self._engine.doors.tenant(caller.tenant) as connection:
            await deliveries.requeue(connection, caller.tenant, delivery, self._engine.clock())
            found = await deliveries.find(connection, caller.tenant, delivery)
        assert found is not None
        return found

    def _checked(self, url: str) -> str:
        return check_url(url, allow_private=self._engine.webhooks.allow_private)

    async def _active(self, tenant: UUID, webhook: UUID) -> Found:
        found = await self._registry.get(tenant, webhook)
        if found.state.removed:
            raise Conflict("this webhook was removed; add another one", webhook_id=webhook)
        if not found.state.active:
            raise Conflict(
                f"this webhook is disabled; enable it first: lethelog webhook enable {webhook}", webhook_id=webhook
            )
        return found

    async def _present(self, tenant: UUID, found: "list[Found]") -> tuple[WebhookView, ...]:
        async with self._engine.doors.tenant(tenant) as connection:
            found_healths = await healths(connection, tenant, [one.state.id for one in found])
        return tuple([await self._view(tenant, one, found_healths.get(one.state.id, _NEVER)) for one in found])

    async def _view(self, tenant: UUID, found: Found, health: Health) -> WebhookView:
        state = found.state
        return WebhookView(
            id=state.id,
            url=await self._registry.url_or_none(tenant, state),
            names=state.names,
            status=_status(found, health),
            registered_at=state.registered_at,
            disabled_at=state.disabled_at,
            disabled_because=None if state.disabled is None else state.disabled.reason,
            failing_since=health.failing_since,
            last_success=health.last_success,
            last_attempt=health.last_attempt,
            last_outcome=health.last_outcome,
            delivered=health.delivered,
            failed_attempts=health.failed_attempts,
            pending=health.pending,
            signs_twice_until=state.signs_twice_until(self._engine.clock()),
        )


def _status(found: Found, health: Health) -> WebhookStatus:
    if found.state.removed:
        return "removed"
    if found.state.disabled is not None:
        return "disabled"
    return "active" if health.failing_since is None else "failing"
