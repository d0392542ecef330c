"""Lists of commitments: whose, in which status, overdue or not."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from ...domain.commitment import DUE, Commitment
from ...domain.fields import CommitmentStatus, Id, Input, Owner, Position, parse
from ...domain.memory import Memory
from ...projections.commitments import DUE as IS_DUE
from ...projections.commitments import PRESENT, CommitmentStates
from ...projections.generations import tenant_read_models
from ...projections.live_memory import LIVE, LiveMemory
from ...projections.progress import wait_for
from ..access.caller import Caller
from ..cursors import make_cursor, read_cursor
from ..engine import Engine
from ..kinds import refuse_filter
from .views import CommitmentPage, CommitmentView

_NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""Sorts what has no due date last."""
_DUE_FIRST = "coalesce(c.due_at, %(never)s)"


class CommitmentQuery(Input):
    """Which commitments to list; ``limit`` 1 to 100."""

    status: CommitmentStatus | None = None
    owner: Owner | None = None
    overdue: bool = False
    """Only what is still to be done, on a live memory, and was due before now (strictly)."""
    memory_id: Id | None = None
    limit: int = Field(default=25, ge=1, le=100)
    cursor: str | None = Field(default=None, max_length=400, strict=True)
    after: Position | None = None


class CommitmentListing:
    """Lists commitments of one caller's tenant. Those of erased memories are not listed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def page(self, caller: Caller, arguments: Mapping[str, Any]) -> CommitmentPage:
        """A page, first what is due first, then what has no due date."""
        caller.require("memory:read")
        query = parse(CommitmentQuery, arguments)
        if query.after:
            for name in (CommitmentStates.name, LiveMemory.name):
                await wait_for(self._engine.doors, name, query.after)
        values: dict[str, Any] = {
            "tenant": caller.tenant,
            "now": self._engine.clock(),
            "never": _NEVER,
            "status": query.status,
            "memory": query.memory_id,
            "limit": query.limit + 1,
        }
        where = ["c.tenant = %(tenant)s", PRESENT]
        if query.owner is not None:
            owner = await self._engine.directory.find(caller.tenant, "actor", query.owner)
            if owner is None:
                return CommitmentPage(commitments=(), total=0)
            where.append("c.owner = %(owner)s")
            values["owner"] = owner
        if query.status is not None:
            where.append("c.status = %(status)s")
        if query.memory_id is not None:
            where.append("c.memory_id = %(memory)s")
        if query.overdue:
            where.append(f"c.{IS_DUE} and c.due_at < %(now)s and {LIVE}")
        asked = query.model_dump(exclude={"cursor", "limit", "after"})
        beyond = ""
        if query.cursor is not None:
            values["after_at"], values["after_id"] = read_cursor(query.cursor, asked)
            beyond = f" and ({_DUE_FIRST}, c.commitment_id) > (%(after_at)s, %(after_id)s)"
        joined = (
            "from commitments c join live_memory m on m.tenant = c.tenant and m.memory_id = c.memory_id "
            f"where {' and '.join(where)}"
        )
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            cursor = await connection.execute(
                f"select {_COLUMNS}, m.topic, {LIVE} {joined}{beyond} "
                f"order by {_DUE_FIRST}, c.commitment_id limit %(limit)s",
                values,
            )
            rows = await cursor.fetchall()
            counted = await (await connection.execute(f"select count(*) {joined}", values)).fetchone()
        assert counted is not None
        if not counted[0]:
            await refuse_filter(self._engine.log, caller.tenant, "memory_id", query.memory_id, "memory")
        page = rows[: query.limit]
        more = len(rows) > query.limit
        last = page[-1] if page else None
        return CommitmentPage(
            commitments=tuple(await self._present(caller.tenant, page, values["now"])),
            total=counted[0],
            next_cursor=make_cursor(asked, last[4] or _NEVER, last[0]) if more and last else None,
        )

    async def _present(self, tenant: UUID, rows: Sequence[Sequence[Any]], now: datetime) -> list[CommitmentView]:
        names = await self._engine.directory.names(tenant, {row[3] for row in rows})
        return [
            CommitmentView(
                id=row[0],
                memory_id=row[1],
                status=row[2],
                owner=names.get(row[3]),
                due_at=row[4],
                next_surfacing_at=row[5],
                recurrence=row[6],
                opened_at=row[7],
                changed_at=row[8],
                resolved_at=row[9],
                topic=row[10],
                live=row[11],
                overdue=_overdue(row[2], row[4], now) and row[11],
            )
            for row in rows
        ]


async def present_commitment(engine: Engine, tenant: UUID, state: Commitment, memory: Memory) -> CommitmentView:
    """A commitment as the log has it, as an answer."""
    names = await engine.directory.names(tenant, [state.owner])
    return CommitmentView(
        id=state.id,
        memory_id=state.memory_id,
        topic=memory.topic or "",
        live=memory.live,
        status=state.status,
        owner=None if state.owner is None else names.get(state.owner),
        due_at=state.due_at,
        overdue=_overdue(state.status, state.due_at, engine.clock()) and memory.live,
        next_surfacing_at=state.next_surfacing_at,
        recurrence=state.recurrence,
        opened_at=state.opened_at,
        changed_at=state.changed_at,
        resolved_at=state.resolved_at,
    )


def _overdue(status: CommitmentStatus, due_at: datetime | None, now: datetime) -> bool:
    return status in DUE and due_at is not None and due_at < now


_COLUMNS = (
    "c.commitment_id, c.memory_id, c.status, c.owner, c.due_at, c.next_surfacing_at, c.recurrence, c.opened_at, "
    "c.changed_at, c.resolved_at"
)
