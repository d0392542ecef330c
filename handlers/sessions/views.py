"""What the doors answer about sessions."""

from datetime import datetime
from uuid import UUID

from ..operating.views import View


class CloserView(View):
    """What the session closer did after a run."""

    looked_at: datetime | None
    """When it last looked to the end; None where it has not."""
    resolved: int
    """Commitments that it resolved."""
    proposed: int
    """Commitments that it proposed to resolve."""
    failures: int
    """In a row, since it last looked to the end."""
    next_attempt_at: datetime | None


class SessionView(View):
    """One session run."""

    id: UUID
    """What writes name as ``session_run_id``."""
    session: str | None
    """Its outside name; None once it is erased."""
    user: str | None = None
    agent: str | None = None
    project: str | None = None
    scope: str | None = None
    running: bool
    """Neither closed nor past its lease."""
    opened_at: datetime
    last_seen_at: datetime
    closed_at: datetime | None = None
    epoch: int
    """How often it was taken up."""
    needs_look: bool
    """It is over, and the closer has not looked at what was written in it."""
    closer: CloserView
    position: int


class SessionPage(View):
    """One page of session runs, newest first; ``total`` is exact."""

    sessions: tuple[SessionView, ...]
    total: int
    next_cursor: str | None = None
