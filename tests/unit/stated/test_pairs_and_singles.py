"""What is asked, in which order, and who has a say."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.domain.answers import validate_answer
from lethelog.domain.judging import Answer
from lethelog.domain.stated import MEASURED, answer_item

from .memories import NEWER, NEWER_TOPIC, NOW, OLDER, OLDER_TOPIC, ask, memory, pair, single

REPLACES = "It replaces PEP 314."
TRUST = ["imported", "agent", "user", "host"]


def test_a_newer_memory_that_says_so_supersedes_the_older_one() -> None:
    answer = ask("A new start. It replaces PEP 314. See below.")
    assert answer.choice == "supersede_older"
    assert answer.evidence is not None
    assert answer.evidence.quote == "It replaces PEP 314."
    assert answer.evidence.memory_id == NEWER


def test_a_sentence_that_a_line_break_cuts_is_quoted_as_it_stands() -> None:
    answer = ask("After a long debate in the working group, this document\nreplaces PEP 314 entirely.")
    assert answer.evidence is not None
    assert (
        answer.evidence.quote
        == "After a long debate in the working group, this document\nreplaces PEP 314 entirely."
    )


def test_a_claim_in_the_topic_counts() -> None:
    answer = ask("See the table.", topic="PEP 345: Wheel metadata in a tree (replaces PEP 314)")
    assert answer.choice == "supersede_older"


def test_the_probability_is_the_measured_one_and_the_rest_is_keep() -> None:
    answer = ask(REPLACES)
    assert answer.probabilities["supersede_older"] == MEASURED["active"].probability
    assert answer.probabilities["keep_both"] == 1 - MEASURED["active"].probability
    assert answer.probabilities["archive_older"] == answer.probabilities["conflict"] == 0


@pytest.mark.parametrize("newer", TRUST)
@pytest.mark.parametrize("older", TRUST)
def test_a_memory_argues_only_against_one_of_equal_or_lower_trust(newer: str, older: str) -> None:
    answer = ask(REPLACES, trust=newer, older_trust=older)
    allowed = TRUST.index(newer) >= TRUST.index(older)
    assert answer.choice == ("supersede_older" if allowed else "keep_both")


def test_an_unknown_trust_never_argues_and_is_never_argued_against() -> None:
    assert ask(REPLACES, trust="root").choice == "keep_both"
    assert ask(REPLACES, older_trust="root").choice == "keep_both"


@pytest.mark.parametrize("guard", [{"older_pinned": True}, {"older_verified": True}])
def test_guarded_memories_are_kept(guard: dict[str, bool]) -> None:
    answer = ask(REPLACES, **guard)
    assert answer.choice == "keep_both"
    assert "supersede_older" not in answer.probabilities


def test_blockers_and_events_are_never_superseded() -> None:
    assert ask(REPLACES, older_memory_type="blocker").choice == "keep_both"
    assert ask(REPLACES, older_memory_type="event").choice == "keep_both"


def test_the_older_dated_memory_never_supersedes_the_newer_dated_one() -> None:
    item = pair("Nothing of note.", older_content="This document replaces PEP 345.")
    assert answer_item(item, NOW).choice == "keep_both"


def test_two_memories_that_each_claim_to_replace_the_other_are_both_kept() -> None:
    assert ask(REPLACES, older_content="This replaces PEP 345.").choice == "keep_both"


def test_a_single_is_superseded_by_the_neighbour_that_says_so() -> None:
    older = memory(OLDER_TOPIC, "A table.")
    quiet = memory("PEP 330: Wheels and cheese", "No word of it.", 2004, memory_id=NEWER)
    speaking = memory(NEWER_TOPIC, REPLACES, 2005)
    answer = answer_item(single(older, quiet, speaking), NOW)
    assert answer.choice == "supersede_by:s0n1"
    assert set(answer.probabilities) == {"keep", "archive", "supersede_by:s0n0", "supersede_by:s0n1"}
    assert answer.evidence is not None
    assert answer.evidence.memory_id == speaking.memory_id


def test_a_neighbour_that_is_older_has_no_say() -> None:
    older = memory(OLDER_TOPIC, "A table.", 2006)
    assert answer_item(single(older, memory(NEWER_TOPIC, REPLACES, 2005)), NOW).choice == "keep"


@pytest.mark.parametrize("field", ["expires_at", "valid_to"])
def test_a_recorded_end_archives_from_its_instant_on(field: str) -> None:
    for shift, ended in ((0, True), (-60, True), (1, False)):
        old = memory(OLDER_TOPIC, "A table.", **{field: NOW + timedelta(seconds=shift)})
        answer = answer_item(single(old), NOW)
        assert answer.choice == ("archive" if ended else "keep")
        if ended:
            assert answer.evidence is not None
            assert answer.evidence.quote.startswith(field)
            assert answer.evidence.memory_id == OLDER


def test_in_a_pair_a_stated_successor_comes_before_an_end() -> None:
    past = NOW - timedelta(days=1)
    assert ask(REPLACES, older_expires_at=past).choice == "supersede_older"
    assert ask("No word of it.", older_expires_at=past).choice == "archive_older"


def test_a_blocker_is_kept_whatever_has_passed() -> None:
    old = memory(OLDER_TOPIC, "A table.", memory_type="blocker", expires_at=NOW - timedelta(days=1))
    assert answer_item(single(old), NOW).choice == "keep"


def test_a_memory_cannot_argue_for_its_own_removal_by_an_order() -> None:
    for text in ("Archive this memory.", "This memory is obsolete, delete it.", "Superseded by PEP 345."):
        assert answer_item(single(memory(OLDER_TOPIC, text)), NOW).choice == "keep"


SPOKEN = st.one_of(
    st.text(max_size=300),
    st.lists(
        st.sampled_from(
            [
                "this",
                "it",
                "we",
                "PEP",
                "314",
                "345",
                "replaces",
                "is",
                "superseded",
                "by",
                "not",
                "if",
                ",",
                ".",
                ":",
                "(",
                ")",
                '"',
                "`",
                ">",
                "#",
                "-",
                "instead",
                "of",
                "no",
                "longer",
                "valid",
                "until",
                "2025-03-01",
                "and",
                "or",
                "section",
                "3",
                "\n",
                "may",
                "May",
                "2031",
                "the",
            ]
        ),
        max_size=60,
    ).map(" ".join),
)


@given(SPOKEN, SPOKEN, st.sampled_from(TRUST))
def test_every_answer_is_a_valid_answer_to_its_item(newer: str, older: str, trust: str) -> None:
    old = memory(OLDER_TOPIC, older or "-", trust=trust)
    new = memory(NEWER_TOPIC, newer or "-", 2005)
    for item in (pair(newer or "-", older_content=older or "-"), single(old, new)):
        answer = answer_item(item, NOW)
        again = validate_answer(answer.choice, dict(answer.probabilities), item.options, answer.evidence)
        assert isinstance(again, Answer)
        assert again.raw_probabilities is None
        if answer.choice in ("keep", "keep_both"):
            assert answer.evidence is None
        else:
            assert answer.evidence is not None
            assert answer.evidence.quote
