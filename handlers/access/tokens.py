"""Tokens of one tenant: issued, listed, rotated, revoked. The text of one is answered once and kept nowhere."""

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import Field

from ...domain import token as rules
from ...domain.errors import AccessDenied, Conflict, InvalidInput, NotFound
from ...domain.events import Event, TokenIssued
from ...domain.fields import Id, Input, Instant, parse
from ...domain.token import Token
from ...streams.folding import fold_stream
from ...streams.ids import new_id
from ...streams.log import Appended, Claim, NewEvent, Unit
from ...streams.payloads import Envelope
from ..engine import Engine
from ..kinds import refuse_other_kind
from ..operating.views import IssuedToken, TokenPage, TokenView
from .caller import TOKEN_PERMISSIONS, Caller, NamedKind, Permission, actor_of
from .credentials import digest_of
from .token_text import SECRET_BYTES, TokenText

ATTEMPTS = 20
DEFAULT_PERMISSIONS: tuple[Permission, ...] = ("memory:read", "memory:write")
DEFAULT_GRACE_SECONDS = 86_400


class IssueToken(Input):
    """A new token."""

    actor: str
    """Who will act with it: ``person:NAME``, ``agent:NAME`` or ``importer:NAME``."""
    permissions: tuple[Permission, ...] = DEFAULT_PERMISSIONS
    expires_at: Instant | None = None
    """None: it does not expire, or ends with the token that issues it."""


class TokenQuery(Input):
    """One token by its id."""

    token_id: Id


class TokensQuery(Input):
    """A page of tokens, in the order of their ids."""

    limit: int = Field(default=50, ge=1, le=500)
    cursor: Id | None = None


class RotateToken(TokenQuery):
    """A successor for a token."""

    grace_seconds: int = Field(default=DEFAULT_GRACE_SECONDS, ge=0, le=2_592_000)
    """How long the old one stays valid."""
    expires_at: Instant | None = None


