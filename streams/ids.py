"""Random identifiers that sort by time."""

import os
import time
from uuid import UUID


def new_id() -> UUID:
    """A fresh version 7 UUID: 48 bits of Unix milliseconds, then random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | (7 << 76)
    value = value & ~(0b11 << 62) | (0b10 << 62)
    return UUID(int=value)
