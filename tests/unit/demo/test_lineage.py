"""Comparing proposals with both sides of a link."""

import pytest
from lethelog.domain.errors import InvalidInput
from lethelog.ops.demo.documents import Document
from lethelog.ops.demo.lineage import compare
from lethelog.ops.demo.sample import Sample, load_sample
from lethelog.ops.demo.wording import word_all


def pep(number: int, **links: tuple[str, ...]) -> Document:
    return Document(
        f"PEP {number}", "PEP", number, f"Subject {number}", "Process", f"20{number:02d}-01-01", **links
    )


DOCUMENTS = (
    pep(1),
    pep(2, replaces=("PEP 1",)),  # both say so
    pep(3),
    pep(4, replaces=("PEP 3",)),  # the newer only
    pep(5),
    pep(6, replaces=("PEP 5",)),  # PEP 5 names PEP 7 instead
    pep(7),
    pep(8, requires=("PEP 7",)),  # a hard negative
    pep(9, replaces=("PEP 10",)),  # said of a later document
    pep(10),
)
SAMPLE = Sample(
    documents=DOCUMENTS,
    worded=word_all(DOCUMENTS),
    superseded_by={
        "PEP 1": frozenset({"PEP 2"}),
        "PEP 5": frozenset({"PEP 7"}),
        "PEP 10": frozenset({"PEP 9"}),
    },
)


def row(older: str, newer: str) -> tuple[str, str]:
    (check,) = compare([(older, newer)], SAMPLE).details
    return check.row, check.reason


def test_both_sides_say_so():
    assert row("PEP 1", "PEP 2") == ("confirmed", "both documents say so")


def test_only_the_newer_says_so():
    assert row("PEP 3", "PEP 4")[0] == "claimed_only"


def test_an_older_document_that_names_another_contradicts_the_claim():
    assert row("PEP 5", "PEP 6") == (
        "contradicted",
        "the newer document says so; the older names PEP 7 instead",
    )


def test_what_neither_says_is_contradicted_and_so_is_a_link_the_wrong_way_round():
    assert row("PEP 1", "PEP 4") == ("contradicted", "neither document says so")
    assert row("PEP 2", "PEP 1") == ("contradicted", "neither document says so")


def test_what_only_the_older_says_is_a_row_of_its_own():
    assert row("PEP 5", "PEP 7") == ("older_only", "only the older document says so")


def test_a_link_whose_claim_is_older_than_its_target_is_confirmed_and_no_part_of_recall():
    lineage = compare([("PEP 10", "PEP 9")], SAMPLE)
    assert (lineage.confirmed, lineage.found, lineage.links) == (1, 0, 3)


def test_a_hard_negative_is_counted():
    lineage = compare([("PEP 7", "PEP 8")], SAMPLE)
    assert (lineage.hard_negatives_proposed, lineage.contradicted) == (1, 1)


def test_recall_is_the_share_of_stated_links_and_a_pair_twice_counts_once():
    lineage = compare([("PEP 1", "PEP 2"), ("PEP 1", "PEP 2"), ("PEP 1", "PEP 4")], SAMPLE)
    assert lineage.recall == pytest.approx(1 / 3)
    assert lineage.confirmed == 1 and len(lineage.details) == 2


def test_no_proposal_is_no_error():
    assert compare([], SAMPLE).as_dict() == {
        "confirmed": 0,
        "claimed_only": 0,
        "contradicted": 0,
        "older_only": 0,
        "found": 0,
        "links": 3,
        "recall": 0.0,
        "hard_negatives_proposed": 0,
    }


def test_recall_of_nothing_is_none():
    assert compare([], Sample((), (), {})).recall is None


def test_an_unknown_document_is_refused():
    with pytest.raises(InvalidInput, match="PEP 99"):
        compare([("PEP 1", "PEP 99")], SAMPLE)


def test_proposing_every_stated_link_of_the_sample_finds_them_all_and_no_hard_negative():
    sample = load_sample()
    lineage = compare(sorted(sample.claimed), sample)
    assert lineage.recall == 1.0
    assert (lineage.confirmed, lineage.claimed_only, lineage.contradicted) == (227, 14, 1)
    assert lineage.hard_negatives_proposed == 0 and lineage.older_only == 0


def test_proposing_every_hard_negative_confirms_none():
    sample = load_sample()
    lineage = compare(sorted(sample.hard_negatives), sample)
    assert lineage.confirmed == lineage.claimed_only == lineage.older_only == lineage.found == 0
    assert lineage.hard_negatives_proposed == len(sample.hard_negatives)
