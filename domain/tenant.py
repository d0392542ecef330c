"""The tenant aggregate: its policies, scopes and opt-in to judging; and the budget of one UTC day."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from . import events as e
from .errors import Conflict, NotFound
from .policy import ForgettingPolicy
from .retrieval import FIRST_SCOPES, OFF, RetrievalPolicy

SCOPES_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class Tenant:
    """State of one tenant. ``policy_version`` counts its policies; it stands on every event they led to."""

    id: UUID
    version: int
    created_at: datetime
    policy: ForgettingPolicy
    policy_version: int = 1
    judgment: bool = False
    scopes: frozenset[str] = FIRST_SCOPES
    """Registered ones; a memory may be filed in others."""
    retrieval: RetrievalPolicy = OFF


def evolve_tenant(
    state: Tenant | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime
) -> Tenant:
    """The state after one more event of its stream."""
    if isinstance(event, e.TenantCreated):
        policy = ForgettingPolicy.model_validate(event.policy)
        return Tenant(stream, version, recorded_at, policy)
    if state is None:
        raise ValueError(f"stream {stream} does not begin with tenant.created")
    state = replace(state, version=version)
    match event:
        case e.TenantPolicyChanged():
            policy = ForgettingPolicy.model_validate(event.policy)
            return replace(state, policy=policy, policy_version=state.policy_version + 1)
        case e.TenantJudgmentOpted():
            return replace(state, judgment=event.enabled)
        case e.TenantScopeRegistered():
            return replace(state, scopes=state.scopes | {event.scope})
        case e.TenantRetrievalChanged():
            return replace(state, retrieval=RetrievalPolicy(event.mode, event.scope))
        case _:
            return state


def decide_create(policy: ForgettingPolicy) -> list[e.Event]:
    """A tenant begins with its policy; no write precedes it."""
    return [e.TenantCreated(policy=policy.model_dump(mode="json"))]


def decide_judgment(state: Tenant, enabled: bool) -> list[e.Event]:
    """Allow or forbid judging; nothing where it already is so."""
    return [] if state.judgment == enabled else [e.TenantJudgmentOpted(enabled=enabled)]


def decide_policy(state: Tenant, policy: ForgettingPolicy) -> list[e.Event]:
    """A new policy; nothing where it equals the present one."""
    return [] if state.policy == policy else [e.TenantPolicyChanged(policy=policy.model_dump(mode="json"))]


def decide_scope(state: Tenant, scope: str) -> list[e.Event]:
    """Register a scope; nothing where it is registered. Raises `Conflict` at the bound."""
    if scope in state.scopes:
        return []
    if len(state.scopes) >= SCOPES_LIMIT:
        raise Conflict(f"the tenant has {SCOPES_LIMIT} registered scopes already, which is the most", scope=scope)
    return [e.TenantScopeRegistered(scope=scope)]


def decide_retrieval(state: Tenant, mode: e.RetrievalMode, scope: str | None) -> list[e.Event]:
    """What reads without a scope do from now on; nothing where they do so already.

    Raises `NotFound` for a default scope that is not registered.
    """
    if scope is not None and scope not in state.scopes:
        raise NotFound(f"no scope {scope} is registered; create it first", scope=scope)
    if state.retrieval == RetrievalPolicy(mode, scope):
        return []
    return [e.TenantRetrievalChanged(mode=mode, scope=scope)]


@dataclass(frozen=True, slots=True)
class BudgetDay:
    """One tenant's metered calls of one UTC day; a stream of its own, so that judging never blocks settings."""

    id: UUID
    version: int = 0
    reserved: frozenset[UUID] = field(default_factory=frozenset[UUID])
    settled: frozenset[UUID] = field(default_factory=frozenset[UUID])


def evolve_budget(state: BudgetDay, event: e.Event, version: int) -> BudgetDay:
    """The state after one more event of its stream."""
    state = replace(state, version=version)
    match event:
        case e.TenantBudgetReserved():
            return replace(state, reserved=state.reserved | {event.call_id})
        case e.TenantBudgetSettled():
            return replace(state, settled=state.settled | {event.call_id})
        case _:
            return state


def decide_reserve(
    state: BudgetDay,
    *,
    cap: int,
    operation: str,
    call_id: UUID,
    pass_id: UUID,
    judge: str | None = None,
    shown: tuple[UUID, ...] = (),
) -> list[e.Event]:
    """Take a slot before a call; a call that already holds one takes no second (one charge per call, F43).

    Raises `Conflict` where the cap is reached: nothing is sent then.
    """
    if call_id in state.reserved:
        return []
    if len(state.reserved) >= cap:
        raise Conflict("the day's judging budget is used up", cap=cap)
    return [
        e.TenantBudgetReserved(operation=operation, call_id=call_id, pass_id=pass_id, judge=judge, shown=shown)
    ]
