"""How a key stands wrapped under its tenant's key, and which of its generations that is.

A tenant's key can be replaced, so for a while there are two. A wrapped data key says which one opens it: 4 bytes
of generation, then nonce and ciphertext; one of the time before has no generation, and belongs to the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID, uuid5

from . import sealing

_GENERATION_BYTES = 4
_WRAPPED_BYTES = _GENERATION_BYTES + sealing.SEALED_KEY_BYTES
ROOT_PURPOSE = "root"
KEPT_PURPOSES = ("claims", "command", "directory-lookup", "directory-name", ROOT_PURPOSE)
"""Keys derived from a tenant's first key that outlive it. All others are derived from that of ``root``."""
_PURPOSES = UUID("6c657468-656c-8f67-8000-6b6579730000")


@dataclass(frozen=True)
class TenantKeys:
    """A tenant's key in its generations: one, or two while it is being replaced."""

    generations: Mapping[int, bytes]

    @property
    def newest(self) -> int:
        """The generation that new keys are wrapped under; the first is 1."""
        return max(self.generations)

    @cached_property
    def wrapper(self) -> "Wrapper":
        """What wraps keys under the newest one."""
        return Wrapper(self.newest, self.generations[self.newest])


class Wrapper:
    """Wraps many keys under one generation of a tenant's key."""

    __slots__ = ("_generation", "_seal")

    def __init__(self, generation: int, key: bytes) -> None:
        self._generation = generation.to_bytes(_GENERATION_BYTES, "big")
        self._seal = sealing.Sealer(key).seal

    def wrap(self, key: bytes, bound_to: bytes) -> bytes:
        """The key as it is stored."""
        return self._generation + self._seal(key, bound_to)


def unwrap(wrapped: bytes) -> tuple[int, bytes]:
    """(generation of the tenant's key, the key sealed under it)."""
    if len(wrapped) != _WRAPPED_BYTES:
        return 1, wrapped
    return int.from_bytes(wrapped[:_GENERATION_BYTES], "big"), wrapped[_GENERATION_BYTES:]


def binding(tenant: UUID, key_id: UUID) -> bytes:
    """Associated data of a wrapped key."""
    return b"lethelog-key" + tenant.bytes + key_id.bytes


def key_id_of_purpose(purpose: str) -> UUID:
    """Under which id of a data key a tenant's key for a purpose is kept."""
    return uuid5(_PURPOSES, purpose)
