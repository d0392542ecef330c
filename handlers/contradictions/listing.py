"""Which pairs wait for whom, and how others were decided."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from ...domain.fields import Id, Input, Owner, Position, parse
from ...projections.generations import tenant_read_models
from ...projections.progress import wait_for
from ..access.caller import Caller
from ..cursors import make_cursor, read_cursor
from ..engine import Engine
from ..kinds import refuse_filter
from .views import ContradictionPage, ContradictionView


class ContradictionQuery(Input):
    """Which contradictions; those of erased memories are not among them."""

    status: Literal["open", "resolved"] | None = None
    owner: Owner | None = None
    """Who has to decide, as policies name people: ``person:ada``."""
    overdue: bool = Field(default=False, strict=True)
    """Only those that are still open and were due before now."""
    memory_id: Id | None = None
    """Either of the two."""
    limit: int = Field(default=25, ge=1, le=100)
    cursor: str | None = Field(default=None, max_length=400, strict=True)
    after: Position | None = None


class ContradictionListing:
    """Lists the contradictions of one caller's tenant."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def page(self, caller: Caller, arguments: Mapping[str, Any]) -> ContradictionPage:
        """A page, the oldest first."""
        caller.require("memory:read")
        query = parse(ContradictionQuery, arguments)
        if query.after:
            for name in ("contradictions", "review_queue", "live_memory"):
                await wait_for(self._engine.doors, name, query.after)
        where, values = await self._condition(caller.tenant, query)
        asked = query.model_dump(exclude={"cursor", "limit", "after"}, exclude_none=True)
        beyond = ""
        if query.cursor is not None:
            values["after_at"], values["after_id"] = read_cursor(query.cursor, asked)
            beyond = " and (c.flagged_at, c.contradiction_id) > (%(after_at)s, %(after_id)s)"
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            cursor = await connection.execute(
                f"select {_COLUMNS} from contradictions c where {where}{beyond} "
                "order by c.flagged_at, c.contradiction_id limit %(limit)s",
                {**values, "limit": query.limit + 1},
            )
            rows = await cursor.fetchall()
            cursor = await connection.execute(f"select count(*) from contradictions c where {where}", values)
            counted = await cursor.fetchone()
        assert counted is not None
        if not counted[0]:
            await refuse_filter(self._engine.log, caller.tenant, "memory_id", query.memory_id, "memory")
        views = await self._present(caller.tenant, rows[: query.limit], values["now"])
        last = views[-1] if len(rows) > query.limit else None
        return ContradictionPage(
            contradictions=tuple(views),
            total=counted[0],
            next_cursor=make_cursor(asked, last.flagged_at, last.id) if last else None,
        )

    async def _condition(self, tenant: UUID, query: ContradictionQuery) -> tuple[str, dict[str, Any]]:
        parts = ["c.tenant = %(tenant)s", _BOTH_THERE]
        values: dict[str, Any] = {"tenant": tenant, "now": self._engine.clock(), "memory": query.memory_id}
        if query.status is not None:
            parts.append(f"c.outcome is {'null' if query.status == 'open' else 'not null'}")
        if query.overdue:
            parts.append("c.outcome is null and c.due_at < %(now)s")
        if query.memory_id is not None:
            parts.append("(c.memory_id = %(memory)s or c.related_id = %(memory)s)")
        if query.owner is not None:
            # Whoever was never named owns nothing.
            values["owner"] = await self._engine.directory.find(tenant, "actor", query.owner)
            parts.append("c.owner = %(owner)s")
        return " and ".join(parts), values

    async def _present(
        self, tenant: UUID, rows: Sequence[Sequence[Any]], now: datetime
    ) -> list[ContradictionView]:
        names = await self._engine.directory.names(
            tenant, {one for row in rows for one in (row[5], row[13]) if one is not None}
        )
        return [
            ContradictionView(
                id=row[0],
                memory_id=row[1],
                related_id=row[2],
                found_by=row[3],
                source=row[4],
                owner=names.get(row[5]),
                due_at=row[6],
                flagged_at=row[7],
                outcome=row[8],
                holds=row[9],
                replaces=row[10],
                decided_at=row[11],
                decided_by=None if row[12] is None else _who(row[12], names.get(row[13])),
                review=row[14],
                status="open" if row[8] is None else "resolved",
                overdue=row[8] is None and row[6] is not None and row[6] < now,
            )
            for row in rows
        ]


def _who(kind: str, name: str | None) -> str:
    return kind if name is None else f"{kind}:{name}"


_BOTH_THERE = (
    "(select count(*) from live_memory m where m.tenant = c.tenant "
    "and m.memory_id in (c.memory_id, c.related_id)) = 2"
)
_COLUMNS = (
    "c.contradiction_id, c.memory_id, c.related_id, c.found_by, c.source, c.owner, c.due_at, c.flagged_at, "
    "c.outcome, c.holds, c.replaces, c.decided_at, c.decided_by_kind, c.decided_by, "
    "(select q.proposal_id from review_queue q where q.tenant = c.tenant and q.memory_id = c.memory_id "
    "and q.related_id = c.related_id and q.kind = 'contradiction' order by q.created_at desc limit 1)"
)
