"""How many rows a filter keeps, as the planner guesses: asked once, and believed for some seconds.

Counting takes many times as long as a search, and asking the planner as long as a small one. The answer only
chooses between plans, so that an old one costs time and never a result.
"""

import time
from dataclasses import dataclass
from typing import Any

from ..streams.database import Doors
from .filters import MemoryFilter
from .generations import read_at_once

BELIEVED_SECONDS = 10.0
MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """Rows under the filter, and in the whole table."""

    rows: float
    table: float


class Estimates:
    """Estimates of one process, against the current read models or those in the schema ``scratch``."""

    def __init__(self, doors: Doors, scratch: str | None = None) -> None:
        self._doors = doors
        self._scratch = scratch
        self._remembered: dict[tuple[Any, ...], tuple[float, Estimate]] = {}

    async def of_tenant(self, matching: MemoryFilter, table: str) -> Estimate:
        """All rows of the filter's tenant."""
        key = (table, matching.tenant)
        return self._known(key) or await self._ask(key, matching, table, table, "tenant = %(tenant)s")

    async def of_filter(self, matching: MemoryFilter, table: str) -> Estimate:
        """The rows that the filter keeps."""
        values = {name: value for name, value in matching.values().items() if name != "now"}
        key = (table, matching.where(), repr(values))
        source = matching.as_of.tables[table]
        return self._known(key) or await self._ask(key, matching, table, source, matching.where())

    def _known(self, key: tuple[Any, ...]) -> Estimate | None:
        until, estimate = self._remembered.get(key, (0.0, None))
        return estimate if time.monotonic() < until else None

    async def _ask(
        self, key: tuple[Any, ...], matching: MemoryFilter, table: str, source: str, where: str
    ) -> Estimate:
        async with read_at_once(self._doors, matching.tenant, scratch=self._scratch) as connection:
            planned = await connection.execute(
                f"explain (format json) select from {source} where {where}", matching.values()
            )
            counted = await connection.execute("select reltuples from pg_class where oid = %s::regclass", (table,))
        plan, whole = await planned.fetchone(), await counted.fetchone()
        assert plan is not None and whole is not None
        estimate = Estimate(plan[0][0]["Plan"]["Plan Rows"], whole[0])
        while len(self._remembered) >= MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        # Taken out first, so that the oldest stands at the front.
        self._remembered.pop(key, None)
        self._remembered[key] = (time.monotonic() + BELIEVED_SECONDS, estimate)
        return estimate
