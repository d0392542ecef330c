"""What the tools take: their JSON schemas are made from these classes.

Only the shape is here. Limits that are not worth a model's attention are the Python door's, which names the field
that breaks one just as `parse` does. A field given as null counts as left out.
"""

from typing import Literal

from pydantic import Field

from ...domain.fields import CommitmentStatus, Edge, Input, MemoryType
from ...domain.proposal_events import ProposalKind
from ..choices import Mode, SectionName, Selector, StatusChoice

ID_LIMIT = 20
CONTENT_SHOWN = 10_000
"""Characters of each memory that `get_memories` shows by default (behaviour.md 1.3)."""
CONTENT_SHOWN_IN_ALL = 262_144


class _Times(Input):
    known_at: str | None = None
    valid_at: str | None = None


class FactArgument(Input):
    subject: str
    predicate: str
    value: str
    confidence: float | None = None
    valid_from: str | None = None
    valid_to: str | None = None


class _Described(Input):
    memory_type: MemoryType | None = None
    topic: str | None = None
    scope: str | None = None
    project: str | None = None
    tags: list[str] | None = None
    owner: str | None = None
    due_at: str | None = None
    expires_at: str | None = None


class RememberArguments(_Described):
    content: str
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    derived_from: list[str] | None = None
    facts: list[FactArgument] | None = None


class ReviseArguments(_Described):
    memory_id: str
    disposition: Literal["successor", "move", "reaffirm"] = "successor"
    content: str | None = None
    edge: Edge | None = None
    no_project: bool | None = None
    expected_version: int | None = None


class ResolveArguments(Input):
    memory_id: str
    status: CommitmentStatus = "resolved"
    owner: str | None = None
    due_at: str | None = None


class SearchArguments(_Times):
    query: str | None = None
    limit: int | None = Field(default=None, ge=1, le=25)
    cursor: str | None = None
    memory_types: list[MemoryType] | None = None
    scope: str | None = None
    project: str | None = None
    tags: list[str] | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    status: StatusChoice | None = None
    current: bool | None = None


class GetMemoriesArguments(_Times):
    ids: list[str] = Field(min_length=1, max_length=ID_LIMIT)
    max_content_chars: int = Field(default=CONTENT_SHOWN, ge=600, le=65_536)


class GetFactsArguments(_Times):
    subject: str | None = None
    predicate: str | None = None
    memory_id: str | None = None
    limit: int | None = Field(default=None, ge=1, le=200)
    cursor: str | None = None


class BriefingArguments(_Times):
    selector: Selector
    mode: Mode = "brief"
    scope: str | None = None
    project: str | None = None
    include_unscoped: bool | None = None
    sections: list[SectionName] | None = None
    section_limit: int | None = Field(default=None, ge=1, le=100)


class ReviewArguments(Input):
    action: Literal["list", "accept", "reject"]
    proposal_id: str | None = None
    comment: str | None = None
    holds: str | None = None
    status: Literal["proposed", "applied", "rejected", "withdrawn"] | None = None
    kind: ProposalKind | None = None
    memory_id: str | None = None
    limit: int | None = Field(default=None, ge=1, le=100)
    cursor: str | None = None


class HistoryArguments(Input):
    memory_id: str
    known_at: str | None = None
    limit: int = Field(default=25, ge=1, le=100)
    explain: bool | None = None


class ForgetArguments(Input):
    memory_id: str | None = None
    query: str | None = None
    reason: str | None = None


class RestoreArguments(Input):
    memory_id: str
    reason: str | None = None


class StatusArguments(Input):
    pass
