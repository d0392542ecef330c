"""The search score, with the worked examples of behaviour.md 1.19."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.domain.ranking import (
    PRODUCT_WEIGHTS,
    RECENCY_HALF_LIFE_DAYS,
    SUPERSEDED_PENALTY,
    TOPIC_MATCH_MAX_TOKENS,
    Legs,
    Weights,
    normalise_text_ranks,
    pool_size,
    ranked,
    recency,
    score,
    topic_score,
    vector_score,
)


def test_a8_a_superseded_perfect_match_ranks_below_a_live_row_without_any():
    """A8: 0.2 + 1 + 0.5 - 2 = -0.30. Search fusion; superseded flag: demoted, never dropped."""
    superseded = score(Legs(text=1, vector=1, topic=1, closed=True))
    assert superseded == pytest.approx(-0.30)
    assert score(Legs()) == 0.0 > superseded


def test_a9_a_short_query_in_the_topic_adds_a_half_and_a_longer_one_does_not():
    """A9: 0.92 for one token, 0.42 for three. Search fusion."""
    assert score(Legs(vector=0.42, topic=topic_score("Mira", "About MIRA's team"))) == pytest.approx(0.92)
    assert score(Legs(vector=0.42, topic=topic_score("mira s team", "mira s team"))) == pytest.approx(0.42)


def test_the_ranking_policy_is_frozen_since_every_search_of_the_past_is_ranked_by_it():
    """To change it, do not change these figures: they are what searches were ranked by on every log there is.

    Record an event that puts the new weights in force, let a search with ``known_at`` take those in force at its
    position, and keep these for all positions before the first such event (docs/how-to/time.md).
    """
    assert Weights() == PRODUCT_WEIGHTS == Weights(text=0.2, recency=0.0, vector=1.0, topic=0.5)
    assert (SUPERSEDED_PENALTY, RECENCY_HALF_LIFE_DAYS, TOPIC_MATCH_MAX_TOKENS) == (2.0, 90.0, 2)


def test_a10_recency_halves_every_ninety_days():
    """A10."""
    assert [round(recency(days), 4) for days in (0, 45, 90, 180)] == [1, 0.7071, 0.5, 0.25]


def test_a_leg_of_weight_zero_adds_nothing():
    assert score(Legs(text=1, age_days=0), Weights(text=0, recency=0)) == 0


def test_text_ranks_are_scaled_over_their_window():
    a, b, c = uuid4(), uuid4(), uuid4()
    assert normalise_text_ranks({a: 0.1, b: 0.3, c: 0.2}) == pytest.approx({a: 0.0, b: 1.0, c: 0.5})
    assert normalise_text_ranks({a: 0.2, b: 0.2}) == {a: 1.0, b: 1.0}
    assert normalise_text_ranks({}) == {}


def test_a_memory_without_a_vector_scores_zero_and_an_opposite_one_too():
    assert (vector_score(None), vector_score(0.25), vector_score(1.5)) == (0.0, 0.75, 0.0)


def test_ties_go_by_id_and_pools_have_a_least_size():
    low, high = UUID(int=1), UUID(int=2)
    assert ranked([(high, 1.0), (low, 1.0)]) == [(low, 1.0), (high, 1.0)]
    assert (pool_size(5), pool_size(25)) == (50, 100)


legs = st.builds(Legs, text=st.floats(0, 1), vector=st.floats(0, 1), topic=st.sampled_from([0.0, 1.0]))


@given(legs, legs)
def test_every_current_memory_outranks_every_closed_one(current: Legs, closed: Legs):
    closed = Legs(closed.text, closed.vector, closed.topic, closed=True)
    assert score(current) > score(closed)
