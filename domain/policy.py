"""A tenant's forgetting policy and the settings of a pass (behaviour.md 1.16, settlements 7, 12, 13)."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from .judging import SOURCE_ITEMS_PER_CALL


class ForgettingPolicy(BaseModel):
    """What the forgetting pass may do for one tenant. Stored on the tenant's events, versioned by them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stale_window_days: Annotated[int, Field(ge=1, le=36_500)] = 30
    singles_cap: Annotated[int, Field(ge=0, le=10_000)] = 60
    pairs_cap: Annotated[int, Field(ge=0, le=10_000)] = 40
    pair_neighbours: Annotated[int, Field(ge=1, le=10)] = 5
    """How many nearest newer memories of the same type, scope and project make pairs with a memory."""
    floor: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Cosine below which a pair is noise; None = the floor selected for the embedding model (settlement 11)."""
    items_per_call: Annotated[int, Field(ge=1, le=SOURCE_ITEMS_PER_CALL)] = 1
    judge_calls_per_day: Annotated[int, Field(ge=0, le=1_000_000)] = 1_000
    """Budget: how many metered judge calls a UTC day may hold."""


STALE_TYPES = ("decision", "preference", "blocker", "fact")
"""Types that can be stale singles (behaviour.md 1.12)."""
PAIR_TYPES = ("decision", "preference", "fact")
"""Types that can be conflict pairs; events and notes are in neither stream (behaviour.md 1.16)."""
JUDGE_OPERATION = "memory.forget.decide"
"""Name under which judge calls are metered."""
