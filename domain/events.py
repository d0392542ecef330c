"""Every event of the log, with its stored name; see `domain.event` for what holds of all of them.

The parts of the review desk stand in modules of their own and are found here by the same names.
"""

from datetime import datetime
from typing import Any, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from .commitment_events import (
    CommitmentCarried,
    CommitmentEffectUndone,
    CommitmentOpened,
    CommitmentScheduled,
    CommitmentTransitioned,
)
from .consolidation_events import (
    ChosenPair,
    ConsolidationCompleted,
    ConsolidationRequested,
    ConsolidationSelected,
)
from .contradiction_events import ContradictionEffectUndone, ContradictionFlagged, ContradictionResolved
from .event import Event, NamedKind, event_class, event_names
from .extraction_events import ExtractionRecorded
from .fact_events import FactAsserted, FactEffectUndone
from .fields import Edge, LinkEdge, MemoryType, Producer, Trust
from .judgment import Judgment
from .proposal_events import (
    ContradictionStaged,
    DependencyStaged,
    EdgeStaged,
    FactStaged,
    ProposalKind,
    ResolutionStaged,
    Staged,
)
from .scope_events import RetrievalMode, TenantRetrievalChanged, TenantScopeRegistered
from .session_events import (
    SessionClosed,
    SessionCloserFailed,
    SessionCloserFinished,
    SessionCloserJudged,
    SessionOpened,
    SessionResumed,
    SessionSeen,
)
from .undo_events import EffectUndone, MemoryEffectUndone, RefusedUndo, UndoPerformed, UndoRequested
from .webhook_events import (
    WebhookChanged,
    WebhookDisabled,
    WebhookEnabled,
    WebhookRegistered,
    WebhookRemoved,
    WebhookSecretRotated,
)
from .whatif_events import WhatIfRequested, WhatIfVerdictRecorded

__all__ = [
    "ChosenPair",
    "CommitmentCarried",
    "CommitmentEffectUndone",
    "CommitmentOpened",
    "CommitmentScheduled",
    "CommitmentTransitioned",
    "ConsolidationCompleted",
    "ConsolidationRequested",
    "ConsolidationSelected",
    "ContradictionEffectUndone",
    "ContradictionFlagged",
    "ContradictionResolved",
    "ContradictionStaged",
    "DependencyStaged",
    "EdgeStaged",
    "EffectUndone",
    "Event",
    "ExtractionRecorded",
    "FactAsserted",
    "FactEffectUndone",
    "FactStaged",
    "Judgment",
    "MemoryEffectUndone",
    "NamedKind",
    "ProposalKind",
    "RefusedUndo",
    "ResolutionStaged",
    "RetrievalMode",
    "SessionClosed",
    "SessionCloserFailed",
    "SessionCloserFinished",
    "SessionCloserJudged",
    "SessionOpened",
    "SessionResumed",
    "SessionSeen",
    "Staged",
    "TenantRetrievalChanged",
    "TenantScopeRegistered",
    "UndoPerformed",
    "UndoRequested",
    "WebhookChanged",
    "WebhookDisabled",
    "WebhookEnabled",
    "WebhookRegistered",
    "WebhookRemoved",
    "WebhookSecretRotated",
    "WhatIfRequested",
    "WhatIfVerdictRecorded",
    "event_class",
    "event_names",
]

ErasureKind = Literal["memory", "subject", "project", "scope", "tenant"]
Derived = Literal["cascade", "list"]
"""What becomes of memories that follow from erased ones: erased with them, or listed for somebody to look at."""
ReEntry = Literal["none", "block"]
"""What is left of a text: nothing, or a keyed digest by which it comes back quarantined only."""

# --- memory ---------------------------------------------------------------------------------------------------


