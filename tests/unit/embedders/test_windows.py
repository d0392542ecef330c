from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.projections.embedders import windows

lengths = st.integers(0, 5000)
sizes = st.integers(16, 600)
texts = st.text(st.sampled_from("ab cd\n é漢🎉"), max_size=600)


@given(length=lengths, size=sizes)
def test_spans_cover_everything_and_none_is_longer_than_the_window(length: int, size: int) -> None:
    spans = windows.spans(length, size)
    assert spans[0][0] == 0
    assert spans[-1][1] == length
    assert all(0 < end - start <= size for start, end in spans) or spans == [(0, 0)]
    for (_, end), (start, _) in pairwise(spans):
        assert end - start >= size // 8


@given(length=lengths, size=sizes)
def test_spans_are_of_equal_length_and_no_more_than_needed(length: int, size: int) -> None:
    spans = windows.spans(length, size)
    assert len({end - start for start, end in spans}) == 1
    shared = size // 8
    assert len(spans) == 1 or (len(spans) - 1) * (size - shared) + shared < length


@given(text=texts, size=st.integers(64, 200))
def test_slices_hold_every_character_and_never_cost_more_than_the_window(text: str, size: int) -> None:
    found = windows.slices(text, windows.utf8_costs(text), size)
    assert all(len(part.encode()) == cost <= size for part, cost in found)
    covered, place = "", 0
    for part, _ in found:
        start = text.find(part, max(0, place - size))
        assert start <= len(covered)
        covered, place = covered[:start] + part, start
    assert covered == text


def test_a_cut_is_moved_to_white_space() -> None:
    text = " ".join(["deploying"] * 60)
    for part, _ in windows.slices(text, windows.utf8_costs(text), 200):
        assert set(part.split()) == {"deploying"}


def test_a_character_without_a_cost_of_its_own_stays_with_its_token() -> None:
    text = "abcdefgh" * 20
    costs = np.array([1 if place % 4 == 0 else 0 for place in range(len(text))])
    for part, cost in windows.slices(text, costs, 16):
        assert part[0] in "ae"
        assert len(part) == 4 * cost


@given(text=st.text(st.characters(exclude_categories=("Cs",)), max_size=50))
def test_costs_are_the_bytes_of_each_character(text: str) -> None:
    assert windows.utf8_costs(text).tolist() == [len(letter.encode()) for letter in text]


def test_one_window_is_taken_as_it_is() -> None:
    vector = np.array([3.0, 4.0])
    assert windows.pooled([vector], [7]).tolist() == [3.0, 4.0]


def test_a_window_weighs_as_much_as_it_is_long() -> None:
    pooled = windows.pooled([np.array([10.0, 0.0]), np.array([0.0, 0.1])], [3, 1])
    assert pooled == pytest.approx([3.0, 1.0])
