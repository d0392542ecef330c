"""The rule reads in linear time, whatever is repeated (a pass may meet a 262,144-character import)."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.domain.judging import PairItem
from lethelog.domain.stated import answer_item

from .memories import NOW, memory, pair, single

REPEATED = [
    "replaces ", "replaces PEP 314 ", "replaces PEP 314 and ", "PEP 314, ", "314 and ", "PEPs 1-50 ", "(", "[", "[[",
    "[a](", "“", '"', "'", " '", "`", "```\n", "~~~", "<!--", "~~a", "> ", "    ", "\t", "\n", "- ", "# ", "!!!",
    "a.", "not ", "in place of ", "no longer ", "is replaced by ", "2005-04-28 ", "https://", "https://a/pep-314 ",
    "0005-a-b.md ", "wheel metadata in one ", "ignore ", "valid until ", "valid until 2020-01-01. ", "until 2020 ",
    "Supersedes:\n- PEP 314\n", "PEP 314 is replaced by this. ", "PEP 314; this replaces it ", "9" * 50, "é", "中",
    "the earlier ", "makes PEP 314 obsolete and ", "²", "٣ ",
]  # fmt: skip


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def ask_of(text: str) -> PairItem:
    return pair(text + " replaces PEP 314.", older_content=text[:2000] or "-")


@pytest.mark.parametrize("piece", REPEATED, ids=repr)
def test_two_thousand_repeats_take_little_time(piece: str) -> None:
    text = piece * 2000
    assert seconds(lambda: answer_item(ask_of(text), NOW)) < 1.5
    assert seconds(lambda: answer_item(single(memory("Parking rule", text)), NOW)) < 1.5


@given(st.lists(st.sampled_from(REPEATED), min_size=1, max_size=4))
def test_mixed_repeats_take_little_time(pieces: list[str]) -> None:
    text = "".join(pieces) * 300
    assert seconds(lambda: answer_item(ask_of(text), NOW)) < 1.5


def test_one_long_row_of_claims_is_bounded() -> None:
    text = ("replaces PEP 314 and " * 90 + "done. ") * 100
    assert seconds(lambda: answer_item(ask_of(text), NOW)) < 8


def test_one_line_takes_a_tenth_of_a_millisecond_and_a_page_one() -> None:
    lines = [
        pair(f"A Standards Track document of 28 April {year}; {what}")
        for year in range(1990, 2005)
        for what in ("it adds a tree.", "it updates PEP 314.", "see PEP 330.", "the table is gone.")
    ]
    page = pair(
        ("The format of a wheel is described elsewhere, and its metadata in a table. " * 26)
        + "It replaces PEP 314."
    )
    # Ten times the aim, since the machine that runs this is shared.
    assert min(seconds(lambda: [answer_item(item, NOW) for item in lines]) for _ in range(5)) < len(lines) * 1e-3
    assert min(seconds(lambda: answer_item(page, NOW)) for _ in range(5)) < 10e-3
