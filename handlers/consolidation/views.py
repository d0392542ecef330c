"""What the doors answer about consolidation passes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal
from uuid import UUID

from ..operating.views import View


class ConsolidationView(View):
    """One consolidation pass."""

    id: UUID
    phase: Literal["requested", "selected", "completed"]
    trigger: Literal["schedule", "hand"]
    requested_at: datetime
    embedding_model: str
    floor: float | None
    """Cosine from which on pairs were looked at; None where nobody selected one for the embedding model: then
    nothing is proposed."""
    floor_from: Literal["policy", "selected", "none"]
    recurring_collapses: int | None = None
    """Pairs of recurring records that got through at this floor when it was selected; None if nobody measured."""
    looked_at: int = 0
    """Near pairs that nothing had been said about."""
    skipped: Mapping[str, int] = {}
    """Of these without a proposal, by reason."""
    chosen: int = 0
    """Pairs that an edge is proposed for."""
    staged: Mapping[str, int] = {}
    """Proposals in the queue, by edge."""
    already_there: int = 0
    """Chosen pairs that another proposal had been made for meanwhile."""
    position: int
    """Position of the log by which this is so."""