class MemoryRemembered(Event):
    """A memory came to be; as the successor of another where ``predecessor`` is given."""

    NAME = "memory.remembered"
    SEALED = frozenset({"topic", "content", "tags", "metadata"})
    NAMED = {
        "project": "project",
        "user": "user",
        "agent": "agent",
        "run": "run",
        "session": "session",
        "subject": "subject",
    }

    memory_type: MemoryType
    scope: str
    project: UUID | None = None
    topic: str | None = None
    content: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: dict[str, Any] | None = None
    user: UUID | None = None
    agent: UUID | None = None
    run: UUID | None = None
    session: UUID | None = None
    subject: UUID | None = None
    producer: Producer
    trust: Trust
    core: bool = False
    pinned: bool = False
    occurred_at: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None
    derived_from: tuple[UUID, ...] = ()
    predecessor: UUID | None = None
    edge: Edge | None = None
    earlier: UUID | None = None
    """An older memory of the same text that had ended."""


class MemorySuperseded(Event):
    """A newer memory says it better. ``edge`` tells a correction from an update."""

    NAME = "memory.superseded"
    SCHEMA = 2

    successor: UUID
    edge: Edge
    proposal: UUID | None = None
    held_until: datetime | None = None
    """From when on the successor holds in its stead; None in schema 1: from the moment it was recorded."""


class MemoryMoved(Event):
    """Only the filing changed."""

    NAME = "memory.moved"
    SEALED = frozenset({"tags", "tags_before"})
    NAMED = {"project": "project", "project_before": "project"}

    scope: str
    scope_before: str
    project: UUID | None = None
    project_before: UUID | None = None
    tags: tuple[str, ...] | None = None
    tags_before: tuple[str, ...] | None = None


class MemoryReaffirmed(Event):
    """Somebody said it still holds; freshness moves, content does not."""

    NAME = "memory.reaffirmed"


class MemoryProlonged(Event):
    """It expires later; nothing else of it changes."""

    NAME = "memory.prolonged"

    expires_at: datetime


class MemoryArchived(Event):
    """No longer useful as a standing memory."""

    NAME = "memory.archived"
    SEALED = frozenset({"reason"})

    reason: str | None = None
    proposal: UUID | None = None
    rule: Literal["expired", "oldest_freshness"] | None = None
    """The rule by which it made room at the tenant's cap of live memories."""


class MemoryRestored(Event):
    """Every barrier of archive and suppress was lifted."""

    NAME = "memory.restored"
    SEALED = frozenset({"reason"})

    lifted: tuple[Literal["archived", "suppressed"], ...]
    reason: str | None = None


class MemorySuppressed(Event):
    """Hidden from retrieval by an approved plan."""

    NAME = "memory.suppressed"
    SEALED = frozenset({"reason"})
    NAMED = {"approver": "actor"}

    plan_id: UUID
    approver: UUID
    reason: str | None = None


class MemoryRefuted(Event):
    """It was never true."""

    NAME = "memory.refuted"
    SEALED = frozenset({"reason"})

    reason: str | None = None


class MemoryQuarantined(Event):
    """Its text is that of a refuted memory, so it waits for a person."""

    NAME = "memory.quarantined"

    refuted_memory: UUID


class MemoryReleased(Event):
    """A person let it in in spite of the refutation."""

    NAME = "memory.released"
    SEALED = frozenset({"reason"})

    reason: str | None = None


class MemoryPinned(Event):
    """Protected from every proposal but conflict."""

    NAME = "memory.pinned"


class MemoryUnpinned(Event):
    """No longer protected."""

    NAME = "memory.unpinned"


class MemoryVerified(Event):
    """Confirmed by a person or the host."""

    NAME = "memory.verified"


class MemoryEdgeAdded(Event):
    """It is linked to an older memory, which stays as it is; closing edges are `MemorySuperseded`."""

    NAME = "memory.edge_added"

    to: UUID
    edge: LinkEdge
    proposal: UUID | None = None


# --- verdict and proposal ---------------------------------------------------------------------------------------


