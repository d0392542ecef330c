"""From where a read looks: at what was on record then, and at what was true then (design.md 5).

Every read of memories takes its table and its conditions of time from here, the ones of the present too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .memory_columns import COLUMNS, DERIVED_COLUMNS

HELD = (
    "coalesce(valid_from, occurred_at) <= %(valid_at)s and (valid_to is null or %(valid_at)s < valid_to) "
    "and (held_until is null or %(valid_at)s < held_until)"
)
"""SQL of `domain.memory.Memory.held`."""
_CLOSED = "(successor is not null or (valid_to is not null and valid_to <= %(now)s))"
_STATE = ", ".join((*COLUMNS, *DERIVED_COLUMNS))
_UNTIL = f"{2**63 - 1}::bigint as until_position, 'infinity'::timestamptz as until_at"
_PRESENT = f"select {_STATE}, {_UNTIL} from live_memory"
_STATES = f"({_PRESENT} union all select {_STATE}, until_position, until_at from memory_past) live_memory"
_THEN = "position <= %(known)s and %(known)s < until_position"
_THEN_ELSEWHERE = "changed_at <= %(now)s and %(now)s < until_at"


@dataclass(frozen=True, slots=True)
class AsOf:
    """The times of a read."""

    now: datetime
    """What expiry, ends and ages go by: the present, or the instant that ``known`` stands for."""
    known: int | None = None
    """Only what was on record at this position of the log; None for all that is."""
    moved_in: bool = False
    """Whether ``now`` decides instead of ``known``: history was moved in, whose instants are those of the log it
    happened in, and whose positions are later (ADR 9)."""
    valid_at: datetime | None = None
    """Only what held then (`HELD`), whatever ended it later; None for all there is, the ended ones marked."""

    @property
    def source(self) -> str:
        """What to select memories from. Its alias is ``live_memory``."""
        return "live_memory" if self.known is None else _STATES

    @property
    def tables(self) -> Mapping[str, str]:
        """The same taken apart: each table by name, and what to select its part from."""
        if self.known is None:
            return {"live_memory": "live_memory"}
        return {"live_memory": f"({_PRESENT}) live_memory", "memory_past": "memory_past"}

    @property
    def closed(self) -> str:
        """SQL of what is shown last and flagged: superseded, or past its own end. Nothing that held when asked."""
        return _CLOSED if self.valid_at is None else "false"

    def where(self) -> list[str]:
        """SQL conditions; their values are `values`."""
        conditions = [] if self.known is None else [_THEN_ELSEWHERE if self.moved_in else _THEN]
        return conditions + ([HELD] if self.valid_at is not None else [])

    def values(self) -> dict[str, Any]:
        """Parameters of `where` and `closed`."""
        return {"now": self.now, "known": self.known, "valid_at": self.valid_at}
