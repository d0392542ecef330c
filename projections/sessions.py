"""The read model of sessions: one row per run, by opaque ids.

What was written in a session stands in `memory_history`, whose entries name the run.
"""

import json
from collections.abc import Sequence
from typing import Any

from ..domain.events import event_names
from ..domain.session import evolve_session
from ..streams.database import Connection
from ..streams.log import Log
from ..streams.payloads import RecordedEvent
from .projection import ClearText, Projection
from .stream_states import states_of

_COLUMNS: dict[str, str] = {
    "tenant": "uuid not null",
    "run_id": "uuid not null",
    "session_ref": "uuid not null",
    "user_ref": "uuid",
    "agent_ref": "uuid",
    "project": "uuid",
    "scope": "text",
    "opened_at": "timestamptz not null",
    "last_seen_at": "timestamptz not null",
    "closed_at": "timestamptz",
    "epoch": "int not null",
    "unlooked": "boolean not null",
    "next_attempt_at": "timestamptz",
    "position": "bigint not null",
}
_RENAMED = {"session_ref": "session", "user_ref": "user", "agent_ref": "agent", "run_id": "id"}


class SessionRuns:
    """One row per session run."""

    name = "sessions"
    version = "2"
    tables = ("sessions",)
    clear_texts: tuple[ClearText, ...] = ()
    stream_column = "run_id"
    wants = frozenset(event_names("session."))

    def __init__(self, log: Log) -> None:
        self._log = log

    def loading(self, start: int, target: int) -> Projection:
        """There are few of them."""
        return self

    async def create_tables(self, connection: Connection, schema: str) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        await connection.execute(f"create table {schema}.sessions ({columns}, primary key (tenant, run_id))")

    async def create_indexes(self, connection: Connection, schema: str) -> None:
        for statement in (
            f"create index sessions_newest on {schema}.sessions (tenant, opened_at desc, run_id)",
            f"create index sessions_unlooked on {schema}.sessions (tenant, last_seen_at, run_id) where unlooked",
        ):
            await connection.execute(statement)

    async def prepare(self, page: Sequence[RecordedEvent]) -> list[dict[str, Any]]:
        """The last state of each run that a page tells of."""
        found = await states_of(self._log, page, evolve_session)
        rows: list[dict[str, Any]] = []
        for tenant, states in found:
            if not states:
                continue
            state, position = states[-1]
            rows.append(
                {
                    name: _plain(getattr(state, _RENAMED.get(name, name)))
                    for name in _COLUMNS
                    if name not in ("tenant", "position")
                }
                | {"tenant": str(tenant), "position": position}
            )
        return rows

    async def apply(
        self, connection: Connection, schema: str, page: Sequence[RecordedEvent], prepared: list[dict[str, Any]]
    ) -> None:
        if prepared:
            await connection.execute(_UPSERT.format(schema=schema), (json.dumps(prepared, default=str),))


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


_TYPED = ", ".join(f"{name} {kind.partition(' ')[0]}" for name, kind in _COLUMNS.items())
_UPSERT = (
    "insert into {schema}.sessions (" + ", ".join(_COLUMNS) + ") "
    f"select * from jsonb_to_recordset(%s::jsonb) as r({_TYPED}) on conflict (tenant, run_id) do update set "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in ("tenant", "run_id"))
    + " where sessions.position < excluded.position"
)
