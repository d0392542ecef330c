"""How arguments travel: in a path and a query, or as JSON in a body."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote
from uuid import UUID

from ...domain.errors import InvalidInput
from .routes import Route


def from_query(route: Route, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The arguments that a query holds; lists by repeating a name. What is no number stays text, and is refused
    as any other door refuses it."""
    given: dict[str, Any] = {}
    for name, text in pairs:
        schema = route.fields.get(name)
        if schema is None:
            raise InvalidInput(name[:64] or "query", "unknown field", "Check the spelling; none is ignored")
        kinds = _kinds(schema)
        if "array" in kinds:
            given.setdefault(name, []).append(text)
        elif name in given:
            raise InvalidInput(name, "is given more than once")
        else:
            given[name] = _of_kind(text, kinds)
    return given


def to_query(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The same, written."""
    pairs: list[tuple[str, str]] = []
    for name, value in arguments.items():
        pairs += [(name, _text(one)) for one in _each(value)]
    return pairs


def path_with(route: Route, arguments: Mapping[str, Any]) -> str:
    """The route's path for these arguments."""
    return route.path.format_map({name: quote(_text(arguments[name]), safe="") for name in route.in_path})


def from_body(body: bytes) -> dict[str, Any]:
    """The fields of a JSON body; none where it is empty. Raises `InvalidInput`."""
    if not body.strip():
        return {}
    try:
        given = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InvalidInput("body", "is no JSON", "Send an object in UTF-8") from None
    if not isinstance(given, dict):
        raise InvalidInput("body", "must be a JSON object")
    return cast("dict[str, Any]", given)


def to_body(arguments: Mapping[str, Any]) -> bytes:
    """The same, written. Raises `InvalidInput` for what JSON does not have."""
    try:
        return json.dumps(dict(arguments), default=_text, ensure_ascii=True, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("input", "must hold plain JSON values, ids and instants") from None


def _each(value: Any) -> "Sequence[Any]":
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return cast("Sequence[Any]", value)
    return [value]


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    return {str(part.get("type", "string")) for part in schema.get("anyOf", [schema])}


def _of_kind(text: str, kinds: set[str]) -> Any:
    if "number" in kinds and "string" not in kinds:
        try:
            return float(text)
        except ValueError:
            return text
    if "integer" in kinds and "string" not in kinds and len(text) < 20:
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdigit():
            return int(text)
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    return text


def _no_number(_name: str) -> Any:
    raise ValueError("is no JSON number")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str | int | float | UUID):
        return str(value)
    raise TypeError
