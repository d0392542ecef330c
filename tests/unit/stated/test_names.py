"""Which record a text names: by series and number, by a bare number of its own series, by file, link or title."""

from typing import Any
from uuid import UUID

import pytest
from lethelog.domain.stated.mentions import identity_of

from .memories import ask, memory


@pytest.mark.parametrize(
    ("topic", "content", "key"),
    [
        ("PEP 345: Wheel metadata", "x", ("pep", "345")),
        ("ADR-0005 Sessions live in a cookie", "x", ("adr", "5")),
        ("RFC2616", "x", ("rfc", "2616")),
        ("Decision no. 12 - Lunch", "x", ("decision", "12")),
        ("Wheel metadata in a tree (PEP 345)", "x", ("pep", "345")),
        ("ADR-2024-003: Sessions", "x", ("adr", "2024-3")),
        ("Beschluss 12: Kantine", "x", ("beschluss", "12")),
        ("Wheel metadata", "PEP 345, wheel metadata in a tree, of 28 April 2005.", ("pep", "345")),
        ("Wheel metadata", "On 28 April 2005 we adopted PEP 345.", ("pep", "345")),
        ("Wheel metadata", "PEP: 345\nTitle: Wheel metadata", ("pep", "345")),
        ("RFC 2616bis", "x", ("rfc", "2616bis")),
    ],
)
def test_a_memory_knows_its_own_name(topic: str, content: str, key: tuple[str, str]) -> None:
    assert key in identity_of(memory(topic, content)).keys


@pytest.mark.parametrize(
    ("topic", "content"),
    [
        ("Proxies", "Our proxies follow RFC 2616."),
        ("Proxies", "RFC 2616 compliant proxies only."),
        ("May 2025 roadmap", "x"),
        ("Python 3 at last", "x"),
        ("3 reasons to write tests", "x"),
        ("Version 2 of the plan", "x"),
        ("Section 4 is unclear", "x"),
    ],
)
def test_a_memory_that_only_mentions_a_record_is_not_that_record(topic: str, content: str) -> None:
    assert not identity_of(memory(topic, content)).keys


def test_a_tag_names_a_record() -> None:
    assert ("pep", "345") in identity_of(memory("Wheel metadata", "x", tags=("pep-345", "wheels"))).keys


def test_a_number_takes_its_series_from_a_tag() -> None:
    assert ("adr", "5") in identity_of(memory("0005 Sessions", "x", tags=("adr",))).keys


ADR: dict[str, Any] = {
    "topic": "ADR-0012: Sessions live in the database",
    "older_topic": "ADR-0005: Sessions live in a cookie",
}


@pytest.mark.parametrize(
    "name",
    [
        "ADR-0005", "ADR 5", "adr-5", "ADR0005", "#5", "decision 5", "record 0005", "number 5", "ADRs 3, 5 and 7",
        "ADRs 4 to 6", "ADR-0003, ADR-0004 and ADR-0005", "[ADR 5](0005-sessions-live-in-a-cookie.md)",
        "[the cookie decision](../adr/0005-sessions-live-in-a-cookie.md)", "[[0005-sessions-live-in-a-cookie]]",
        "`0005-sessions-live-in-a-cookie.md`", "docs/adr/0005-sessions-live-in-a-cookie.md",
        "“Sessions live in a cookie”", "the decision “Sessions live in a cookie”", "Sessions live in a cookie",
        "00000000-0000-0000-0000-000000000001", "memory 00000000-0000-0000-0000-000000000001",
    ],
)  # fmt: skip
def test_a_name_of_the_older_record_is_understood(name: str) -> None:
    assert ask(f"This supersedes {name}.", **ADR).choice == "supersede_older"


@pytest.mark.parametrize(
    "name",
    [
        "ADR-0050", "ADR-0015", "RFC 5", "PEP 5", "issue 5", "ADR-0005a", "ADR-0005-2", "version 5", "section 5",
        "5 of them", "5 cookies", "ADRs 6 to 9", "[ADR 6](0006-sessions-live-in-a-cookie-jar.md)",
        "00000000-0000-0000-0000-000000000009", "cookie", "sessions", "5.1", "step 5",
    ],
)  # fmt: skip
def test_another_name_is_another_record(name: str) -> None:
    assert ask(f"This supersedes {name}.", **ADR).choice == "keep_both"


def test_a_bare_number_counts_only_within_the_series_of_the_newer_memory() -> None:
    assert ask("Replaces: 345", topic="PEP 426: More", older_topic="PEP 345: Less").choice == "supersede_older"
    assert ask("Replaces: 345", topic="RFC 426: More", older_topic="PEP 345: Less").choice == "keep_both"
    assert ask("Replaces: 345", topic="More of it", older_topic="PEP 345: Less").choice == "keep_both"


def test_two_memories_of_one_topic_are_told_apart_only_by_a_word_like_earlier() -> None:
    same = {"topic": "How sessions are stored", "older_topic": "How sessions are stored"}
    assert (
        ask("This replaces the earlier decision on how sessions are stored.", **same).choice == "supersede_older"
    )
    assert ask("How sessions are stored replaces nothing.", **same).choice == "keep_both"
    assert ask("This replaces how sessions are stored.", **same).choice == "keep_both"


def test_two_memories_of_one_record_do_not_replace_each_other_by_its_number() -> None:
    same = {"topic": "PEP 345: accepted", "older_topic": "PEP 345: drafted"}
    assert ask("PEP 345 replaces PEP 345.", **same).choice == "keep_both"
    assert ask("It replaces PEP 345.", **same).choice == "keep_both"


def test_a_short_title_names_nothing() -> None:
    assert ask("This replaces cookies.", topic="Tokens", older_topic="Cookies").choice == "keep_both"


def test_names_are_read_through_invisible_characters() -> None:
    assert ask("This re\u200bplaces PEP\u00ad 314.").choice == "supersede_older"
    assert ask("This does n\u200bot replace PEP 314.").choice == "keep_both"


def test_an_id_is_read_whatever_its_case() -> None:
    old = UUID("00000000-0000-0000-0000-00000000abcd")
    assert ask(f"This supersedes {str(old).upper()}.", older_memory_id=old).choice == "supersede_older"
