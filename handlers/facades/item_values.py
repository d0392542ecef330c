"""Values of items as the text of memories, and what an item is found by."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from ...domain.errors import InvalidInput
from ...domain.fields import IMPORT_CONTENT_LIMIT
from ...domain.topic import topic_of

LONGEST_TTL = timedelta(days=36_500)
_TOPIC = 256


def written(value: object) -> str:
    """A value as JSON. Raises `InvalidInput` for what does not come back as it was put."""
    if not isinstance(value, Mapping):
        raise InvalidInput("value", "must be a dict")
    try:
        _refuse_other_keys(cast("Mapping[Any, Any]", value))
        text = json.dumps(dict(cast("Mapping[str, Any]", value)), ensure_ascii=False, allow_nan=False)
        if not _is_unicode(text):
            text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(
            "value", "must hold plain JSON values: text, finite numbers, true, false, null, lists, dicts"
        ) from None
    if len(text) > IMPORT_CONTENT_LIMIT:
        raise InvalidInput(
            "value",
            f"takes {len(text)} characters as JSON; at most {IMPORT_CONTENT_LIMIT} are kept",
            "Put it in parts, or keep the document elsewhere and its address here",
        )
    return text


def read(content: str) -> dict[str, Any]:
    """The value that a memory's text is. Text that somebody wrote by another door is one named ``content``."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {"content": content}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"content": content}


def topic(value: Mapping[str, Any], texts: Sequence[str], key: str) -> str:
    """What an item is titled: the texts it is indexed by, or the first text of its value, or its key."""
    said = " ".join(", ".join(texts).split()) or topic_of(_first_text(value) or key)
    return said.replace("\x00", "").encode(errors="ignore").decode()[:_TOPIC].strip() or "untitled"


def lifetime(minutes: object) -> timedelta | None:
    """How long an item lives that is put with this ``ttl``. Raises `InvalidInput`."""
    if minutes is None:
        return None
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not math.isfinite(minutes):
        raise InvalidInput("ttl", "must be a number of minutes")
    if not 0 < minutes <= LONGEST_TTL.total_seconds() / 60:
        raise InvalidInput("ttl", "must be more than 0 minutes and at most 100 years")
    return timedelta(minutes=minutes)


def _refuse_other_keys(value: object) -> None:
    """A key that is no text would come back as one."""
    inside: Sequence[Any] = ()
    if isinstance(value, Mapping):
        held = cast("Mapping[Any, Any]", value)
        if not all(isinstance(key, str) for key in held):
            raise InvalidInput("value", "holds a key that is no text", "Keys must be text, of inner dicts too")
        inside = list(held.values())
    elif isinstance(value, list | tuple):
        inside = cast("Sequence[Any]", value)
    for one in inside:
        _refuse_other_keys(one)


def _first_text(value: object) -> str | None:
    if isinstance(value, str):
        return value.strip() or None
    inside: Sequence[Any] = ()
    if isinstance(value, Mapping):
        inside = list(cast("Mapping[str, Any]", value).values())
    elif isinstance(value, list | tuple):
        inside = cast("Sequence[Any]", value)
    return next((found for one in inside if (found := _first_text(one)) is not None), None)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
