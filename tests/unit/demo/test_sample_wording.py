"""The wording of the sample: what a memory says, when it was said, and what it must not give away."""

import re
from dataclasses import replace

import pytest
from lethelog.ops.demo.documents import Document, oldest_first
from lethelog.ops.demo.mentions import Mention, plan
from lethelog.ops.demo.phrases import ALSO_NAMES, REPLACES, REPORTS, REQUIRES, RESEMBLES, UPDATES
from lethelog.ops.demo.sample import load_sample
from lethelog.ops.demo.wording import RememberedDocument, word, word_all

HTTP_NEW = Document(
    "RFC 2616", "RFC", 2616, "Hypertext Transfer Protocol -- HTTP/1.1", "Request for Comments", "1999-06"
)
METADATA = Document(
    "PEP 345", "PEP", 345, "Metadata for Python Software Packages 1.2", "Standards Track", "2005-04-28"
)


def pep(number: int, title: str, date: str, **links: tuple[str, ...]) -> Document:
    return Document(f"PEP {number}", "PEP", number, title, "Standards Track", date, **links)


def test_a_month_counts_as_its_first_day_and_numbers_order_what_shares_a_date():
    assert HTTP_NEW.occurred_at.isoformat() == "1999-06-01T00:43:36+00:00"
    neighbour = replace(HTTP_NEW, id="RFC 2617", number=2617)
    assert [document.id for document in oldest_first([neighbour, HTTP_NEW])] == ["RFC 2616", "RFC 2617"]


def test_a_day_stays_that_day():
    assert METADATA.occurred_at.date().isoformat() == "2005-04-28"


def test_the_same_document_is_always_worded_the_same_whatever_is_beside_it():
    mention = Mention("replaces", ("PEP 314",))
    assert word(METADATA, mention) == word(METADATA, mention)
    alone = word_all([pep(314, "Metadata 1.1", "2003-04-12"), replace(METADATA, replaces=("PEP 314",))])
    assert alone[1].content == word(METADATA, mention).content


def test_a_worded_document_names_title_kind_and_date():
    memory = word(METADATA, Mention("replaces", ("PEP 314",)))
    assert METADATA.title in memory.content
    assert "Standards Track" in memory.content
    assert "2005" in memory.content
    assert re.search(r"314", memory.content)
    assert memory.topic == "PEP 345 Metadata for Python Software Packages 1.2"
    assert (memory.memory_type, memory.key, memory.polarity) == ("decision", "PEP 345", "positive")


def test_a_title_too_long_for_a_topic_is_cut_there_and_whole_in_the_content():
    title = "Word " * 60 + "end"
    memory = word(replace(METADATA, title=title), Mention("none"))
    assert len(memory.topic) <= 256
    assert memory.topic.endswith("…")
    assert title in memory.content


def test_what_a_document_requires_is_named_and_left_standing():
    older, newer = pep(1, "First", "2001-01-01"), pep(2, "Second", "2002-01-01", requires=("PEP 1",))
    assert plan([newer, older])["PEP 2"] == Mention("requires", (), ("PEP 1",))


def test_a_later_document_cannot_have_been_replaced_at_its_date():
    early, late = pep(101, "Releases", "2001-08-22", replaces=("PEP 102",)), pep(102, "Minor", "2002-01-09")
    assert plan([early, late])["PEP 101"].replaced == ()


def test_a_document_outside_the_sample_is_not_named():
    assert plan([pep(2, "Second", "2002-01-01", replaces=("PEP 1",))])["PEP 2"] == Mention("none")


def test_a_document_already_replaced_is_not_said_to_stay_in_force():
    first = pep(1, "First", "2001-01-01")
    second = pep(2, "Second", "2002-01-01", replaces=("PEP 1",))
    third = pep(3, "Third", "2003-01-01", requires=("PEP 1",))
    assert plan([first, second, third])["PEP 3"].left_standing == ()


def test_a_document_may_replace_one_and_leave_another():
    documents = [
        pep(1, "One", "2001-01-01"),
        pep(2, "Two", "2001-01-02"),
        pep(3, "Three", "2001-01-03", replaces=("PEP 1",), requires=("PEP 2",)),
    ]
    memory = word_all(documents)[2]
    assert (memory.replaced, memory.left_standing, memory.polarity) == (("PEP 1",), ("PEP 2",), "positive")
    assert memory.wording.count("+") == 1


@pytest.mark.parametrize("phrase", [*REPLACES, *ALSO_NAMES, *UPDATES, *REQUIRES, *RESEMBLES, *REPORTS])
def test_phrases_have_names_of_their_own_and_name_the_documents(phrase):
    phrases = [*REPLACES, *ALSO_NAMES, *UPDATES, *REQUIRES, *RESEMBLES, *REPORTS]
    assert sum(other.name == phrase.name for other in phrases) == 1
    assert "{refs}" in phrase.text


def remembered() -> tuple[RememberedDocument, ...]:
    return load_sample().worded


def test_every_memory_keeps_the_limits_and_is_one_line():
    for memory in remembered():
        assert 1 <= len(memory.topic) <= 256 and memory.topic == memory.topic.strip()
        assert 1 <= len(memory.content) <= 2_000 and memory.content == memory.content.strip()
        assert "\n" not in memory.content + memory.topic and "\0" not in memory.content + memory.topic


def test_no_two_memories_share_an_instant_or_a_text_and_all_come_oldest_first():
    memories = remembered()
    instants = [memory.occurred_at for memory in memories]
    assert instants == sorted(instants) and len(set(instants)) == len(memories)
    assert len({memory.content for memory in memories}) == len(memories)


def test_a_memory_names_only_documents_that_were_remembered_before_it():
    known: set[str] = set()
    for memory in remembered():
        assert known.issuperset((*memory.replaced, *memory.left_standing))
        known.add(memory.key)


def test_every_named_document_stands_in_the_text_by_its_number():
    for memory in remembered():
        for target in (*memory.replaced, *memory.left_standing):
            assert re.search(rf"(?<!\d)0*{target.split()[1]}(?!\d)", memory.content), memory.content


def test_negatives_are_as_many_as_positives_in_each_series():
    for series in ("PEP", "RFC"):
        own = [memory for memory in remembered() if memory.key.startswith(series)]
        positives = sum(memory.polarity == "positive" for memory in own)
        assert positives == sum(memory.polarity == "negative" for memory in own) > 30


def test_at_least_twenty_five_wordings_of_each_kind_are_in_use():
    used = {
        polarity: {memory.wording.partition("+")[0] for memory in remembered() if memory.polarity == polarity}
        for polarity in ("positive", "negative")
    }
    assert len(used["positive"]) >= 25 and len(used["negative"]) >= 25


def test_no_negative_denies_what_the_older_document_says():
    sample = load_sample()
    for older, newer in sample.hard_negatives:
        assert newer not in sample.superseded_by.get(older, ())
        assert older not in sample.superseded_by.get(newer, ())
    assert not sample.hard_negatives & sample.claimed


def test_no_memory_says_what_became_of_it_or_what_came_after_it():
    sample = load_sample()
    dates = {document.id: document.occurred_at for document in sample.documents}
    titles = {document.id: document.title for document in sample.documents}
    for memory in remembered():
        text = memory.content.replace(titles[memory.key], "")
        assert not re.search(
            r"superseded by (?!it\b|PEP \d+\.|RFC \d+\.)|withdrawn|deferred|rejected|historic", text, re.I
        )
        for series, number in re.findall(r"\b(PEP|RFC) (\d+)\b", text):
            named = f"{series} {number}"
            assert named not in dates or dates[named] <= memory.occurred_at
