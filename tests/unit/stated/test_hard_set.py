"""Sentences that look like endings and are none, and natural ways of saying an ending."""

from typing import Any

import pytest
from lethelog.domain.stated import answer_item

from .memories import NOW, pair_of_row, rows

NEGATIVES = rows("hard_negatives.jsonl")
POSITIVES = rows("positives.jsonl")


def test_the_hard_set_is_large_and_of_every_kind() -> None:
    assert len(NEGATIVES) >= 130
    assert len({row["text"] for row in NEGATIVES}) >= 300
    assert {row["kind"] for row in NEGATIVES} >= {
        "negation", "mood", "condition", "future", "partial", "still in force", "other series", "third parties",
        "wrong direction", "failed attempts", "questions", "quotation", "planted", "low trust",
    }  # fmt: skip


@pytest.mark.parametrize("row", NEGATIVES, ids=lambda row: f"{row['kind']}: {row['text'][:60]}")
def test_nothing_is_proposed_for_a_sentence_that_states_no_ending(row: dict[str, Any]) -> None:
    answer = answer_item(pair_of_row(row), NOW)
    assert answer.choice == "keep_both"
    assert answer.evidence is None


def test_natural_endings_are_found() -> None:
    missed = [row["text"] for row in POSITIVES if answer_item(pair_of_row(row), NOW).choice != "supersede_older"]
    assert len(POSITIVES) >= 60
    assert len(missed) <= 0.05 * len(POSITIVES), missed


@pytest.mark.parametrize("row", POSITIVES, ids=lambda row: row["text"][:60])
def test_the_evidence_is_the_sentence_as_it_stands_in_the_newer_memory(row: dict[str, Any]) -> None:
    item = pair_of_row(row)
    answer = answer_item(item, NOW)
    if answer.choice == "supersede_older":
        assert answer.evidence is not None
        assert answer.evidence.memory_id == item.newer.memory_id
        assert answer.evidence.quote in item.newer.content
        assert answer.evidence.quote == answer.evidence.quote.strip()
