"""Makes memories of a JSONL file: one object a line, with the fields of ``remember``."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from .file_memory import (
    TOPIC_LIMIT,
    FileMemory,
    Filing,
    Refused,
    Scalar,
    as_metadata,
    as_moment,
    as_project,
    as_tags,
    as_type,
    parts,
    whole,
)

_ALIASES = {"type": "memory_type", "created": "occurred_at", "date": "occurred_at"}
_FIELDS = ("topic", "content", "memory_type", "occurred_at", "tags", "project", "metadata")


def jsonl_memories(line: str, name: str, number: int) -> list[FileMemory]:
    """The memory in one line, or several where its content is too long for one. Unknown fields are refused.

    ``type`` may be written for ``memory_type`` (default note), ``created`` or ``date`` for ``occurred_at``. A day
    alone is midnight UTC; a time without an offset is refused. Keys are "file:line#n".
    """
    fields = _fields(_object(line))
    topic = _string(fields, "topic")
    if not topic:
        raise Refused("is missing or blank", "topic")
    if len(topic) > TOPIC_LIMIT:
        raise Refused(f"has {len(topic)} characters; at most {TOPIC_LIMIT} fit", "topic")
    moment = _string(fields, "occurred_at")
    return parts(
        topic,
        _string(fields, "content"),
        Filing(
            memory_type=as_type("memory_type", _string(fields, "memory_type") or "note"),
            occurred_at=as_moment("occurred_at", moment) if moment else None,
            tags=as_tags("tags", _strings(fields, "tags")),
            project=as_project("project", _string(fields, "project")),
            metadata=as_metadata("metadata", _scalars(fields, "metadata")),
        ),
        f"{name}:{number}",
    )


def _object(line: str) -> dict[str, Any]:
    try:
        loaded = json.loads(line, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refused("is no valid JSON") from None
    if not isinstance(loaded, dict):
        raise Refused("is no JSON object")
    return cast("dict[str, Any]", loaded)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise Refused("names a field twice")
    return fields


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _fields(loaded: Mapping[str, Any]) -> dict[str, Any]:
    """The fields under their full names; one given as null counts as not given."""
    fields: dict[str, Any] = {}
    for given, value in loaded.items():
        name = _ALIASES.get(given, given)
        if name not in _FIELDS:
            shown = given if given.isascii() and given.isprintable() and len(given) <= 40 else "a field"
            raise Refused(f"is not known here; known are {', '.join((*_FIELDS, *_ALIASES))}", shown)
        if value is None:
            continue
        if name in fields:
            raise Refused(
                f"is given twice, also as {', '.join(sorted(set(loaded) & _same(name) - {given}))}", given
            )
        fields[name] = value
    return fields


def _same(name: str) -> set[str]:
    return {name, *(alias for alias, meant in _ALIASES.items() if meant == name)}


def _string(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise Refused("is no text", name)
    return whole(name, value)


def _strings(fields: Mapping[str, Any], name: str) -> Sequence[str]:
    value = fields.get(name, [])
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        if all(isinstance(entry, str) for entry in entries):
            return entries
    raise Refused("is no list of texts", name)


def _scalars(fields: Mapping[str, Any], name: str) -> Mapping[str, Scalar]:
    value = fields.get(name, {})
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        if all(isinstance(entry, str | int | float) for entry in entries.values()):
            return entries
    raise Refused("is no object of texts, numbers and truth values", name)
