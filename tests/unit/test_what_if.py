"""Replaying recorded questions: the very record comes out where nothing is different, and a slot is held once."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from lethelog.domain.whatif import Asked, Said, precision, recorded, replay

START = datetime(2026, 3, 1, tzinfo=UTC)
A, B = UUID(int=1), UUID(int=2)


def asked(number, probability, *, memory=None, action="archive", decision=None, staged=True, closed=None) -> Asked:
    return Asked(
        pass_id=UUID(int=100 + number),
        ref="s0",
        at=START + timedelta(hours=number),
        said=Said(action, memory or UUID(int=number), None, probability),
        staged=staged,
        decision=decision,
        closed_at=closed,
    )


def above(threshold):
    return lambda _asked, said: said.probability >= threshold


def said(questions):
    return [(one, one.said) for one in questions]


def test_a_lower_threshold_lets_more_appear_that_nobody_decided():
    questions = [asked(1, 0.9, decision="accepted"), asked(2, 0.7, staged=False)]
    would = replay(said(questions), above(0.6))
    assert [(one.real, one.decision) for one in would] == [(True, "accepted"), (False, None)]
    archive = precision(would)[0]
    assert (archive.action, archive.proposed, archive.decided, archive.accepted) == ("archive", 2, 1, 1)


def test_what_is_said_otherwise_has_no_decision_and_keep_proposes_nothing():
    question = asked(1, 0.9, decision="accepted")
    other = Said("supersede", question.said.memory_id, B, 0.9)
    [would] = replay([(question, other)], above(0.5))
    assert (would.real, would.decision) == (False, None)
    assert replay([(question, Said("keep", A, None, 1.0))], above(0.0)) == []


def test_a_question_waits_behind_one_that_would_still_be_open():
    """F32: one open proposal about a memory and an action."""
    first = asked(1, 0.9, memory=A, decision="rejected", closed=START + timedelta(hours=5))
    second = asked(2, 0.95, memory=A, staged=False)
    third = asked(6, 0.95, memory=A)
    assert [one.asked for one in replay(said([third, second, first]), above(0.85))] == [first, third]
    # Without the first, the second is in the queue, and stays there: nobody decided it.
    assert [one.asked for one in replay(said([third, second, first]), above(0.92))] == [second]


@settings(derandomize=True, deadline=None, database=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.floats(0, 1), st.sampled_from(["archive", "conflict", "keep"]))))
def test_a_higher_threshold_never_proposes_a_question_about_a_new_memory(rows):
    questions = [
        asked(n, p, memory=UUID(int=memory), action=action, staged=False)
        for n, (memory, p, action) in enumerate(rows)
    ]

    def slots(threshold):
        return {(one.said.memory_id, one.said.action) for one in replay(said(questions), above(threshold))}

    assert slots(0.8) <= slots(0.5)
    assert all(action != "keep" for _, action in slots(0.0))
    would = replay(said(questions), above(0.5))
    assert len({(one.said.memory_id, one.said.action) for one in would}) == len(would)


def test_the_record_is_what_was_staged():
    questions = [asked(1, 0.9), asked(2, 0.9, staged=False)]
    assert [one.asked for one in recorded(questions)] == questions[:1]
