"""An end that a memory's own text names, and dates as people write them."""

from datetime import UTC, date, datetime, timedelta

import pytest
from lethelog.domain.stated import answer_item
from lethelog.domain.stated.atoms import Names
from lethelog.domain.stated.dates import dates_in
from lethelog.domain.stated.mentions import identity_of
from lethelog.domain.stated.numbering import read_atoms

from .memories import NOW, OLDER, memory, single

NOBODY = Names(identity_of(memory("-", "-")), identity_of(memory("-", "-")))


def ends(text: str, topic: str = "Parking rule", now: datetime = NOW) -> bool:
    answer = answer_item(single(memory(topic, text)), now)
    if answer.choice == "archive":
        assert answer.evidence is not None
        assert answer.evidence.memory_id == OLDER
        assert answer.evidence.quote in text or answer.evidence.quote in topic
    return answer.choice == "archive"


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2025-03-01", date(2025, 3, 1), date(2025, 3, 1)),
        ("2025-03-01T12:00:00Z", date(2025, 3, 1), date(2025, 3, 1)),
        ("3 May 2025", date(2025, 5, 3), date(2025, 5, 3)),
        ("3rd of May 2025", date(2025, 5, 3), date(2025, 5, 3)),
        ("May 3, 2025", date(2025, 5, 3), date(2025, 5, 3)),
        ("May 3rd 2025", date(2025, 5, 3), date(2025, 5, 3)),
        ("Feb. 2024", date(2024, 2, 1), date(2024, 2, 29)),
        ("May 2025", date(2025, 5, 1), date(2025, 5, 31)),
        ("Q1 2025", date(2025, 1, 1), date(2025, 3, 31)),
        ("2025-Q4", date(2025, 10, 1), date(2025, 12, 31)),
        ("the second quarter of 2025", date(2025, 4, 1), date(2025, 6, 30)),
        ("2025", date(2025, 1, 1), date(2025, 12, 31)),
        ("31.12.2025", date(2025, 12, 31), date(2025, 12, 31)),
        ("2025/12/31", date(2025, 12, 31), date(2025, 12, 31)),
        ("03/04/2025", date(2025, 3, 4), date(2025, 4, 3)),
    ],
)
def test_a_date_is_read_as_the_days_it_covers(text: str, first: date, last: date) -> None:
    found = dates_in(read_atoms(text, 0, len(text), NOBODY))
    assert [(dated.first, dated.last) for dated in found] == [(first, last)]


@pytest.mark.parametrize("text", ["2025-13-01", "99.99.2025", "RFC 2046", "PEP 2025", "0000"])
def test_what_is_no_date_is_not_read_as_one(text: str) -> None:
    assert not dates_in(read_atoms(text, 0, len(text), NOBODY))


def test_an_end_has_passed_only_when_its_day_is_over_everywhere() -> None:
    text = "Valid until 2025-03-01."
    assert not ends(text, now=datetime(2025, 3, 2, 11, 59, tzinfo=UTC))
    assert ends(text, now=datetime(2025, 3, 2, 12, 0, tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    [
        "Valid until 2025-03-01.",
        "This rule is valid until 2025-03-01.",
        "Park behind hall 4 (valid until 1 March 2025).",
        "This exception expires on 3 May 2025.",
        "Park behind hall 4 only until the end of Q1 2025.",
        "Park behind hall 4, until 2025-03-01 only.",
        "Expires: 2025-03-01\nPark behind hall 4.",
        "The parking rule ends on 3 May 2025.",
        "This applies until the end of 2025.",
    ],
)
def test_a_stated_end_that_has_passed_archives(text: str) -> None:
    assert ends(text)


@pytest.mark.parametrize(
    "text",
    [
        "Valid until 2031-03-01.",
        "This rule is not valid until 2025-03-01.",
        "The permit of Ann expired on 2025-03-01.",
        "We parked behind hall 4 until 2025-03-01.",
        "This rule may end on 2025-03-01.",
        "This rule ends on 2025-03-01 unless it is renewed.",
        "This rule ends on 2025-03-01. It was extended until 2031.",
        "Ben said this rule ends on 2025-03-01.",
        "“Valid until 2025-03-01” was on the sign.",
        "> Valid until 2025-03-01",
        "The neighbour's gate is valid until 2025-03-01.",
        "Does this rule end on 2025-03-01?",
        "An earlier rule was valid until 2025-03-01.",
        "Section 2 of this rule expires on 2025-03-01.",
        "Valid until the next meeting, see 2025-03-01.",
        "This rule is valid from 2025-03-01.",
        "Ann wrote on 2025-03-01 that the end is near.",
    ],
)
def test_what_states_no_passed_end_of_the_memory_keeps_it(text: str) -> None:
    assert not ends(text)


def test_the_topic_may_state_the_end() -> None:
    assert ends("Park behind hall 4.", topic="Parking rule (valid until 2025-03-01)")


def test_now_decides_and_not_the_clock() -> None:
    later = datetime(2025, 3, 1, tzinfo=UTC) + timedelta(days=400)
    assert ends("Valid until 2025-03-01.", now=later)
    assert not ends("Valid until 2025-03-01.", now=datetime(2024, 3, 1, tzinfo=UTC))
