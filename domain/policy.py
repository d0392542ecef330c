"""A tenant's forgetting policy and the settings of a pass (behaviour.md 1.16, 4.3, 4.4; settlements 7, 12, 13)."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from .judging import SOURCE_ITEMS_PER_CALL

Residue = Literal[
    "vectors",
    "history",
    "summaries",
    "prompt_caches",
    "backups",
    "exports",
    "subscribers",
    "model_providers",
]
"""Where something erased may remain outside the row that is deleted (source S4, step 8)."""
Answer = Literal[
    "bound", "consolidation", "duplicate_key", "contradiction_procedure", "residue_list", "erasure_rehearsal"
]
"""What a forgetting policy answers before the first write (source S4)."""
OWNERS = ("owner", "contradiction_owner")
"""Fields that name a person: an opaque id from the tenant's directory."""


class ForgettingPolicy(BaseModel):
    """What is forgotten, and by whom, for one tenant. Stored on the tenant's events, versioned by them.

    What has no default is a question nobody answered yet; `unanswered` names them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stale_window_days: Annotated[int, Field(ge=1, le=36_500)] = 30
    singles_cap: Annotated[int, Field(ge=0, le=10_000)] = 60
    pairs_cap: Annotated[int, Field(ge=0, le=10_000)] = 40
    pair_neighbours: Annotated[int, Field(ge=1, le=10)] = 5
    """How many nearest newer memories of the same type, scope and project make pairs with a memory."""
    floor: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Cosine below which a pair is noise; None = the floor selected for the embedding model (settlement 11)."""
    consolidation_floor: Annotated[float, Field(ge=0, le=1)] | None = None
    """Cosine from which on an edge between two memories is proposed; None = the floor selected for the embedding
    model, and no proposals where there is none (settlement 11)."""
    items_per_call: Annotated[int, Field(ge=1, le=SOURCE_ITEMS_PER_CALL)] = 1
    judge_calls_per_day: Annotated[int, Field(ge=0, le=1_000_000)] = 1_000
    """Budget: how many metered judge calls a UTC day may hold."""
    erase_derived: Literal["cascade", "list"] = "cascade"
    """What becomes of memories that follow from erased ones: erased with them, or listed to be looked at."""

    ttl_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    """After how many days a memory that is neither pinned nor core expires, where it states no time of its own."""
    live_memories: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """Cap: how many live memories the tenant may have."""
    at_cap: Literal["reject", "evict"] = "reject"
    """At the cap a write is refused, or the live memory of the oldest freshness is archived for it: never
    one that is pinned, verified or core."""
    writes_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Cap: how many memories may be written in a minute."""
    owner: UUID | None = None
    """Who answers for the bound."""
    expected_writes_per_day: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = None
    """The pace the bound was chosen for; a report takes what was measured where it is not stated."""
    expected_average_kb: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    """The size of a memory the bound was chosen for, in KB."""
    consolidation: Literal["never", "on_write", "offline", "on_read"] | None = None
    """Where memories that say the same are brought together."""
    consolidation_usd_per_month: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    """What that is expected to bill."""
    duplicate_key: Literal["normalised_text"] = "normalised_text"
    """What makes two memories the same: the text, normalised, in one scope (settlement 4)."""
    contradiction_owner: UUID | None = None
    """Who decides between two memories that disagree."""
    contradiction_days: Annotated[int, Field(ge=1, le=3_650)] | None = None
    """Within how many days."""
    on_contradiction: Literal["answer", "refuse"] = "answer"
    """Until somebody decided between two memories that disagree: reads answer from both, or from neither and name
    the case (source S4)."""
    residues: tuple[Residue, ...] | None = None
    """Where copies remain that an erasure has to answer for."""
    rehearsed_on: date | None = None
    """When an erasure was last rehearsed with success; the rehearsal says so itself."""

    def stale_before(self, now: datetime) -> datetime:
        """What is fresh before this instant, strictly, is stale (behaviour.md 1.12; A21)."""
        try:
            return now - timedelta(days=self.stale_window_days)
        except OverflowError:
            # Asked of the first days of the calendar, when nothing was on record.
            return datetime.min.replace(tzinfo=UTC)

    def unanswered(self) -> dict[Answer, tuple[str, ...]]:
        """The fields that are still to be stated, by the answer they belong to."""
        bounded = self.ttl_days is not None or self.live_memories is not None
        missing: dict[Answer, list[str]] = {
            "bound": [] if bounded else ["ttl_days or live_memories"],
            "consolidation": [],
            "contradiction_procedure": [],
            "residue_list": [],
            "erasure_rehearsal": [],
        }
        for answer, field in _FIELDS:
            if getattr(self, field) is None:
                missing[answer].append(field)
        return {answer: tuple(fields) for answer, fields in missing.items() if fields}


_FIELDS: tuple[tuple[Answer, str], ...] = (
    ("bound", "owner"),
    ("consolidation", "consolidation"),
    ("consolidation", "consolidation_usd_per_month"),
    ("contradiction_procedure", "contradiction_owner"),
    ("contradiction_procedure", "contradiction_days"),
    ("residue_list", "residues"),
    ("erasure_rehearsal", "rehearsed_on"),
)


STALE_TYPES = ("decision", "preference", "blocker", "fact")
"""Types that can be stale singles (behaviour.md 1.12)."""
PAIR_TYPES = ("decision", "preference", "fact")
"""Types that can be conflict pairs; events and notes are in neither stream (behaviour.md 1.16)."""
JUDGE_OPERATION = "memory.forget.decide"
"""Name under which judge calls are metered."""
CLOSER_OPERATION = "session.closer.decide"
"""Name under which calls are metered that ask whether a commitment is done."""
WHATIF_OPERATION = "memory.forget.whatif"
"""Name under which calls are metered that ask another judge what passes had asked before."""
