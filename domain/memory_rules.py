"""What follows from a command about a memory: one live head per lineage, endings that are never mixed up.

behaviour.md 1.1, 1.5, 1.8, 1.9 and settlements 4, 5, 16. The ``decide_…`` functions give the events, or raise
`Conflict`.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from . import commands as c
from . import events as e
from .apart import carried
from .errors import Conflict, Erased, InvalidInput
from .fields import Edge, LinkEdge, Producer, Trust
from .memory import Memory, Owners
from .topic import topic_of_successor

CLOCK_SKEW = timedelta(minutes=5)
"""How far ahead of this machine's clock an ``occurred_at`` may lie."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A command's outside names after the directory turned them into opaque ids."""

    project: UUID | None = None
    owners: Owners = field(default_factory=Owners)


def decide_remember(
    command: c.Remember | c.RememberImported,
    resolved: Resolved,
    now: datetime,
    *,
    producer: Producer,
    trust: Trust,
    earlier: UUID | None = None,
    refuted_memory: UUID | None = None,
    ttl_days: int | None = None,
) -> list[e.Event]:
    """A new memory; quarantined at once where its text is that of a refuted one (settlement 4, F09)."""
    occurred_at = check_occurred_at(command.occurred_at, now)
    _check_end(command, occurred_at)
    events: list[e.Event] = [
        e.MemoryRemembered(
            memory_type=command.memory_type,
            scope=command.scope or "personal",
            project=resolved.project,
            topic=command.topic,
            content=command.content,
            tags=command.tags or (),
            metadata=command.metadata or None,
            user=resolved.owners.user,
            agent=resolved.owners.agent,
            run=resolved.owners.run,
            session=resolved.owners.session,
            subject=resolved.owners.subject or resolved.owners.user,
            producer=command.producer or producer,
            trust=command.trust or trust,
            core=command.core,
            pinned=command.pinned,
            occurred_at=occurred_at,
            valid_from=command.valid_from,
            valid_to=command.valid_to,
            expires_at=_end(command, now, ttl_days, kept=command.pinned or command.core),
            derived_from=command.derived_from,
            earlier=earlier,
        )
    ]
    if refuted_memory is not None:
        events.append(e.MemoryQuarantined(refuted_memory=refuted_memory))
    return events


def decide_revise(
    predecessor: Memory,
    command: c.Revise,
    resolved: Resolved,
    now: datetime,
    *,
    successor_id: UUID,
    producer: Producer,
    trust: Trust,
    refuted_memory: UUID | None = None,
    ttl_days: int | None = None,
) -> tuple[list[e.Event], list[e.Event]]:
    """Events of the successor and of the predecessor, to be appended together (behaviour.md 1.8, A2, A3).

    Filing and owners that are left out are taken from the predecessor; so is a topic that was given to it.
    """
    check_version(predecessor, command.expected_version)
    refuse_if_erased(predecessor)
    _refuse_if_closed(predecessor, "revised")
    occurred_at = check_occurred_at(command.occurred_at, now)
    _check_end(command, occurred_at)
    owners = owners_of_successor(predecessor, resolved)
    successor = e.MemoryRemembered(
        memory_type=command.memory_type or predecessor.memory_type,
        scope=command.scope or predecessor.scope,
        project=resolved.project if command.project is not None else predecessor.project,
        topic=command.topic or topic_of_successor(predecessor.topic, predecessor.content, command.content),
        content=command.content,
        tags=predecessor.tags if command.tags is None else command.tags,
        metadata=metadata_of_successor(predecessor, command),
        user=owners.user,
        agent=owners.agent,
        run=owners.run,
        session=owners.session,
        subject=owners.subject,
        producer=command.producer or producer,
        trust=command.trust or trust,
        core=command.core or predecessor.core,
        pinned=command.pinned or predecessor.pinned,
        occurred_at=occurred_at,
        valid_from=command.valid_from,
        valid_to=command.valid_to,
        expires_at=_end(
            command,
            now,
            ttl_days,
            kept=command.pinned or predecessor.pinned or command.core or predecessor.core,
        ),
        derived_from=command.derived_from,
        predecessor=predecessor.id,
        edge=command.edge,
    )
    of_successor: list[e.Event] = [successor]
    if refuted_memory is not None:
        raise Conflict(
            "this text was refuted as never true; remember it on its own and have a person release it, "
            "instead of revising a memory into it",
            memory_id=predecessor.id,
            refuted_memory=refuted_memory,
        )
    held_until = max(predecessor.begins, command.valid_from or occurred_at)
    return of_successor, [e.MemorySuperseded(successor=successor_id, edge=command.edge, held_until=held_until)]


def metadata_of_successor(predecessor: Memory, command: c.Revise) -> dict[str, Any] | None:
    """What is given, or else the predecessor's."""
    return predecessor.metadata if command.metadata is None else carried(predecessor.metadata, command.metadata)


