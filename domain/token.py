"""The token aggregate: a credential of one actor, issued, rotated, revoked. Its secret is never on record."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from . import events as e
from .errors import Conflict

TokenStatus = Literal["active", "rotated", "expired", "revoked"]


@dataclass(frozen=True, slots=True)
class Token:
    """State of one token. ``digest`` is the SHA-256 of its secret, in hex."""

    id: UUID
    version: int
    actor_kind: e.TokenActorKind
    actor: UUID
    permissions: tuple[str, ...]
    digest: str
    issued_at: datetime
    expires_at: datetime | None
    """When it stops being valid; sooner than it was issued for, once it was rotated."""
    successor: UUID | None = None
    revoked_at: datetime | None = None

    def status(self, now: datetime) -> TokenStatus:
        """Whether it is valid: ``active``, and ``rotated`` for as long as the grace period lasts."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return "active" if self.successor is None else "rotated"


def evolve_token(
    state: Token | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime
) -> Token:
    """The state after one more event of its stream."""
    if isinstance(event, e.TokenIssued):
        return Token(
            id=stream,
            version=version,
            actor_kind=event.actor_kind,
            actor=event.actor,
            permissions=event.permissions,
            digest=event.digest,
            issued_at=recorded_at,
            expires_at=event.expires_at,
        )
    if state is None:
        raise ValueError(f"stream {stream} does not begin with token.issued")
    state = replace(state, version=version)
    match event:
        case e.TokenRotated():
            return replace(state, successor=event.successor, expires_at=event.valid_until)
        case e.TokenRevoked():
            return replace(state, revoked_at=recorded_at)
        case _:
            return state


def decide_rotate(
    state: Token, now: datetime, *, successor: UUID, digest: str, expires_at: datetime | None, grace: timedelta
) -> tuple[e.TokenIssued, e.TokenRotated]:
    """A successor of the same actor and permissions; the old one stays valid for the grace period.

    Raises `Conflict` for a token that is not active.
    """
    status = state.status(now)
    if status != "active":
        raise Conflict(f"this token is {status}; issue a new one", token_id=state.id, successor=state.successor)
    ends = now + grace
    issued = e.TokenIssued(
        actor_kind=state.actor_kind,
        actor=state.actor,
        permissions=state.permissions,
        digest=digest,
        expires_at=expires_at,
        predecessor=state.id,
    )
    valid_until = ends if state.expires_at is None else min(ends, state.expires_at)
    return issued, e.TokenRotated(successor=successor, valid_until=valid_until)


def decide_revoke(state: Token) -> list[e.Event]:
    """End it at once, whatever its state; nothing where it is revoked already."""
    return [] if state.revoked_at is not None else [e.TokenRevoked()]
