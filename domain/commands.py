"""What may be asked of a memory, with every limit of behaviour.md 1.3 and settlement 3.

Outside names (project, user_id, …) are still names here; the command handler turns them into opaque ids
before anything is decided.
"""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from .fields import (
    CommitmentStatus,
    Content,
    Edge,
    Id,
    ImportContent,
    Input,
    Instant,
    MemoryType,
    Metadata,
    Name,
    Owner,
    Producer,
    Reason,
    Recurrence,
    Scope,
    Tags,
    Topic,
    Trust,
)

MOST_FACTS = 16
"""Facts that a memory may bring along."""


class _Described(Input):
    """The fields that remember and revise share."""

    topic: Topic
    tags: Tags | None = None
    project: Name | None = None
    scope: Scope | None = None
    metadata: Metadata | None = None
    user_id: Name | None = None
    agent_id: Name | None = None
    run_id: Name | None = None
    session_id: Name | None = None
    subject: Name | None = None
    producer: Producer | None = None
    trust: Trust | None = None
    core: bool = False
    pinned: bool = False
    occurred_at: Instant | None = None
    valid_from: Instant | None = None
    valid_to: Instant | None = None
    expires_at: Instant | None = None
    derived_from: tuple[Id, ...] = Field(default=(), max_length=64)
    owner: Owner | None = None
    """Of a commitment: who is to keep it."""
    due_at: Instant | None = None
    next_surfacing_at: Instant | None = None
    recurrence: Recurrence | None = None

    @model_validator(mode="after")
    def _window_is_ordered(self) -> Self:
        if self.valid_from and self.valid_to and self.valid_to < self.valid_from:
            raise ValueError("valid_to lies before valid_from; swap or correct them")
        return self


class GivenFact(Input):
    """What a memory says as subject, predicate and value; the window is half-open."""

    subject: Topic
    predicate: Topic
    value: Content
    confidence: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    valid_from: Instant | None = None
    """Since when it holds; without it since the memory does."""
    valid_to: Instant | None = None

    @model_validator(mode="after")
    def _window_is_ordered(self) -> Self:
        if self.valid_to is not None and self.valid_from is None:
            raise ValueError("valid_to is given without valid_from; say since when it holds, too")
        if self.valid_from and self.valid_to and self.valid_to < self.valid_from:
            raise ValueError("valid_to lies before valid_from; swap or correct them")
        return self


class _WithFacts(_Described):
    """Only a memory that comes to be brings facts along; they are never written by revising one."""

    memory_type: MemoryType = "note"
    facts: tuple[GivenFact, ...] = Field(default=(), max_length=MOST_FACTS)


class Remember(_WithFacts):
    """Write a new memory."""

    content: Content
    session_run_id: Id | None = None
    """The session run that it is written in."""


class RememberImported(_WithFacts):
    """Write a memory taken over from elsewhere: longer content, own date."""

    content: ImportContent


class Revise(_Described):
    """Write a successor; what is left out of filing is taken from the predecessor."""

    memory_id: Id
    memory_type: MemoryType | None = None
    topic: Topic | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - optional only here
    content: Content
    edge: Edge = "supersedes"
    expected_version: int | None = Field(default=None, ge=1)
    session_run_id: Id | None = None


class ReviseImported(Revise):
    """Write a successor taken over from elsewhere: longer content, own date."""

    content: ImportContent

    @field_validator("session_run_id", mode="before")
    @classmethod
    def _is_of_no_session_here(cls, given: object) -> None:
        if given is not None:
            raise ValueError("is not for what was written elsewhere; leave it out")


class _OnMemory(Input):
    memory_id: Id
    session_run_id: Id | None = None
    expected_version: int | None = Field(default=None, ge=1)
    """The state version the caller saw; a newer one answers `Conflict`."""


class Move(_OnMemory):
    """Change only where a memory is filed: scope, project, tags. Omitted = unchanged."""

    scope: Scope | None = None
    project: Name | None = None
    no_project: bool = False
    tags: Tags | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.project is not None and self.no_project:
            raise ValueError("give project or no_project, not both")
        if self.scope is None and self.project is None and self.tags is None and not self.no_project:
            raise ValueError("nothing to move: give scope, project, no_project or tags")
        return self


class Reaffirm(_OnMemory):
    """Say that a memory still holds: its freshness becomes now, its content stays."""


class Prolong(_OnMemory):
    """Let a memory that expires live until later."""

    expires_at: Instant


class Archive(_OnMemory):
    """Put a live memory away: no longer useful as a standing memory."""

    reason: Reason | None = None


class Restore(_OnMemory):
    """Lift every barrier that archive and suppress set."""

    reason: Reason | None = None


class Suppress(_OnMemory):
    """Hide from retrieval, as an approved retention plan says."""

    plan_id: Id
    approver: Name
    reason: Reason


class Refute(_OnMemory):
    """Say that a memory was never true. Its text is quarantined if it comes back."""

    reason: Reason | None = None


class Release(_OnMemory):
    """A person lets a quarantined memory in after all."""

    reason: Reason


class Pin(_OnMemory):
    """Protect from every proposal but conflict."""

    pinned: bool = True


class Verify(_OnMemory):
    """Record that a person or the host confirmed it."""


class Resolve(Input):
    """Move a commitment to another status, on the way with other dates; of a blocker: put it away."""

    memory_id: Id
    status: CommitmentStatus = "resolved"
    owner: Owner | None = None
    due_at: Instant | None = None
    next_surfacing_at: Instant | None = None
    recurrence: Recurrence | None = None
    session_run_id: Id | None = None


EndingCommand = Reaffirm | Archive | Restore | Refute | Release | Pin | Verify
ListedStatus = Literal[
    "active", "superseded", "archived", "suppressed", "refuted", "quarantined", "expired", "all"
]