class Tokens:
    """The tokens of a caller's tenant."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def issue(self, caller: Caller, arguments: Mapping[str, Any]) -> IssuedToken:
        """A token for an actor of this tenant; it allows no more than its issuer may do, nor for longer.

        Raises `InvalidInput`, `AccessDenied`.
        """
        caller.require("tenant:admin")
        command = parse(IssueToken, arguments)
        kind, name = actor_of(command.actor)
        expires_at = self._end(caller, command.expires_at)
        self._check_grant(caller, kind, command.permissions)
        actor = await self._engine.directory.register(caller.tenant, "actor", name)
        said = TokenText(caller.tenant, new_id(), secrets.token_bytes(SECRET_BYTES))
        issued = TokenIssued(
            actor_kind=kind,
            actor=actor,
            permissions=tuple(sorted(set(command.permissions))),
            digest=digest_of(said.secret),
            expires_at=expires_at,
        )
        unit = await self._unit(caller, said.token, [NewEvent(said.token, 1, issued)], fresh=said.token)
        if not isinstance(await self._engine.log.append(unit), Appended):
            raise Conflict("a fresh id was taken; try again")
        return IssuedToken(text=said.write(), token=await self.show(caller, {"token_id": said.token}))

    async def list(self, caller: Caller, arguments: Mapping[str, Any]) -> TokenPage:
        """A page of the tenant's tokens, also of those that are no longer valid; oldest first."""
        caller.require("tenant:admin")
        query = parse(TokensQuery, arguments)
        after = query.cursor.bytes if query.cursor else b""
        found = await self._engine.log.claim_holders(caller.tenant, "token", after, query.limit + 1)
        streams = await self._engine.log.read_streams(caller.tenant, found[: query.limit])
        states = [fold_stream(streams[one], rules.evolve_token) for one in found[: query.limit] if one in streams]
        views = await self._present(caller.tenant, [one for one in states if one is not None])
        return TokenPage(
            tokens=tuple(views), next_cursor=found[query.limit - 1] if len(found) > query.limit else None
        )

    async def show(self, caller: Caller, arguments: Mapping[str, Any]) -> TokenView:
        """One token. Raises `NotFound`, `WrongKind`."""
        caller.require("tenant:admin")
        state = await self._load(caller.tenant, parse(TokenQuery, arguments).token_id)
        [view] = await self._present(caller.tenant, [state])
        return view

    async def rotate(self, caller: Caller, arguments: Mapping[str, Any]) -> IssuedToken:
        """A successor with the same actor and permissions; the old one is valid for the grace period still."""
        caller.require("tenant:admin")
        command = parse(RotateToken, arguments)
        expires_at = self._end(caller, command.expires_at)
        said = TokenText(caller.tenant, new_id(), secrets.token_bytes(SECRET_BYTES))
        for _ in range(ATTEMPTS):
            state = await self._load(caller.tenant, command.token_id)
            self._check_grant(caller, state.actor_kind, state.permissions)
            issued, rotated = rules.decide_rotate(
                state,
                self._engine.clock(),
                successor=said.token,
                digest=digest_of(said.secret),
                expires_at=expires_at,
                grace=timedelta(seconds=command.grace_seconds),
            )
            events = [NewEvent(said.token, 1, issued), NewEvent(state.id, state.version + 1, rotated)]
            unit = await self._unit(caller, said.token, events, fresh=said.token)
            if isinstance(await self._engine.log.append(unit), Appended):
                return IssuedToken(text=said.write(), token=await self.show(caller, {"token_id": said.token}))
        raise Conflict("the token keeps changing; try again")

    async def revoke(self, caller: Caller, arguments: Mapping[str, Any]) -> TokenView:
        """End a token. Every process refuses it within two seconds."""
        caller.require("tenant:admin")
        token_id = parse(TokenQuery, arguments).token_id
        for _ in range(ATTEMPTS):
            state = await self._load(caller.tenant, token_id)
            events: list[Event] = rules.decide_revoke(state)
            if not events:
                break
            unit = await self._unit(caller, state.id, [NewEvent(state.id, state.version + 1, events[0])])
            if isinstance(await self._engine.log.append(unit), Appended):
                break
        else:
            raise Conflict("the token keeps changing and is not revoked; try again")
        return await self.show(caller, {"token_id": token_id})

    async def _unit(
        self, caller: Caller, subject: UUID, events: "list[NewEvent]", fresh: UUID | None = None
    ) -> Unit:
        command = new_id()
        tenant = await self._engine.tenants.get(caller.tenant)
        # A claim per token is what a list of them is read from.
        claims = [] if fresh is None else [Claim("token", fresh.bytes, None, fresh)]
        envelope = Envelope(caller.actor, cause=command, correlation=command, policy=tenant.policy_version)
        return Unit(tenant=caller.tenant, subject=subject, events=events, envelope=envelope, claims=claims)

    async def _load(self, tenant: UUID, token_id: UUID) -> Token:
        recorded = await self._engine.log.read_stream(tenant, token_id)
        refuse_other_kind(token_id, recorded, "token")
        state = fold_stream(recorded, rules.evolve_token)
        if state is None:
            raise NotFound(f"no token {token_id}", token_id=token_id)
        return state

    async def _present(self, tenant: UUID, states: "list[Token]") -> "list[TokenView]":
        names = await self._engine.directory.names(tenant, {one.actor for one in states})
        now = self._engine.clock()
        return [
            TokenView(
                id=one.id,
                actor=one.actor_kind + (f":{names[one.actor]}" if one.actor in names else ""),
                permissions=one.permissions,
                status=one.status(now),
                issued_at=one.issued_at,
                expires_at=one.expires_at,
                revoked_at=one.revoked_at,
                successor=one.successor,
            )
            for one in states
        ]

    def _end(self, caller: Caller, wanted: datetime | None) -> datetime | None:
        """When a token of this caller ends: as wanted, and with the caller's own credential at the latest."""
        if wanted is not None and wanted <= self._engine.clock():
            raise InvalidInput("expires_at", "is past already", "Give a later instant, or none")
        if wanted is None or caller.expires_at is None:
            return wanted or caller.expires_at
        if wanted > caller.expires_at:
            raise AccessDenied(
                "a token cannot outlive the credential that issues it; give an earlier expires_at, or none",
                expires_at=caller.expires_at.isoformat(),
            )
        return wanted

    def _check_grant(self, caller: Caller, kind: NamedKind, permissions: Any) -> None:
        if not caller.may_name(kind):
            raise AccessDenied(
                f"the token of a {kind} cannot come from a caller that is {caller.actor.kind}; ask a person"
            )
        for one in permissions:
            if one not in TOKEN_PERMISSIONS:
                raise InvalidInput(
                    "permissions",
                    f"{one} is not given to tokens: a token is of one tenant",
                    "Run such commands beside the data directory, without a token",
                )
            if one not in caller.permissions:
                raise AccessDenied(f"a token cannot allow {one}, which its issuer may not do", permission=one)
