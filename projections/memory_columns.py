"""The columns of a memory's row, and a memory's folded state as one, in the binary form of COPY.

Put together by ourselves, since each kind of column is known beforehand: psycopg asks for every value anew, and
rows are what a read model's writing consists of.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import attrgetter
from struct import Struct
from typing import Any
from uuid import UUID

import numpy as np
from pydantic_core import to_json

from ..domain.fields import LinkEdge
from ..domain.memory import Memory

COLUMNS: dict[str, str] = {
    "tenant": "uuid not null",
    "memory_id": "uuid not null",
    "version": "bigint not null",
    "state_version": "bigint not null",
    "position": "bigint not null",
    "memory_type": "text not null",
    "scope": "text not null",
    "project": "uuid",
    "topic": "text not null",
    "content": "text not null",
    "tags": "jsonb not null",
    # As text: jsonb keeps numbers as decimals, and a float would come back as another one.
    "metadata": "text",
    "user_ref": "uuid",
    "agent_ref": "uuid",
    "run_ref": "uuid",
    "session_ref": "uuid",
    "subject_ref": "uuid",
    "producer": "text not null",
    "trust": "text not null",
    "core": "boolean not null",
    "pinned": "boolean not null",
    "verified": "boolean not null",
    "occurred_at": "timestamptz not null",
    "recorded_at": "timestamptz not null",
    "changed_at": "timestamptz not null",
    "fresh_at": "timestamptz not null",
    "valid_from": "timestamptz",
    "valid_to": "timestamptz",
    "expires_at": "timestamptz",
    "derived_from": "jsonb not null",
    # Older memory -> kinds of edges to it.
    "links": "jsonb not null",
    "predecessor": "uuid",
    "earlier": "uuid",
    "successor": "uuid",
    "edge": "text",
    "held_until": "timestamptz",
    "archived": "boolean not null",
    "suppressed": "boolean not null",
    "refuted": "boolean not null",
    "quarantined": "boolean not null",
}
DERIVED_COLUMNS = ("embedding", "embedding_model", "lexemes")
"""Beside these columns in every table of memories; made of topic and content alone, which never change."""

_FIXED = ("tenant", "memory_id", "version", "state_version", "position")
_FLAGS = ("core", "pinned", "verified", "archived", "suppressed", "refuted", "quarantined")
_TIMES = ("occurred_at", "recorded_at", "changed_at", "fresh_at")
"""Columns that are never empty and always of the same length: they stand first in a row, packed in one go."""
_COMMON = ("memory_type", "scope", "topic", "content", "tags", "producer", "trust", "derived_from", "links")
_SELDOM = tuple(name for name in COLUMNS if name not in (*_FIXED, *_FLAGS, *_TIMES, *_COMMON))
"""Of most memories all of these are empty."""
_pack_fixed = Struct("!h i16s i16s iq iq iq" + " i?" * len(_FLAGS) + " iq" * len(_TIMES)).pack
_LENGTH = Struct("!i").pack
_BIGINT = Struct("!iq").pack
_VECTOR = Struct("!ihh").pack
_SIXTEEN = _LENGTH(16)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
NULL = _LENGTH(-1)
"""A field that holds nothing."""
_EMPTY_LIST = _LENGTH(3) + b"\1[]"
_EMPTY_OBJECT = _LENGTH(3) + b"\1{}"


def text_field(value: str) -> bytes:
    """A field of type ``text``."""
    encoded = value.encode()
    return _LENGTH(len(encoded)) + encoded


def bigint_field(value: int) -> bytes:
    """A field of type ``bigint``."""
    return _BIGINT(8, value)


def vector_field(value: Sequence[float]) -> bytes:
    """A field of type ``halfvec``."""
    halves = np.asarray(value, dtype=np.float32).astype(">f2").tobytes()
    return _VECTOR(4 + len(halves), len(halves) // 2, 0) + halves


def _uuid_field(value: UUID) -> bytes:
    return _SIXTEEN + value.bytes


def timestamptz_field(value: datetime) -> bytes:
    """A field of type ``timestamptz``."""
    return _BIGINT(8, _microseconds(value))


def _microseconds(value: datetime) -> int:
    since = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _jsonb_field(value: Any) -> bytes:
    if not value:
        return _EMPTY_LIST
    encoded = to_json(value)
    return _LENGTH(len(encoded) + 1) + b"\1" + encoded


def _links_field(value: Sequence[tuple[UUID, LinkEdge]]) -> bytes:
    if not value:
        return _EMPTY_OBJECT
    edges: dict[str, list[LinkEdge]] = {}
    for memory_id, edge in value:
        edges.setdefault(str(memory_id), []).append(edge)
    return _jsonb_field(edges)


def _metadata_field(value: Any) -> bytes:
    return text_field(json.dumps(value, ensure_ascii=False))


_FIELD_OF: dict[str, Callable[[Any], bytes]] = {
    "uuid": _uuid_field,
    "text": text_field,
    "timestamptz": timestamptz_field,
    "jsonb": _jsonb_field,
}
_SAID_OTHERWISE: dict[str, Callable[[Any], bytes]] = {
    "metadata": _metadata_field,
    "links": _links_field,
    # Of these there are a few different ones, of scopes as many as somebody thinks of.
    "scope": lru_cache(1_000)(text_field),
    "memory_type": cache(text_field),
    "producer": cache(text_field),
    "trust": cache(text_field),
}


def _reading(columns: Sequence[str]) -> Callable[[Memory], tuple[Any, ...]]:
    return attrgetter(*(f"owners.{name[:-4]}" if name.endswith("_ref") else name for name in columns))


def _writing(columns: Sequence[str]) -> list[tuple[Callable[[Any], bytes], bytes]]:
    """How each is written, and what stands there for None."""
    return [
        (
            _SAID_OTHERWISE.get(name) or _FIELD_OF[COLUMNS[name].split()[0]],
            _jsonb_field([]) if name == "tags" else NULL,
        )
        for name in columns
    ]


_common, _seldom = _reading(_COMMON), _reading(_SELDOM)
_WRITING_COMMON, _WRITING_SELDOM = _writing(_COMMON), _writing(_SELDOM)
_NOTHING_SELDOM = (None,) * len(_SELDOM)
_SELDOM_EMPTY = NULL * len(_SELDOM)


def _fields(values: Sequence[Any], writing: Sequence[tuple[Callable[[Any], bytes], bytes]]) -> list[bytes]:
    return [
        nothing if value is None else field(value) for (field, nothing), value in zip(writing, values, strict=True)
    ]


def copy_row(tenant: UUID, memory: Memory, position: int, *further: bytes) -> bytes:
    """A memory's state as a row of `copied`; ``position`` is that of the event that led to it.

    ``further`` are the fields of further columns, which stand behind those of every memory.
    """
    m = memory
    occurred_at = _microseconds(m.occurred_at)
    # Nobody has to count a time twice, and of most memories two are one and the same.
    fresh_at = occurred_at if m.fresh_at is m.occurred_at else _microseconds(m.fresh_at)
    recorded_at = _microseconds(m.recorded_at)
    changed_at = recorded_at if m.changed_at is m.recorded_at else _microseconds(m.changed_at)
    fixed = _pack_fixed(
        len(COLUMNS) + len(further),
        *(16, tenant.bytes, 16, m.id.bytes, 8, m.version, 8, m.state_version, 8, position),
        *(1, m.core, 1, m.pinned, 1, m.verified),
        *(1, m.archived, 1, m.suppressed, 1, m.refuted, 1, m.quarantined),
        *(8, occurred_at, 8, recorded_at, 8, changed_at, 8, fresh_at),
    )
    common, seldom = _fields(_common(m), _WRITING_COMMON), _seldom(m)
    if seldom == _NOTHING_SELDOM:
        return b"".join((fixed, *common, _SELDOM_EMPTY, *further))
    return b"".join((fixed, *common, *_fields(seldom, _WRITING_SELDOM), *further))


def copy_statement(table: str, *further: str) -> bytes:
    """The statement that takes what `copied` gives."""
    columns = ", ".join((*_FIXED, *_FLAGS, *_TIMES, *_COMMON, *_SELDOM, *further))
    return f"copy {table} ({columns}) from stdin (format binary)".encode()


def copied(rows: Iterable[bytes]) -> bytes:
    """Rows as the one message of a COPY."""
    return b"".join((_SIGNATURE, *rows, _END))
