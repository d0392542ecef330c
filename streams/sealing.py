"""AES-256-GCM over personal text, bound to where it stands (design.md 4).

The ciphertext is nonce (12 bytes) followed by what AES-GCM gives. Associated data names tenant, stream,
version, event name and key, so that a sealed part moved to another row does not open.
"""

import hmac
import os
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..domain.errors import LethelogError, Misconfigured

KEY_BYTES = 32
_NONCE = 12
_TAG = 16
SEALED_KEY_BYTES = _NONCE + KEY_BYTES + _TAG


class SealBroken(LethelogError):
    """A sealed part does not open under its key: it was altered, moved, or the key is another one."""

    code = "seal_broken"


class UnusableKey(Misconfigured):
    """A key is there and cannot be unwrapped: damaged, or wrapped under a key that is not at hand.

    Never to be taken for a destroyed one, which is not there at all.
    """

    code = "unusable_key"


def new_key() -> bytes:
    """A fresh random 256-bit key."""
    return os.urandom(KEY_BYTES)


def new_keys(number: int) -> list[bytes]:
    """So many of them, by one call of the operating system."""
    drawn = os.urandom(KEY_BYTES * number)
    return [drawn[at : at + KEY_BYTES] for at in range(0, len(drawn), KEY_BYTES)]


def seal(key: bytes, text: bytes, bound_to: bytes) -> bytes:
    """Encrypt and authenticate ``text``; ``bound_to`` must be given again to open it."""
    return Sealer(key).seal(text, bound_to)


class Sealer:
    """`seal` under one key, for many texts."""

    __slots__ = ("_encrypt",)

    def __init__(self, key: bytes) -> None:
        self._encrypt = AESGCM(key).encrypt

    def seal(self, text: bytes, bound_to: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._encrypt(nonce, text, bound_to)


def unseal(key: bytes, sealed: bytes, bound_to: bytes) -> bytes:
    """What was sealed. Raises `SealBroken`."""
    return Opener(key).open(sealed, bound_to)


class Opener:
    """`unseal` under one key, for many texts."""

    __slots__ = ("_decrypt",)

    def __init__(self, key: bytes) -> None:
        try:
            self._decrypt = AESGCM(key).decrypt
        except ValueError:
            raise _broken() from None

    def open(self, sealed: bytes, bound_to: bytes) -> bytes:
        """What was sealed. Raises `SealBroken`."""
        try:
            return self._decrypt(sealed[:_NONCE], sealed[_NONCE:], bound_to)
        except (InvalidTag, ValueError):
            raise _broken() from None


def _broken() -> SealBroken:
    return SealBroken("a sealed part does not open under its key")


def derive(key: bytes, purpose: str) -> bytes:
    """A key for one purpose from a tenant's key."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose.encode()).derive(key)


def keyed_digest(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA-256 over length-prefixed parts, so that no two part lists collide."""
    said = b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "big"), part)])
    return hmac.digest(key, said, "sha256")


def event_binding(tenant: UUID, stream: UUID, version: int, name: str, key_id: UUID) -> bytes:
    """Associated data of a sealed part of an event."""
    return b"".join((tenant.bytes, stream.bytes, version.to_bytes(8, "big"), key_id.bytes, name.encode()))
