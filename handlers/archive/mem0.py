"""mem0: what ``get_all`` and ``history`` give, written to a file as JSON.

The file holds one of the two, or both as ``{"results": […], "history": […]}``. A memory whose text was updated
comes in as a chain of memories, each superseded by the next; what was deleted there does not come in.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from ...domain.errors import InvalidInput
from ...domain.topic import topic_of
from .said_elsewhere import Found, LeftOut, Remark, SaidElsewhere, as_list, as_object, parsed, read_text

Record = Mapping[str, Any]
_OWNERS = ("user_id", "agent_id", "run_id")
_KEPT = ("actor_id", "role")
"""What has no field here and is kept in the metadata."""
_TAKEN = {
    "id", "memory", "metadata", "categories", "created_at", "updated_at", "expiration_date", *_OWNERS, *_KEPT,
}  # fmt: skip
_OF_A_SEARCH = {"hash", "score", "memory_id"}
"""What is made anew here, or says nothing about the memory."""


def read_mem0(path: Path) -> list[Found]:
    """The memories of a file. Raises `InvalidInput` for one that is not mem0's."""
    records, history = _parts(parsed(read_text(path), "it"))
    by_memory: dict[str, list[Record]] = {}
    for entry in history:
        by_memory.setdefault(str(entry.get("memory_id")), []).append(entry)
    known = {str(record.get("id")): record for record in records}
    found: list[Found] = []
    for one in [*known, *(one for one in by_memory if one not in known)]:
        found += _memory(one, known.get(one), sorted(by_memory.get(one, ()), key=_when))
    unknown = Counter(
        field for record in records for field, value in record.items()
        if value not in (None, "", [], {}) and field not in _TAKEN | _OF_A_SEARCH
    )  # fmt: skip
    found += [
        Remark(f"field {field[:64]}", f"has no place here; memories that have it: {n}")
        for field, n in unknown.items()
    ]
    return found


def _parts(said: Any) -> tuple[list[Record], list[Record]]:
    whole = as_object(said)
    if whole is not None and whole.keys().isdisjoint({"results", "memories", "history"}):
        raise InvalidInput("file", "is not what mem0's get_all or history gives")
    records = _records(said if whole is None else whole.get("results", whole.get("memories", [])))
    history = _records([] if whole is None else whole.get("history", []))
    if records and all("memory" not in one and "event" in one for one in records):
        records, history = [], [*records, *history]
    return records, history


def _records(said: Any) -> list[Record]:
    found = [as_object(one) for one in as_list(said) or [None]] if said != [] else []
    records: list[Record] = [one for one in found if one is not None]
    if len(records) != len(found):
        raise InvalidInput("file", "is not what mem0's get_all or history gives")
    return records


def _when(entry: Record) -> str:
    return str(entry.get("updated_at") or entry.get("created_at") or "")


def _memory(one: str, record: Record | None, history: Sequence[Record]) -> list[Found]:
    source = f"mem0 {one[:64]}"
    said = list(_texts(history))
    if record is None and history and history[-1].get("event") == "DELETE":
        return [LeftOut(source, "it was deleted there")]
    current = None if record is None else record.get("memory")
    if record is not None and (not isinstance(current, str) or not current.strip()):
        return [LeftOut(source, "it has no text")]
    if isinstance(current, str) and (not said or said[-1][0] != current):
        dated = record.get("updated_at" if said else "created_at") if record is not None else None
        said.append((current, dated))
    if not said:
        return [LeftOut(source, "its history tells no text")]
    notes: list[str] = []
    fields = _fields(one, record or {}, notes)
    versions: list[dict[str, Any]] = []
    for text, at in said:
        dated, problem = _instant(at)
        if problem:
            notes.append(problem)
        versions.append({**fields, "content": text, "topic": topic_of(text)} | dated)
    made = SaidElsewhere(source, f"mem0:{one}", tuple(versions))
    return [made, *(Remark(source, note) for note in dict.fromkeys(notes))]


def _texts(history: Iterable[Record]) -> Iterable[tuple[str, Any]]:
    """(text, when) of each version that a history tells of."""
    last = None
    for entry in history:
        before, after = entry.get("old_memory"), entry.get("new_memory")
        if last is None and isinstance(before, str) and before.strip():
            last = before
            yield before, entry.get("created_at")
        if isinstance(after, str) and after.strip() and after != last and entry.get("event") != "DELETE":
            last = after
            yield after, entry.get("updated_at") or entry.get("created_at")


def _fields(one: str, record: Record, notes: list[str]) -> dict[str, Any]:
    given = as_object(record.get("metadata")) or {}
    metadata: dict[str, Any] = {"mem0_id": one}
    metadata |= {field: record[field] for field in _KEPT if record.get(field)}
    for key, value in given.items():
        if len(metadata) < 16 and 0 < len(key) <= 64 and key not in metadata:
            metadata[key] = value
        else:
            notes.append("a part of its metadata does not fit: at most 16 keys of 1 to 64 characters")
    fields: dict[str, Any] = {"metadata": metadata}
    fields |= {field: str(record[field]) for field in _OWNERS if record.get(field)}
    categories = as_list(record.get("categories"))
    if categories:
        fields["tags"] = [str(tag)[:64] for tag in categories[:32]]
        if len(categories) > 32:
            notes.append("a part of its categories does not fit: at most 32")
    expires = record.get("expiration_date")
    if expires:
        try:
            # It holds through that day.
            day = date.fromisoformat(str(expires)[:10]) + timedelta(days=1)
            fields["expires_at"] = f"{day.isoformat()}T00:00:00Z"
        except (ValueError, OverflowError):
            notes.append("its expiration_date is no date")
    return fields


def _instant(at: Any) -> tuple[dict[str, Any], str | None]:
    if at is None:
        return {}, None
    try:
        instant = datetime.fromisoformat(str(at))
    except ValueError:
        return {}, "its date is no ISO 8601 instant"
    if instant.utcoffset() is None:
        return {}, "its date has no zone, so it is dated by the import"
    return {"occurred_at": instant.isoformat()}, None
