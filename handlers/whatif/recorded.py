"""What passes asked, what was said and what became of it, read back for replaying."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ...domain import tenant as tenant_rules
from ...domain.events import PassCandidatesSelected, PassStarted
from ...domain.forgetting_pass import PassState, evolve_pass
from ...domain.policy import ForgettingPolicy
from ...domain.tenant import Tenant
from ...domain.whatif import Asked, Said
from ...projections.generations import tenant_read_models
from ...streams.folding import fold_states
from ..engine import Engine


@dataclass(frozen=True, slots=True)
class RecordedPass:
    """A pass that asked something."""

    state: PassState
    policy: ForgettingPolicy
    """The tenant's policy that it began under."""
    selected_at: datetime
    """When its questions were put on record; they are about memories as they were then."""
    asked: Mapping[str, Asked]
    """Its settled verdicts, by reference."""

    @property
    def now(self) -> datetime:
        """The moment that it judged staleness by."""
        assert self.state.settings is not None
        return self.state.settings.stale_before + timedelta(days=self.policy.stale_window_days)


async def read_passes(
    engine: Engine, tenant: UUID, since: datetime | None, most: int
) -> tuple[list[RecordedPass], int]:
    """The newest passes with verdicts since a moment, and how many more there are."""
    async with tenant_read_models(engine.doors, tenant) as connection:
        cursor = await connection.execute(_PASSES, {"tenant": tenant, "since": since, "most": most})
        found = await cursor.fetchall()
        ids = [row[0] for row in found]
        cursor = await connection.execute(_VERDICTS, {"tenant": tenant, "passes": ids})
        rows = await cursor.fetchall()
    asked: dict[UUID, dict[str, Asked]] = {one: {} for one in ids}
    for row in rows:
        one = _asked(row)
        asked[one.pass_id][one.ref] = one
    policies = await _policies(engine, tenant)
    streams = await engine.log.read_streams(tenant, ids)
    passes: list[RecordedPass] = []
    for pass_id in ids:
        state: PassState | None = None
        selected_at, version = None, None
        for recorded, after in fold_states(streams.get(pass_id, ()), evolve_pass):
            state = after
            if isinstance(recorded.event, PassStarted):
                version = recorded.envelope.policy
            elif isinstance(recorded.event, PassCandidatesSelected):
                selected_at = recorded.recorded_at
        if state is None or state.settings is None or selected_at is None:
            continue
        policy = policies.get(version or 0, ForgettingPolicy())
        passes.append(RecordedPass(state, policy, selected_at, asked[pass_id]))
    left_out = found[0][1] - len(found) if found else 0
    return passes, left_out


async def _policies(engine: Engine, tenant: UUID) -> dict[int, ForgettingPolicy]:
    """Every version of the tenant's policy."""
    found: dict[int, ForgettingPolicy] = {}
    state: Tenant
    for _, state in fold_states(await engine.log.read_stream(tenant, tenant), tenant_rules.evolve_tenant):
        found[state.policy_version] = state.policy
    return found


def _asked(row: tuple[Any, ...]) -> Asked:
    pass_id, ref, at, action, memory_id, related_id, probability, status, closed_at, undone = row
    asked = Asked(
        pass_id=pass_id,
        ref=ref,
        at=at,
        said=Said(action, memory_id, related_id, probability),
        staged=status != "dismissed",
        closed_at=closed_at,
    )
    if status not in ("applied", "rejected"):
        return asked
    return replace(asked, decision="accepted" if status == "applied" and not undone else "rejected")


_PASSES = """
    select pass_id, count(*) over () from review_queue
    where tenant = %(tenant)s and pass_id is not null and ref is not null
    group by 1 having %(since)s::timestamptz is null or max(created_at) >= %(since)s
    order by max(created_at) desc, 1 limit %(most)s
"""
_VERDICTS = """
    select q.pass_id, q.ref, q.created_at, q.action, q.memory_id, q.related_id, q.probability, q.status,
        q.decided_at, exists (
            select from effects e where e.tenant = q.tenant and e.proposal_id = q.proposal_id and e.undone)
    from review_queue q where q.tenant = %(tenant)s and q.pass_id = any(%(passes)s) and q.ref is not null
"""