def owners_of_successor(predecessor: Memory, resolved: Resolved) -> Owners:
    """Those that are given, the others the predecessor's."""
    return Owners(*(new or old for new, old in zip(resolved.owners, predecessor.owners, strict=True)))


def _end(
    command: c.Remember | c.RememberImported | c.Revise, now: datetime, ttl_days: int | None, *, kept: bool
) -> datetime | None:
    """When a memory expires: as stated, or as the tenant's policy bounds what states nothing."""
    if command.expires_at is not None or ttl_days is None or kept:
        return command.expires_at
    return now + timedelta(days=ttl_days)


def decide_move(state: Memory, command: c.Move, project: UUID | None) -> list[e.Event]:
    """Filing only; nothing where nothing changes (behaviour.md 1.8)."""
    check_version(state, command.expected_version)
    refuse_if_erased(state)
    scope = command.scope or state.scope
    new_project = None if command.no_project else (project if command.project is not None else state.project)
    tags = state.tags if command.tags is None else command.tags
    if (scope, new_project, tags) == (state.scope, state.project, state.tags):
        return []
    return [
        e.MemoryMoved(
            scope=scope,
            scope_before=state.scope,
            project=new_project,
            project_before=state.project,
            tags=tags,
            tags_before=state.tags,
        )
    ]


def decide(state: Memory, command: c.EndingCommand) -> list[e.Event]:
    """What follows from a command about one memory; an empty list where it already is so."""
    check_version(state, command.expected_version)
    refuse_if_erased(state)
    match command:
        case c.Reaffirm():
            refuse_unless_live(state, "reaffirmed")
            return [e.MemoryReaffirmed()]
        case c.Archive():
            return decide_archive(state, command.reason)
        case c.Restore():
            return _decide_restore(state, command)
        case c.Refute():
            return [] if state.refuted else [e.MemoryRefuted(reason=command.reason)]
        case c.Release():
            return [e.MemoryReleased(reason=command.reason)] if state.quarantined else []
        case c.Pin():
            if state.pinned == command.pinned:
                return []
            return [e.MemoryPinned() if command.pinned else e.MemoryUnpinned()]
        case c.Verify():
            return [] if state.verified else [e.MemoryVerified()]


def decide_prolong(state: Memory, command: c.Prolong, now: datetime) -> list[e.Event]:
    """A later end of a live memory; nothing where it ends later anyway, or never."""
    check_version(state, command.expected_version)
    refuse_unless_live(state, "prolonged")
    if state.expired(now):
        raise Conflict(
            "the memory is expired, so it cannot be prolonged; remember it anew",
            memory_id=state.id,
            current_version=state.state_version,
        )
    if state.expires_at is None or command.expires_at <= state.expires_at:
        return []
    return [e.MemoryProlonged(expires_at=command.expires_at)]


def decide_archive(state: Memory, reason: str | None = None, proposal: UUID | None = None) -> list[e.Event]:
    """Archive a live memory of any type (behaviour.md 1.9); a second time changes nothing."""
    if state.archived:
        return []
    refuse_unless_live(state, "archived")
    return [e.MemoryArchived(reason=reason, proposal=proposal)]


