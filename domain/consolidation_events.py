"""What a consolidation pass leaves on record: what it was asked for, the pairs it chose, and what came of them."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from .event import Event
from .fields import Edge, LinkEdge

FloorFrom = Literal["policy", "selected", "none"]
"""Who chose the floor: the tenant's policy, selection on data for the embedding model, or nobody."""


class ConsolidationRequested(Event):
    """A pass was asked for, by the schedule or by hand."""

    NAME = "consolidation.requested"

    trigger: Literal["schedule", "hand"]
    hour: datetime
    """The UTC hour that it belongs to."""
    embedding_model: str
    """Only vectors of this model are compared."""
    floor: float | None = None
    """Cosine below which no pair is looked at; None where none was selected, and then nothing is proposed."""
    floor_from: FloorFrom
    recurring_collapses: int | None = None
    """How many pairs of recurring records, every one of which still stands, this floor let through when it was
    selected (settlement 11); None for a floor that nobody measured."""


class ChosenPair(BaseModel):
    """A pair that an edge is proposed for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    newer: UUID
    older: UUID
    edge: Edge | LinkEdge
    similarity: float
    seen: dict[UUID, int]


class ConsolidationSelected(Event):
    """The pairs that it proposes edges for, the closest first."""

    NAME = "consolidation.selected"

    pairs: tuple[ChosenPair, ...]
    looked_at: int
    """Pairs from the floor on that nothing had been said about yet, as far as they were looked at."""
    skipped: dict[str, int]
    """How many of them got no proposal, by reason: number, date, name, negation, too_long, no_common_edge."""
    position: int
    """Position of live memory that was compared."""
    whole: bool
    """Everything from the floor on was looked at, and every memory had its vector."""


class ConsolidationCompleted(Event):
    """Every proposal of its is in the queue."""

    NAME = "consolidation.completed"

    staged: dict[str, int]
    """Proposals by edge."""
    already_there: int = 0
    """Pairs that another proposal had been made for meanwhile."""
