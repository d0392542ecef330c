"""Tenants: created with their policy, opted in to judging or not, and what the day's budget still allows."""

import time
from collections.abc import Callable, Collection, Mapping
from datetime import date
from typing import Any
from uuid import UUID, uuid5

from ...domain import tenant as rules
from ...domain.errors import BudgetExceeded, Conflict, NotFound
from ...domain.events import Event, TenantBudgetSettled
from ...domain.fields import parse
from ...domain.policy import JUDGE_OPERATION, ForgettingPolicy
from ...domain.tenant import BudgetDay, Tenant
from ...streams.folding import fold_stream
from ...streams.ids import new_id
from ...streams.log import Appended, CommandKey, Log, NewEvent, Unit
from ...streams.payloads import Actor, Envelope

CACHE_SECONDS = 2.0
"""How old a tenant's settings may be where nothing depends on the last second (policy version of envelopes)."""
ATTEMPTS = 20
BUDGETS_KEPT = 1_000
"""Days of tenants whose budget is kept folded."""


class Tenants:
    """Reads and changes tenants. A tenant's stream has the tenant's own id."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._cache: dict[UUID, tuple[float, Tenant]] = {}
        self._budgets: dict[UUID, BudgetDay] = {}

    async def get(self, tenant: UUID, *, fresh: bool = False) -> Tenant:
        """The tenant's settings; ``fresh`` reads them anew, as the opt-in demands before each send (A32)."""
        cached = self._cache.get(tenant)
        if not fresh and cached is not None and time.monotonic() - cached[0] < CACHE_SECONDS:
            return cached[1]
        state = fold_stream(await self._log.read_stream(tenant, tenant), rules.evolve_tenant)
        if state is None:
            raise NotFound("no such tenant")
        self._cache[tenant] = (time.monotonic(), state)
        return state

    async def ensure(self, tenant: UUID, actor: Actor, policy: ForgettingPolicy | None = None) -> Tenant:
        """The tenant, created with a policy at first use; nothing precedes that event in its log."""
        try:
            return await self.get(tenant)
        except NotFound:
            await self._append(tenant, 1, rules.decide_create(policy or ForgettingPolicy()), actor, None)
            return await self.get(tenant, fresh=True)

    async def set_judgment(self, tenant: UUID, enabled: bool, actor: Actor) -> tuple[Tenant, int]:
        """Opt in or out of judging, on the record. Returns the settings and the log position."""
        return await self.change(tenant, actor, lambda state: rules.decide_judgment(state, enabled))

    async def set_policy(
        self, tenant: UUID, changes: Mapping[str, Any] | ForgettingPolicy, actor: Actor
    ) -> tuple[Tenant, int]:
        """Put a changed policy in force, on the record; fields that are not named stay. Raises `InvalidInput`."""

        def decide(state: Tenant) -> list[Event]:
            if isinstance(changes, ForgettingPolicy):
                return rules.decide_policy(state, changes)
            return rules.decide_policy(state, parse(ForgettingPolicy, {**state.policy.model_dump(), **changes}))

        return await self.change(tenant, actor, decide)

    async def change(
        self, tenant: UUID, actor: Actor, decide: Callable[[Tenant], list[Event]]
    ) -> tuple[Tenant, int]:
        """Change settings as they are when it is stored. Returns them and the log position, 0 for no change."""
        for _ in range(ATTEMPTS):
            state = await self.get(tenant, fresh=True)
            events = decide(state)
            if not events:
                return state, 0
            position = await self._append(tenant, state.version + 1, events, actor, state.policy_version)
            if position:
                return await self.get(tenant, fresh=True), position
        raise Conflict("the tenant's settings keep changing; try again")

    async def as_of(self, tenant: UUID, position: int) -> Tenant | None:
        """The settings on record at a position of the log; None before there were any."""
        recorded = await self._log.read_streams(tenant, [tenant], upto=position)
        return fold_stream(recorded.get(tenant, ()), rules.evolve_tenant)

    async def reserve_call(
        self,
        tenant: Tenant,
        day: date,
        *,
        call_id: UUID,
        pass_id: UUID,
        envelope: Envelope,
        shown: Collection[UUID] = (),
        operation: str = JUDGE_OPERATION,
    ) -> None:
        """Reserve one judge call of the day's budget; the same call again reserves nothing more.

        ``shown`` are the memories whose text it will hold, by the judge that the envelope names.

        Raises `BudgetExceeded`; nothing may be sent then.
        """
        for _ in range(ATTEMPTS):
            budget = await self.budget(tenant.id, day)
            try:
                events = rules.decide_reserve(
                    budget,
                    cap=tenant.policy.judge_calls_per_day,
                    operation=operation,
                    call_id=call_id,
                    pass_id=pass_id,
                    judge=envelope.judge,
                    shown=tuple(sorted(shown)),
                )
            except Conflict:
                raise BudgetExceeded(
                    f"the day's {tenant.policy.judge_calls_per_day} judge calls are used up",
                    cap=tenant.policy.judge_calls_per_day,
                ) from None
            if not events:
                return
            unit = Unit(
                tenant=tenant.id,
                subject=budget.id,
                events=[NewEvent(budget.id, budget.version + 1, events[0])],
                envelope=envelope,
                command=CommandKey(uuid5(call_id, "reserve").bytes, call_id.bytes),
            )
            if isinstance(await self._log.append(unit), Appended):
                return
        raise Conflict("the budget keeps changing; try again")

    async def settle_call(self, tenant: UUID, day: date, settled: TenantBudgetSettled, envelope: Envelope) -> None:
        """Put on record what a reserved call really used; once, however often it is told."""
        for _ in range(ATTEMPTS):
            budget = await self.budget(tenant, day)
            if settled.call_id in budget.settled:
                return
            unit = Unit(
                tenant=tenant,
                subject=budget.id,
                events=[NewEvent(budget.id, budget.version + 1, settled)],
                envelope=envelope,
                command=CommandKey(uuid5(settled.call_id, "settle").bytes, settled.call_id.bytes),
            )
            if isinstance(await self._log.append(unit), Appended):
                return
        raise Conflict("the budget keeps changing; try again")

    async def budget(self, tenant: UUID, day: date) -> BudgetDay:
        """The metered calls of one UTC day."""
        stream = budget_stream(tenant, day)
        # Folded on from where it was: a day may hold very many calls.
        state = self._budgets.get(stream) or BudgetDay(stream)
        for recorded in await self._log.read_stream(tenant, stream, after=state.version):
            if recorded.event is not None:
                state = rules.evolve_budget(state, recorded.event, recorded.version)
        if stream not in self._budgets and len(self._budgets) >= BUDGETS_KEPT:
            self._budgets.clear()
        self._budgets[stream] = state
        return state

    async def _append(
        self, tenant: UUID, version: int, events: list[Event], actor: Actor, policy: int | None
    ) -> int:
        command = new_id()
        unit = Unit(
            tenant=tenant,
            subject=tenant,
            events=[NewEvent(tenant, version + n, event) for n, event in enumerate(events)],
            envelope=Envelope(actor, cause=command, correlation=command, policy=policy),
        )
        outcome = await self._log.append(unit)
        return outcome.position if isinstance(outcome, Appended) else 0


def budget_stream(tenant: UUID, day: date) -> UUID:
    """The stream of a tenant's metered calls of one UTC day."""
    return uuid5(tenant, f"budget:{day.isoformat()}")
