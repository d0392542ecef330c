"""What reads and writes answer: plain, frozen, JSON-ready values with outside names."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from ...domain.fields import LinkEdge, Status


class View(BaseModel):
    """Root of all answers. ``model_dump(mode="json")`` is what ``--json`` prints."""

    model_config = ConfigDict(frozen=True)


class AsOfView(View):
    """The times a read was asked for, as they were applied."""

    known_at: datetime | None = None
    """What was on record at this instant; of a position, the instant it was recorded."""
    position: int | None = None
    """The log position that ``known_at`` stands for."""
    valid_at: datetime | None = None
    """What held at this instant."""


class LinkView(View):
    """An edge to an older memory, which stays as it is."""

    memory_id: UUID
    edge: LinkEdge


class MemoryView(View):
    """One memory."""

    id: UUID
    memory_type: str
    topic: str
    content: str
    status: Status
    current: bool
    """Neither superseded nor past its own end."""
    scope: str
    project: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    subject: str | None = None
    producer: str
    trust: str
    core: bool = False
    pinned: bool = False
    verified: bool = False
    occurred_at: datetime
    recorded_at: datetime
    fresh_at: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None
    derived_from: tuple[UUID, ...] = ()
    links: tuple[LinkView, ...] = ()
    """What it extends or derives from, by accepted proposals."""
    predecessor: UUID | None = None
    """The memory this one revised."""
    earlier: UUID | None = None
    """An ended memory of the same text."""
    superseded_by: UUID | None = None
    edge: str | None = None
    held_until: datetime | None = None
    """Of a superseded memory: from when on its successor holds in its stead."""
    version: int
    """The state version: what ``expected_version`` is compared with."""
    position: int
    as_of: AsOfView | None = None
    """The times that it was got for; in a list or a search they stand beside all of them."""


class Written(View):
    """The answer of every write: the memory as it is now, and the log position that reads can wait for."""

    memory: MemoryView
    position: int
    changed: bool = True
    """False where the command changed nothing."""
    deduplicated: bool = False
    """True where the same text was already remembered; ``memory`` is that older one."""
    evicted: tuple[UUID, ...] = ()
    """Memories that were archived to make room for it, as the tenant's policy says."""
    fact_ids: tuple[UUID, ...] = ()
    """The facts that were written with it, in the order given; none where it was deduplicated."""
    withheld: bool = False
    """True where the credential lacks ``memory:read``: then ``memory`` holds no text and nobody's name."""
    commitment: UUID | None = None
    """The commitment that rides on it, where it is one."""


class FactView(View):
    """One fact. Its window is half-open: at ``valid_to`` it holds no longer."""

    id: UUID
    memory_id: UUID
    """The memory it was read in."""
    subject: str
    predicate: str
    value: str
    confidence: float | None = None
    valid_from: datetime
    valid_to: datetime | None = None
    recorded_at: datetime
    proposal: UUID | None = None
    """The proposal that a reviewer accepted; None for one that was said together with its memory."""


class RefusedPair(View):
    """Two memories that contradict each other and are not told before somebody decided which holds."""

    contradiction: UUID
    memories: tuple[UUID, UUID]
    owner: str | None = None
    """Who has to decide."""
    due_at: datetime | None = None


class FactPage(View):
    """One page of facts, the latest recorded first; ``total`` is exact."""

    facts: tuple[FactView, ...]
    total: int
    refused: tuple[RefusedPair, ...] = ()
    """Whose facts are left out, as the tenant's policy says."""
    next_cursor: str | None = None
    as_of: AsOfView | None = None


class RetrievalView(View):
    """What a read does that names no scope: it finds everything (``off``), what is in ``scope`` (``default``), or
    is refused (``require``)."""

    mode: Literal["off", "default", "require"] = "off"
    scope: str | None = None


class ScopeView(View):
    """One scope."""

    scope: str
    registered: bool
    """False where memories are filed in it and nobody registered it."""
    memories: int
    """Live ones."""


class ScopePage(View):
    """Scopes by name, and the retrieval policy."""

    scopes: tuple[ScopeView, ...]
    retrieval: RetrievalView
    next_cursor: str | None = None


class ScopeWritten(View):
    """The answer of a change of scopes: the registered scope or the default one, and the policy as it is now."""

    scope: str | None
    retrieval: RetrievalView
    position: int
    changed: bool


