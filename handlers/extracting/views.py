"""What the doors answer about readings of texts."""

from collections.abc import Mapping
from uuid import UUID

from ...domain.extraction_events import ExtractionOutcome
from ..operating.views import View


class ExtractionView(View):
    """What came of reading one memory for facts."""

    id: UUID
    """What the proposals name as their source."""
    memory_id: UUID
    extractor: str
    model: str | None = None
    """The model that answered."""
    outcome: ExtractionOutcome
    proposals: tuple[UUID, ...] = ()
    """The facts that were proposed; they wait in the review queue."""
    already_there: int = 0
    """Facts that were on record or proposed before."""
    dropped: Mapping[str, int] = {}
    """Facts that were not taken, by reason: their words do not stand in the text, say."""
    position: int
    """Position of the log by which this is so."""
