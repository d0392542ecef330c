"""The rules of one erasure, without a database: given these events, when this is asked, then these follow."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lethelog.domain import erasure as rules
from lethelog.domain import events as e
from lethelog.domain.erasure import Erasure, evolve_erasure
from lethelog.domain.errors import Conflict, InvalidInput
from lethelog.projections.erasing import Gone

ONE, MEMORY, OTHER, NAME = (UUID(int=n) for n in range(1, 5))
T0 = datetime(2026, 3, 1, 9, tzinfo=UTC)
PREVIEWED = e.ErasurePreviewed(kind="memory", target=MEMORY, derived="list", memories=1, places={"claims": 1})
REQUESTED = e.ErasureRequested(reason="never_true", re_entry="none")
PERFORMED = e.ErasurePerformed(memories=(MEMORY,), names=(NAME,), because="request", places={"claims": 1})
INCOMPLETE = e.ErasureIncomplete(places={"claims": "still_there"})
ACKNOWLEDGED = e.ErasureAcknowledged(consumer="search")
CHECKED = e.CheckedPlace(place="claims", before=1, found=0, control="found_before")
VERIFIED = e.ErasureVerified(places=(CHECKED,), checked_at=7, looked_at=T0, certificate="00" * 32)


def at(version: int) -> datetime:
    return T0 + timedelta(minutes=version)


def given_events(*events: e.Event) -> Erasure:
    state: Erasure | None = None
    for version, event in enumerate((PREVIEWED, *events), 1):
        state = evolve_erasure(state, event, stream=ONE, version=version, recorded_at=at(version))
    assert state is not None
    return state


@pytest.mark.parametrize(
    ("events", "phase", "is_open"),
    [
        ((), "previewed", False),
        ((REQUESTED,), "requested", True),
        ((REQUESTED, PERFORMED), "performed", True),
        ((REQUESTED, PERFORMED, INCOMPLETE), "incomplete", True),
        ((REQUESTED, PERFORMED, INCOMPLETE, VERIFIED), "verified", False),
        ((REQUESTED, PERFORMED, VERIFIED, PERFORMED), "performed", True),
        ((REQUESTED, PERFORMED, VERIFIED, ACKNOWLEDGED), "verified", False),
        ((REQUESTED, PERFORMED, INCOMPLETE, ACKNOWLEDGED), "incomplete", True),
    ],
)
def test_there_is_something_to_carry_on_from_when_it_is_asked_for_until_it_is_verified(events, phase, is_open):
    state = given_events(*events)
    assert (state.phase, state.open, state.version) == (phase, is_open, 1 + len(events))


def test_a_state_says_what_each_event_said_and_when():
    state = given_events(REQUESTED, PERFORMED, ACKNOWLEDGED, VERIFIED)
    assert (state.previewed, state.previewed_at) == (PREVIEWED, at(1))
    assert (state.requested, state.requested_at) == (REQUESTED, at(2))
    assert (state.performed, state.performed_at) == (PERFORMED, at(3))
    assert (state.memories, state.names, state.times_performed) == ((MEMORY,), (NAME,), 1)
    assert state.acknowledged == (("search", at(4)),)
    assert (state.verified, state.verified_at, state.remaining) == (VERIFIED, at(5), ())


def test_portions_of_one_commit_add_up_and_the_last_one_counts():
    first = e.ErasurePerformed(memories=(MEMORY,), because="request", final=False)
    last = e.ErasurePerformed(memories=(OTHER, MEMORY), names=(NAME,), because="request", places={"claims": 2})
    state = given_events(REQUESTED, first, last)
    assert (state.memories, state.names) == ((MEMORY, OTHER), (NAME,))
    assert (state.performed, state.times_performed) == (last, 1)


def test_what_is_counted_of_an_erasure_of_many_portions_grows_with_its_memories_and_not_faster(monkeypatch):
    hashed, hash_of = 0, UUID.__hash__

    def counted(one: UUID) -> int:
        nonlocal hashed
        hashed += 1
        return hash_of(one)

    ids = [UUID(int=n) for n in range(2_000)]
    portions = [
        e.ErasurePerformed(memories=tuple(ids[start : start + 20]), because="request", final=start == 1_980)
        for start in range(0, 2_000, 20)
    ]
    monkeypatch.setattr(UUID, "__hash__", counted)
    state = given_events(REQUESTED, *portions)
    assert state.memories == tuple(ids)
    assert hashed <= 2 * len(ids)


def test_the_ids_of_what_goes_are_written_out_once_however_many_places_are_looked_at(monkeypatch):
    gone = Gone(ONE, [UUID(int=n) for n in range(50)])
    written, text_of = 0, UUID.__str__

    def counted(one: UUID) -> str:
        nonlocal written
        written += 1
        return text_of(one)

    monkeypatch.setattr(UUID, "__str__", counted)
    assert [gone.values["texts"][-1] for _place in range(20)] == [text_of(UUID(int=49))] * 20
    assert written == 50


def test_one_that_is_done_again_is_looked_at_again_and_what_remained_is_forgotten():
    again = replace_because(PERFORMED, "ledger")
    state = given_events(REQUESTED, PERFORMED, INCOMPLETE, again)
    assert (state.phase, state.remaining, state.times_performed) == ("performed", (), 2)
    assert state.performed == again and state.memories == (MEMORY,)


def replace_because(event: e.ErasurePerformed, because: str) -> e.ErasurePerformed:
    return event.model_copy(update={"because": because})


def test_a_stream_that_begins_with_anything_else_is_refused():
    with pytest.raises(ValueError, match=r"erasure\.previewed"):
        evolve_erasure(None, REQUESTED, stream=ONE, version=1, recorded_at=T0)


def test_an_event_of_another_kind_moves_nothing_but_the_version():
    before = given_events(REQUESTED)
    after = evolve_erasure(before, e.MemoryPinned(), stream=ONE, version=3, recorded_at=at(3))
    assert after == replace(before, version=3)


def test_what_was_previewed_is_asked_for_once_and_the_same_again_changes_nothing():
    assert rules.decide_request(given_events(), "never_true", "none") == [REQUESTED]
    for events in ((REQUESTED,), (REQUESTED, PERFORMED), (REQUESTED, PERFORMED, VERIFIED)):
        assert rules.decide_request(given_events(*events), "never_true", "none") == []


@pytest.mark.parametrize(("reason", "re_entry"), [("other", "none"), ("never_true", "block")])
def test_asking_for_it_otherwise_than_before_is_refused(reason, re_entry):
    with pytest.raises(Conflict, match="never_true"):
        rules.decide_request(given_events(REQUESTED), reason, re_entry)


@pytest.mark.parametrize("reason", ["", "Ada", "ada asked", "1st", "_x", "ä", "a" * 41, "a\n", "a-b"])
def test_a_reason_that_is_no_code_is_refused_and_not_repeated(reason):
    with pytest.raises(InvalidInput) as refused:
        rules.decide_request(given_events(), reason, "none")
    assert refused.value.details["field"] == "reason"
    assert not reason.strip() or f" {reason} " not in refused.value.message


@pytest.mark.parametrize("reason", ["a", "a" * 40, "data_subject_request", "r2"])
def test_a_reason_that_is_a_code_is_taken(reason):
    assert rules.decide_request(given_events(), reason, "block") == [
        e.ErasureRequested(reason=reason, re_entry="block")
    ]


def test_what_remains_is_said_once():
    done = given_events(REQUESTED, PERFORMED)
    assert rules.decide_incomplete(done, {"claims": "still_there"}) == [INCOMPLETE]
    said = given_events(REQUESTED, PERFORMED, INCOMPLETE)
    assert rules.decide_incomplete(said, {"claims": "still_there"}) == []
    more = {"claims": "still_there", "processes": "still_there"}
    assert rules.decide_incomplete(said, more) == [e.ErasureIncomplete(places=more)]
    again = given_events(REQUESTED, PERFORMED, INCOMPLETE, PERFORMED)
    assert rules.decide_incomplete(again, {"claims": "still_there"}) == [INCOMPLETE]


def test_a_subscriber_acknowledges_once_and_not_before_anything_was_erased():
    for events in ((), (REQUESTED,)):
        with pytest.raises(Conflict, match="nothing was erased"):
            rules.decide_acknowledge(given_events(*events), "search")
    done = given_events(REQUESTED, PERFORMED)
    assert rules.decide_acknowledge(done, "search") == [ACKNOWLEDGED]
    said = given_events(REQUESTED, PERFORMED, ACKNOWLEDGED)
    assert rules.decide_acknowledge(said, "search") == []
    assert rules.decide_acknowledge(said, "graph") == [e.ErasureAcknowledged(consumer="graph")]


ASKED: list[Callable[[Erasure], list[e.Event]]] = [
    lambda state: rules.decide_request(state, "never_true", "none"),
    lambda state: rules.decide_incomplete(state, {"claims": "still_there"}),
    lambda state: rules.decide_acknowledge(state, "search"),
    lambda _: [PERFORMED],
    lambda _: [VERIFIED],
]


@settings(derandomize=True, deadline=None, database=None)
@given(st.lists(st.sampled_from(ASKED), max_size=12))
def test_whatever_happened_what_was_asked_and_erased_is_never_taken_back(asked: list[Any]):
    state = given_events()
    for ask in asked:
        if ask in ASKED[3:] and state.requested is None:
            continue
        try:
            events = ask(state)
        except Conflict:
            continue
        before = state
        for event in events:
            state = evolve_erasure(
                state, event, stream=ONE, version=state.version + 1, recorded_at=at(state.version)
            )
        assert before.requested is None or state.requested == before.requested
        assert set(before.memories) <= set(state.memories)
        assert set(before.acknowledged) <= set(state.acknowledged)
        assert state.times_performed >= before.times_performed
        assert state.phase != "previewed" or state.requested is None