class VerdictRecorded(Judgment):
    """A judge answered one item. Whether that becomes a proposal is decided afterwards."""

    NAME = "verdict.recorded"
    SEALED_FOR: ClassVar[dict[str, str]] = {"quote": "evidence_memory", "state_digest": "memory_id"}

    call_id: UUID
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    request_id: str | None = None
    reply_digest: str | None = None
    state_digest: str | None = None
    """SHA-256 of the rendered state; of text, hence sealed."""
    raw_probabilities: dict[str, float] | None = None


class VerdictRefused(Event):
    """One item stays unjudged: the judge gave no usable answer, or was not allowed to be asked."""

    NAME = "verdict.refused"

    pass_id: UUID
    ref: str
    memory_id: UUID
    related_id: UUID | None = None
    reason: str
    """A short code: judge_unavailable, malformed_reply, judgment_off, budget_exceeded, changed_meanwhile, …"""
    judge: str


class ProposalStaged(Judgment):
    """A confident verdict waits for a reviewer."""

    NAME = "proposal.staged"

    kind: Literal["retention"] = "retention"
    threshold: float
    unselected: bool = False
    """Made under the source's starting thresholds, not under ones selected for this judge."""
    verdict_event: UUID


class ProposalDismissed(Judgment):
    """Keep, or not confident enough: kept for calibration and for the reopening rules, never listed."""

    NAME = "proposal.dismissed"

    kind: Literal["retention"] = "retention"
    threshold: float | None = None
    reason: Literal["keep", "below_threshold", "no_threshold", "already_open"]
    verdict_event: UUID


class ProposalAccepted(Event):
    """A reviewer agreed; the effect stands in the same unit."""

    NAME = "proposal.accepted"
    SEALED_FOR: ClassVar[dict[str, str]] = {"comment": "memory_id"}

    memory_id: UUID
    comment: str | None = None
    effects: tuple[UUID, ...] = ()
    """Memories changed by accepting."""


class ProposalRejected(Event):
    """A reviewer disagreed."""

    NAME = "proposal.rejected"
    SEALED_FOR: ClassVar[dict[str, str]] = {"comment": "memory_id"}

    memory_id: UUID
    comment: str | None = None


class ProposalWithdrawn(Event):
    """It no longer makes sense: a sibling was applied, or a memory moved on and a new pass noticed."""

    NAME = "proposal.withdrawn"

    memory_id: UUID
    reason: Literal["sibling_applied", "stale", "erased"]
    because: UUID | None = None
    """The proposal, pass, session run or erasure that led to it."""


# --- forgetting pass ------------------------------------------------------------------------------------------


class PassRequested(Event):
    """A pass was asked for, by the schedule or by hand."""

    NAME = "pass.requested"

    trigger: Literal["schedule", "hand"]
    day: str
    """UTC day, ISO 8601."""
    judge: str
    """Identity of the judge the pass is for; processes with another one leave it alone."""


class PassStarted(Event):
    """Under which settings the pass runs; frozen for its whole life."""

    NAME = "pass.started"

    judge: str
    thresholds: dict[str, float | None]
    unselected: bool
    embedding_model: str
    floor: float
    singles_cap: int
    pairs_cap: int
    neighbours: int
    items_per_call: int
    stale_before: datetime


class CandidateItem(BaseModel):
    """One question of a pass, by reference only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ref: str
    memory_id: UUID
    newer: tuple[UUID, ...] = ()
    """The newer memory of a pair, or a single's neighbours, best first."""
    similarity: tuple[float, ...] = ()
    seen: dict[UUID, int] = {}


class PassCandidatesSelected(Event):
    """What the pass will ask."""

    NAME = "pass.candidates_selected"

    items: tuple[CandidateItem, ...]
    stale_singles: int
    """How many singles qualified before the cap."""
    pairs: int
    """How many pairs qualified before one-judgment-per-memory and the cap."""


class PassDispatched(Event):
    """The items went out as tasks."""

    NAME = "pass.dispatched"

    batches: int


