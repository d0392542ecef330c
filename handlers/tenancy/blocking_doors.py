"""``memory.tenants`` and ``memory.tokens`` for programs without asyncio."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ..access.caller import Permission
from ..access.tokens import DEFAULT_GRACE_SECONDS, DEFAULT_PERMISSIONS
from ..arguments import AnyId, AnyInstant
from ..operating.views import IssuedToken, TenantPage, TenantView, TokenPage, TokenView
from .doors import AsyncTenants, AsyncTokens

T = TypeVar("T")


class Run(Protocol):
    """Runs a coroutine and waits for it."""

    def __call__(self, work: Coroutine[Any, Any, T]) -> T: ...


class BlockingTenants:
    """See `AsyncTenants`."""

    def __init__(self, run: Run, tenants: AsyncTenants) -> None:
        self._run = run
        self._tenants = tenants

    def create(
        self, name: str, *, policy: Mapping[str, Any] | None = None, allow_lookalike: bool = False
    ) -> TenantView:
        """See `AsyncTenants.create`."""
        return self._run(self._tenants.create(name, policy=policy, allow_lookalike=allow_lookalike))

    def list(self, *, limit: int = 50, cursor: AnyId | None = None) -> TenantPage:
        """See `AsyncTenants.list`."""
        return self._run(self._tenants.list(limit=limit, cursor=cursor))

    def show(self, name: str) -> TenantView:
        """See `AsyncTenants.show`."""
        return self._run(self._tenants.show(name))


class BlockingTokens:
    """See `AsyncTokens`."""

    def __init__(self, run: Run, tokens: AsyncTokens) -> None:
        self._run = run
        self._tokens = tokens

    def issue(
        self,
        actor: str,
        *,
        permissions: Sequence[Permission] = DEFAULT_PERMISSIONS,
        expires_at: AnyInstant | None = None,
    ) -> IssuedToken:
        """See `AsyncTokens.issue`."""
        return self._run(self._tokens.issue(actor, permissions=permissions, expires_at=expires_at))

    def list(self, *, limit: int = 50, cursor: AnyId | None = None) -> TokenPage:
        """See `AsyncTokens.list`."""
        return self._run(self._tokens.list(limit=limit, cursor=cursor))

    def show(self, token_id: AnyId) -> TokenView:
        """See `AsyncTokens.show`."""
        return self._run(self._tokens.show(token_id))

    def rotate(
        self,
        token_id: AnyId,
        *,
        grace_seconds: int = DEFAULT_GRACE_SECONDS,
        expires_at: AnyInstant | None = None,
    ) -> IssuedToken:
        """See `AsyncTokens.rotate`."""
        return self._run(self._tokens.rotate(token_id, grace_seconds=grace_seconds, expires_at=expires_at))

    def revoke(self, token_id: AnyId) -> TokenView:
        """See `AsyncTokens.revoke`."""
        return self._run(self._tokens.revoke(token_id))
