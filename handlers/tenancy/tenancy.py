"""Making and showing tenants. None comes to be by being named: only the default one is there from the start."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import Field

from ...domain.errors import Conflict, InvalidInput, NotFound
from ...domain.fields import Id, Input, parse
from ...domain.policy import ForgettingPolicy
from ...domain.tenant import Tenant
from ...streams.directory import INSTALLATION
from ...streams.payloads import Actor, ActorKind
from ..access.caller import Caller
from ..engine import Engine
from ..operating.views import TenantPage, TenantView
from .policies import Policies, with_owners_hidden
from .tenant_names import TenantName, look_alike

_NAMES_AT_ONCE = 1_000
_MAKING = 7283460114
"""Advisory lock: one tenant is made at a time, so that two names that look alike are not made at once."""


class CreateTenant(Input):
    """A new tenant, its forgetting policy first."""

    name: TenantName
    policy: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Fields of its forgetting policy; what is left out has its default."""
    allow_lookalike: bool = False
    """Make it although its name may be taken for another one's."""


class TenantQuery(Input):
    """One tenant by its name."""

    name: TenantName


class TenantsQuery(Input):
    """A page of tenants, in the order of their ids."""

    limit: int = Field(default=50, ge=1, le=500)
    cursor: Id | None = None


class Tenancy:
    """The tenants of one installation."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def create(self, caller: Caller, arguments: Mapping[str, Any]) -> TenantView:
        """Make a tenant; its policy is the first event of its log.

        Raises `Conflict` where there is one of this name, or one whose name looks like it and ``allow_lookalike``
        was not said.
        """
        caller.require("installation:admin")
        command = parse(CreateTenant, arguments)
        parse(ForgettingPolicy, with_owners_hidden(command.policy))
        engine = self._engine
        async with engine.database.transaction() as connection:
            await connection.execute("select pg_advisory_xact_lock(%s)", (_MAKING,))
            if await self.find(command.name) is not None:
                raise Conflict("there is a tenant of this name; see: lethelog tenant list")
            if not command.allow_lookalike:
                await self._refuse_lookalike(command.name)
            names = await engine.directory.names(caller.tenant, [caller.actor.id])
            maker = names.get(caller.actor.id, "unknown")
            return _view(await self.begin(command.name, caller.actor.kind, maker, command.policy), command.name)

    async def list(self, caller: Caller, arguments: Mapping[str, Any]) -> TenantPage:
        """A page of the tenants there are."""
        caller.require("installation:admin")
        query = parse(TenantsQuery, arguments)
        found = await self._engine.directory.page(INSTALLATION, "tenant", query.cursor, query.limit + 1)
        views: list[TenantView] = []
        for tenant, name in found[: query.limit]:
            state = await self._state(tenant)
            if state is not None:
                views.append(_view(state, name))
        return TenantPage(
            tenants=tuple(views), next_cursor=found[query.limit - 1][0] if len(found) > query.limit else None
        )

    async def show(self, caller: Caller, arguments: Mapping[str, Any]) -> TenantView:
        """One tenant by its name. Raises `NotFound`."""
        caller.require("installation:admin")
        query = parse(TenantQuery, arguments)
        return _view(await self.by_name(query.name), query.name)

    async def by_name(self, name: str) -> Tenant:
        """The tenant of a name; nothing is made. Raises `NotFound`, which says how to make it."""
        state = await self.find(parse(TenantQuery, {"name": name}).name)
        if state is None:
            raise NotFound(
                "there is no tenant of this name. Names are exact, case and all; to see them: lethelog tenant "
                "list, to make one: lethelog tenant create NAME"
            )
        return state

    async def find(self, name: str) -> Tenant | None:
        """The tenant of exactly this name in NFC, if it was made."""
        tenant = await self._engine.directory.find(INSTALLATION, "tenant", name)
        return None if tenant is None else await self._state(tenant)

    async def begin(
        self, name: str, kind: ActorKind, actor: str, policy: Mapping[str, Any] | None = None
    ) -> Tenant:
        """The tenant of this name, begun by that actor where it is not there yet."""
        tenant = await self._engine.directory.register(INSTALLATION, "tenant", name)
        by = Actor(kind, await self._engine.directory.register(tenant, "actor", actor))
        stated = await Policies(self._engine).registered(tenant, policy or {})
        return await self._engine.tenants.ensure(tenant, by, parse(ForgettingPolicy, stated))

    async def _state(self, tenant: UUID) -> Tenant | None:
        try:
            return await self._engine.tenants.get(tenant)
        except NotFound:
            # Named, and cut short before it began.
            return None

    async def _refuse_lookalike(self, name: str) -> None:
        after: UUID | None = None
        while True:
            page = await self._engine.directory.page(INSTALLATION, "tenant", after, _NAMES_AT_ONCE)
            for tenant, present in page:
                if present != name and look_alike(present, name):
                    raise InvalidInput(
                        "name",
                        f"may be taken for that of another tenant ({tenant})",
                        "Choose a name that differs in more than case, accents, separators or look-alike letters, "
                        "or say --allow-lookalike",
                    )
            if len(page) < _NAMES_AT_ONCE:
                return
            after = page[-1][0]


def _view(state: Tenant, name: str) -> TenantView:
    return TenantView(
        id=state.id,
        name=name,
        created_at=state.created_at,
        judgment=state.judgment,
        policy_version=state.policy_version,
        unanswered=tuple(state.policy.unanswered()),
    )
