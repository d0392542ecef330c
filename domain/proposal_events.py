"""What is put into the review queue, one event per kind (behaviour.md 1.4, 1.14; S3).

Retention proposals, which rest on a judge's verdict, are `events.ProposalStaged`. A new kind gets a stored name of
its own rather than widening an older one.
"""

from datetime import datetime
from typing import Any, ClassVar, Literal
from uuid import UUID

from .event import Event
from .fields import Edge, LinkEdge

ProposalKind = Literal["retention", "consolidation", "fact", "resolution", "contradiction", "dependency"]

ProposalAction = Literal[
    "archive",
    "supersede",
    "conflict",
    "extends",
    "derives",
    "updates",
    "supersedes",
    "assert",
    "resolve",
    "settle",
]
"""What accepting does, over all kinds."""


class Staged(Event):
    """Root of the kinds that do not rest on a pass's verdict. Not stored itself."""

    KIND: ClassVar[ProposalKind]
    CLEAR: ClassVar[frozenset[str]] = frozenset()
    """Fields that a reviewer sees beside those of every kind; what is sealed is shown as well."""

    memory_id: UUID
    """The memory it is about."""
    related_id: UUID | None = None
    seen: dict[UUID, int]
    """State version of every memory it rests on (settlement 5)."""
    source: UUID
    """The pass, session run, proposal or command that led to it."""
    rationale: str | None = None
    """One line for the reviewer; personal text of the memory it is about."""

    SEALED_FOR = {"rationale": "memory_id"}

    @property
    def action(self) -> str:
        """What accepting does, in one word."""
        raise NotImplementedError

    @property
    def probability(self) -> float | None:
        """How sure whoever made it was; None where nobody was asked."""
        return None

    @property
    def made_by(self) -> str | None:
        """Identity of the judge or extractor; None for a rule."""
        return None

    def slot(self) -> bytes | None:
        """What tells it from other open proposals of its kind about the memory; None where that was erased."""
        return self.action.encode()

    def details(self) -> dict[str, Any]:
        """The kind's own fields that are no personal text, JSON-ready."""
        return self.model_dump(mode="json", include=set(self.CLEAR), exclude_none=True)

    def texts(self) -> dict[str, str]:
        """Its personal texts, as far as their keys are there."""
        found = {name: getattr(self, name) for name in sorted(self.SEALED_FOR)}
        return {name: text for name, text in found.items() if text is not None}


class EdgeStaged(Staged):
    """Two memories are near: an edge from the newer one (``memory_id``) to the older (``related_id``)."""

    NAME = "proposal.edge_staged"
    KIND = "consolidation"
    CLEAR = frozenset({"edge", "similarity", "embedding_model", "floor"})

    edge: Edge | LinkEdge
    similarity: float
    """Cosine of their vectors."""
    embedding_model: str
    floor: float

    @property
    def action(self) -> str:
        return self.edge

    def slot(self) -> bytes | None:
        assert self.related_id is not None
        return self.related_id.bytes + self.edge.encode()


class FactStaged(Staged):
    """An extractor read a fact in a memory's text."""

    NAME = "proposal.fact_staged"
    KIND = "fact"
    SEALED_FOR = {
        "rationale": "memory_id",
        "subject": "memory_id",
        "predicate": "memory_id",
        "value": "memory_id",
        "claim": "memory_id",
    }
    CLEAR = frozenset({"confidence", "valid_from", "valid_to", "extractor"})

    subject: str | None = None
    predicate: str | None = None
    value: str | None = None
    claim: str | None = None
    """Keyed digest of subject, predicate and value, in hex: the same claim is open once per memory."""
    confidence: float | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    extractor: str
    """Identity of what read it."""

    @property
    def action(self) -> str:
        return "assert"

    def slot(self) -> bytes | None:
        return None if self.claim is None else b"assert" + bytes.fromhex(self.claim)

    def texts(self) -> dict[str, str]:
        return {name: text for name, text in super().texts().items() if name != "claim"}

    @property
    def probability(self) -> float | None:
        return self.confidence

    @property
    def made_by(self) -> str | None:
        return self.extractor


class ResolutionStaged(Staged):
    """A judge takes a commitment (of the memory) for done after a session, but not surely enough.

    ``seen`` holds the version of the commitment's stream beside the memory's state version.
    """

    NAME = "proposal.resolution_staged"
    SCHEMA = 2
    KIND = "resolution"
    CLEAR = frozenset({"commitment", "session", "written"})

    commitment: UUID
    session: UUID
    """The session run."""
    judged_at: float
    """Probability that it is done: from 0.5 up to 0.9."""
    judge: str
    model: str
    written: tuple[UUID, ...] = ()
    """Memories of the session that the judge was shown, the nearest to the commitment first."""

    @property
    def action(self) -> str:
        return "resolve"

    @property
    def probability(self) -> float | None:
        return self.judged_at

    @property
    def made_by(self) -> str | None:
        return self.judge


class ContradictionStaged(Staged):
    """Two memories cannot both hold; somebody has to say which does (D12)."""

    NAME = "proposal.contradiction_staged"
    KIND = "contradiction"
    CLEAR = frozenset({"contradiction", "found_by", "owner", "due_at"})
    NAMED = {"owner": "actor"}

    contradiction: UUID
    """The contradiction on record."""
    found_by: Literal["verdict", "refused_write"]
    owner: UUID | None = None
    due_at: datetime | None = None

    @property
    def action(self) -> str:
        return "settle"

    def slot(self) -> bytes | None:
        assert self.related_id is not None
        return self.related_id.bytes + b"settle"


class DependencyStaged(Staged):
    """What a memory was derived from (``related_id``) was superseded, refuted or erased."""

    NAME = "proposal.dependency_staged"
    KIND = "dependency"
    CLEAR = frozenset({"ended"})

    ended: Literal["superseded", "refuted", "erased"]

    @property
    def action(self) -> str:
        return "archive"

    def slot(self) -> bytes | None:
        return b"dependency"
