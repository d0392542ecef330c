"""The word diff: nothing of either text is lost, what is alike is found, and no pair of texts takes long."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.handlers.page.word_diff import MOST_WORDS, Piece, word_diff

FEW_WORDS = st.lists(st.sampled_from(["a", "the", "Redis", ".", " ", "  ", "\n", "ä", "_", "🜁", ""]), max_size=60)
TEXTS = st.one_of(FEW_WORDS.map("".join), FEW_WORDS.map(" ".join), st.text(max_size=80))


def side(pieces: list[Piece], other: str) -> str:
    return "".join(piece.text for piece in pieces if piece.kind != other)


@given(TEXTS, TEXTS)
def test_both_texts_are_told_whole_and_in_order(older, newer):
    pieces = word_diff(older, newer)
    assert pieces is not None
    assert side(pieces, "newer") == older
    assert side(pieces, "older") == newer
    for one, following in pairwise(pieces):
        assert one.kind != following.kind, "two runs that are one"


@given(TEXTS)
def test_a_text_does_not_differ_from_itself(text):
    assert all(piece.kind == "both" for piece in word_diff(text, text) or [])


def test_a_word_that_changed_in_a_long_text_is_the_only_thing_that_is_marked():
    sentences = [
        f"In step {n} the service of the team is moved, and the log is kept for the audit." for n in range(40)
    ]
    older = " ".join(sentences)
    newer = older.replace("In step 7 the service", "In step 7 the gateway").replace("step 31", "step 32")
    changed = [piece for piece in word_diff(older, newer) or [] if piece.kind != "both"]
    assert changed == [
        Piece("older", "service "),
        Piece("newer", "gateway "),
        Piece("older", "31 "),
        Piece("newer", "32 "),
    ]


def test_a_chance_word_between_two_changes_does_not_tear_them():
    pieces = word_diff("Deploys go to the cheapest provider.", "Backups stay on the slowest disks.")
    assert pieces == [
        Piece("older", "Deploys go to the cheapest provider"),
        Piece("newer", "Backups stay on the slowest disks"),
        Piece("both", "."),
    ]


def test_a_line_that_was_broken_elsewhere_has_its_words_in_common():
    pieces = word_diff("kept in\nRedis for ever", "kept in Redis\nfor ever") or []
    shared = [piece.text.strip() for piece in pieces if piece.kind == "both"]
    assert shared == ["kept in", "Redis", "for ever"]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("a b " * (MOST_WORDS // 2), "b a a " * (MOST_WORDS // 3)),
        ("the " * MOST_WORDS, "the " * (MOST_WORDS - 3) + "end"),
        (". " * MOST_WORDS, "! . " * (MOST_WORDS // 2)),
        (" ".join("abcdefgh"[n * n % 8] for n in range(MOST_WORDS)), "h g f e d c b a " * (MOST_WORDS // 8)),
        ("a " * 70 + "b", "b " + "a " * (MOST_WORDS - 1)),
    ],
)
def test_texts_that_repeat_few_words_are_compared_in_bounded_time(older, newer):
    begun = time.process_time()
    pieces = word_diff(older, newer)
    assert pieces is not None and side(pieces, "newer") == older and side(pieces, "older") == newer
    assert time.process_time() - begun < 2


def test_a_text_of_more_words_is_not_compared():
    assert word_diff("a " * MOST_WORDS, "b") is not None
    assert word_diff("a " * (MOST_WORDS + 1), "b") is None
