"""Forgetting policies as people state and read them: owners by name, what is unanswered, how the store grows."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from ...domain.errors import InvalidInput
from ...domain.fields import Input, Owner, parse
from ...domain.growth import NOTHING_FORGETS, Growth, project
from ...domain.policy import OWNERS, ForgettingPolicy
from ...domain.tenant import Tenant
from ...projections.generations import tenant_read_models
from ..access.caller import Caller
from ..engine import Engine
from ..operating.views import CapView, PolicyReport, StockView

MEASURED_DAYS = 30
"""How far back the pace of writing is measured."""


class _Owners(Input):
    owner: Owner | None = None
    contradiction_owner: Owner | None = None


class Policies:
    """A tenant's forgetting policy, for one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def registered(self, tenant: UUID, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The changes with people as opaque ids of that tenant's directory. Raises `InvalidInput`."""
        named = named_owners(changes)
        ids = {
            field: await self._engine.directory.register(tenant, "actor", name)
            for field, name in named.items()
            if name is not None
        }
        return {**changes, **ids}

    async def change(self, caller: Caller, changes: Mapping[str, Any]) -> int:
        """Put a changed policy in force; answers the log position, 0 where nothing changes."""
        caller.require("tenant:admin")
        # Refused before a name enters the directory.
        present = await self._engine.tenants.get(caller.tenant, fresh=True)
        parse(ForgettingPolicy, {**present.policy.model_dump(), **with_owners_hidden(changes)})
        wanted = await self.registered(caller.tenant, changes)
        return (await self._engine.tenants.set_policy(caller.tenant, wanted, caller.actor))[1]

    async def shown(self, state: Tenant) -> dict[str, Any]:
        """A policy as JSON-ready data, with people by name; None for one whose name was erased."""
        document = state.policy.model_dump(mode="json")
        ids = {field: getattr(state.policy, field) for field in OWNERS}
        names = await self._engine.directory.names(state.id, ids.values())
        return document | {field: None if one is None else names.get(one) for field, one in ids.items()}

    async def report(self, caller: Caller) -> PolicyReport:
        """The policy, what it leaves open, and the growth it leads to (D1 to D3)."""
        caller.require("memory:read")
        state = await self._engine.tenants.get(caller.tenant, fresh=True)
        policy = state.policy
        measured = await self._measured(caller.tenant, state)
        stated = policy.expected_writes_per_day is not None and policy.expected_average_kb is not None
        pace, size = (policy.expected_writes_per_day, policy.expected_average_kb) if stated else measured
        growth = _growth(policy, pace, size)
        bounded = policy.ttl_days is not None or policy.live_memories is not None
        owed: dict[str, tuple[str, ...]] = {**policy.unanswered()}
        notes = growth.notes if growth is not None else () if bounded else (NOTHING_FORGETS,)
        return PolicyReport(
            policy=await self.shown(state),
            policy_version=state.policy_version,
            unanswered=owed,
            figures="stated" if stated else "none" if growth is None else "measured",
            writes_per_day=pace,
            average_kb=size,
            growth={day: StockView(items=one.items, kb=one.kb) for day, one in growth.at.items()}
            if growth
            else {},
            steady=StockView(items=growth.steady.items, kb=growth.steady.kb) if growth and growth.steady else None,
            caps={name: CapView(items=one.items, day=one.day) for name, one in growth.caps.items()}
            if growth
            else {},
            live_memories=await self._engine.log.count_claims(caller.tenant, "content"),
            notes=(*notes, *_notes(policy)),
        )

    async def _measured(self, tenant: UUID, state: Tenant) -> tuple[float | None, float | None]:
        """Memories written a day, and KB of a memory, of the last days; None where none was written."""
        now = self._engine.clock()
        since = max(state.created_at, now - timedelta(days=MEASURED_DAYS))
        days = max((now - since) / timedelta(days=1), 1.0)
        async with tenant_read_models(self._engine.doors, tenant) as connection:
            cursor = await connection.execute(
                "select count(*), avg(octet_length(topic) + octet_length(content)) from live_memory "
                "where tenant = %s and recorded_at >= %s",
                (tenant, since),
            )
            row = await cursor.fetchone()
        if row is None or not row[0]:
            return None, None
        return row[0] / days, float(row[1]) / 1024


def named_owners(changes: Mapping[str, Any]) -> dict[str, str | None]:
    """The people that changes of a policy name, by field. Raises `InvalidInput`."""
    return parse(_Owners, {field: changes[field] for field in OWNERS if field in changes}).model_dump(
        exclude_unset=True
    )


def with_owners_hidden(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes with placeholders for people, to be checked before anything is made.

    Raises `InvalidInput`, also for what nobody states since it is on record by itself.
    """
    if changes.get("rehearsed_on") is not None:
        raise InvalidInput("rehearsed_on", "comes from the last rehearsal", "Run: lethelog erase rehearse")
    return {**changes, **{field: name and UUID(int=0) for field, name in named_owners(changes).items()}}


def _growth(policy: ForgettingPolicy, pace: float | None, size: float | None) -> Growth | None:
    if pace is None or size is None:
        return None
    return project(writes_per_day=pace, average_kb=size, ttl_days=policy.ttl_days, max_items=policy.live_memories)


def _notes(policy: ForgettingPolicy) -> list[str]:
    notes = [
        "What leaves live memory stays in the history: a bound keeps retrieval small and erases nothing.",
        "Caps of what is in front of this store are not known here.",
    ]
    if policy.live_memories is not None:
        at_cap = (
            "the write is refused"
            if policy.at_cap == "reject"
            else "the memory of the oldest freshness is archived"
        )
        notes.append(f"At the cap {at_cap}.")
    return notes
