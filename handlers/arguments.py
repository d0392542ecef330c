"""Keyword arguments of the Python doors, as types an editor can complete."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Required, TypedDict
from uuid import UUID

from ..domain.errors import InvalidInput
from ..domain.fields import CommitmentStatus, Edge, MemoryType, Producer, Trust
from ..domain.proposal_events import ProposalAction, ProposalKind
from .choices import SectionName, StatusChoice

AnyId = UUID | str
"""An id as every answer gives it, or as text."""
AnyInstant = datetime | str
"""A moment with a zone, or ISO 8601 text with one."""


class MemoryFields(TypedDict, total=False):
    """What remember and revise take beside the content (behaviour.md 1.3, settlement 3)."""

    topic: str
    tags: Sequence[str]
    project: str
    scope: str
    metadata: dict[str, Any]
    user_id: str
    agent_id: str
    run_id: str
    session_id: str
    subject: str
    producer: Producer
    trust: Trust
    core: bool
    pinned: bool
    occurred_at: AnyInstant
    valid_from: AnyInstant
    valid_to: AnyInstant
    expires_at: AnyInstant
    derived_from: Sequence[AnyId]
    owner: str
    due_at: AnyInstant
    next_surfacing_at: AnyInstant
    recurrence: str


class FactFields(TypedDict, total=False):
    """A fact that a memory brings along. ``valid_to`` needs ``valid_from``."""

    subject: Required[str]
    predicate: Required[str]
    value: Required[str]
    confidence: float
    valid_from: AnyInstant
    valid_to: AnyInstant


class WrittenFields(TypedDict, total=False):
    """Where a write is made."""

    session_run_id: AnyId


class RememberFields(MemoryFields, WrittenFields, total=False):
    memory_type: MemoryType
    facts: Sequence[FactFields]
    """At most 16, written with the memory or not at all."""


class ReviseFields(MemoryFields, WrittenFields, total=False):
    memory_type: MemoryType
    edge: Edge
    expected_version: int


class ReadFields(TypedDict, total=False):
    """What every read of a read model takes."""

    after: int
    """A position of the log that the answer must include, such as that of somebody else's write."""


class KnownFields(ReadFields, total=False):
    """From when a history is read."""

    known_at: AnyInstant | int
    """What was on record at this instant, or at this position of the log."""


class TimeFields(KnownFields, total=False):
    """From when memories are read."""

    valid_at: AnyInstant
    """What held at this instant."""


class ArchiveFields(TypedDict, total=False):
    """Which memories an archive holds, and whether with their texts."""

    content: bool
    memory_types: Sequence[MemoryType]
    scope: str
    project: str
    user_id: str
    agent_id: str
    run_id: str
    session_id: str
    subject: str


class FilterFields(TimeFields, total=False):
    """What search and list are narrowed by."""

    memory_types: Sequence[MemoryType]
    scope: str
    project: str
    no_project: bool
    user_id: str
    agent_id: str
    run_id: str
    session_id: str
    subject: str
    tags: Sequence[str]
    status: StatusChoice
    current: bool
    recorded_after: AnyInstant
    recorded_before: AnyInstant
    session_run_id: AnyId


class ResolveFields(WrittenFields, total=False):
    """To what a commitment is moved."""

    status: CommitmentStatus
    owner: str
    due_at: AnyInstant
    next_surfacing_at: AnyInstant
    recurrence: str


class CommitmentFields(ReadFields, total=False):
    """Which commitments to list."""

    status: CommitmentStatus
    owner: str
    overdue: bool
    memory_id: AnyId
    limit: int
    cursor: str


class GetFactsFields(TimeFields, total=False):
    """Which facts to get."""

    subject: str
    predicate: str
    memory_id: AnyId
    limit: int
    cursor: str


class ProposalFields(ReadFields, total=False):
    status: Literal["proposed", "applied", "rejected", "withdrawn"]
    kind: ProposalKind
    action: ProposalAction
    memory_id: AnyId
    judge: str
    source: AnyId
    created_after: AnyInstant
    created_before: AnyInstant
    limit: int
    cursor: str


class DigestFields(ReadFields, total=False):
    """What a digest of the queue counts."""

    since: AnyInstant
    kind: ProposalKind


class ContradictionFields(ReadFields, total=False):
    """Which contradictions to list."""

    status: Literal["open", "resolved"]
    owner: str
    overdue: bool
    memory_id: AnyId
    limit: int
    cursor: str


class TailFields(TypedDict, total=False):
    """Which events to follow."""

    names: Sequence[str]
    stream: AnyId
    session_run_id: AnyId
    from_position: int


class EventFields(TailFields, total=False):
    """Which events to read."""

    to: AnyInstant | int
    limit: int


class BriefingFields(TimeFields, total=False):
    """What a briefing is about besides its selector, and how much it tells."""

    scope: str
    project: str
    include_unscoped: bool
    sections: Sequence[SectionName]
    section_limit: int


class ScopeFields(ReadFields, total=False):
    """Which scopes to list."""

    limit: int
    cursor: str


class DroppedFields(TypedDict, total=False):
    """Which dropped messages to list."""

    consumer: str
    limit: int
    cursor: str


class ParkedFields(DroppedFields, total=False):
    """Which parked events and messages to list."""

    read_model: str


def path_of(path: object) -> Path:
    """The path of a file that a caller names. Raises `InvalidInput` for what can be none."""
    try:
        # What no file system takes is found now, and not by whoever opens it.
        if isinstance(path, str | Path) and b"\x00" not in os.fsencode(path):
            return Path(path)
    except UnicodeError:
        pass
    raise InvalidInput("path", "must be the path of a file, as text or a pathlib.Path")
