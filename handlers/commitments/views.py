"""What the doors answer about commitments."""

from datetime import datetime
from uuid import UUID

from ...domain.fields import CommitmentStatus
from ..operating.views import View


class CommitmentView(View):
    """One commitment; what was promised says its memory."""

    id: UUID
    memory_id: UUID
    topic: str
    """Of the memory."""
    live: bool
    """Whether the memory is live: nobody is reminded of others."""
    status: CommitmentStatus
    owner: str | None = None
    due_at: datetime | None = None
    overdue: bool
    """Still to be done, on a live memory, and due before now."""
    next_surfacing_at: datetime | None = None
    recurrence: str | None = None
    opened_at: datetime
    changed_at: datetime
    resolved_at: datetime | None = None


class CommitmentPage(View):
    """One page of commitments, first what is due first; ``total`` is exact."""

    commitments: tuple[CommitmentView, ...]
    total: int
    next_cursor: str | None = None


class Resolved(View):
    """What became of a commitment or a blocker."""

    memory_id: UUID
    status: str
    """The commitment's; ``archived`` for a blocker, which has none."""
    commitment: CommitmentView | None = None
    """None for a blocker, and where the credential lacks ``memory:read``."""
    position: int
    changed: bool = True
    """False where it stood so already."""