class SelectorView(View):
    """What a briefing is about, as it was asked for."""

    kind: Literal["all", "scope", "project", "scope_project"]
    scope: str | None = None
    project: str | None = None
    include_unscoped: bool = False


class PromisedView(View):
    """The commitment of a memory that a briefing tells."""

    id: UUID
    status: str
    owner: str | None = None
    due_at: datetime | None = None
    next_surfacing_at: datetime | None = None
    overdue: bool
    """Due before the moment that is looked at, strictly."""


class BriefingItem(View):
    """One memory, as a briefing tells it."""

    id: UUID
    memory_type: str
    topic: str
    excerpt: str | None = None
    """The beginning of its text, at most 600 characters; not in a brief one."""
    scope: str
    project: str | None = None
    pinned: bool = False
    verified: bool = False
    occurred_at: datetime
    recorded_at: datetime
    fresh_at: datetime
    """When it was last written, filed or reaffirmed; being read makes nothing fresh."""
    age_days: int
    """Whole days since then."""
    stale: bool
    """Old enough that somebody should look whether it still holds."""
    commitment: PromisedView | None = None
    """In the sections of commitments."""


class SectionView(View):
    """One section: some items, and how many there are."""

    count: int
    items: tuple[BriefingItem, ...]
    has_more: bool


class BriefingView(View):
    """Sections by name; one that was not asked for is absent. ``applied_scope`` as in a search."""

    selector: SelectorView
    mode: Literal["brief", "full", "handoff"]
    generated_at: datetime
    generated_for: str | None = None
    sections: dict[str, SectionView]
    refused: tuple[RefusedPair, ...] = ()
    """What is left out and not counted, as the tenant's policy says."""
    applied_scope: str | None = None
    as_of: AsOfView | None = None


class SearchHit(View):
    """One result of a search."""

    memory: MemoryView
    score: float
    legs: dict[str, float]
    superseded: bool


class SearchResult(View):
    """Best first. ``applied_scope`` echoes the scope that was searched; None = all of the tenant."""

    hits: tuple[SearchHit, ...]
    count: int
    refused: tuple[RefusedPair, ...] = ()
    """What would have been among them, as the tenant's policy says."""
    applied_scope: str | None = None
    as_of: AsOfView | None = None


class MemoryPage(View):
    """One page of a list, newest first; ``total`` is exact. ``applied_scope`` as in a search."""

    memories: tuple[MemoryView, ...]
    total: int
    next_cursor: str | None = None
    applied_scope: str | None = None
    as_of: AsOfView | None = None


class HistoryEntry(View):
    """One event that concerns a memory."""

    position: int
    event: str
    event_id: UUID
    recorded_at: datetime
    actor: str
    """Kind and name, such as ``person:ada``; the name is absent once erased."""
    cause: UUID
    correlation: UUID
    policy: int | None = None
    judge: str | None = None
    session: UUID | None = None
    """The session run it was made in."""
    old: str | None = None
    new: str | None = None
    detail: dict[str, Any] = {}
    names: Mapping[str, str] = {}
    """Outside names of the opaque ids in ``detail`` (project, approver, …), by id; erased ones are absent."""


class History(View):
    """What happened to one memory, in order of the log."""

    memory_id: UUID
    entries: tuple[HistoryEntry, ...]
    as_of: AsOfView | None = None


class ProposalView(View):
    """One proposal. The memories are named by id; `show` adds them."""

    id: UUID
    kind: str
    status: Literal["proposed", "applied", "rejected", "dismissed", "withdrawn"]
    action: str
    memory_id: UUID
    related_id: UUID | None = None
    judged_pair: tuple[UUID, UUID] | None = None
    rule: str | None = None
    probability: float | None = None
    """How sure whoever made it was; None where nobody was asked."""
    probabilities: dict[str, float] = {}
    threshold: float | None = None
    unselected: bool = False
    judge: str | None = None
    """Identity of the judge or extractor; None for a rule."""
    model: str | None = None
    quote: str | None = None
    """The sentence the verdict rests on, where the judge names one."""
    details: dict[str, Any] = {}
    """The kind's own fields, such as the edge and the similarity of a consolidation."""
    texts: dict[str, str] = {}
    """The kind's own texts, such as the fact that was read, and a line that says why."""
    stale: bool
    """A memory it is about moved on since; accepting would be refused."""
    seen: dict[UUID, int]
    source: UUID
    """The pass, session run, proposal or command that led to it."""
    pass_id: UUID | None = None
    created_at: datetime
    decided_at: datetime | None = None
    decided_by: str | None = None
    comment: str | None = None
    withdrawn_because: str | None = None
    undone_at: datetime | None = None
    """When what accepting it did was taken back; None where it holds. The status stays ``applied``: an undo is no
    other decision, and the question does not come back by it."""
    undone_by: str | None = None
    undo_id: UUID | None = None
    """The undo that took it back, and that may be undone itself."""


