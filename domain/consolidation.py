"""Which edge is proposed between two near memories, and how far a consolidation pass got (behaviour.md 1.13).

The mildest edge that both types allow, from the newer memory to the older one (A13 to A15, settlement 11); never
one where the texts differ in a number, a date, a name or a negation (settlement 10).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal
from uuid import UUID, uuid5

from . import events as e
from .differences import Said, differences
from .fields import Edge, LinkEdge, MemoryType

AnyEdge = Edge | LinkEdge
MILDEST_FIRST: tuple[AnyEdge, ...] = ("extends", "derives", "updates", "supersedes")
_ALL = frozenset(MILDEST_FIRST)
_NOT_DERIVED = frozenset[AnyEdge]({"supersedes", "updates", "extends"})
EDGES: Mapping[MemoryType, frozenset[AnyEdge]] = MappingProxyType(
    {
        "fact": _ALL,
        "decision": _ALL,
        "pattern": _ALL,
        "note": _ALL,
        "preference": frozenset[AnyEdge]({"supersedes", "updates"}),
        "commitment": _NOT_DERIVED,
        "blocker": _NOT_DERIVED,
        "event": frozenset[AnyEdge]({"extends"}),
    }
)
"""Edges that may be proposed for a memory of this type, on either side."""
PAIRS = 200
"""How many pairs one pass proposes edges for at most: the closest."""

_SCHEDULED = UUID("0b7f6d0a-3c52-5a3e-8b1a-5f3c9d6a4e27")
Phase = Literal["requested", "selected", "completed"]


def mildest_edge(newer: MemoryType, older: MemoryType) -> AnyEdge | None:
    """The mildest edge that both types allow; None where they have none in common."""
    allowed = EDGES[newer] & EDGES[older]
    return next((edge for edge in MILDEST_FIRST if edge in allowed), None)


@dataclass(frozen=True, slots=True)
class Side:
    """One memory of a pair, as far as the rule looks at it."""

    memory_type: MemoryType
    said: Said
    guarded: bool = False
    """Pinned or verified."""


def edge_between(newer: Side, older: Side) -> tuple[AnyEdge | None, str | None]:
    """(the edge to propose, None) or (None, why there is none, in one word).

    Pinned and verified memories only ever come into conflict (settlement 10), so no edge closes one.
    """
    edge = mildest_edge(newer.memory_type, older.memory_type)
    if edge is None:
        return None, "no_common_edge"
    if older.guarded and edge in ("updates", "supersedes"):
        return None, "guarded"
    found = differences(newer.said, older.said)
    return (None, min(found)) if found else (edge, None)


@dataclass(frozen=True, slots=True)
class ConsolidationState:
    """How far a pass got."""

    id: UUID
    version: int
    phase: Phase
    requested: e.ConsolidationRequested
    requested_at: datetime
    selected: e.ConsolidationSelected | None = None
    completed: e.ConsolidationCompleted | None = None

    @property
    def open(self) -> bool:
        """Whether it still holds the tenant's one slot."""
        return self.phase != "completed"


def evolve_consolidation(
    state: ConsolidationState | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime
) -> ConsolidationState:
    """The state after one more event of its stream."""
    if isinstance(event, e.ConsolidationRequested):
        return ConsolidationState(stream, version, "requested", event, recorded_at)
    if state is None:
        raise ValueError(f"stream {stream} does not begin with consolidation.requested")
    state = replace(state, version=version)
    match event:
        case e.ConsolidationSelected():
            return replace(state, phase="selected", selected=event)
        case e.ConsolidationCompleted():
            return replace(state, phase="completed", completed=event)
        case _:
            return state


def hour_of(now: datetime) -> datetime:
    """The UTC hour that a moment lies in."""
    return now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def scheduled_consolidation_id(tenant: UUID, now: datetime) -> UUID:
    """The one id of a tenant's scheduled pass of an hour; asking twice means the same pass."""
    return uuid5(_SCHEDULED, f"{tenant}:{hour_of(now).isoformat()}")
