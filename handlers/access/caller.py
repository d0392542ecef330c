"""Who calls: the tenant comes from the credential, never from an argument (design.md 3)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from ...domain.errors import AccessDenied, InvalidInput
from ...domain.fields import TRUST_ORDER, Input, Name, Producer, Trust, parse
from ...streams.payloads import Actor, ActorKind

Permission = Literal[
    "memory:read",
    "memory:write",
    "memory:review",
    "memory:import",
    "memory:erase",
    "stream:read",
    "tenant:admin",
    "installation:admin",
]
"""What a credential may allow. ``tenant:admin`` is about its own tenant; ``installation:admin`` about what all
tenants share, the read models and copies of them."""
ALL_PERMISSIONS: frozenset[Permission] = frozenset(get_args(Permission))
"""What the local doors' caller holds."""
TOKEN_PERMISSIONS: frozenset[Permission] = ALL_PERMISSIONS - {"installation:admin"}
"""What a credential of one tenant may allow."""
NamedKind = Literal["person", "agent", "importer"]
NAMED_KINDS: tuple[NamedKind, ...] = get_args(NamedKind)
"""Kinds of actors that somebody is named as, and that the directory knows by name."""

_TRUST: dict[ActorKind, Trust] = {
    "person": "user",
    "agent": "agent",
    "importer": "imported",
    "worker": "host",
    "system": "host",
}
_PRODUCER: dict[ActorKind, Producer] = {
    "person": "user",
    "agent": "agent",
    "importer": "system",
    "worker": "system",
    "system": "system",
}


def known_permissions(given: Iterable[str]) -> frozenset[Permission]:
    """Those permissions of a credential that there are and that a credential may allow."""
    return TOKEN_PERMISSIONS.intersection(given)


def actor_of(text: str) -> tuple[NamedKind, str]:
    """Kind and name of ``person:ada``. Raises `InvalidInput`."""
    kind, _, name = text.partition(":")
    if kind not in NAMED_KINDS or not name.strip():
        raise InvalidInput("actor", "must be person:NAME, agent:NAME or importer:NAME", "See LETHELOG_ACTOR")
    return kind, parse(_Named, {"actor": name}).actor


class _Named(Input):
    actor: Name


@dataclass(frozen=True, slots=True)
class Caller:
    """A checked credential: one tenant, one actor, what it may do."""

    tenant: UUID
    actor: Actor
    permissions: frozenset[Permission] = ALL_PERMISSIONS
    expires_at: datetime | None = None
    """When the credential ends; None for one that does not, and for the operator."""

    def require(self, permission: Permission) -> None:
        """Raise `AccessDenied` unless the credential allows it."""
        if permission not in self.permissions:
            raise AccessDenied(f"this needs the permission {permission}", permission=permission)

    def require_person(self, what: str) -> None:
        """Raise `AccessDenied` for agents and importers: some things only a person, or the host, may say."""
        if self.actor.kind not in ("person", "system"):
            raise AccessDenied(f"only a person {what}; this caller is {self.actor.kind}", actor=self.actor.kind)

    @property
    def trust(self) -> Trust:
        """How far what this actor writes is trusted, unless it claims less."""
        return _TRUST[self.actor.kind]

    @property
    def producer(self) -> Producer:
        return _PRODUCER[self.actor.kind]

    def may_name(self, kind: NamedKind) -> bool:
        """Whether it may let somebody of this kind in: an agent makes no person, who may say what it may not."""
        return TRUST_ORDER.index(_TRUST[kind]) <= TRUST_ORDER.index(self.trust)

    def check_trust(self, claimed: Trust | None) -> None:
        """Nobody lends more trust than they have: an agent cannot write as the host (F21, F36)."""
        if claimed is not None and TRUST_ORDER.index(claimed) > TRUST_ORDER.index(self.trust):
            raise InvalidInput("trust", f"a {self.actor.kind} writes with at most trust {self.trust}")
