"""What tells two near texts apart (settlement 10)."""

import pytest
from lethelog.domain.differences import LONGEST, differences, read


def told(one: str, other: str) -> set[str]:
    found = differences(read(one), read(other))
    assert found == differences(read(other), read(one))
    return set(found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("We deploy on green builds", "On green builds we deploy"),
        ("The team prefers small commits.", "Our team prefers small commits"),
        ("Ada reviews the schema", "The schema is reviewed by Ada"),
        ("Keys rotate every 30 days", "Every 30 days the keys rotate"),
        ("The release is on 3 May 2025", "On 2025-05-03 is the release"),
        ("Caching is on", "caching is on"),
    ],
)
def test_the_same_said_in_other_words_is_not_told_apart(one: str, other: str):
    assert told(one, other) == set()


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        ("Keys rotate every 30 days", "Keys rotate every 90 days", {"number"}),
        ("Keep two replicas", "Keep three replicas", {"number"}),
        ("The release is on 3 May 2025", "The release is on 4 May 2025", {"date"}),
        ("The meeting is on tuesday", "The meeting is on thursday", {"date"}),
        ("Ada reviews the schema", "Grace reviews the schema", {"name"}),
        ("See https://a.example/x", "See https://a.example/y", {"name"}),
        ("Deploys need a review", "Deploys do not need a review", {"negation"}),
        ("The cache is used", "The cache is no longer used", {"negation"}),
        ("Ada rotates keys every 30 days", "Grace rotates keys every 90 days", {"number", "name"}),
    ],
)
def test_a_difference_in_number_date_name_or_negation_tells_texts_apart(one: str, other: str, differs: set[str]):
    assert differs <= told(one, other)


def test_texts_too_long_to_be_compared_count_as_different():
    assert told("word " * LONGEST, "word " * LONGEST) == {"too_long"}
