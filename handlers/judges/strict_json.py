"""Reading JSON that others wrote, without repairing it (F34)."""

import json
from typing import Any, cast


class NotStrictJson(ValueError):
    """The bytes are not one strict JSON object. Carries no part of them."""


def strict_json_object(data: bytes) -> dict[str, Any]:
    """The one JSON object that the bytes are, or `NotStrictJson`.

    Python's reader alone is too kind: it takes NaN, keeps the last of repeated keys, and passes on lone
    surrogates, which then break whatever encodes the text later.
    """
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_unique)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        # `from None`: the decoder's own error holds the whole text.
        raise NotStrictJson("not one strict JSON object") from None
    if not isinstance(value, dict):
        raise NotStrictJson("not one strict JSON object")
    return cast(dict[str, Any], value)


def _refuse_constant(name: str) -> Any:
    raise NotStrictJson("a number that is not finite")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotStrictJson("a key that occurs twice")
    return found
