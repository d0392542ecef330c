"""Memories from JSONL: the fields of remember, and a reason for every line that has others."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.ops.demo.file_memory import Refused
from lethelog.ops.demo.jsonl import jsonl_memories


def line(**fields: object) -> str:
    return json.dumps({"topic": "T", "content": "C"} | fields)


def refusal(text: str) -> tuple[str | None, str]:
    with pytest.raises(Refused) as refused:
        jsonl_memories(text, "a.jsonl", 3)
    return refused.value.field, refused.value.reason


def test_every_field_is_taken():
    (memory,) = jsonl_memories(
        line(
            memory_type="fact",
            occurred_at="2024-01-02T03:04:05Z",
            tags=["a", " b ", "a", ""],
            project="P",
            metadata={"n": 1, "ok": True, "x": "y"},
        ),
        "a.jsonl",
        3,
    )
    assert (memory.topic, memory.content, memory.memory_type) == ("T", "C", "fact")
    assert memory.occurred_at == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (memory.tags, memory.project) == (("a", "b"), "P")
    assert memory.metadata == {"n": 1, "ok": True, "x": "y"}
    assert memory.key == "a.jsonl:3#1"


@pytest.mark.parametrize("name", ["created", "date", "occurred_at"])
def test_a_day_alone_is_midnight_utc_under_each_of_its_names(name: str):
    (memory,) = jsonl_memories(line(**{name: "2024-01-02", "type": "Decision"}), "a.jsonl", 1)
    assert memory.occurred_at == datetime(2024, 1, 2, tzinfo=UTC)
    assert memory.memory_type == "decision"


def test_what_is_not_given_or_null_has_its_default():
    (memory,) = jsonl_memories(line(tags=None, project=None, date=None), "a.jsonl", 1)
    assert (memory.memory_type, memory.occurred_at, memory.tags, memory.project) == ("note", None, (), None)


def test_long_content_becomes_several_memories():
    memories = jsonl_memories(line(content="word " * 900), "a.jsonl", 7)
    assert [memory.key for memory in memories] == ["a.jsonl:7#1", "a.jsonl:7#2", "a.jsonl:7#3"]
    assert memories[0].topic == "T (1 of 3)"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"user": "me"}, "user"),
        ({"a sentence that someone wrote\n": 1}, "a field"),
        ({"topic": ""}, "topic"),
        ({"topic": 5}, "topic"),
        ({"topic": "t" * 257}, "topic"),
        ({"content": "  "}, "content"),
        ({"content": "a\0b"}, "content"),
        ({"content": "a\ud800"}, "content"),
        ({"memory_type": "essay"}, "memory_type"),
        ({"type": "fact", "memory_type": "fact"}, "memory_type"),
        ({"date": "2024-01-02", "created": "2024-01-02"}, "created"),
        ({"occurred_at": "2024-01-02T03:04:05"}, "occurred_at"),
        ({"occurred_at": 1704164645}, "occurred_at"),
        ({"tags": "a"}, "tags"),
        ({"tags": [1]}, "tags"),
        ({"tags": ["t" * 65]}, "tags"),
        ({"project": "p" * 257}, "project"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": {}}}, "metadata"),
        ({"metadata": {"a": None}}, "metadata"),
        ({"metadata": {str(n): n for n in range(17)}}, "metadata"),
        ({"metadata": {"a": "x" * 5_000}}, "metadata"),
    ],
)
def test_a_line_that_breaks_a_rule_is_refused_by_field(fields: dict[str, object], field: str):
    assert refusal(line(**fields))[0] == field


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '"text"',
        "null",
        "{} {}",
        '{"topic": NaN}',
        "[" * 100_000,
        '{"n": ' + "9" * 5_000 + "}",
    ],
)
def test_what_is_no_object_of_json_is_refused(text: str):
    assert refusal(text)


def test_a_field_given_twice_is_refused():
    assert refusal('{"topic": "a", "topic": "b", "content": "c"}') == (None, "names a field twice")


def test_a_number_that_is_not_finite_is_refused():
    assert refusal('{"topic": "a", "content": "c", "metadata": {"a": 1e999}}')[0] == "metadata"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["topic", "content", "memory_type", "type", "date", "tags", "project", "metadata", "other"]
)


@given(st.dictionaries(FIELDS, JSON, max_size=6))
def test_any_object_gives_memories_or_a_reason(fields: dict[str, object]):
    never_crashes(json.dumps(fields))


@given(st.text(max_size=200))
def test_any_line_gives_memories_or_a_reason(text: str):
    never_crashes(text)


def never_crashes(text: str) -> None:
    try:
        assert jsonl_memories(text, "a.jsonl", 1)
    except Refused as refused:
        assert refused.reason
