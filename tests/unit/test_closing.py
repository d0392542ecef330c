"""What a judge is asked about a commitment, and what follows from its answer (behaviour.md 1.14.4; A19; F36)."""

import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.domain.closing import (
    DONE,
    NOT_DONE,
    POLICY,
    ResolutionItem,
    ResolutionRequest,
    band_of,
    make_resolution_request,
)
from lethelog.domain.judging import PREAMBLE, SPLIT_STATE_CHARS

from .judges.judge_contract import NOW, SECRET, memory


def item(*texts: str, **changes) -> ResolutionItem:
    written = tuple(memory(90 + n, text) for n, text in enumerate(texts or ("It was sent",)))
    promised = memory(1, "Send the report", memory_type="commitment")
    return replace(ResolutionItem("c0", promised, "open", None, written), **changes)


def block(request: ResolutionRequest) -> dict:
    """The fenced JSON, read as whoever is shown it would."""
    preamble, fence, body, end = request.state.split("\n")
    assert (preamble, fence.removesuffix("json")) == (PREAMBLE, end)
    return json.loads(body)["items"][0]


@pytest.mark.parametrize(
    ("probability", "band"),
    [
        (1.0, "resolve"),
        pytest.param(0.90, "resolve", id="A19 0.90"),
        pytest.param(0.8999, "propose", id="A19 0.8999"),
        pytest.param(0.50, "propose", id="A19 0.50"),
        pytest.param(0.4999, "nothing", id="A19 0.4999"),
        (0.0, "nothing"),
    ],
)
def test_a19_the_bands_begin_at_their_bounds(probability, band):
    assert band_of(probability) == band


def test_the_policy_says_in_words_from_where_on_it_acts():
    assert POLICY == "session_closer: p(done) >= 0.9"


def test_the_key_that_changes_nothing_stands_first():
    assert tuple(item().options) == (NOT_DONE, DONE) and item().keep == NOT_DONE


def test_what_was_written_is_told_in_its_order_and_the_commitment_with_its_date():
    due = NOW - timedelta(days=1)
    shown = block(make_resolution_request(NOW, item("second", "first", due_at=due, status="waiting"), 64_000))
    assert [one["content"] for one in shown["written"]] == ["second", "first"]
    turned = replace(item("second", "first"), written=item("second", "first").written[::-1])
    assert [one["content"] for one in block(make_resolution_request(NOW, turned, 64_000))["written"]] == [
        "second",
        "first",
    ], "by when it was said, not by nearness"
    told = shown["commitment"]
    assert (told["status"], told["dueAt"], told["overdue"]) == ("waiting", due.isoformat(), True)


def test_a_request_that_would_be_too_long_leaves_the_farthest_out():
    nearest_first = item(*(f"{n} " + "x" * 1_500 for n in range(12)))
    whole = make_resolution_request(NOW, nearest_first, 64_000)
    assert len(whole.items[0].written) == 12 and len(whole.state) <= SPLIT_STATE_CHARS
    cut = make_resolution_request(NOW, nearest_first, 8_000)
    left = cut.items[0].written
    assert 0 < len(left) < 12 and left == nearest_first.written[: len(left)] and len(cut.state) <= 8_000
    assert set(cut.items[0].shown) == {UUID(int=1), *(one.memory_id for one in left)}
    assert len(make_resolution_request(NOW, nearest_first, 1).items[0].written) == 1


@given(st.lists(st.text(alphabet='`ab\n{}"\\', min_size=1, max_size=40), min_size=1, max_size=4))
def test_no_text_closes_the_fence_or_reaches_the_question(texts):
    request = make_resolution_request(NOW, item(*texts), 64_000)
    assert [one["content"] for one in block(request)["written"]] == texts
    asked = request.instructions("c0") + str(request.questions)
    assert SECRET not in asked and "Send the report" not in asked