class ProposalPage(View):
    """One page of the queue, oldest first, with totals per kind over all pages."""

    proposals: tuple[ProposalView, ...]
    total: int
    totals: dict[str, int]
    next_cursor: str | None = None


class ProposalDetail(View):
    """A proposal with both memories as they are now."""

    proposal: ProposalView
    memory: MemoryView | None
    related: MemoryView | None


class Decided(View):
    """The answer to accept and reject."""

    proposal: ProposalView
    changed: tuple[UUID, ...] = ()
    """Memories that accepting changed."""
    withdrawn: tuple[UUID, ...] = ()
    """Sibling proposals taken back because of it."""
    fact_id: UUID | None = None
    """The fact that accepting made."""
    withheld: bool = False
    """True where the credential lacks ``memory:read``: then ``proposal`` holds no text and nobody's name."""
    position: int


class BulkPreview(View):
    """Open proposals that a filter finds, before anything is decided."""

    total: int
    """To be given back as ``expected``."""
    totals: dict[str, int]
    proposals: tuple[ProposalView, ...]
    """The first of them."""
    stale: int
    """How many of the first are stale: accepting them would be refused."""


class BulkItem(View):
    """What became of one proposal."""

    proposal_id: UUID
    status: Literal["applied", "rejected", "refused", "failed", "proposed", "dismissed", "withdrawn"]
    changed: tuple[UUID, ...] = ()
    withdrawn: tuple[UUID, ...] = ()
    reason: str | None = None
    """Code of the error, where it was refused; ``failed`` is what nobody expected, and tells no more."""
    says: str | None = None
    position: int | None = None
    """None where it was refused."""


class BulkDecided(View):
    """The answer to deciding many."""

    counts: dict[str, int]
    items: tuple[BulkItem, ...]
    position: int | None
    """The newest of theirs; None where nothing was decided."""


class ChainLink(View):
    """One event of a causal chain."""

    position: int
    event: str
    event_id: UUID
    recorded_at: datetime
    actor: str
    cause: UUID
    policy: int | None = None
    judge: str | None = None
    says: str
    """The step in words."""
    detail: dict[str, Any] = {}


class Chain(View):
    """How something came to be and what came of it, in order of the log."""

    about: UUID
    kind: Literal["memory", "proposal", "effect"]
    proposal_id: UUID | None = None
    """The proposal, where there is one only."""
    proposals: tuple[UUID, ...] = ()
    """The proposals whose chains are told, newest first."""
    more: int = 0
    """Older proposals that are left out."""
    links: tuple[ChainLink, ...]


class EventView(View):
    """One event of the log, opened."""

    position: int
    event: str
    event_id: UUID
    stream: UUID
    """The memory, proposal, pass or tenant it belongs to."""
    version: int
    """Its number within that stream."""
    recorded_at: datetime
    actor: str
    """Kind and name, such as ``person:ada``; the name is absent once erased."""
    cause: UUID
    correlation: UUID
    policy: int | None = None
    judge: str | None = None
    session: UUID | None = None
    """The session run it was made in."""
    data: dict[str, Any] | None = None
    """Its fields; sealed ones are None once their key is destroyed. None as a whole for a name this version does
    not know, and where the stored bytes cannot be read (``broken``)."""
    names: Mapping[str, str] = {}
    """Outside names of the opaque ids in ``data`` (project, user, agent, …), by id; erased ones are absent."""
    broken: str | None = None
    archive: UUID | None = None
    """The archive that it was moved in with; None for what happened here."""


class EventPage(View):
    """A page of the log, in order of position."""

    events: tuple[EventView, ...]
    upto: int
    """The last position that was looked at for all pages: the one asked for, or the end of the log."""
    next_position: int | None = None
    """Where the next page begins; None at the end."""


