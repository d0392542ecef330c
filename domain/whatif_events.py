"""Another judge was asked what passes had asked before. Its verdicts are for comparing and never propose."""

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from .event import Event
from .judgment import Judgment


class WhatIfRequested(Event):
    """Somebody wants to know what another judge would have said to recorded questions."""

    NAME = "whatif.requested"

    judge: str
    """Identity of the judge that is asked."""
    since: datetime | None = None
    """Questions of passes whose verdicts came then or later."""
    most: int
    """How many questions it may ask at most."""


class WhatIfVerdictRecorded(Judgment):
    """The other judge answered a recorded question: of this pass, by this reference."""

    NAME = "whatif.verdict_recorded"
    SEALED_FOR: ClassVar[dict[str, str]] = {"quote": "evidence_memory", "state_digest": "memory_id"}

    whatif: UUID
    """The what-if that asked."""
    call_id: UUID
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """Of the whole call."""
    request_id: str | None = None
    reply_digest: str | None = None
    state_digest: str | None = None
    """SHA-256 of the rendered state; of text, hence sealed."""
    raw_probabilities: dict[str, float] | None = None
