"""The queue: what waits for somebody to decide."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from fastapi import Response

from ...domain.errors import Erased, InvalidInput, NotFound
from ...projections.progress import read_progress
from ...projections.review_queue import ReviewQueue
from ..memory import AsyncMemory
from ..operating.views import MemoryView, ProposalView
from .desk import Visit
from .filters import ACTIONS, AGES, KINDS, STATUSES, address, narrowed, status_of
from .forms import FIELDS, Form

PAGE = 20
_AT_ONCE = 20
"""Memories that one read gets."""


async def queue(visit: Visit) -> Response:
    """A page of it, oldest first, with totals per kind."""
    head = await told_upto(visit.memory)
    query, status = narrowed(visit, visit.query), status_of(visit.query)
    beyond: dict[str, Any] = {name: visit.query[name] for name in ("cursor",) if name in visit.query}
    page = await visit.memory.proposals(**_asked(query, status), **beyond, limit=PAGE)
    kept = _kept(query, visit.query)
    return visit.page(
        "queue.html",
        head=head,
        proposals=page.proposals,
        memories=await memories_of(visit.memory, page.proposals),
        counted=await counted(visit, visit.query),
        chosen={**kept, "status": status or "all"},
        filtered=bool(query),
        next_page=address("/", **kept, cursor=page.next_cursor) if page.next_cursor else None,
        first_page=address("/", **kept) if "cursor" in visit.query else None,
        bulk={verdict: address("/bulk", verdict=verdict, **query) for verdict in ("accept", "reject")},
        kinds=KINDS,
        actions=ACTIONS,
        statuses=STATUSES,
        ages=AGES,
        at=visit.memory.engine.clock(),
    )


class Counted(NamedTuple):
    """How many a filter finds, and where the totals per kind lead."""

    total: int
    totals: Mapping[str, int]
    kind: str | None
    all_kinds: str
    of_kind: Mapping[str, str]


async def counted(visit: Visit, given: Form) -> Counted:
    """What a filter finds; the totals per kind are of all kinds."""
    query = narrowed(visit, given)
    kept, kind = _kept(query, given), query.pop("kind", None)
    totals = (await visit.memory.proposals(**_asked(query, status_of(given)), limit=1)).totals
    return Counted(
        total=sum(totals.values()) if kind is None else totals.get(kind, 0),
        totals=totals,
        kind=kind,
        all_kinds=address("/", **{**kept, "kind": None}),
        of_kind={name: address("/", **{**kept, "kind": name}) for name in totals},
    )


async def counted_around(visit: Visit) -> Counted | None:
    """The same for the queue that a line of it was decided in; None where it was not decided in one."""
    path, _, query = visit.request.headers.get("hx-current-url", "").partition("?")
    if urlsplit(path).path != "/":
        return None
    with contextlib.suppress(InvalidInput, ValueError):
        return await counted(visit, Form(parse_qsl(query.partition("#")[0], max_num_fields=FIELDS)))
    return None


def _asked(query: Mapping[str, Any], status: str | None) -> dict[str, Any]:
    return {**query} if status is None else {**query, "status": status}


def _kept(query: Mapping[str, Any], given: Form) -> dict[str, Any]:
    return {**query, "status": given.get("status"), "age": given.get("age")}


async def told_upto(memory: AsyncMemory) -> int:
    """The position that the queue is told up to, to be asked for before it is read: what comes behind is news."""
    async with memory.engine.database.connection() as connection:
        return (await read_progress(connection, ReviewQueue.name)).position


async def memories_of(memory: AsyncMemory, proposals: Sequence[ProposalView]) -> Mapping[UUID, MemoryView]:
    """The memories that proposals are about, by id; erased ones are absent."""
    return await memories_by_id(
        memory, [one for view in proposals for one in (view.memory_id, view.related_id) if one is not None]
    )


async def memories_by_id(memory: AsyncMemory, wanted: Sequence[UUID]) -> Mapping[UUID, MemoryView]:
    """Memories by id; erased ones are absent."""
    ids = list(dict.fromkeys(wanted))
    found: dict[UUID, MemoryView] = {}
    for start in range(0, len(ids), _AT_ONCE):
        found |= await _got(memory, ids[start : start + _AT_ONCE])
    return found


async def _got(memory: AsyncMemory, ids: Sequence[UUID]) -> dict[UUID, MemoryView]:
    try:
        return {one.id: one for one in await memory.get_many(ids)}
    except (NotFound, Erased):
        if len(ids) == 1:
            return {}
    found: dict[UUID, MemoryView] = {}
    for one in ids:
        with contextlib.suppress(NotFound, Erased):
            found[one] = await memory.get(one)
    return found
