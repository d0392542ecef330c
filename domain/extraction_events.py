"""What was read out of a memory's text by an extractor; the facts themselves are proposals."""

from typing import Literal
from uuid import UUID

from .event import Event

ExtractionOutcome = Literal["read", "refused", "ended_meanwhile", "budget_exceeded", "too_long"]
"""It was read; the extractor declined; the memory ended before anything was proposed; it was not sent."""


class ExtractionRecorded(Event):
    """A memory's text was put before an extractor, or could not be. Its stream is what the proposals name as
    source."""

    NAME = "extraction.recorded"

    memory_id: UUID
    seen: int
    """State version of the memory."""
    extractor: str
    """Identity of the extractor."""
    outcome: ExtractionOutcome
    model: str | None = None
    """The model that answered."""
    proposals: tuple[UUID, ...] = ()
    """The facts that were proposed."""
    already_there: int = 0
    """Facts that were on record or proposed before."""
    dropped: dict[str, int] = {}
    """Facts that were not taken, by reason."""
    call_id: UUID | None = None
    """The call that was reserved and settled; None where nothing was sent."""
    request_id: str | None = None
