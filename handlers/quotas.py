"""Quotas of a tenant's policy: how many live memories it may have, and how many it may write in a minute.

They are judged by the append itself, so they are exact for any number of processes. At the cap of live memories a
write is refused, or others are archived in the same unit: first those that have expired, then those of the oldest
freshness, and never one that is pinned, verified or core.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from ..domain.errors import NotCaughtUp, QuotaExceeded
from ..domain.events import MemoryArchived
from ..domain.memory import Memory, evolve
from ..domain.policy import ForgettingPolicy
from ..domain.tenant import Tenant
from ..projections.generations import tenant_read_models
from ..projections.progress import wait_for
from ..streams.log import Claim, Limits, NewEvent, OverQuota
from .claims import TextClaims
from .engine import Engine

EVICTED_AT_ONCE = 20
"""How many one write makes room for; more are over a cap that was lowered, and each write brings it nearer."""
LOOKED_AT = 3 * EVICTED_AT_ONCE
Load = Callable[[UUID, Sequence[UUID]], Awaitable[dict[UUID, Memory]]]


@dataclass(frozen=True, slots=True)
class Evicted:
    """Memories that go for another one to come, and what that appends."""

    ids: tuple[UUID, ...] = ()
    events: tuple[NewEvent, ...] = ()
    claims: tuple[Claim, ...] = ()


NOBODY_EVICTED = Evicted()


def limits_of(policy: ForgettingPolicy, events: Sequence[NewEvent], claims: Sequence[Claim]) -> Limits | None:
    """What a unit is judged by; None for one that brings no memory, or where the policy sets no quota."""
    content = [one for one in claims if one.kind == "content"]
    grows = sum((one.holder is not None) - (one.held_by is not None) for one in content) > 0
    most = policy.live_memories if grows else None
    writes = any(one.event.NAME == "memory.remembered" for one in events)
    per_minute = policy.writes_per_minute if writes else None
    return None if most is None and per_minute is None else Limits(most, per_minute)


def over_by(policy: ForgettingPolicy, outcome: OverQuota) -> int:
    """How many must be evicted. Raises `QuotaExceeded` where that is not the policy."""
    if outcome.quota == "rate":
        raise QuotaExceeded(
            f"the tenant may write {policy.writes_per_minute} memories in a minute; try again in {outcome.by} s",
            cap=policy.writes_per_minute,
            retry_after=outcome.by,
        )
    if policy.at_cap == "reject":
        raise _full(policy, "archive some, or have the policy changed: lethelog policy set live_memories=N")
    return min(outcome.by, EVICTED_AT_ONCE)


class Quotas:
    """Chooses who goes at the cap."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def evict(
        self, tenant: Tenant, count: int, sparing: set[UUID], load: Load, texts: TextClaims
    ) -> Evicted:
        """So many memories, archived. Raises `QuotaExceeded` where too few may go."""
        states = (await load(tenant.id, await self._oldest(tenant.id, sparing))).values()
        now = self._engine.clock()
        may_go = [one for one in states if one.live and not (one.pinned or one.verified or one.core)]
        may_go.sort(key=lambda one: (not one.expired(now), one.fresh_at, one.id))
        if len(may_go) < count:
            raise _full(tenant.policy, "none of the others may go: they are pinned, verified or core")
        events: list[NewEvent] = []
        claims: list[Claim] = []
        for one in may_go[:count]:
            archived = MemoryArchived(rule="oldest_freshness")
            events.append(NewEvent(one.id, one.version + 1, archived))
            after = evolve(one, archived, stream=one.id, version=one.version + 1, recorded_at=one.recorded_at)
            claims += await texts.of_change(one, after)
        return Evicted(tuple(one.id for one in may_go[:count]), tuple(events), tuple(claims))

    async def _oldest(self, tenant: UUID, sparing: set[UUID]) -> list[UUID]:
        engine = self._engine
        with contextlib.suppress(NotCaughtUp):
            await wait_for(engine.doors, "live_memory", await engine.log.head())
        async with tenant_read_models(engine.doors, tenant) as connection:
            cursor = await connection.execute(
                "select memory_id from live_memory where tenant = %s and memory_id <> all(%s) "
                "and successor is null and not (archived or suppressed or refuted or quarantined) "
                "and not (pinned or verified or core) "
                "order by coalesce(expires_at > %s, true), fresh_at, memory_id limit %s",
                (tenant, list(sparing), engine.clock(), LOOKED_AT),
            )
            return [row[0] for row in await cursor.fetchall()]


def _full(policy: ForgettingPolicy, fix: str) -> QuotaExceeded:
    return QuotaExceeded(
        f"the tenant has the {policy.live_memories} live memories that its policy allows; {fix}",
        cap=policy.live_memories,
    )
