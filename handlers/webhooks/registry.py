"""Webhooks as they stand on record, for doors and for the worker that sends: found, opened, appended to.

There are so many places for webhooks in a tenant, each a claim that its webhook holds; so a tenant never has more,
and all are found without a read model.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from ...domain import webhook as rules
from ...domain.errors import Conflict, Erased, NotFound
from ...domain.events import Event, WebhookEnabled, WebhookRegistered
from ...domain.webhook import Webhook
from ...streams import sealing
from ...streams.folding import fold_states
from ...streams.ids import new_id
from ...streams.log import Appended, Claim, NewEvent, Unit
from ...streams.payloads import Actor, Envelope, RecordedEvent
from ..engine import Engine
from ..kinds import refuse_other_kind
from .settings import MOST_PER_TENANT

ATTEMPTS = 20
PLACE = "webhook"
"""Kind of the claims that are the places for webhooks."""
_PURPOSE = "webhooks"
Part = Literal["url", "secret"]


@dataclass(frozen=True, slots=True)
class Found:
    """A webhook, and from where on it is sent what happens."""

    state: Webhook
    since: int
    """Position at which it was registered, or enabled last."""


class Registry:
    """The webhooks of all tenants."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def all(self, tenant: UUID) -> list[Found]:
        """The webhooks of a tenant that are not removed, by their places."""
        ids = await self._engine.log.claim_holders(tenant, PLACE, b"", MOST_PER_TENANT)
        if not ids:
            return []
        streams = await self._engine.log.read_streams(tenant, ids)
        return [found for one in ids if (found := _found(streams.get(one, ()))) is not None]

    async def get(self, tenant: UUID, webhook: UUID) -> Found:
        """One webhook, also one that was removed. Raises `NotFound`, `WrongKind`."""
        recorded = await self._engine.log.read_stream(tenant, webhook)
        refuse_other_kind(webhook, recorded, "webhook")
        found = _found(recorded)
        if found is None:
            raise NotFound(f"no webhook {webhook}; see: lethelog webhook list", webhook_id=webhook)
        return found

    async def register(self, tenant: UUID, actor: Actor, webhook: UUID, event: WebhookRegistered) -> None:
        """Take the first free place. Raises `Conflict` where there is none."""
        places = [_place(number) for number in range(MOST_PER_TENANT)]
        for _ in range(ATTEMPTS):
            holders = await self._engine.log.holders(tenant, [(PLACE, one) for one in places])
            free = next((one for one, holder in zip(places, holders, strict=True) if holder is None), None)
            if free is None:
                raise Conflict(f"a tenant has at most {MOST_PER_TENANT} webhooks; remove one first")
            claim = Claim(PLACE, free, None, webhook)
            if await self._append(tenant, actor, webhook, [NewEvent(webhook, 1, event)], [claim]):
                return
        raise Conflict("webhooks of this tenant keep changing; try again")

    async def decide(
        self, tenant: UUID, actor: Actor, webhook: UUID, decide: Callable[[Webhook], Sequence[Event]]
    ) -> bool:
        """Append what is decided from the webhook as it stands; whether that was anything.

        A webhook that is removed gives its place back.
        """
        for _ in range(ATTEMPTS):
            state = (await self.get(tenant, webhook)).state
            events = decide(state)
            if not events:
                return False
            new = [NewEvent(webhook, state.version + number, event) for number, event in enumerate(events, 1)]
            removed = any(event.NAME == "webhook.removed" for event in events)
            claims = await self._releases(tenant, webhook) if removed else []
            if await self._append(tenant, actor, webhook, new, claims):
                return True
        raise Conflict("the webhook keeps changing; try again", webhook_id=webhook)

    async def seal(self, tenant: UUID, webhook: UUID, part: Part, text: str) -> str:
        """URL or secret as an event holds it."""
        key = await self._engine.vault.purpose_key(tenant, _PURPOSE)
        return base64.b64encode(sealing.seal(key, text.encode(), _binding(tenant, webhook, part))).decode()

    async def unseal(self, tenant: UUID, webhook: UUID, part: Part, sealed: str) -> str:
        """What was sealed. Raises `SealBroken`, `UnusableKey`, and `Erased` where the tenant was."""
        key = await self._engine.vault.purpose_key(tenant, _PURPOSE)
        return sealing.unseal(key, base64.b64decode(sealed), _binding(tenant, webhook, part)).decode()

    async def url_or_none(self, tenant: UUID, state: Webhook) -> str | None:
        """Its URL; None where it does not open."""
        try:
            return await self.unseal(tenant, state.id, "url", state.url)
        except (sealing.SealBroken, sealing.UnusableKey, Erased):
            return None

    async def _releases(self, tenant: UUID, webhook: UUID) -> list[Claim]:
        places = [_place(number) for number in range(MOST_PER_TENANT)]
        holders = await self._engine.log.holders(tenant, [(PLACE, one) for one in places])
        return [
            Claim(PLACE, place, webhook, None)
            for place, holder in zip(places, holders, strict=True)
            if holder == webhook
        ]

    async def _append(
        self, tenant: UUID, actor: Actor, webhook: UUID, events: Sequence[NewEvent], claims: Sequence[Claim]
    ) -> bool:
        policy = (await self._engine.tenants.get(tenant)).policy_version
        cause = new_id()
        envelope = Envelope(actor, cause=cause, correlation=cause, policy=policy)
        unit = Unit(tenant=tenant, subject=webhook, events=events, envelope=envelope, claims=claims)
        return isinstance(await self._engine.log.append(unit), Appended)


def _found(recorded: Sequence[RecordedEvent]) -> Found | None:
    found: Found | None = None
    since = 0
    for one, state in fold_states(recorded, rules.evolve_webhook):
        if isinstance(one.event, WebhookRegistered | WebhookEnabled):
            since = one.position
        found = Found(state, since)
    return found


def _place(number: int) -> bytes:
    return bytes([number])


def _binding(tenant: UUID, webhook: UUID, part: Part) -> bytes:
    return b"lethelog-webhook" + tenant.bytes + webhook.bytes + part.encode()
