"""Quotas of a tenant's policy: how many live memories it may have, and how many it may write in a minute.

They are judged by the append itself, so they are exact for any number of processes. At the cap of live memories
those that have expired are archived in the same unit, since what nobody finds must not hold a place. Where that is
too few, a write is refused, or, where the policy says so, others go, too: those of the oldest freshness, and never
one that is pinned, verified or core.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from ...domain.errors import QuotaExceeded
from ...domain.events import MemoryArchived
from ...domain.memory import Memory, evolve
from ...domain.policy import ForgettingPolicy
from ...domain.tenant import Tenant
from ...projections.generations import tenant_read_models
from ...projections.progress import wait_for
from ...streams.log import Claim, Limits, NewEvent, OverQuota
from ..claims import TextClaims
from ..engine import Engine

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


def refuse_unless_room_helps(policy: ForgettingPolicy, outcome: OverQuota) -> None:
    """Raise `QuotaExceeded` for a quota that making room does nothing for."""
    if outcome.quota == "rate":
        raise QuotaExceeded(
            f"the tenant may write {policy.writes_per_minute} memories in a minute; try again in {outcome.by} s",
            cap=policy.writes_per_minute,
            retry_after=outcome.by,
        )


class Quotas:
    """Chooses who goes at the cap."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def evict(self, tenant: Tenant, sparing: set[UUID], load: Load, texts: TextClaims) -> Evicted:
        """Archive as many as one more memory needs, by what is there now: nobody where there is room again.

        Raises `QuotaExceeded` where too few may go, `NotCaughtUp` where that cannot be said yet. A policy that
        rejects does not wait for that: what expired just now may hold its place until the read model shows it.
        """
        chosen = await self._choose(tenant, sparing, load)
        if chosen is None and tenant.policy.at_cap == "reject":
            raise _full(tenant.policy, "archive some, or have it changed: lethelog policy set live_memories=N")
        if chosen is None:
            # There may be others that the read model does not show yet.
            await wait_for(self._engine.doors, "live_memory", await self._engine.log.head())
            chosen = await self._choose(tenant, sparing, load)
        if chosen is None:
            raise _full(tenant.policy, "none of the others may go: they are pinned, verified or core")
        now = self._engine.clock()
        events: list[NewEvent] = []
        claims: list[Claim] = []
        for one in chosen:
            archived = MemoryArchived(rule="expired" if one.expired(now) else "oldest_freshness")
            events.append(NewEvent(one.id, one.version + 1, archived))
            after = evolve(one, archived, stream=one.id, version=one.version + 1, recorded_at=one.recorded_at)
            claims += await texts.of_change(one, after)
        return Evicted(tuple(one.id for one in chosen), tuple(events), tuple(claims))

    async def _choose(self, tenant: Tenant, sparing: set[UUID], load: Load) -> list[Memory] | None:
        """Those that go for one more to come; None where too few may."""
        may_go = await self._may_go(tenant, sparing, load)
        # Counted after they were read: who makes room meanwhile takes the first of the same ones, so that one of
        # the two units is refused, and who did before is counted. So together they take no more than is needed.
        held = await self._engine.log.count_claims(tenant.id, "content")
        most = tenant.policy.live_memories
        count = 0 if most is None else max(0, min(held + 1 - most, EVICTED_AT_ONCE))
        return may_go[:count] if len(may_go) >= count else None

    async def _may_go(self, tenant: Tenant, sparing: set[UUID], load: Load) -> list[Memory]:
        """Those that may go, the first one first; enough for one write, if there are."""
        fresh_too = tenant.policy.at_cap == "evict"

        def may_go(one: Memory) -> bool:
            kept = one.pinned or one.verified or one.core
            return one.live and (one.expired(now) or (fresh_too and not kept))

        found: list[Memory] = []
        looked_at = set(sparing)
        now = self._engine.clock()
        while len(found) < EVICTED_AT_ONCE:
            oldest = await self._oldest(tenant, looked_at)
            found += [one for one in (await load(tenant.id, oldest)).values() if may_go(one)]
            looked_at.update(oldest)
            if len(oldest) < LOOKED_AT:
                break
        return sorted(found, key=lambda one: (not one.expired(now), one.fresh_at, one.id))

    async def _oldest(self, tenant: Tenant, sparing: set[UUID]) -> list[UUID]:
        now = self._engine.clock()
        fresh_too = tenant.policy.at_cap == "evict"
        async with tenant_read_models(self._engine.doors, tenant.id) as connection:
            cursor = await connection.execute(
                "select memory_id from live_memory where tenant = %s and memory_id <> all(%s) "
                "and successor is null and not (archived or suppressed or refuted or quarantined) "
                "and (expires_at <= %s or (%s and not (pinned or verified or core))) "
                "order by coalesce(expires_at > %s, true), fresh_at, memory_id limit %s",
                (tenant.id, list(sparing), now, fresh_too, now, LOOKED_AT),
            )
            return [row[0] for row in await cursor.fetchall()]


def _full(policy: ForgettingPolicy, fix: str) -> QuotaExceeded:
    return QuotaExceeded(
        f"the tenant has the {policy.live_memories} live memories that its policy allows; {fix}",
        cap=policy.live_memories,
    )
