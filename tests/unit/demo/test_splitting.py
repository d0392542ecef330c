"""Cutting long text into memories: best places first, nothing lost."""

from hypothesis import given
from hypothesis import strategies as st
from lethelog.ops.demo.splitting import split


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_text_that_fits_is_one_part():
    assert split("  one\n\n# two\n\nthree ", 40) == ["one\n\n# two\n\nthree"]


def test_blank_text_gives_nothing():
    assert split(" \n\t\n ", 10) == []


def test_headings_come_before_paragraphs_as_places_to_cut():
    text = "intro\n\nmore\n\n## First\n\naaaa\n\n## Second\n\nbbbb"
    assert split(text, 20) == ["intro\n\nmore", "## First\n\naaaa", "## Second\n\nbbbb"]


def test_paragraphs_are_put_together_as_far_as_they_fit():
    assert split("aaaa\n\nbbbb\n\ncccc", 10) == ["aaaa\n\nbbbb", "cccc"]


def test_sentences_come_before_words():
    assert split("One two. Three four.", 12) == ["One two.", "Three four."]


def test_a_word_longer_than_the_limit_is_cut_and_kept():
    assert split("abcdefghij", 4) == ["abcd", "efgh", "ij"]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=400), st.integers(1, 60))
def test_no_part_is_blank_or_too_long_and_nothing_but_white_space_is_lost(text: str, limit: int):
    found = split(text, limit)
    assert all(1 <= len(part) <= limit and part == part.strip() for part in found)
    assert squeezed("".join(found)) == squeezed(text)


@given(st.text(alphabet="ab .#\n", max_size=300), st.integers(3, 30))
def test_the_same_holds_where_there_are_many_places_to_cut(text: str, limit: int):
    found = split(text, limit)
    assert all(1 <= len(part) <= limit for part in found)
    assert squeezed("".join(found)) == squeezed(text)
