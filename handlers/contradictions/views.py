"""What the doors answer about contradictions."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from ..operating.views import View


class ContradictionView(View):
    """Two memories that cannot both hold, as far as somebody found; both are kept."""

    id: UUID
    memory_id: UUID
    related_id: UUID
    found_by: Literal["verdict", "refused_write"]
    source: UUID
    """The proposal or the command that led to it."""
    status: Literal["open", "resolved"]
    owner: str | None = None
    """Who has to decide, by the tenant's policy of when it was flagged."""
    due_at: datetime | None = None
    overdue: bool
    """Still open, and due before now."""
    flagged_at: datetime
    review: UUID | None = None
    """The proposal by which it is decided."""
    outcome: Literal["one", "both", "none"] | None = None
    """One of them holds, both stay as they are, or they do not contradict each other."""
    holds: UUID | None = None
    replaces: UUID | None = None
    """The memory that the other was preferred to."""
    decided_at: datetime | None = None
    decided_by: str | None = None


class ContradictionPage(View):
    """One page of contradictions, the oldest first; ``total`` is exact."""

    contradictions: tuple[ContradictionView, ...]
    total: int
    next_cursor: str | None = None
