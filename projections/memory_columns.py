"""The columns of a memory's row, and a memory's folded state as the values of one."""

import json
from operator import attrgetter
from typing import Any
from uuid import UUID

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
    "fresh_at": "timestamptz not null",
    "valid_from": "timestamptz",
    "valid_to": "timestamptz",
    "expires_at": "timestamptz",
    "derived_from": "jsonb not null",
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
TYPED_COLUMNS = ", ".join(f"{name} {kind.removesuffix(' not null')}" for name, kind in COLUMNS.items())
"""For ``jsonb_to_recordset`` over `memory_values`."""


_TEXTS = frozenset({"topic", "content", "scope", "tags", "metadata"})
"""Columns whose values may hold what COPY reads as its own."""
_GIVEN = frozenset(
    {"tenant", "memory_id", "position", "tags", "metadata", "derived_from"}
    | {f"{owner}_ref" for owner in ("user", "agent", "run", "session", "subject")}
)
_PLAIN = tuple(name for name in COLUMNS if name not in _GIVEN)
_plain = attrgetter(*_PLAIN)


def copy_line(tenant: UUID, memory: Memory, position: int, *further: str | None) -> str:
    """A memory's state as a line of COPY in text form, with the values of further columns behind it.

    The same values as `memory_values`, made several times faster: a rebuild writes nothing else.
    """
    owners = memory.owners
    values: dict[str, Any] = dict(zip(_PLAIN, _plain(memory), strict=True))
    values |= {
        "tenant": tenant,
        "memory_id": memory.id,
        "position": position,
        "user_ref": owners.user,
        "agent_ref": owners.agent,
        "run_ref": owners.run,
        "session_ref": owners.session,
        "subject_ref": owners.subject,
        "tags": json.dumps(memory.tags or (), ensure_ascii=False),
        "metadata": None if memory.metadata is None else json.dumps(memory.metadata, ensure_ascii=False),
        "derived_from": json.dumps([str(one) for one in memory.derived_from]),
    }
    for name in _TEXTS:
        if (text := values[name]) is not None:
            values[name] = _escaped(text)
    shown = [values[name] for name in COLUMNS]
    return "\t".join(["\\N" if value is None else str(value) for value in (*shown, *further)]) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def memory_values(tenant: UUID, memory: Memory, position: int) -> dict[str, Any]:
    """A memory's state as a row, JSON-ready; ``position`` is that of the event that led to it."""
    owners = memory.owners
    values: dict[str, Any] = {
        "tenant": tenant,
        "memory_id": memory.id,
        "position": position,
        "user_ref": owners.user,
        "agent_ref": owners.agent,
        "run_ref": owners.run,
        "session_ref": owners.session,
        "subject_ref": owners.subject,
        "tags": list(memory.tags or ()),
        "metadata": None if memory.metadata is None else json.dumps(memory.metadata, ensure_ascii=False),
        "derived_from": [str(one) for one in memory.derived_from],
    }
    for column in COLUMNS:
        if column not in values:
            values[column] = getattr(memory, column)
    return {name: _json_ready(value) for name, value in values.items()}


def _json_ready(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value