def decide_supersede(older: Memory, newer: Memory, proposal: UUID, edge: Edge = "supersedes") -> list[e.Event]:
    """The effect of an accepted closing proposal on the older memory (behaviour.md 1.1.5, 1.14.2, 1.14.5)."""
    for side in (older, newer):
        if side.memory_type == "event":
            raise Conflict("an event is never superseded through a proposal", memory_id=side.id)
        refuse_unless_live(side, "part of a supersession")
    held_until = max(older.begins, newer.begins)
    return [e.MemorySuperseded(successor=newer.id, edge=edge, proposal=proposal, held_until=held_until)]


def decide_link(newer: Memory, older: Memory, edge: LinkEdge, proposal: UUID) -> list[e.Event]:
    """An edge to an older memory, which stays as it is; nothing where it is there already (A18)."""
    if (older.id, edge) in newer.links:
        return []
    for side in (newer, older):
        refuse_if_erased(side)
    refuse_unless_live(newer, "linked")
    return [e.MemoryEdgeAdded(to=older.id, edge=edge, proposal=proposal)]


def decide_suppress(state: Memory, *, plan_id: UUID, approver: UUID, reason: str) -> list[e.Event]:
    """Hide from retrieval by an approved plan; pinned and verified memories are refused (B20)."""
    refuse_if_erased(state)
    if state.suppressed:
        return []
    if state.pinned or state.verified:
        raise Conflict("a pinned or verified memory is not suppressed; unpin it first", memory_id=state.id)
    refuse_unless_live(state, "suppressed")
    return [e.MemorySuppressed(plan_id=plan_id, approver=approver, reason=reason)]


def _decide_restore(state: Memory, command: c.Restore) -> list[e.Event]:
    if state.refuted or state.quarantined:
        raise Conflict(
            f"a {'refuted' if state.refuted else 'quarantined'} memory is not restored; "
            "a person can release a quarantined one, and a refuted one can be remembered anew and released",
            memory_id=state.id,
            current_version=state.state_version,
        )
    lifted: list[Literal["archived", "suppressed"]] = []
    if state.archived:
        lifted.append("archived")
    if state.suppressed:
        lifted.append("suppressed")
    return [e.MemoryRestored(lifted=tuple(lifted), reason=command.reason)] if lifted else []


def check_version(state: Memory, expected: int | None) -> None:
    """Refuse a command that was made from an older state version; names the current one (F30)."""
    if expected is not None and expected != state.state_version:
        raise Conflict(
            f"the memory is at version {state.state_version}, not {expected}; read it again and decide anew",
            memory_id=state.id,
            seen_version=expected,
            current_version=state.state_version,
            successor=state.successor,
        )


def check_occurred_at(given: datetime | None, now: datetime) -> datetime:
    """When it was said or decided; now by default, never in the future."""
    if given is None:
        return now
    if given > now + CLOCK_SKEW:
        raise InvalidInput(
            "occurred_at", "lies in the future", "Use valid_from for something that will hold later"
        )
    return given


def _check_end(command: c.Remember | c.RememberImported | c.Revise, occurred_at: datetime) -> None:
    """Refuse an end before the beginning, which would make a memory that never held."""
    if command.valid_to is not None and command.valid_from is None and command.valid_to < occurred_at:
        raise InvalidInput("valid_to", "lies before the memory begins to hold", "Say since when with valid_from")


def refuse_if_erased(state: Memory) -> None:
    """Nothing follows from a memory that was erased; raises `Erased`."""
    if state.erased:
        raise Erased(f"memory {state.id} was erased; nothing brings it back", memory_id=state.id)


def _refuse_if_closed(state: Memory, what: str) -> None:
    if state.successor or state.suppressed or state.refuted or state.quarantined:
        refuse_unless_live(state, what)


def refuse_unless_live(state: Memory, what: str) -> None:
    """Raises `Conflict` naming the endings of a memory that is not live."""
    refuse_if_erased(state)
    if state.live:
        return
    endings = ("superseded", "archived", "suppressed", "refuted", "quarantined")
    flags = (state.successor is not None, state.archived, state.suppressed, state.refuted, state.quarantined)
    named = " and ".join(name for name, is_so in zip(endings, flags, strict=True) if is_so)
    raise Conflict(
        f"the memory is {named}, so it cannot be {what}"
        + (f"; work with its successor {state.successor}" if state.successor else ""),
        memory_id=state.id,
        current_version=state.state_version,
        successor=state.successor,
    )
