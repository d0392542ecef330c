"""The deployment's signing key: what vouches for certificates of erasure, Ed25519."""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ..domain.errors import InvalidInput
from .master_keys import make_key_file, read_key_file


class SigningKey:
    """Signs statements. The file holds a seed of 32 bytes in base64, mode 0600, as key files do."""

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)

    @classmethod
    def open(cls, path: Path) -> "SigningKey":
        """The key in a file, which is made at first use. Raises `Misconfigured`."""
        if not path.exists():
            make_key_file(path)
        return cls(read_key_file(path)[0])

    @property
    def public(self) -> bytes:
        """Its public half, 32 bytes: what a certificate is checked against."""
        return self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        """The statement with its signature: the same each time, since Ed25519 takes no random number."""
        return {
            "statement": dict(statement),
            "sha256": digest(statement),
            "public_key": base64.b64encode(self.public).decode(),
            "signature": base64.b64encode(self._key.sign(canonical(statement))).decode(),
        }


@dataclass(frozen=True, slots=True)
class Signed:
    """A statement whose signature was checked."""

    statement: Mapping[str, Any]
    sha256: str
    public_key: bytes
    """Whoever holds its other half signed; whether that is the deployment, its public key elsewhere tells."""


def canonical(statement: Mapping[str, Any]) -> bytes:
    """The bytes that are signed: JSON, keys sorted, no white space."""
    return json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(statement: Mapping[str, Any]) -> str:
    """SHA-256 of a statement."""
    return hashlib.sha256(canonical(statement)).hexdigest()


def fingerprint(public: bytes) -> str:
    """A public key in short."""
    return hashlib.sha256(public).hexdigest()[:16]


def check(document: Mapping[str, Any]) -> Signed:
    """What a signed document states. Raises `InvalidInput` where it is none, or was changed."""
    try:
        statement = dict(document["statement"])
        public = base64.b64decode(document["public_key"], validate=True)
        signature = base64.b64decode(document["signature"], validate=True)
        Ed25519PublicKey.from_public_bytes(public).verify(signature, canonical(statement))
    except InvalidSignature:
        raise InvalidInput("certificate", "was changed after it was signed") from None
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise InvalidInput("certificate", "is not a signed statement of Lethelog") from None
    return Signed(statement, digest(statement), public)
