"""A tenant's scopes, and what reads do that name none: everything, a default scope, or a refusal.

`get_facts` is exempt, since facts have no scope; so is whatever is asked for by id (behaviour.md 1.11).
"""

from collections.abc import Callable, Mapping
from typing import Any, Self
from uuid import UUID

from pydantic import Field, model_validator

from ...domain import tenant as rules
from ...domain.events import Event, RetrievalMode
from ...domain.fields import Input, Position, Scope, parse
from ...domain.retrieval import RetrievalPolicy
from ...domain.tenant import Tenant
from ...projections.generations import tenant_read_models
from ...projections.live_memory import LIVE, LiveMemory
from ...projections.progress import wait_for
from ..access.caller import Caller
from ..engine import Engine
from ..operating.views import RetrievalView, ScopePage, ScopeView, ScopeWritten

Decide = Callable[[Tenant], list[Event]]


class ScopesQuery(Input):
    """Which scopes to list, by name. ``cursor`` is the name that the page before ended with."""

    limit: int = Field(default=100, ge=1, le=500)
    cursor: Scope | None = None
    after: Position | None = None


class CreateScope(Input):
    """A scope to register."""

    scope: Scope


class SetRetrieval(Input):
    """What a read does that names no scope."""

    mode: RetrievalMode
    scope: Scope | None = None

    @model_validator(mode="after")
    def _scope_goes_with_default(self) -> Self:
        if (self.mode == "default") != (self.scope is not None):
            raise ValueError("scope must be given with the mode default, and with no other")
        return self


class Scopes:
    """Scopes of one caller's tenant."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(self, caller: Caller, arguments: Mapping[str, Any]) -> ScopePage:
        """Registered scopes and those that live memories are filed in, by name, and the retrieval policy."""
        caller.require("memory:read")
        query = parse(ScopesQuery, arguments)
        if query.after:
            await wait_for(self._engine.doors, LiveMemory.name, query.after)
        state = await self._engine.tenants.get(caller.tenant, fresh=True)
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            cursor = await connection.execute(
                _LISTED,
                {
                    "tenant": caller.tenant,
                    "registered": sorted(state.scopes),
                    "beyond": query.cursor,
                    "limit": query.limit + 1,
                },
            )
            rows = await cursor.fetchall()
        page = [ScopeView(scope=name, registered=name in state.scopes, memories=held) for name, held in rows]
        more = len(page) > query.limit
        listed = tuple(page[: query.limit])
        return ScopePage(
            scopes=listed,
            retrieval=shown(state.retrieval),
            next_cursor=listed[-1].scope if more else None,
        )

    async def create(self, caller: Caller, arguments: Mapping[str, Any]) -> ScopeWritten:
        """Register a scope; a second time changes nothing. Raises `Conflict` where there are too many."""
        caller.require("memory:write")
        scope = parse(CreateScope, arguments).scope
        return await self._change(caller, scope, lambda state: rules.decide_scope(state, scope))

    async def set_retrieval(self, caller: Caller, arguments: Mapping[str, Any]) -> ScopeWritten:
        """Change what reads without a scope do. Other processes follow within two seconds.

        Raises `NotFound` for a scope that is not registered.
        """
        caller.require("tenant:admin")
        wanted = parse(SetRetrieval, arguments)
        return await self._change(
            caller, wanted.scope, lambda state: rules.decide_retrieval(state, wanted.mode, wanted.scope)
        )

    async def _change(self, caller: Caller, scope: str | None, decide: Decide) -> ScopeWritten:
        state, position = await self._engine.tenants.change(caller.tenant, caller.actor, decide)
        return ScopeWritten(
            scope=scope,
            retrieval=shown(state.retrieval),
            position=position or await self._engine.log.newest_position(caller.tenant, caller.tenant),
            changed=position > 0,
        )


def shown(policy: RetrievalPolicy) -> RetrievalView:
    """A retrieval policy for an answer."""
    return RetrievalView(mode=policy.mode, scope=policy.scope)


async def applied_scope(engine: Engine, tenant: UUID, asked: str | None) -> str | None:
    """The scope that a read keeps to, by the tenant's policy. Raises `InvalidInput` where one is required."""
    if asked is not None:
        return asked
    state = await engine.tenants.get(tenant)
    return state.retrieval.applied(asked, state.scopes)


_LISTED = f"""
    select name, coalesce(held, 0) from unnest(%(registered)s::text[]) name
        full join (
            select scope as name, count(*) as held from live_memory where tenant = %(tenant)s and {LIVE}
            group by scope
        ) used using (name)
    where %(beyond)s::text is null or name > %(beyond)s
    order by name limit %(limit)s
"""
