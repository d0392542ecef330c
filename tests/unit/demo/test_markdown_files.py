"""Memories from Markdown: decision records in their usual shapes, notes, and instruction files."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.ops.demo.file_memory import FileMemory, Refused
from lethelog.ops.demo.front_matter import front_matter
from lethelog.ops.demo.instructions import blocks
from lethelog.ops.demo.markdown import markdown_memories

MADR = """---
status: accepted
date: 2024-03-05
deciders: Ana, Bo
supersedes:
  - ADR-0003
tags: [storage, logs]
---
# Keep the log in one table

## Context and Problem Statement

Two tables drift apart.
"""

NYGARD = """# 5. Use a broker

Date: 2020-01-02

## Status

Accepted

Supersedes [ADR-0003](0003-poll-the-table.md)

## Context

Polling costs too much.
"""


def only(text: str, name: str, within: str = "") -> FileMemory:
    memories, notices = markdown_memories(text, name, within)
    assert not notices
    (memory,) = memories
    return memory


def refusal(text: str, name: str = "note.md") -> tuple[str | None, str]:
    with pytest.raises(Refused) as refused:
        markdown_memories(text, name)
    return refused.value.field, refused.value.reason


def test_a_record_with_front_matter_shows_its_relations_above_its_text():
    memory = only(MADR, "docs/adr/0005-one-table.md")
    assert memory.topic == "ADR-0005 Keep the log in one table"
    assert memory.content.startswith("Status: accepted\nSupersedes: ADR-0003\n\n# Keep the log in one table")
    assert memory.memory_type == "decision"
    assert memory.occurred_at == datetime(2024, 3, 5, tzinfo=UTC)
    assert memory.tags == ("storage", "logs")
    assert memory.metadata == {"status": "accepted", "supersedes": "ADR-0003", "deciders": "Ana, Bo"}
    assert memory.key == "docs/adr/0005-one-table.md#1"


def test_a_record_in_plain_markdown_takes_number_date_and_type_from_its_text():
    memory = only(NYGARD, "0005-use-a-broker.md")
    assert memory.topic == "ADR-0005 Use a broker"
    assert memory.occurred_at == datetime(2020, 1, 2, tzinfo=UTC)
    assert memory.memory_type == "decision"
    assert "Supersedes [ADR-0003](0003-poll-the-table.md)" in memory.content


@pytest.mark.parametrize(
    "line",
    [
        "* Date: 2021-03-04",
        "- **Date**: 2021-03-04",
        "**Date:** 2021-3-4",
        "## Date\n\n2021-03-04 (revised later)",
    ],
)
def test_a_date_line_is_found_in_its_usual_forms(line: str):
    memory = only(f"# ADR-7: Any\n\n* Status: accepted\n{line}\n", "7.md")
    assert memory.occurred_at == datetime(2021, 3, 4, tzinfo=UTC)
    assert memory.topic == "ADR-0007 Any"


@pytest.mark.parametrize(
    ("status", "day"),
    [
        ("Status: accepted, 2026-05-03", 3),
        ("**Status:** Accepted · 2026-05-03; one part became two", 3),
        ("Status: superseded by ADR-9, 2026-05-03", None),
        ("Status: accepted", None),
    ],
)
def test_a_record_without_a_date_line_is_of_the_day_it_was_accepted(status: str, day: int | None):
    memory = only(f"# ADR-7: Any\n\n{status}\n\nText of 2024-01-01.", "7.md")
    assert memory.occurred_at == (None if day is None else datetime(2026, 5, day, tzinfo=UTC))


def test_a_date_line_that_is_no_date_is_told_and_the_record_is_dated_now():
    memories, notices = markdown_memories("# 5. Use it\n\nDate: last spring\n\n## Status\n\nAccepted", "5.md")
    assert memories[0].occurred_at is None
    assert [notice.field for notice in notices] == ["Date"]


def test_a_number_and_the_folder_make_a_record_also_where_the_folder_itself_was_asked_for():
    assert only("# Use it\n\nBecause.", "0012-use-it.md", within="decisions").topic == "ADR-0012 Use it"
    assert only("# Use it\n\nBecause.", "0012-use-it.md").memory_type == "note"


def test_a_note_keeps_its_title_and_has_no_date_of_its_own():
    memory = only("# 3. Shopping\n\nDate: tomorrow\n\nMilk.", "list.md")
    assert (memory.topic, memory.memory_type, memory.occurred_at) == ("3. Shopping", "note", None)


def test_a_note_without_a_heading_is_named_by_its_file():
    assert only("Milk.", "inbox/shopping-list.md").topic == "shopping-list"


def test_a_heading_inside_code_is_no_title():
    assert only("```sh\n# not me\n```\n\n# Me\n", "note.md").topic == "Me"


def test_an_underlined_heading_is_a_title_and_closing_signs_are_not():
    assert only("The title\n=========\n\nText", "note.md").topic == "The title"
    assert only("# Learn C# ##\n\nText", "note.md").topic == "Learn C#"


def test_a_draft_is_no_decision():
    assert only("---\ntitle: Essay\nstatus: draft\n---\nText", "essay.md").memory_type == "note"


def test_the_type_of_the_front_matter_wins_and_another_meaning_of_type_is_kept_as_metadata():
    assert only("---\ntype: fact\n---\nText", "note.md").memory_type == "fact"
    memory = only("---\ntype: essay\n---\nText", "note.md")
    assert (memory.memory_type, memory.metadata) == ("note", {"type": "essay"})


def test_values_stay_as_they_are_written():
    memory = only("---\nversion: 0010\nanswer: no\nsince: 2020-01-02\nnothing: null\n---\nText", "note.md")
    assert memory.metadata == {"version": "0010", "answer": "no", "since": "2020-01-02"}


def test_a_time_with_an_offset_is_taken_in_utc():
    memory = only("---\ndate: 2024-03-05T01:00:00+02:00\n---\nText", "note.md")
    assert memory.occurred_at == datetime(2024, 3, 4, 23, tzinfo=UTC)


def test_a_time_without_an_offset_is_refused_by_name():
    assert refusal("---\ndate: 2024-03-05 10:00:00\n---\nText") == (
        "date",
        "has a time without an offset: write Z or +02:00 after it, or the date alone",
    )
    assert refusal("# 5. A\n\nDate: 2024-03-05 10:00\n\n## Status\n\nAccepted")[0] == "Date"


@pytest.mark.parametrize(
    "date", ["yesterday", "2024-13-05", "0000-01-01", "99999-01-01", "9999-12-31T23:00:00-14:00"]
)
def test_a_date_that_is_none_is_refused(date: str):
    assert refusal(f"---\ndate: {date}\n---\nText")[0] == "date"


def test_front_matter_that_is_no_yaml_is_refused_with_its_line():
    assert refusal("---\ntitle: a\nbroken: [\n---\nText") == ("front matter", "is no valid YAML, line 4")


@pytest.mark.parametrize(
    "block",
    [
        "a: &a [*a]",
        "a: " + "[" * 5_000,
        "? [1, 2]\n: x",
        "a: !!python/object/apply:os.system ['true']",
        "a: \x07",
        "a: *nothing",
    ],
)
def test_odd_yaml_makes_no_objects_and_no_crash(block: str):
    try:
        fields, _ = front_matter(f"---\n{block}\n---\nText")
    except Refused as refused:
        assert refused.field == "front matter"
    else:
        assert all(isinstance(value, str | list | dict) for value in fields.values())


def test_aliases_of_aliases_are_not_followed():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    fields, _ = front_matter("---\n" + "\n".join(lines) + "\n---\nText")
    assert set(fields) == {"a0"}


def test_a_rule_at_the_head_is_no_front_matter():
    assert front_matter("---\nJust text\n---\nmore")[0] == {}
    assert only("---\nJust text\n---\nmore", "note.md").content == "---\nJust text\n---\nmore"


def test_front_matter_without_an_end_is_text():
    assert only("---\ntitle: x\n", "note.md").content == "---\ntitle: x"


def test_front_matter_alone_is_empty():
    assert refusal("---\ntitle: x\n---\n \n") == ("content", "is empty")


def test_a_lone_surrogate_or_nul_from_an_escape_is_refused():
    assert refusal('---\ntitle: "a\\ud800"\n---\nText')[1] in (
        "holds half of a surrogate pair",
        "is no valid YAML",
    )
    assert refusal('---\nproject: "a\\0b"\n---\nText') == ("project", "holds a NUL character")


def test_a_mapping_of_metadata_is_taken_one_level_deep():
    memory = only("---\nmetadata:\n  owner: Ana\n  none: null\n  more: {a: b}\n---\nText", "note.md")
    assert memory.metadata == {"owner": "Ana"}
    assert refusal("---\nmetadata: Ana\n---\nText") == ("metadata", "is no mapping")


def test_mappings_elsewhere_are_written_out_and_lists_keep_their_plain_entries():
    memory = only("---\nauthor: {name: Ana, age: 9}\nlinks: [a, [b], c]\n---\nText", "note.md")
    assert memory.metadata == {"author": "name: Ana, age: 9", "links": "a, c"}


def test_a_memory_type_that_is_none_is_refused():
    assert refusal("---\nmemory_type: essay\n---\nText")[0] == "memory_type"


def test_the_number_of_a_record_may_stand_in_its_front_matter():
    assert (
        only("---\nid: ADR-0042\nstatus: proposed\n---\n# Use it\n\nYes", "use-it.md").topic == "ADR-0042 Use it"
    )


def test_front_matter_without_bound_is_refused():
    assert refusal("---\ntitle: " + "x" * 70_000 + "\n---\nText") == (
        "front matter",
        "has more than 65536 characters",
    )


def test_metadata_that_does_not_fit_is_told():
    fields = "\n".join(f"field{n}: {n}" for n in range(18))
    memories, notices = markdown_memories(f"---\n{fields}\n---\nText", "note.md")
    assert len(memories[0].metadata) == 16
    assert [notice.field for notice in notices] == ["field16", "field17"]


def test_too_many_tags_are_refused():
    assert refusal("---\ntags: [" + ", ".join(f"t{n}" for n in range(33)) + "]\n---\nText")[0] == "tags"


def test_a_long_record_becomes_several_memories_and_loses_nothing():
    body = "\n\n".join(f"## Part {n}\n\n" + "word " * 150 for n in range(8))
    memories, _ = markdown_memories(f"# 5. Long\n\n## Status\n\nAccepted\n\n{body}", "5.md")
    assert [memory.topic for memory in memories] == [
        f"ADR-0005 Long ({n} of {len(memories)})" for n in range(1, len(memories) + 1)
    ]
    assert [memory.key for memory in memories] == [f"5.md#{n}" for n in range(1, len(memories) + 1)]
    assert all(len(memory.content) <= 2_000 for memory in memories)
    assert sum(memory.content.count("word") for memory in memories) == 8 * 150


def test_a_title_too_long_for_a_topic_stays_whole_in_the_content():
    title = "very " * 80 + "long"
    memory = only(f"---\ntitle: {title}\n---\nText", "note.md")
    assert len(memory.topic) <= 256 and memory.topic.endswith("…")
    assert title in memory.content


INSTRUCTIONS = """# Project