class PassCompleted(Event):
    """Every item has its verdict or its refusal, and every verdict its proposal or dismissal."""

    NAME = "pass.completed"

    judged: int
    refused: int
    proposed: dict[str, int]
    dismissed: dict[str, int]


class PassFailed(Event):
    """The pass ended without judging; ``reason`` is a short code."""

    NAME = "pass.failed"

    reason: str


# --- tenant -----------------------------------------------------------------------------------------------------


class TenantCreated(Event):
    """A tenant came to be, with its forgetting policy."""

    NAME = "tenant.created"

    policy: dict[str, Any]


class TenantPolicyChanged(Event):
    """A new version of the forgetting policy."""

    NAME = "tenant.policy_changed"

    policy: dict[str, Any]


class TenantJudgmentOpted(Event):
    """Judging was allowed or forbidden for this tenant."""

    NAME = "tenant.judgment_opted"

    enabled: bool


class TenantBudgetReserved(Event):
    """A slot of the day's budget was taken before a judge or an extractor is asked."""

    NAME = "tenant.budget_reserved"

    operation: str
    call_id: UUID
    pass_id: UUID
    judge: str | None = None
    """Identity of who is about to be asked."""
    shown: tuple[UUID, ...] = ()
    """Memories whose text the call holds: on record before it leaves, whatever becomes of the call."""


class TenantBudgetSettled(Event):
    """What the call really used."""

    NAME = "tenant.budget_settled"

    operation: str
    call_id: UUID
    pass_id: UUID
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = None


# --- erasure ----------------------------------------------------------------------------------------------------


class ErasurePreviewed(Event):
    """What an erasure would reach was looked at; nothing is gone yet."""

    NAME = "erasure.previewed"

    kind: ErasureKind
    target: UUID | None = None
    """The memory, or the opaque id of the person or project; None for a scope and for the tenant itself."""
    scope: str | None = None
    derived: Derived
    memories: int
    """Of these ``derived_memories`` only follow from what was asked for."""
    derived_memories: int = 0
    left: int = 0
    """Memories that follow from what goes, and stay for somebody to look at."""
    places: dict[str, int]
    """How many entries each place held."""


class ErasureRequested(Event):
    """Somebody with the right to do so asked for what was previewed. From here on it is carried to its end."""

    NAME = "erasure.requested"

    reason: str
    """A short code, such as ``data_subject_request``; no text."""
    re_entry: ReEntry


class ErasurePerformed(Event):
    """Keys are destroyed and clear copies are gone: what could be read before cannot be read any more.

    Stands in the commit that destroyed them. Large erasures need several; the last one carries the counts.
    """

    NAME = "erasure.performed"

    memories: tuple[UUID, ...]
    """Whose data keys, which have the same ids, are destroyed."""
    names: tuple[UUID, ...] = ()
    """Opaque ids whose outside names are gone from the directory."""
    tenant_key: bool = False
    because: Literal["request", "ledger"] = "request"
    """``ledger``: it had been done before, and a database was put back from before that."""
    blocked: int = 0
    """Texts that come back quarantined."""
    left: tuple[UUID, ...] = ()
    """Memories that follow from these and stay, for somebody to look at; the first hundred."""
    left_count: int = 0
    providers: tuple["ProviderCall", ...] = ()
    exports: tuple["ExportedCopy", ...] = ()
    """Archives that may hold text of theirs; the last hundred that were begun."""
    exports_count: int = 0
    places: dict[str, int] = {}
    """How many entries each place held right before."""
    final: bool = True
    """Whether it is the last one of its commit."""


