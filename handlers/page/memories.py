"""Memories: the list, and one of them with all that happened to it and as it was at any of these moments."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from fastapi import Response

from ...domain.errors import Erased, InvalidInput, NotFound
from ..operating.views import HistoryEntry, MemoryView
from .desk import Visit
from .filters import address

PAGE = 25
STATUSES = ("retrievable", "active", "superseded", "archived", "suppressed", "refuted", "quarantined", "all")
TIMELINE = 300
"""Entries that are told, the newest; a memory seldom has more than ten."""
_LEADS_TO: Mapping[str, tuple[str, ...]] = {
    "memories": ("memory_id", "related_id", "judged_pair", "successor", "predecessor", "to", "evidence_memory"),
    "proposals": ("proposal", "proposal_id"),
    "undos": ("undo",),
}
"""Which fields of an event hold ids of what has a page."""
_LEFT_OUT = ("content", "topic", "as_of", "id", "superseded_by", "predecessor")


async def memories(visit: Visit) -> Response:
    """A page of them, newest first."""
    query: dict[str, Any] = {name: visit.query[name] for name in ("status", "project") if name in visit.query}
    page = await visit.memory.list(**query, limit=PAGE, cursor=visit.query.get("cursor"))
    return visit.page(
        "memories.html",
        memories=page.memories,
        total=page.total,
        chosen=query,
        statuses=STATUSES,
        found=False,
        next_page=address("/memories", **query, cursor=page.next_cursor) if page.next_cursor else None,
    )


async def search(visit: Visit) -> Response:
    """The best matches. A form that is sent, since what is looked for has no place in an address."""
    words = visit.form.get("query")
    if words is None:
        raise InvalidInput("query", "say what to look for")
    found = await visit.memory.search(words, limit=PAGE)
    return visit.page(
        "memories.html",
        memories=[hit.memory for hit in found.hits],
        total=found.count,
        chosen={},
        statuses=STATUSES,
        found=True,
        next_page=None,
    )


async def memory(visit: Visit) -> Response:
    """One of them, now or as it was."""
    one = visit.named("memory_id")
    present, gone = None, False
    try:
        present = await visit.memory.get(one)
    except Erased:
        gone = True
    told = await visit.memory.history(one)
    entries = told.entries[-TIMELINE:]
    words = await _words(visit, one)
    at, step = _moment(visit, entries)
    shown = present
    if at is not None and not gone:
        shown = await _as_of(visit, one, at)
    return visit.page(
        "memory.html",
        memory_id=told.memory_id,
        shown=shown,
        gone=gone,
        fields=[] if shown is None else _fields(shown),
        entries=[_told(entry, words) for entry in entries],
        left_out=len(told.entries) - len(entries),
        at=at,
        step=step,
        now=shown.as_of if shown is not None else None,
        waiting=await visit.memory.proposals(memory_id=one, limit=PAGE),
    )


async def _as_of(visit: Visit, one: str, at: int | str) -> MemoryView | None:
    try:
        return await visit.memory.get(one, known_at=at)
    except (NotFound, Erased):
        # It is there, so only not yet at that time.
        return None


def _moment(visit: Visit, entries: Sequence[HistoryEntry]) -> tuple[int | str | None, int]:
    """The position or instant that is asked for, and the entry of the timeline that it falls to (from 1 on)."""
    if "known_at" in visit.query:
        given = visit.query["known_at"].strip()
        at: int | str = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else given
        return at, _entry_at(at, entries)
    step = visit.query.get("step", "")
    if not step:
        return None, len(entries)
    if not (step.isascii() and step.isdigit() and len(step) < 9 and 1 <= int(step) <= max(1, len(entries))):
        raise InvalidInput("step", f"must be a number from 1 to {len(entries)}")
    if int(step) == len(entries):
        return None, len(entries)
    return entries[int(step) - 1].position, int(step)


def _entry_at(at: int | str, entries: Sequence[HistoryEntry]) -> int:
    if isinstance(at, int):
        return max(1, sum(entry.position <= at for entry in entries))
    try:
        moment = datetime.fromisoformat(at)
        return max(1, sum(entry.recorded_at <= moment for entry in entries))
    except (ValueError, TypeError):
        # What is wrong with it is said by the read itself.
        return len(entries)


def _fields(view: MemoryView) -> list[tuple[str, Any]]:
    """What there is to tell besides its text."""
    given = [(name, getattr(view, name)) for name in type(view).model_fields if name not in _LEFT_OUT]
    return [(name, _said(value)) for name, value in given if value not in (None, False, (), {}, "")]


def _said(value: Any) -> Any:
    if isinstance(value, datetime | UUID):
        return value
    if isinstance(value, tuple):
        return ", ".join(str(getattr(one, "memory_id", one)) for one in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - of every field alike
    return "yes" if value is True else str(value)


async def _words(visit: Visit, one: str) -> Mapping[UUID, str]:
    """What happened, in words, by event; as the page of a proposal tells it."""
    chain = await visit.memory.explain(one)
    return {link.event_id: link.says for link in chain.links if link.says != link.event}


def _told(entry: HistoryEntry, words: Mapping[UUID, str]) -> dict[str, Any]:
    changed = entry.new if entry.new is not None and entry.new != entry.old else None
    kind, _, what = entry.event.partition(".")
    said = {name: value for name, value in entry.detail.items() if value not in (None, False, "", [], {})}
    return {
        "entry": entry,
        "says": words.get(entry.event_id, f"{kind}: {what.replace('_', ' ')}"),
        "reason": said.pop("reason", None) or said.pop("comment", None),
        "changed": changed,
        "details": [
            (name, [_linked(name, one, entry.names) for one in _each(value)])
            for name, value in said.items()
            if not isinstance(value, dict)
        ],
    }


def _each(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else [value]


def _linked(name: str, value: Any, names: Mapping[str, str]) -> tuple[str, str | None]:
    """A value as it is shown, and the page that it leads to."""
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip("."), None
    page = next((page for page, fields in _LEADS_TO.items() if name in fields), None)
    return names.get(str(value), str(value)), None if page is None else f"/{page}/{value}"
