"""Signatures by the Standard Webhooks specification, version ``v1``: HMAC-SHA256 over id, timestamp and body.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    """A fresh secret as receivers are given it: the prefix, and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(message_id: str, at: datetime, body: bytes, keys: Sequence[str]) -> dict[str, str]:
    """The three headers of a message; one signature for each secret, the newest first."""
    timestamp = str(int(at.timestamp()))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{_signature(key, signed)}" for key in keys),
    }


def _signature(key: str, signed: bytes) -> str:
    secret = base64.b64decode(key.removeprefix(PREFIX))
    return base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