class ProviderCall(BaseModel):
    """That text of erased memories was sent out of this system, which no erasure here can reach."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: str
    """A judge or extractor, or the identity of an embedding model."""
    operation: Literal["judging", "embedding", "extraction"]
    calls: int
    """How many calls to a judge or extractor held text of them, those that came to nothing included; of how many
    memories an embedder was given the text."""
    first_at: datetime
    """Of an embedder: when the first of those memories was recorded. Rebuilds send texts again."""
    last_at: datetime


class ExportedCopy(BaseModel):
    """An archive that was handed out before, which no erasure here can reach."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    archive: UUID
    at: datetime
    sha256: str | None = None
    """Of the file; None where nobody knows whether it was finished."""


class ErasureIncomplete(Event):
    """Looking again found something, or a place could not be looked at; it is tried again."""

    NAME = "erasure.incomplete"

    places: dict[str, str]
    """Place and a short code of what is wrong with it."""


class ErasureAcknowledged(Event):
    """A subscriber said that it has erased its own copies."""

    NAME = "erasure.acknowledged"

    consumer: str


class CheckedPlace(BaseModel):
    """What looking again found in one place."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    place: str
    before: int
    """Entries right before the erasure."""
    found: int
    """Entries afterwards; 0 in every verified erasure."""
    control: Literal["found_before", "finds_others", "place_is_empty"]
    """How it is known that the look would have found something."""


class ErasureVerified(Event):
    """Every place was looked at and holds nothing. Only this makes an erasure complete."""

    NAME = "erasure.verified"

    places: tuple[CheckedPlace, ...]
    checked_at: int
    """Position of the log up to which it was looked."""
    looked_at: datetime
    certificate: str
    """SHA-256 of the certificate's statement."""


ErasurePerformed.model_rebuild()


# --- token ------------------------------------------------------------------------------------------------------

TokenActorKind = Literal["person", "agent", "importer"]


class TokenIssued(Event):
    """A credential of one actor came to be. Its secret, 256 random bits, is on record only as a digest."""

    NAME = "token.issued"

    actor_kind: TokenActorKind
    actor: UUID
    permissions: tuple[str, ...]
    digest: str
    """SHA-256 of the secret, in hex."""
    expires_at: datetime | None = None
    predecessor: UUID | None = None
    """The token it was issued to replace."""


class TokenRotated(Event):
    """Another token takes its place; this one is valid until then."""

    NAME = "token.rotated"

    successor: UUID
    valid_until: datetime


class TokenRevoked(Event):
    """It is valid no longer."""

    NAME = "token.revoked"


# --- archive ----------------------------------------------------------------------------------------------------


class ArchiveFilter(BaseModel):
    """Which memories an archive holds; every part that is given narrows it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_types: tuple[MemoryType, ...] = ()
    scope: str | None = None
    project: UUID | None = None
    user: UUID | None = None
    agent: UUID | None = None
    run: UUID | None = None
    session: UUID | None = None
    subject: UUID | None = None


class ArchiveExportStarted(Event):
    """An archive is being written; from now on a copy may exist where erasure does not reach."""

    NAME = "archive.export_started"

    position: int
    """It holds what was on record up to here."""
    content: bool
    """False for a skeleton without personal text and names."""
    filter: ArchiveFilter | None = None
    """None for the whole tenant."""


class ArchiveExported(Event):
    """The archive is complete."""

    NAME = "archive.exported"

    digest: str
    """SHA-256 of the file."""
    memories: int
    events: int
    held: tuple[UUID, ...] | None = None
    """The memories in it; None for every one on record by then, or where they were too many to name."""


class ArchiveImportStarted(Event):
    """What an archive holds began to come in."""

    NAME = "archive.import_started"

    digest: str
    """SHA-256 of the file."""
    tenant: UUID
    """The tenant it was written from, by the opaque id of its own installation."""


class ArchiveImported(Event):
    """An archive came in. Its events were not published: they stand between these positions, marked by its id."""

    NAME = "archive.imported"

    first_position: int
    last_position: int
    imported: dict[str, int]
    """How many memories, proposals, passes and verdicts came or went on."""
    skipped: dict[str, int]
    """How many did not, by reason: present, erased, duplicate, refused."""
