"""The read model of commitments: every state that each went through, the present one without an end.

Who brings them up joins it with live memory by ``memory_id``: an archived or erased memory keeps its commitment,
and nobody is reminded of it. There is no personal text here; what was promised stands in the memory.

A row is a state, and held half-open like those of past memories (`memory_past`): from ``position`` until
``until_position``, and in instants from ``changed_at`` until ``until_at``; so the conditions of an `AsOf` fit it.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from uuid import UUID

from ..domain.commitment import Commitment, evolve_commitment
from ..domain.events import event_names
from ..streams.database import Connection
from ..streams.log import Log
from ..streams.payloads import RecordedEvent
from .projection import ClearText, Projection
from .stream_states import states_of

_FOR_EVER = 2**63 - 1
_FOR_EVER_AT = "9999-12-31T00:00:00+00:00"
PRESENT = f"until_position = {_FOR_EVER}"
"""SQL of the present state of each commitment."""
DUE = "status in ('open', 'waiting')"
"""SQL of `domain.commitment.DUE`."""
MOVED = (
    "exists (select from commitments later join commitments seen on seen.tenant = later.tenant "
    "and seen.commitment_id = later.commitment_id and seen.version = (select max(one.version) "
    "from commitments one where one.tenant = later.tenant and one.commitment_id = later.commitment_id "
    "and one.version <= {version}) where later.tenant = {tenant} and later.commitment_id = {commitment} "
    "and later.version > {version} "
    "and (later.status, later.memory_id) is distinct from (seen.status, seen.memory_id))"
)
"""SQL of whether a commitment's status or memory was another at any time since a version of its stream."""
_COLUMNS: dict[str, str] = {
    "tenant": "uuid not null",
    "commitment_id": "uuid not null",
    "memory_id": "uuid not null",
    "status": "text not null",
    "owner": "uuid",
    "due_at": "timestamptz",
    "next_surfacing_at": "timestamptz",
    "recurrence": "text",
    "opened_at": "timestamptz not null",
    "changed_at": "timestamptz not null",
    "resolved_at": "timestamptz",
    "expired_due": "timestamptz",
    "version": "bigint not null",
    "position": "bigint not null",
    "until_position": f"bigint not null default {_FOR_EVER}",
    "until_at": f"timestamptz not null default '{_FOR_EVER_AT}'",
}


class CommitmentStates:
    """One row per state of a commitment."""

    name = "commitments"
    version = "1"
    tables = ("commitments",)
    clear_texts: tuple[ClearText, ...] = ()
    stream_column = "commitment_id"
    wants = frozenset(event_names("commitment."))

    def __init__(self, log: Log) -> None:
        self._log = log

    def loading(self, start: int, target: int) -> Projection:
        """There are few of them."""
        return self

    async def create_tables(self, connection: Connection, schema: str) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        await connection.execute(
            f"create table {schema}.commitments ({columns}, primary key (tenant, commitment_id, position))"
        )

    async def create_indexes(self, connection: Connection, schema: str) -> None:
        for statement in (
            f"create index commitments_memory on {schema}.commitments (tenant, memory_id)",
            f"create index commitments_due on {schema}.commitments (due_at, commitment_id) "
            f"where {PRESENT} and {DUE}",
            f"create index commitments_surfacing on {schema}.commitments (next_surfacing_at, commitment_id) "
            f"where {PRESENT} and {DUE} and next_surfacing_at is not null",
        ):
            await connection.execute(statement)

    async def prepare(self, page: Sequence[RecordedEvent]) -> list[dict[str, Any]]:
        """The states that a page leads to."""
        found = await states_of(self._log, page, evolve_commitment)
        return [row for tenant, states in found for row in _rows(tenant, states)]

    async def apply(
        self, connection: Connection, schema: str, page: Sequence[RecordedEvent], prepared: list[dict[str, Any]]
    ) -> None:
        if prepared:
            said = (json.dumps(prepared),)
            await connection.execute(_END.format(schema=schema), said)
            await connection.execute(_INSERT.format(schema=schema), said)


def _rows(tenant: UUID, states: Sequence[tuple[Commitment, int]]) -> list[dict[str, Any]]:
    rows = [_row(tenant, state, position) for state, position in states]
    for row, following in pairwise(rows):
        row |= {"until_position": following["position"], "until_at": following["changed_at"]}
    return rows


def _row(tenant: UUID, state: Commitment, position: int) -> dict[str, Any]:
    def moment(name: str) -> str | None:
        at = getattr(state, name)
        return None if at is None else at.isoformat()

    times = ("due_at", "next_surfacing_at", "opened_at", "changed_at", "resolved_at", "expired_due")
    return {
        "tenant": str(tenant),
        "commitment_id": str(state.id),
        "memory_id": str(state.memory_id),
        "status": state.status,
        "owner": None if state.owner is None else str(state.owner),
        "recurrence": state.recurrence,
        **{name: moment(name) for name in times},
        "version": state.version,
        "position": position,
        "until_position": _FOR_EVER,
        "until_at": _FOR_EVER_AT,
    }


_TYPED = ", ".join(f"{name} {kind.partition(' ')[0]}" for name, kind in _COLUMNS.items())
_END = (
    "update {schema}.commitments c set until_position = r.position, until_at = r.changed_at "
    "from (select distinct on (tenant, commitment_id) * "
    f"from jsonb_to_recordset(%s::jsonb) as r({_TYPED}) order by tenant, commitment_id, position) r "
    "where c.tenant = r.tenant and c.commitment_id = r.commitment_id "
    f"and c.{PRESENT} and c.position < r.position"
)
_INSERT = (
    "insert into {schema}.commitments (" + ", ".join(_COLUMNS) + ") "
    f"select * from jsonb_to_recordset(%s::jsonb) as r({_TYPED}) on conflict do nothing"
)