Read this first.
It is short.

## Testing

- Run `make test` before a commit.
  - On Linux only.
- Never skip a test.

  Not even once.

1. First build.

```sh
# not a heading
make

all
```

---

## Style ##
Prefer short names.
"""


def test_an_instruction_file_gives_one_memory_for_each_paragraph_and_item():
    memories, _ = markdown_memories(INSTRUCTIONS, "sub/AGENTS.md")
    assert [(memory.topic, memory.content) for memory in memories] == [
        ("Project", "Read this first.\nIt is short."),
        ("Project › Testing", "Run `make test` before a commit.\n  - On Linux only."),
        ("Project › Testing", "Never skip a test.\n\n  Not even once."),
        ("Project › Testing", "First build.\n\n```sh\n# not a heading\nmake\n\nall\n```"),
        ("Project › Style", "Prefer short names."),
    ]
    assert {memory.memory_type for memory in memories} == {"preference"}
    assert [memory.key for memory in memories] == [f"sub/AGENTS.md#{n}" for n in range(1, 6)]


def test_an_instruction_file_without_headings_is_named_by_its_file():
    assert only("Be brief.", "CLAUDE.md").topic == "CLAUDE.md"


def test_an_instruction_file_of_headings_alone_is_empty():
    assert refusal("# A\n\n## B\n", "CLAUDE.md") == ("content", "is empty")


@given(st.text(alphabet="ab -*#`1.\n\t~=", max_size=300))
def test_taking_a_text_apart_keeps_every_word_of_it(text: str):
    kept = "".join(heading + block for heading, block in blocks(text))
    if "#" not in text:
        assert all(kept.count(letter) == text.count(letter) for letter in "ab`")


@given(st.text(max_size=500), st.sampled_from(["note.md", "docs/adr/0001-a.md", "AGENTS.md"]))
def test_any_text_gives_memories_within_the_limits_or_a_reason(text: str, name: str):
    check_limits(text, name)


@given(st.text(alphabet="-#:&*[]{}!|>'\"\\0x1a \n\t.datestus", max_size=400))
def test_any_front_matter_gives_memories_within_the_limits_or_a_reason(block: str):
    check_limits(f"---\n{block}\n---\nText", "note.md")


def check_limits(text: str, name: str) -> None:
    try:
        memories, _ = markdown_memories(text, name)
    except Refused as refused:
        assert refused.reason
        return
    assert memories
    for memory in memories:
        assert 1 <= len(memory.topic) <= 256 and memory.topic == memory.topic.strip()
        assert 1 <= len(memory.content) <= 2_000 and memory.content == memory.content.strip()
        assert "\0" not in memory.topic + memory.content


@pytest.mark.parametrize(
    "text",
    [
        "# a" + " " * 300_000 + "b",
        "date:" + " " * 300_000,
        "# a" + " #" * 150_000,
        "```\n" * 100_000 + "~~~",
        "- " * 150_000,
        "\n" * 300_000 + "x",
        "=\n" * 150_000,
        "*" * 300_000 + "x",
        " " * 300_000 + "date",
    ],
)
@pytest.mark.parametrize("name", ["docs/adr/0001-a.md", "AGENTS.md"])
@pytest.mark.timeout(20)
def test_text_made_to_be_slow_is_not(text: str, name: str):
    check_limits(text, name)
