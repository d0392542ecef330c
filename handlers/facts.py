"""Reading facts: what was on record, and what held in the world (behaviour.md 1.10; A11, A12)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from pydantic import Field

from ..domain.fields import Id, Topic, parse
from ..projections.facts import FactFilter, FactRow, list_facts, memories_of
from ..projections.facts import Facts as FactsView
from ..projections.generations import tenant_read_models
from ..projections.live_memory import LiveMemory
from .access.caller import Caller
from .as_of import Timed, echoed, look_from
from .contradictions.refusing import presented, refused_pairs, sides_of
from .cursors import make_cursor, read_cursor
from .engine import Engine
from .kinds import refuse_filter
from .operating.views import FactPage, FactView


class FactsQuery(Timed):
    """Which facts to get, the latest recorded first. ``limit`` 1 to 200.

    Subject and predicate are compared as the duplicate rule compares texts: case, width and white space aside.
    """

    subject: Topic | None = None
    predicate: Topic | None = None
    memory_id: Id | None = None
    limit: int = Field(default=50, ge=1, le=200)
    cursor: str | None = Field(default=None, max_length=400, strict=True)


class Facts:
    """Reads facts for one caller's tenant. A retrieval scope does not narrow them: they have none."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def get(self, caller: Caller, arguments: Mapping[str, Any]) -> FactPage:
        """A page of facts, with the exact total.

        With ``valid_at`` those whose window holds that instant, without it those that have no known end. Facts of
        a memory that is refuted, quarantined or suppressed are not told; those of a superseded one are.
        """
        caller.require("memory:read")
        query = parse(FactsQuery, arguments)
        # Whether their memory was refuted stands in the other one.
        as_of = await look_from(self._engine, caller.tenant, query, FactsView.name, LiveMemory.name)
        asked = query.model_dump(exclude={"cursor", "limit", "after"})
        beyond = read_cursor(query.cursor, asked) if query.cursor is not None else None
        matching = FactFilter(caller.tenant, as_of, query.subject, query.predicate, query.memory_id)
        pairs = await refused_pairs(self._engine, caller.tenant, as_of, query.after)
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            sides = sides_of(pairs)
            touched = await memories_of(connection, matching, sides) if sides else set[UUID]()
            told = replace(matching, without=sides)
            rows, total = await list_facts(connection, told, query.limit + 1, beyond)
        if not total:
            await refuse_filter(self._engine.log, caller.tenant, "memory_id", query.memory_id, "memory")
        page, more = rows[: query.limit], len(rows) > query.limit
        return FactPage(
            facts=tuple(map(_view, page)),
            total=total,
            refused=await presented(self._engine, caller.tenant, pairs, touched),
            next_cursor=make_cursor(asked, page[-1].recorded_at, page[-1].fact_id) if more else None,
            as_of=echoed(as_of),
        )


def _view(row: FactRow) -> FactView:
    return FactView(
        id=row.fact_id,
        memory_id=row.memory_id,
        subject=row.subject,
        predicate=row.predicate,
        value=row.value,
        confidence=row.confidence,
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        recorded_at=row.recorded_at,
        proposal=row.proposal,
    )
