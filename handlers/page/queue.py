"""The queue: what waits for somebody to decide."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from fastapi import Response

from ...domain.errors import Erased, NotFound
from ...projections.progress import read_progress
from ...projections.review_queue import ReviewQueue
from ..memory import AsyncMemory
from ..operating.views import MemoryView, ProposalView
from .desk import Visit
from .filters import ACTIONS, AGES, KINDS, STATUSES, address, narrowed, status_of

PAGE = 20
_AT_ONCE = 20
"""Memories that one read gets."""


async def queue(visit: Visit) -> Response:
    """A page of it, oldest first, with totals per kind."""
    head = await told_upto(visit.memory)
    query, status = narrowed(visit, visit.query), status_of(visit.query)
    asked: dict[str, Any] = query if status is None else {**query, "status": status}
    beyond: dict[str, Any] = {name: visit.query[name] for name in ("cursor",) if name in visit.query}
    page = await visit.memory.proposals(**asked, **beyond, limit=PAGE)
    kept = {**query, "status": visit.query.get("status"), "age": visit.query.get("age")}
    totals = page.totals
    if "kind" in query:
        others = {name: value for name, value in asked.items() if name != "kind"}
        totals = (await visit.memory.proposals(**others, limit=1)).totals
    return visit.page(
        "queue.html",
        head=head,
        proposals=page.proposals,
        memories=await memories_of(visit.memory, page.proposals),
        total=page.total,
        totals=totals,
        all_kinds=address("/", **{**kept, "kind": None}),
        of_kind={kind: address("/", **{**kept, "kind": kind}) for kind in totals},
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


async def told_upto(memory: AsyncMemory) -> int:
    """The position that the queue is told up to, to be asked for before it is read: what comes behind is news."""
    async with memory.engine.database.connection() as connection:
        return (await read_progress(connection, ReviewQueue.name)).position


async def memories_of(memory: AsyncMemory, proposals: Sequence[ProposalView]) -> Mapping[UUID, MemoryView]:
    """The memories that proposals are about, by id; erased ones are absent."""
    ids = list(
        dict.fromkeys(one for view in proposals for one in (view.memory_id, view.related_id) if one is not None)
    )
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
