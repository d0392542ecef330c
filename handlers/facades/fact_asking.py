"""Asking the model of ``add(infer=True)``: on what terms stored memories go out with a conversation.

The conversation is the caller's, who named the model. Stored memories are the tenant's: they go out by the rule of
every judge (settlement 13), with the opt-in, within the day's budget, and on record before they leave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from ...domain.errors import BudgetExceeded
from ...domain.events import TenantBudgetSettled
from ...domain.extraction import EXTRACTION_OPERATION
from ...streams.ids import new_id
from ...streams.payloads import Envelope
from ..access.caller import Caller
from ..engine import Engine
from ..memories import MemoryCommands
from .fact_model import FactModel, FactReply
from .mem0_reading import Mem0Reading

KNOWN_SHOWN = 10
"""How many near memories the model sees, so that it does not tell them again."""


@dataclass(frozen=True, slots=True)
class _Call:
    """What was reserved for one answer."""

    id: UUID
    day: date
    envelope: Envelope


class FactAsking:
    """Asks for facts, for one caller at a time."""

    def __init__(self, engine: Engine, reading: Mem0Reading) -> None:
        self._engine = engine
        self._reading = reading
        self._commands = MemoryCommands(engine)

    async def facts(
        self,
        caller: Caller,
        model: FactModel,
        messages: Sequence[Mapping[str, Any]],
        owners: Mapping[str, str],
        instructions: str | None,
        after: int,
    ) -> tuple[str, ...]:
        """What the model takes from a conversation. ``after`` is a position that near memories must include.

        Raises `ExtractionFailed`.
        """
        sent = model.encoded(messages, (), instructions)
        near = await self._near(caller, messages, owners, after)
        call = await self._reserved(caller, model, near) if near else None
        if call is None:
            return (await model.ask(sent)).taken()
        # Only now: a memory that was erased before the call was on record is not in it, and the certificate of one
        # that is erased from now on names the call.
        known = await self._texts(caller.tenant, near)
        reply = await model.ask(model.encoded(messages, known, instructions))
        await self._engine.tenants.settle_call(caller.tenant, call.day, _settlement(call, reply), call.envelope)
        return reply.taken()

    async def _near(
        self, caller: Caller, messages: Sequence[Mapping[str, Any]], owners: Mapping[str, str], after: int
    ) -> list[UUID]:
        """Near memories, as far as the caller may read them and the tenant lets them be sent."""
        if "memory:read" not in caller.permissions:
            return []
        if not (await self._engine.tenants.get(caller.tenant, fresh=True)).judgment:
            return []
        query = " ".join(str(one["content"]) for one in messages)[-1_000:].replace("\x00", " ").strip()
        if not query:
            return []
        found = await self._reading.search(caller, query, owners, KNOWN_SHOWN, 0.0, "active", {"after": after})
        return [hit.row.memory_id for _, hit in found]

    async def _reserved(self, caller: Caller, model: FactModel, shown: Sequence[UUID]) -> _Call | None:
        """A call of the day's budget, on record; None where the tenant allows none just now."""
        tenant = await self._engine.tenants.get(caller.tenant, fresh=True)
        if not tenant.judgment:
            return None
        one = new_id()
        envelope = Envelope(
            caller.actor, cause=one, correlation=one, policy=tenant.policy_version, judge=model.identity
        )
        call = _Call(one, (await self._engine.log.now()).date(), envelope)
        try:
            await self._engine.tenants.reserve_call(
                tenant,
                call.day,
                call_id=one,
                pass_id=one,
                envelope=envelope,
                shown=shown,
                operation=EXTRACTION_OPERATION,
            )
        except BudgetExceeded:
            return None
        return call

    async def _texts(self, tenant: UUID, memories: Sequence[UUID]) -> list[str]:
        """Texts of those that are there still, in this order."""
        now = self._engine.clock()
        found = await self._commands.load_many(tenant, memories)
        there = [found[one] for one in memories if one in found]
        return [one.content for one in there if one.live and not one.expired(now) and one.content is not None]


def _settlement(call: _Call, reply: FactReply) -> TenantBudgetSettled:
    return TenantBudgetSettled(
        operation=EXTRACTION_OPERATION,
        call_id=call.id,
        pass_id=call.id,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cost_usd=reply.cost_usd,
    )
