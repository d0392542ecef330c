"""Facts as rules: what may be said, in which window it holds, and how an accepted one is taken back."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from lethelog.domain import commands as c
from lethelog.domain import events as e
from lethelog.domain.errors import Conflict, Erased, InvalidInput
from lethelog.domain.fact import Fact, decide_facts, decide_undo, evolve_fact
from lethelog.domain.fields import parse

JANUARY, MARCH = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
SAID = {"subject": "Ada", "predicate": "lives in", "value": "Porto"}
MEMORY, FACT = UUID(int=1), UUID(int=2)


def fold(*events: e.Event) -> Fact:
    state = None
    for version, event in enumerate(events, 1):
        state = evolve_fact(state, event, stream=FACT, version=version, recorded_at=MARCH)
    assert state is not None
    return state


def asserted(**changed: Any) -> e.FactAsserted:
    said: dict[str, Any] = {"memory_id": MEMORY, **SAID, "valid_from": JANUARY, "proposal": UUID(int=3), **changed}
    return e.FactAsserted(**said)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"valid_to": MARCH}, "facts.0"),
        ({"valid_from": MARCH, "valid_to": JANUARY}, "facts.0"),
        ({"confidence": 1.0001}, "facts.0.confidence"),
        ({"confidence": -0.0001}, "facts.0.confidence"),
        ({"confidence": float("nan")}, "facts.0.confidence"),
        ({"subject": ""}, "facts.0.subject"),
        ({"subject": "s" * 257}, "facts.0.subject"),
        ({"predicate": "p" * 257}, "facts.0.predicate"),
        ({"value": "v" * 2_001}, "facts.0.value"),
        ({"valid_form": MARCH}, "facts.0.valid_form"),
    ],
)
def test_a_wrong_fact_is_refused_by_its_field(wrong: dict[str, Any], field: str):
    """validTo without validFrom → invalid; the limits of behaviour.md 1.3."""
    with pytest.raises(InvalidInput) as refused:
        parse(c.Remember, {"topic": "t", "content": "c", "facts": [SAID | wrong]})
    assert refused.value.field == field


def test_facts_at_their_bounds_are_taken_and_17_are_refused():
    most = {"subject": "s" * 256, "predicate": "p" * 256, "value": "v" * 2_000, "confidence": 1}
    taken = parse(c.Remember, {"topic": "t", "content": "c", "facts": [most] * 16})
    assert len(taken.facts) == 16
    with pytest.raises(InvalidInput) as refused:
        parse(c.Remember, {"topic": "t", "content": "c", "facts": [most] * 17})
    assert refused.value.field == "facts"


def test_a_fact_without_a_beginning_holds_since_its_memory_does():
    given = parse(c.Remember, {"topic": "t", "content": "c", "facts": [SAID, SAID | {"valid_from": MARCH}]})
    assert [one.valid_from for one in decide_facts(MEMORY, given.facts, JANUARY)] == [JANUARY, MARCH]


def test_the_window_of_a_fact_is_half_open():
    fact = fold(asserted(valid_to=MARCH))
    moment = timedelta(microseconds=1)
    held = [fact.holds_at(at) for at in (JANUARY - moment, JANUARY, MARCH - moment, MARCH)]
    assert held == [False, True, True, False]
    assert fold(asserted()).holds_at(MARCH + timedelta(days=9_999))


def test_an_accepted_fact_is_taken_back_once_and_put_back_once():
    effect, undo, second = uuid4(), uuid4(), uuid4()
    fact = fold(asserted())
    [undone] = decide_undo(fact, effect=effect, undo=undo, again=False)
    assert undone == e.FactEffectUndone(effect=effect, undo=undo, memory_id=MEMORY)
    gone = fold(asserted(), undone)
    assert gone.undone and decide_undo(gone, effect=effect, undo=second, again=False) == []
    assert decide_undo(fact, effect=effect, undo=second, again=True) == [], "nothing was undone"
    [back] = decide_undo(gone, effect=effect, undo=second, again=True)
    restored = fold(asserted(), undone, back)
    assert (restored.undone, restored.version, restored.value) == (False, 3, "Porto")


def test_a_fact_that_nobody_accepted_and_one_that_is_erased_are_not_taken_back():
    with pytest.raises(Conflict, match="came of no proposal"):
        decide_undo(fold(asserted(proposal=None)), effect=uuid4(), undo=uuid4(), again=False)
    with pytest.raises(Erased):
        erased = fold(asserted(subject=None, predicate=None, value=None))
        decide_undo(erased, effect=uuid4(), undo=uuid4(), again=False)


def test_a_stream_that_begins_with_an_undo_is_refused():
    with pytest.raises(ValueError, match="does not begin"):
        fold(e.FactEffectUndone(effect=uuid4(), undo=uuid4(), memory_id=MEMORY))
