"""Cursors: opaque, bound to what was asked, so that a changed query is refused instead of mixed up."""

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from ..domain.errors import InvalidInput


def make_cursor(asked: Mapping[str, Any], at: datetime, last: UUID) -> str:
    """Where the next page begins, for the same question only."""
    written = json.dumps([_digest(asked), at.isoformat(), str(last)], separators=(",", ":"))
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def read_cursor(cursor: str, asked: Mapping[str, Any]) -> tuple[datetime, UUID]:
    """The last row of the page before. Raises `InvalidInput` for another question's cursor or a damaged one."""
    try:
        written = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        digest, at, last = json.loads(written)
        found = (datetime.fromisoformat(at), UUID(last))
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput("cursor", "is not a cursor of this list", "Start without one") from None
    if found[0].utcoffset() is None:
        raise InvalidInput("cursor", "is not a cursor of this list", "Start without one")
    if digest != _digest(asked):
        raise InvalidInput("cursor", "belongs to another question", "Keep the filters of the first page")
    return found


def _digest(asked: Mapping[str, Any]) -> str:
    written = json.dumps(asked, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(written.encode(errors="replace")).hexdigest()[:16]
