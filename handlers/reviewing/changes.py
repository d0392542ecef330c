"""What accepting a proposal changes, and how a kind says so."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from ...domain.events import Event
from ...domain.proposal import Proposal
from ...streams.log import Claim, NewEvent
from ..access.caller import Caller


class StreamChange(NamedTuple):
    """Events to be appended to one stream, behind the version that they were decided from."""

    stream: UUID
    version: int
    events: Sequence[Event]


@dataclass(slots=True)
class Changes:
    """What stands in the unit of a decision beside the decision itself."""

    streams: list[StreamChange] = field(default_factory=list[StreamChange])
    claims: list[Claim] = field(default_factory=list[Claim])
    changed: tuple[UUID, ...] = ()
    """Memories that are changed; other open proposals about them are taken back (settlement 6)."""

    def new_events(self) -> list[NewEvent]:
        """As a unit takes them."""
        return [
            NewEvent(change.stream, change.version + n, event)
            for change in self.streams
            for n, event in enumerate(change.events, 1)
        ]


@dataclass(frozen=True, slots=True)
class Decision:
    """Who agreed, and what he said beside yes."""

    caller: Caller
    holds: UUID | None = None
    """Of a contradiction: the memory that holds; None for both."""


class Acceptance(Protocol):
    """What accepting proposals of one kind does."""

    async def effects(self, proposal: Proposal, decision: Decision) -> Changes:
        """The changes, decided against what is on record now; nothing is appended yet.

        Raises `StaleProposal` when a memory moved on, and `Conflict` when it can no longer be applied; then the
        proposal stays open.
        """
        ...


class Rejection(Protocol):
    """What rejecting proposals of one kind does beside the proposal itself."""

    async def dismissed(self, tenant: UUID, proposal: Proposal) -> list[StreamChange]:
        """The changes, decided against what is on record now; nothing is appended yet."""
        ...
