"""``memory.tenants`` and ``memory.tokens``: the verbs of tenants and of their tokens, for one caller."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ..access.caller import Caller, Permission
from ..access.tokens import DEFAULT_GRACE_SECONDS, DEFAULT_PERMISSIONS, Tokens
from ..arguments import AnyId, AnyInstant
from ..engine import Engine
from ..operating.views import IssuedToken, TenantPage, TenantView, TokenPage, TokenView
from .tenancy import Tenancy

Calling = Callable[[], Awaitable[Caller]]
"""Checks the credential and tells who calls."""


class AsyncTenants:
    """The tenants of this installation; for whoever holds ``installation:admin``."""

    def __init__(self, engine: Engine, caller: Calling) -> None:
        self._tenancy = Tenancy(engine)
        self._caller = caller

    async def create(
        self, name: str, *, policy: Mapping[str, Any] | None = None, allow_lookalike: bool = False
    ) -> TenantView:
        """Make a tenant, its forgetting policy first; fields that the policy leaves out have their defaults.

        Raises `Conflict` where there is one of this name, and `InvalidInput` where its name looks like another's.
        """
        arguments = {"name": name, "policy": policy or {}, "allow_lookalike": allow_lookalike}
        return await self._tenancy.create(await self._caller(), arguments)

    async def list(self, *, limit: int = 50, cursor: AnyId | None = None) -> TenantPage:
        """A page of tenants."""
        return await self._tenancy.list(await self._caller(), {"limit": limit, "cursor": cursor})

    async def show(self, name: str) -> TenantView:
        """One tenant by its name. Raises `NotFound`."""
        return await self._tenancy.show(await self._caller(), {"name": name})


class AsyncTokens:
    """The tokens of the caller's tenant; for whoever holds ``tenant:admin``."""

    def __init__(self, engine: Engine, caller: Calling) -> None:
        self._tokens = Tokens(engine)
        self._caller = caller

    async def issue(
        self,
        actor: str,
        *,
        permissions: Sequence[Permission] = DEFAULT_PERMISSIONS,
        expires_at: AnyInstant | None = None,
    ) -> IssuedToken:
        """A token for an actor, such as ``agent:planner``. Its text is told this once and kept nowhere."""
        arguments = {"actor": actor, "permissions": permissions, "expires_at": expires_at}
        return await self._tokens.issue(await self._caller(), arguments)

    async def list(self, *, limit: int = 50, cursor: AnyId | None = None) -> TokenPage:
        """A page of tokens, oldest first, also of those that are no longer valid."""
        return await self._tokens.list(await self._caller(), {"limit": limit, "cursor": cursor})

    async def show(self, token_id: AnyId) -> TokenView:
        """One token."""
        return await self._tokens.show(await self._caller(), {"token_id": token_id})

    async def rotate(
        self,
        token_id: AnyId,
        *,
        grace_seconds: int = DEFAULT_GRACE_SECONDS,
        expires_at: AnyInstant | None = None,
    ) -> IssuedToken:
        """A new token of the same actor and permissions; the old one stays valid for the grace period."""
        arguments = {"token_id": token_id, "grace_seconds": grace_seconds, "expires_at": expires_at}
        return await self._tokens.rotate(await self._caller(), arguments)

    async def revoke(self, token_id: AnyId) -> TokenView:
        """End a token: at most two seconds later no process takes it."""
        return await self._tokens.revoke(await self._caller(), {"token_id": token_id})
