"""Random identifiers that sort by time."""

import os
import time
from uuid import UUID

_RANDOM = (1 << 80) - 1 & ~(0xF << 76) & ~(0b11 << 62)
_VERSION_AND_VARIANT = 7 << 76 | 0b10 << 62


def new_id() -> UUID:
    """A fresh version 7 UUID: 48 bits of Unix milliseconds, then random bits."""
    random = int.from_bytes(os.urandom(10), "big") & _RANDOM
    return UUID(int=(time.time_ns() // 1_000_000) << 80 | _VERSION_AND_VARIANT | random)
