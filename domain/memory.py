"""The memory aggregate: five different endings, freshness, state version, and when it held.

behaviour.md 1.1, 1.5 and settlements 3, 5, 16. A state is built by `evolve` from the stream's events; what follows
from a command is said in `memory_rules`.
"""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from . import events as e
from .fields import Edge, LinkEdge, MemoryType, Producer, Status, Trust


class Owners(NamedTuple):
    """Whose memory it is: opaque ids of the habitual outside identifiers."""

    user: UUID | None = None
    agent: UUID | None = None
    run: UUID | None = None
    session: UUID | None = None
    subject: UUID | None = None


class Memory(NamedTuple):
    """State of one memory. Sealed fields are None once its key is destroyed.

    A tuple, since one is made for every event of the log that is folded, in a fourth of the time.
    """

    id: UUID
    version: int
    """Stream version: how many events."""
    state_version: int
    """Moved by content, filing, ending, pin and verification only (settlement 5)."""
    memory_type: MemoryType
    scope: str
    project: UUID | None
    topic: str | None
    content: str | None
    tags: tuple[str, ...] | None
    metadata: dict[str, Any] | None
    owners: Owners
    producer: Producer
    trust: Trust
    core: bool
    pinned: bool
    verified: bool
    occurred_at: datetime
    recorded_at: datetime
    changed_at: datetime
    """When what led to this state was put on record."""
    fresh_at: datetime
    """When it was last written, moved or reaffirmed; ``occurred_at`` at first (settlement 3)."""
    valid_from: datetime | None
    valid_to: datetime | None
    expires_at: datetime | None
    derived_from: tuple[UUID, ...]
    predecessor: UUID | None
    earlier: UUID | None
    successor: UUID | None = None
    edge: Edge | None = None
    held_until: datetime | None = None
    """Of a superseded memory: from when on its successor holds in its stead."""
    archived: bool = False
    suppressed: bool = False
    refuted: bool = False
    quarantined: bool = False
    links: tuple[tuple[UUID, LinkEdge], ...] = ()
    """Older memories that it extends or derives from, by an accepted edge; they stay as they are."""
    archiving: int = 0
    """Stream version of the event that archived or restored it last."""
    archiving_undone: UUID | None = None
    """The effect whose undoing its not being archived rests on, if it does."""

    @property
    def erased(self) -> bool:
        """Whether its key is destroyed, so that nobody can read it ever again."""
        return self.content is None

    @property
    def live(self) -> bool:
        """The one live predicate: no ending of any kind (behaviour.md 1.4)."""
        ended = self.archived or self.suppressed or self.refuted or self.quarantined or self.successor
        return not (ended or self.erased)

    def expired(self, now: datetime) -> bool:
        """Half-open: a memory is expired from the very instant it expires (F15)."""
        return self.expires_at is not None and self.expires_at <= now

    @property
    def begins(self) -> datetime:
        """From when on it holds, as far as anybody said."""
        return self.valid_from or self.occurred_at

    def held(self, instant: datetime) -> bool:
        """Whether it was true then: from its beginning, and no more from the instant it ends or is superseded."""
        ends = [end for end in (self.valid_to, self.held_until) if end is not None]
        return self.begins <= instant and all(instant < end for end in ends)

    def retrievable(self, now: datetime) -> bool:
        """What read paths may show unasked; superseded ones pass here and are ranked last (settlement 15)."""
        hidden = self.archived or self.suppressed or self.refuted or self.quarantined or self.erased
        return not (hidden or self.expired(now))

    def status(self, now: datetime) -> Status:
        """One word for the state; the strongest ending wins."""
        if self.erased:
            return "erased"
        if self.refuted:
            return "refuted"
        if self.quarantined:
            return "quarantined"
        if self.successor:
            return "superseded"
        if self.archived:
            return "archived"
        if self.suppressed:
            return "suppressed"
        return "expired" if self.expired(now) else "active"


