"""What a judge is asked once a session is over: is this commitment done, given what was written in it?

behaviour.md 1.14.4, 1.15; S3; settlements 12 to 14; A19. The bands are the source's and belong to no judge, unlike
the thresholds of a forgetting pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, Protocol
from uuid import UUID

from .fields import CommitmentStatus
from .judging import (
    CONTENT_CUT,
    SPLIT_STATE_CHARS,
    DecisionResult,
    Judge,
    JudgedMemory,
    fenced,
    memory_data,
)

RESOLVES_AT = 0.9
"""From this probability on the closer resolves the commitment itself (A19)."""
PROPOSES_AT = 0.5
"""From this probability on, and below the other, a reviewer decides."""
POLICY = f"session_closer: p(done) >= {RESOLVES_AT:g}"
"""The policy by which the closer acts unreviewed, as it stands on record (settlement 14)."""
COMMITMENTS_ASKED = 20
"""Commitments that a judge is asked about after one session, those nearest to what was written first."""
WRITES_SHOWN = 12
"""Memories of a session that are shown with a commitment, the nearest to it."""
DONE, NOT_DONE = "done", "not_done"

Band = Literal["resolve", "propose", "nothing"]


def band_of(probability: float) -> Band:
    """What follows from how sure a judge is that a commitment is done (A19)."""
    if probability >= RESOLVES_AT:
        return "resolve"
    return "propose" if probability >= PROPOSES_AT else "nothing"


@dataclass(frozen=True, slots=True)
class ResolutionItem:
    """A commitment, and what was written in a session since it was made."""

    ref: str
    commitment: JudgedMemory
    status: CommitmentStatus
    due_at: datetime | None
    written: tuple[JudgedMemory, ...]
    """The nearest to the commitment first."""

    @property
    def keep(self) -> str:
        return NOT_DONE

    @property
    def options(self) -> Mapping[str, str]:
        """The choice keys with their meaning, in canonical order."""
        return MappingProxyType(
            {
                NOT_DONE: "Nothing that was written says that it was done: it is planned, begun, put off, given "
                "up, unclear, or not spoken of.",
                DONE: "What was written says that it was done, and nothing written later takes that back.",
            }
        )

    @property
    def shown(self) -> dict[UUID, int]:
        """State version of every memory that the call holds, by id."""
        return {one.memory_id: one.state_version for one in (self.commitment, *self.written)}


@dataclass(frozen=True, slots=True)
class ResolutionRequest:
    """One call: one commitment. ``state`` is the rendered text."""

    now: datetime
    items: tuple[ResolutionItem, ...]
    state: str

    @property
    def questions(self) -> dict[str, Mapping[str, str]]:
        """ref of each item -> its choice keys with descriptions."""
        return {item.ref: item.options for item in self.items}

    def instructions(self, ref: str) -> str:
        """The question asked about one item; our own words only, never text of a memory."""
        return f"Was the commitment of item {ref} done? Judge only by what was written after it."


def make_resolution_request(now: datetime, item: ResolutionItem, most: int) -> ResolutionRequest:
    """The request about one item, in at most so many characters: what is farthest from the commitment is left out
    where they do not hold it all."""
    limit = min(SPLIT_STATE_CHARS, most)
    while True:
        state = fenced(now, [_item_data(item, now)])
        if len(state) <= limit or len(item.written) == 1:
            return ResolutionRequest(now, (item,), state)
        item = replace(item, written=item.written[:-1])


def _item_data(item: ResolutionItem, now: datetime) -> dict[str, Any]:
    in_order: Sequence[JudgedMemory] = sorted(item.written, key=lambda one: (one.occurred_at, one.memory_id))
    data: dict[str, Any] = {
        "ref": item.ref,
        "kind": "commitment",
        "commitment": {**memory_data(item.commitment, now, CONTENT_CUT), "status": item.status},
        "written": [memory_data(one, now, CONTENT_CUT) for one in in_order],
    }
    if item.due_at is not None:
        data["commitment"] |= {"dueAt": item.due_at.isoformat(), "overdue": item.due_at < now}
    return data


class SessionJudge(Judge, Protocol):
    """A judge that may be asked about commitments, too, or that says why it is not."""

    @property
    def closes_nothing_because(self) -> str | None:
        """Why it never answers whether a commitment is done, or None; the closer does nothing then."""
        ...

    async def decide_resolution(self, request: ResolutionRequest) -> DecisionResult:
        """Answer every item, by the same rules and with the same errors as `Judge.decide`."""
        ...
