"""What a judge is shown: cuts, fences, options, batches (behaviour.md 1.16; A29, F35, F36)."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.domain.judging import (
    SPLIT_STATE_CHARS,
    Answer,
    JudgedMemory,
    JudgeLimits,
    Neighbour,
    PairItem,
    SingleItem,
    batch_requests,
    render_state,
    verdict_of,
)

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)


def memory(content: str = "text", **fields) -> JudgedMemory:
    at = NOW - timedelta(days=40)
    values = {
        "memory_id": uuid4(),
        "state_version": 1,
        "memory_type": "decision",
        "scope": "work",
        "project": "p",
        "topic": "topic",
        "content": content,
        "occurred_at": at,
        "last_touched_at": at,
        **fields,
    }
    return JudgedMemory(**values)


def single(ref: str = "s0", content: str = "text", neighbours: int = 0, **fields) -> SingleItem:
    newer = tuple(Neighbour(f"{ref}n{n}", memory(f"newer {n}"), 0.8) for n in range(neighbours))
    return SingleItem(ref, memory(content, **fields), newer)


def pair(ref: str = "p0", content: str = "text", **fields) -> PairItem:
    return PairItem(ref, memory(content, **fields), memory(content), 0.86)


def block(state: str) -> dict:
    fence = re.search(r"^(`{3,})json$", state, re.MULTILINE)
    assert fence is not None
    inside = state.split(fence.group(0) + "\n", 1)[1].rsplit("\n" + fence.group(1), 1)[0]
    return json.loads(inside)


def test_a29_twelve_full_pairs_make_one_call_and_thirteen_two():
    """A29: 12 x 2,400 = 28,800 characters of content."""
    pairs = [pair(f"p{n}", "x" * 2_000) for n in range(13)]
    [one] = batch_requests(NOW, pairs[:12], items_per_call=12)
    shown = block(one.state)["items"]
    assert sum(len(item[side]["content"]) for item in shown for side in ("older", "newer")) == 28_800
    assert [len(r.items) for r in batch_requests(NOW, pairs, items_per_call=12)] == [12, 1]


def test_a_batch_that_renders_too_long_is_split_and_loses_nothing():
    long_topic = "t" * 256
    items = [
        SingleItem(
            f"s{n}",
            memory("x" * 2_000, topic=long_topic),
            tuple(Neighbour(f"s{n}n{i}", memory("y" * 2_000, topic=long_topic), 0.9) for i in range(3)),
        )
        for n in range(40)
    ]
    requests = list(batch_requests(NOW, items, items_per_call=100))
    assert [item.ref for request in requests for item in request.items] == [item.ref for item in items]
    assert all(len(request.state) <= SPLIT_STATE_CHARS for request in requests)
    assert len(requests) > 1


def test_a_judge_that_takes_fewer_questions_gets_fewer():
    requests = list(
        batch_requests(
            NOW, [pair(f"p{n}") for n in range(5)], items_per_call=12, limits=JudgeLimits(max_questions=2)
        )
    )
    assert [len(r.items) for r in requests] == [2, 2, 1]


def test_a_cut_is_visible_and_states_the_original_length():
    shown = block(render_state(NOW, [single(content="x" * 1_201, neighbours=1)]))["items"][0]
    assert (len(shown["memory"]["content"]), shown["memory"]["content"][-1]) == (1_200, "…")
    assert (shown["memory"]["truncated"], shown["memory"]["contentLength"]) == (True, 1_201)
    assert "truncated" not in block(render_state(NOW, [single(content="x" * 1_200)]))["items"][0]["memory"]


def test_options_of_each_kind_are_those_of_the_source():
    assert list(single(neighbours=2).options) == ["keep", "archive", "supersede_by:s0n0", "supersede_by:s0n1"]
    assert list(single(neighbours=1, memory_type="blocker").options) == ["keep", "conflict_with:s0n0"]
    assert list(pair().options) == ["keep_both", "archive_older", "supersede_older", "conflict"]


@pytest.mark.parametrize("guard", ["pinned", "verified"])
def test_f21_pinned_and_verified_memories_are_only_offered_keep_and_conflict(guard: str):
    """F21, settlement 10."""
    assert list(single(neighbours=1, **{guard: True}).options) == ["keep", "conflict_with:s0n0"]
    assert list(pair(**{guard: True}).options) == ["keep_both", "conflict"]


def test_a_pair_verdict_stands_on_the_older_memory_and_names_both():
    """Behaviour.md 1.16, settlement 8, A25."""
    item = pair()
    sure = {"keep_both": 0.0, "archive_older": 0.0, "supersede_older": 1.0, "conflict": 0.0}
    verdict = verdict_of(item, Answer("supersede_older", sure))
    assert (verdict.action, verdict.memory_id, verdict.related_id) == (
        "supersede",
        item.older.memory_id,
        item.newer.memory_id,
    )
    archived = verdict_of(item, Answer("archive_older", sure))
    assert (archived.action, archived.related_id, archived.judged_pair) == (
        "archive",
        None,
        (item.older.memory_id, item.newer.memory_id),
    )


def test_a_single_verdict_names_the_neighbour_its_key_names():
    item = single(neighbours=2)
    verdict = verdict_of(item, Answer("supersede_by:s0n1", {"supersede_by:s0n1": 1.0}))
    assert (verdict.action, verdict.related_id) == ("supersede", item.newer[1].memory.memory_id)


def test_dates_are_computed_for_the_judge():
    shown = block(render_state(NOW, [single(expires_at=NOW - timedelta(days=1))]))["items"][0]["memory"]
    assert (shown["expired"], shown["daysSinceTouched"]) == (True, 40)


hostile = st.text(
    alphabet=st.sampled_from(list('`"{}[]\\,:\n\r\t ,refs0p0\u202e\u200b\u2028'))
    | st.characters(exclude_categories=["Cs"]),
    max_size=400,
)


@given(hostile, hostile)
def test_f36_no_text_breaks_out_of_the_fence_or_adds_an_item(content: str, topic: str):
    """F36: the rendered block parses back to exactly the given items, whatever they hold."""
    items = [pair("p0", content or "x", topic=topic), single("s0", neighbours=1)]
    shown = block(render_state(NOW, items))
    assert [item["ref"] for item in shown["items"]] == ["p0", "s0"]
    assert shown["items"][1]["memory"]["content"] == "text"


def test_f36_invisible_and_direction_changing_characters_are_not_shown():
    state = render_state(NOW, [single(content="pay\u202e\u200b\x07load\U000e0041")])
    assert block(state)["items"][0]["memory"]["content"] == "payload"


def test_no_id_is_ever_shown():
    item = single(neighbours=1)
    state = render_state(NOW, [item])
    assert str(item.memory.memory_id) not in state and item.memory.memory_id.hex not in state
    assert replace(item.memory, state_version=7) != item.memory
