"""How a store grows: the conformance examples D1 to D4, and figures that are none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.domain.errors import InvalidInput
from lethelog.domain.growth import NOTHING_FORGETS, project


def told(growth):
    return {day: (stock.items, stock.kb) for day, stock in growth.at.items()}


def test_a_time_to_live_holds_the_store_flat_and_a_cap_below_it_is_reached_first_d1():
    """Growth projection."""
    growth = project(writes_per_day=40, average_kb=2.5, ttl_days=90, max_items=2_000)
    assert told(growth) == {30: (1_200, 3_000), 90: (3_600, 9_000), 365: (3_600, 9_000)}
    assert growth.steady is not None and (growth.steady.items, growth.steady.kb) == (3_600, 9_000)
    assert growth.caps["max_items"].day == 50 and growth.notes == ()


@pytest.mark.parametrize(("cap", "day"), [(3_600, 90), (3_601, None)])
def test_a_cap_at_the_steady_state_is_reached_and_one_above_never_d2(cap: int, day: int | None):
    growth = project(writes_per_day=40, average_kb=2.5, ttl_days=90, max_items=cap)
    assert growth.caps["max_items"].day == day


def test_without_any_bound_nothing_forgets_and_that_is_said_d3():
    """Nothing-forgets statement: printed exactly when no TTL and no cap."""
    growth = project(writes_per_day=40, average_kb=2.5)
    assert told(growth)[365] == (14_600, 36_500)
    assert growth.steady is None and growth.notes == (NOTHING_FORGETS,)


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("name", ["writes_per_day", "average_kb", "ttl_days", "max_items", "max_kb"])
def test_a_figure_that_cannot_be_is_refused_by_its_name_d4(name: str, wrong: float):
    figures = {"writes_per_day": 40.0, "average_kb": 2.5, name: wrong}
    with pytest.raises(InvalidInput) as refused:
        project(**figures)
    assert refused.value.field == name


def test_a_cap_in_kb_counts_the_items_that_fit():
    assert project(writes_per_day=40, average_kb=2.5, max_kb=5_000).caps["max_kb"].day == 50


@given(st.floats(0.1, 1e4), st.integers(1, 10**6))
def test_on_the_day_a_cap_is_reached_it_is_full_and_the_day_before_it_is_not(pace: float, cap: int):
    day = project(writes_per_day=pace, average_kb=1, max_items=cap).caps["max_items"].day
    assert day is not None
    assert pace * day >= cap * (1 - 1e-9) and pace * (day - 1) < cap * (1 + 1e-9)
