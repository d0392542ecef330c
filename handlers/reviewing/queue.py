"""The review queue: list and show (behaviour.md 1.14.1). Listing changes nothing."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from ...domain.errors import NotFound
from ...domain.fields import Id, Input, Instant, Name, Position, parse
from ...domain.proposal_events import ProposalAction, ProposalKind
from ...projections.as_of import AsOf
from ...projections.generations import tenant_read_models
from ...projections.parked import refuse_parked
from ...projections.progress import wait_for
from ...projections.review_queue import ReviewQueue
from ...projections.rows import read_rows
from ..access.caller import Caller
from ..cursors import make_cursor, read_cursor
from ..engine import Engine
from ..kinds import refuse_filter
from ..operating.views import ProposalDetail, ProposalPage
from ..present import present_rows
from .loading import load_proposal
from .presenting import SELECTED, as_row, mentioned, present_proposals


class ProposalFilter(Input):
    """Which proposals. Without a status decided ones are included; dismissed ones never (behaviour.md 1.14.1)."""

    status: Literal["proposed", "applied", "rejected", "withdrawn"] | None = None
    kind: ProposalKind | None = None
    action: ProposalAction | None = None
    memory_id: Id | None = None
    """Either of the memories that it is about."""
    judge: Name | None = None
    """Identity of the judge or extractor, or name of the model."""
    source: Id | None = None
    """The pass, session run, proposal or command that led to it."""
    created_after: Instant | None = None
    """Put into the queue at this moment or later."""
    created_before: Instant | None = None
    """Put into the queue before this moment."""


class ProposalsQuery(ProposalFilter):
    """What to list."""

    limit: int = Field(default=25, ge=1, le=100)
    cursor: str | None = Field(default=None, max_length=400, strict=True)
    after: Position | None = None


class ShowQuery(Input):
    proposal_id: Id
    after: Position | None = None


class Queue:
    """The queue of one caller's tenant."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(self, caller: Caller, arguments: Mapping[str, Any]) -> ProposalPage:
        """A page of proposals, oldest first, with exact totals per kind. Listing changes nothing."""
        caller.require("memory:read")
        query = parse(ProposalsQuery, arguments)
        await self._wait(query.after)
        asked = query.model_dump(exclude={"cursor", "limit", "after"}, exclude_none=True)
        beyond = read_cursor(query.cursor, asked) if query.cursor is not None else None
        where, values = condition(caller.tenant, query)
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            cursor = await connection.execute(
                f"select kind, count(*) from review_queue where {where} group by 1 order by 1", values
            )
            totals: dict[str, int] = dict(await cursor.fetchall())
            page_where = where
            if beyond is not None:
                page_where += " and (created_at, proposal_id) > (%(at)s, %(last)s)"
                values |= {"at": beyond[0], "last": beyond[1]}
            cursor = await connection.execute(
                f"select {SELECTED} from review_queue q where {page_where} "
                "order by created_at, proposal_id limit %(limit)s",
                {**values, "limit": query.limit + 1},
            )
            rows = [as_row(values) for values in await cursor.fetchall()]
            memories = await read_rows(connection, caller.tenant, mentioned(rows), AsOf(self._engine.clock()))
        if not totals:
            await refuse_filter(self._engine.log, caller.tenant, "memory_id", query.memory_id, "memory")
        views = await present_proposals(self._engine, caller.tenant, rows[: query.limit], memories)
        last = views[-1] if len(rows) > query.limit else None
        return ProposalPage(
            proposals=tuple(views),
            total=sum(totals.values()),
            totals=totals,
            next_cursor=make_cursor(asked, last.created_at, last.id) if last else None,
        )

    async def show(self, caller: Caller, arguments: Mapping[str, Any]) -> ProposalDetail:
        """A proposal with both memories. Raises `NotFound` or `WrongKind`."""
        caller.require("memory:read")
        query = parse(ShowQuery, arguments)
        await self._wait(query.after)
        rows = await self._row(caller.tenant, query.proposal_id)
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            memories = await read_rows(connection, caller.tenant, mentioned(rows), AsOf(self._engine.clock()))
        [view] = await present_proposals(self._engine, caller.tenant, rows, memories)
        shown = await present_rows(self._engine, caller.tenant, list(memories.values()), self._engine.clock())
        present = {memory.id: memory for memory in shown}
        return ProposalDetail(
            proposal=view,
            memory=present.get(view.memory_id),
            related=present.get(view.related_id) if view.related_id else None,
        )

    async def _row(self, tenant: UUID, proposal_id: UUID) -> Sequence[Mapping[str, Any]]:
        async with tenant_read_models(self._engine.doors, tenant) as connection:
            cursor = await connection.execute(
                f"select {SELECTED} from review_queue q "
                "where tenant = %s and proposal_id = %s and status <> 'dismissed'",
                (tenant, proposal_id),
            )
            row = await cursor.fetchone()
        if row is not None:
            return [as_row(row)]
        await load_proposal(self._engine.log, tenant, proposal_id)
        async with self._engine.doors.tenant(tenant) as connection:
            await refuse_parked(connection, ReviewQueue.name, tenant, [proposal_id])
        raise NotFound(f"no proposal {proposal_id} yet; its read model is behind", proposal_id=proposal_id)

    async def _wait(self, position: int | None) -> None:
        if position:
            for name in ("review_queue", "live_memory", "commitments", "effects"):
                await wait_for(self._engine.doors, name, position)


def condition(tenant: UUID, query: ProposalFilter) -> tuple[str, dict[str, Any]]:
    """SQL that finds what a filter names, and its values."""
    parts = ["tenant = %(tenant)s", "status <> 'dismissed'"]
    parts += [f"{name} = %({name})s" for name in ("status", "kind", "action", "source") if getattr(query, name)]
    if query.memory_id is not None:
        parts.append("(memory_id = %(memory_id)s or related_id = %(memory_id)s)")
    if query.judge is not None:
        parts.append("(judge = %(judge)s or model = %(judge)s)")
    if query.created_after is not None:
        parts.append("created_at >= %(created_after)s")
    if query.created_before is not None:
        parts.append("created_at < %(created_before)s")
    values: dict[str, UUID | str | datetime | None] = {
        name: getattr(query, name) for name in (*ProposalFilter.model_fields,)
    }
    return " and ".join(parts), {"tenant": tenant, **values}
