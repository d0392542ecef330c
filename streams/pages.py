"""Pages of the event table in order of position: the one way in which projections, relay and audit pull it.

What a page holds is complete, since positions are gapless and become visible in order; `reader.LogTail` says when
there may be another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from .database import Connection
from .payloads import session_json

EVENT_COLUMNS = "position, tenant, stream, version, name, event_id, recorded_at, body"
"""What `Log.decode` and `cloudevents` take."""


_BODY_OF = "case when split_part(name, '.', 1) = any(%(namespaces)s) then body end"


_FEW_OF_MANY = "set local random_page_cost = 1.1"
"""For one tenant's events by their own index, also where the planner takes them for evenly spread over the log."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which events of the log to read: one tenant's, and of those some names or one stream."""

    tenant: UUID
    names: tuple[str, ...] = ()
    """Stored names; empty for all."""
    stream: UUID | None = None
    namespace: str = ""
    """What stored names begin with, also those that this version does not know; empty for all."""
    session: UUID | None = None
    """Only events made in this session run, which their headers name readable."""

    def where(self) -> str:
        """SQL that narrows a query of the event table; its values are `values`."""
        return (
            " and tenant = %(tenant)s"
            + (" and name = any(%(names)s)" if self.names else "")
            + (" and stream = %(stream)s" if self.stream is not None else "")
            + (" and starts_with(name, %(namespace)s)" if self.namespace else "")
            + (" and position(%(session)s::bytea in body) > 0" if self.session is not None else "")
        )

    def values(self) -> dict[str, Any]:
        """Parameters of `where`."""
        return {
            "tenant": self.tenant,
            "names": list(self.names),
            "stream": self.stream,
            "namespace": self.namespace,
            "session": None if self.session is None else session_json(self.session).encode(),
        }


async def read_rows(
    connection: Connection,
    after: int,
    limit: int,
    *,
    upto: int | None = None,
    only: Selection | None = None,
    columns: str = EVENT_COLUMNS,
    namespaces: Sequence[str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Sequence[tuple[Any, ...]]:
    """The next rows after a position, in order, at most ``limit``, up to ``upto`` inclusive.

    With ``namespaces`` only events of those bring their body. ``more`` are values that ``columns`` name; ``only``
    is for a transaction of its tenant.
    """
    values: dict[str, Any] = {
        "after": after,
        "upto": upto if upto is not None else 2**62,
        "limit": limit,
        **(more or {}),
    }
    where = "position > %(after)s and position <= %(upto)s"
    if only is not None:
        where += only.where()
        values |= only.values()
    if namespaces is not None:
        columns = columns.replace("body", _BODY_OF)
        values["namespaces"] = list(namespaces)
    statement = f"select {columns} from lethelog.events where {where} order by position limit %(limit)s"
    if only is not None:
        await connection.execute(_FEW_OF_MANY)
    async with connection.cursor(binary=True) as cursor:
        # Planned for the tenant at hand: one plan for all takes the way through everybody's events.
        await cursor.execute(statement.encode(), values, prepare=None if only is None else False)
        return await cursor.fetchall()