class Replayed(View):
    """A past state of the read models, written into a schema of its own."""

    name: str
    schema_name: str
    position: int
    at: datetime
    parked: int = 0
    """Events that cannot be applied and that the read models of today have parked too."""


class ParkedView(View):
    """Something that was set aside: an event that a read model could not apply, or a message of the broker.

    Names, positions and opaque ids; no content.
    """

    id: str
    """``live_memory-12`` for an event, ``message-17`` for a message."""
    where: str
    """The read model, or ``broker``."""
    consumer: str | None = None
    """Of a message: whose."""
    kind: Literal["event", "task", "unreadable"]
    event: str | None = None
    """Of what a read model parked: the event's name."""
    position: int | None = None
    """In the log, for an event."""
    sequence: UUID | None = None
    """What keeps its order: the id of the event's memory, proposal or pass."""
    error: str
    """Class of the error or a reason code; ``EarlierParked`` for one that waits behind another."""
    failures: int
    parked_at: datetime | None = None
    reason: str | None = None
    """Why it was dropped: a code."""
    ticket: int | None = None
    """Where that is explained."""
    dropped_at: datetime | None = None


class ParkedPage(View):
    """A page of what was set aside."""

    parked: tuple[ParkedView, ...]
    next_cursor: str | None = None


class ParkedLeft(View):
    """One that stays parked after it was tried again."""

    id: str
    """As in the list; ``broker`` where that did not answer."""
    reason: str
    """Class of the error, or ``event_not_in_log``, ``unreadable``, ``consumer_unknown``, ``earlier_one_stays``."""


class Retried(View):
    """What came of trying again."""

    sent: int
    """Messages that are with their consumers again."""
    applied: int
    """Events that read models applied."""
    left: tuple[ParkedLeft, ...] = ()


class PassView(View):
    """One forgetting pass."""

    id: UUID
    phase: str
    trigger: str
    requested_at: datetime
    judge: str | None = None
    items: int = 0
    stale_singles: int = 0
    pairs: int = 0
    judged: int = 0
    refused: int = 0
    refused_because: dict[str, int] = {}
    """Why questions were left unjudged, and how many; of a pass that is over."""
    proposed: dict[str, int] = {}
    dismissed: dict[str, int] = {}
    failed_because: str | None = None
    floor: float | None = None
    embedding_model: str | None = None


class TenantView(View):
    """One tenant."""

    id: UUID
    name: str
    created_at: datetime
    judgment: bool
    policy_version: int
    unanswered: tuple[str, ...]
    """Questions that its forgetting policy does not answer yet."""


class TenantPage(View):
    """A page of tenants."""

    tenants: tuple[TenantView, ...]
    next_cursor: UUID | None = None


class TokenView(View):
    """One token; never its secret."""

    id: UUID
    actor: str
    permissions: tuple[str, ...]
    status: Literal["active", "rotated", "expired", "revoked"]
    issued_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    successor: UUID | None = None


class TokenPage(View):
    """A page of tokens."""

    tokens: tuple[TokenView, ...]
    next_cursor: UUID | None = None


class IssuedToken(View):
    """A token's text, which is told this once, and the token."""

    text: str = Field(repr=False)
    token: TokenView


class WhoIsThis(View):
    """What a credential stands for."""

    tenant: UUID
    actor: str
    permissions: tuple[str, ...]


class StockView(View):
    """How much a store holds."""

    items: float
    kb: float


class CapView(View):
    """A ceiling and the day it is reached; None for never."""

    items: float
    day: int | None


class PolicyReport(View):
    """A tenant's forgetting policy, what it leaves open, and how the store grows under it."""

    policy: dict[str, Any]
    policy_version: int
    unanswered: dict[str, tuple[str, ...]]
    """Fields to state, by the answer they belong to."""
    figures: Literal["stated", "measured", "none"]
    """Whether the growth is of what the policy states or of what was written; none where nothing was."""
    writes_per_day: float | None = None
    average_kb: float | None = None
    growth: dict[int, StockView] = {}
    """Items and KB by day; caps are not applied."""
    steady: StockView | None = None
    caps: dict[str, CapView] = {}
    live_memories: int
    """How many live memories there are now."""
    notes: tuple[str, ...] = ()


class SettingsView(View):
    """A tenant's settings."""

    tenant: UUID
    judgment: bool
    policy: dict[str, Any]
    policy_version: int
    position: int
    """Where they last changed."""