def evolve(state: Memory | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime) -> Memory:
    """The state after one more event of its stream."""
    if isinstance(event, e.MemoryRemembered):
        return _remembered(event, stream, version, recorded_at)
    if state is None:
        raise ValueError(f"stream {stream} does not begin with memory.remembered")
    changes = {"version": version, "state_version": state.state_version + 1, **_changes(state, event, recorded_at)}
    return state._replace(changed_at=recorded_at, **changes)


def _changes(state: Memory, event: e.Event, recorded_at: datetime) -> dict[str, Any]:
    """What an event changes. The state version moves unless it says otherwise."""
    match event:
        case e.MemorySuperseded():
            held_until = max(state.begins, event.held_until or recorded_at)
            return {"successor": event.successor, "edge": event.edge, "held_until": held_until}
        case e.MemoryMoved():
            # Never back: a memory may have been said a moment ahead of the log's clock.
            fresh_at = max(state.fresh_at, recorded_at)
            return {"scope": event.scope, "project": event.project, "tags": event.tags, "fresh_at": fresh_at}
        case e.MemoryReaffirmed():
            return {"fresh_at": max(state.fresh_at, recorded_at), "state_version": state.state_version}
        case e.MemoryProlonged():
            return {"expires_at": event.expires_at, "state_version": state.state_version}
        case e.MemoryArchived():
            return {"archived": True, "archiving": state.version + 1, "archiving_undone": None}
        case e.MemoryRestored() if "archived" in event.lifted:
            lifted = {"archived": False, "suppressed": False}
            return {**lifted, "archiving": state.version + 1, "archiving_undone": None}
        case e.MemoryRestored():
            return {"suppressed": False}
        case e.MemorySuppressed():
            return {"suppressed": True}
        case e.MemoryRefuted():
            return {"refuted": True}
        case e.MemoryQuarantined():
            return {"quarantined": True}
        case e.MemoryReleased():
            return {"quarantined": False}
        case e.MemoryPinned():
            return {"pinned": True}
        case e.MemoryUnpinned():
            return {"pinned": False}
        case e.MemoryVerified():
            return {"verified": True}
        case e.MemoryEdgeAdded():
            # Edges are no part of the state that proposals and expected versions mean (settlement 5).
            return {"links": (*state.links, (event.to, event.edge)), "state_version": state.state_version}
        case e.MemoryEffectUndone():
            return _undone(state, event, recorded_at)
        case _:
            return {"state_version": state.state_version}


def _undone(state: Memory, event: e.MemoryEffectUndone, recorded_at: datetime) -> dict[str, Any]:
    """An effect is gone as if it had not been, or holds again."""
    match event.undone:
        case "memory.archived":
            return {"archived": event.again, "archiving_undone": None if event.again else event.effect}
        case "memory.superseded" if event.again:
            held_until = max(state.begins, event.held_until or recorded_at)
            return {"successor": event.successor, "edge": event.edge, "held_until": held_until}
        case "memory.superseded":
            return {"successor": None, "edge": None, "held_until": None}
        case "memory.edge_added":
            link = (event.linked, event.edge)
            links = (*state.links, link) if event.again else tuple(one for one in state.links if one != link)
            return {"links": links, "state_version": state.state_version}


def _remembered(event: e.MemoryRemembered, stream: UUID, version: int, recorded_at: datetime) -> Memory:
    return Memory(
        id=stream,
        version=version,
        state_version=1,
        memory_type=event.memory_type,
        scope=event.scope,
        project=event.project,
        topic=event.topic,
        content=event.content,
        tags=event.tags,
        metadata=event.metadata,
        owners=Owners(event.user, event.agent, event.run, event.session, event.subject),
        producer=event.producer,
        trust=event.trust,
        core=event.core,
        pinned=event.pinned,
        verified=False,
        occurred_at=event.occurred_at,
        recorded_at=recorded_at,
        changed_at=recorded_at,
        fresh_at=event.occurred_at,
        valid_from=event.valid_from,
        valid_to=event.valid_to,
        expires_at=event.expires_at,
        derived_from=event.derived_from,
        predecessor=event.predecessor,
        earlier=event.earlier,
    )
