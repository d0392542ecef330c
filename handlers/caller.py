"""Who calls: the tenant comes from the credential, never from an argument (design.md 3)."""

from dataclasses import dataclass
from typing import Literal, get_args
from uuid import UUID

from ..domain.errors import AccessDenied, InvalidInput
from ..domain.fields import TRUST_ORDER, Producer, Trust
from ..streams.payloads import Actor, ActorKind

Permission = Literal[
    "memory:read",
    "memory:write",
    "memory:review",
    "memory:import",
    "memory:erase",
    "tenant:admin",
    "installation:admin",
]
"""What a credential may allow. ``tenant:admin`` is about its own tenant; ``installation:admin`` about what all
tenants share, the read models and copies of them."""
ALL_PERMISSIONS: frozenset[Permission] = frozenset(get_args(Permission))
"""What the local doors' caller holds."""

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


@dataclass(frozen=True, slots=True)
class Caller:
    """A checked credential: one tenant, one actor, what it may do."""

    tenant: UUID
    actor: Actor
    permissions: frozenset[Permission] = ALL_PERMISSIONS

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

    def check_trust(self, claimed: Trust | None) -> None:
        """Nobody lends more trust than they have: an agent cannot write as the host (F21, F36)."""
        if claimed is not None and TRUST_ORDER.index(claimed) > TRUST_ORDER.index(self.trust):
            raise InvalidInput("trust", f"a {self.actor.kind} writes with at most trust {self.trust}")
