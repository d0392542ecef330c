"""The search score: a weighted fusion of legs (behaviour.md 1.11; A8 to A10; settlement 15).

Pure arithmetic over what the legs found; the legs themselves are queries.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

SUPERSEDED_PENALTY = 2.0
"""Larger than the largest positive score (1.7), so every current memory outranks every closed one."""
RECENCY_HALF_LIFE_DAYS = 90.0
TOPIC_MATCH_MAX_TOKENS = 2


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each leg counts; a leg of weight 0 gives neither score nor candidates."""

    text: float = 0.2
    recency: float = 0.0
    vector: float = 1.0
    topic: float = 0.5


PRODUCT_WEIGHTS = Weights()
"""The ranking policy at every position of the log, so that a search of the past is ranked as it was then.

Frozen by a test: others may only come into force with an event that says from which position on."""


@dataclass(frozen=True, slots=True)
class Legs:
    """What the legs say about one memory. ``text`` is already min-max normalised over its window."""

    text: float = 0.0
    vector: float = 0.0
    topic: float = 0.0
    age_days: float = 0.0
    closed: bool = False
    """Superseded, or past its own ``valid_to``."""


def score(legs: Legs, weights: Weights = PRODUCT_WEIGHTS) -> float:
    """Weighted sum, less the penalty of a closed memory (A8, A9)."""
    total = weights.text * legs.text + weights.vector * legs.vector + weights.topic * legs.topic
    if weights.recency:
        total += weights.recency * recency(legs.age_days)
    return total - (SUPERSEDED_PENALTY if legs.closed else 0.0)


def recency(age_days: float) -> float:
    """Half after 90 days (A10); an age below 0 counts as 0."""
    return 0.5 ** (max(0.0, age_days) / RECENCY_HALF_LIFE_DAYS)


def vector_score(distance: float | None) -> float:
    """max(0, 1 - cosine distance); a memory without a vector scores 0."""
    return 0.0 if distance is None else max(0.0, 1.0 - distance)


def normalise_text_ranks(ranks: Mapping[UUID, float]) -> dict[UUID, float]:
    """Full-text ranks min-max scaled over the window; where all are equal each is 1."""
    if not ranks:
        return {}
    low, high = min(ranks.values()), max(ranks.values())
    if high == low:
        return dict.fromkeys(ranks, 1.0)
    return {one: (rank - low) / (high - low) for one, rank in ranks.items()}


def topic_leg_applies(query: str) -> bool:
    """Only queries of at most two white-space tokens are matched against topics."""
    return 0 < len(query.split()) <= TOPIC_MATCH_MAX_TOKENS


def topic_score(query: str, topic: str) -> float:
    """1 when the topic contains the query, ignoring case."""
    return 1.0 if topic_leg_applies(query) and query.strip().casefold() in topic.casefold() else 0.0


def pool_size(limit: int) -> int:
    """How many candidates each leg brings."""
    return max(4 * limit, 50)


def ranked(scores: Iterable[tuple[UUID, float]]) -> list[tuple[UUID, float]]:
    """Score descending, then id ascending."""
    return sorted(scores, key=lambda pair: (-pair[1], pair[0].int))


def age_in_days(recorded_at: datetime, now: datetime) -> float:
    """Days since a memory was recorded."""
    return (now - recorded_at).total_seconds() / 86_400
