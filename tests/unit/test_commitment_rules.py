"""The commitment's state machine, given/when/then."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args
from uuid import uuid4

import pytest
from lethelog.domain import commitment as rules
from lethelog.domain import events as e
from lethelog.domain.commitment import ALLOWED, Commitment, evolve_commitment
from lethelog.domain.errors import Conflict, InvalidTransition
from lethelog.domain.fields import CommitmentStatus

NOW = datetime(2026, 10, 15, tzinfo=UTC)
GRACE = timedelta(days=14)


def opened(**fields) -> Commitment:
    [event] = rules.decide_open(uuid4(), rules.Schedule(**fields))
    return evolve_commitment(None, event, stream=uuid4(), version=1, recorded_at=NOW)


def after(state: Commitment, *events: e.Event, at: datetime = NOW) -> Commitment:
    for event in events:
        state = evolve_commitment(state, event, stream=state.id, version=state.version + 1, recorded_at=at)
    return state


@pytest.mark.parametrize("was", get_args(CommitmentStatus))
@pytest.mark.parametrize("to", get_args(CommitmentStatus))
def test_a6_commitment_machine_table_in_1_5(was: CommitmentStatus, to: CommitmentStatus):
    """A6: resolved → waiting is an invalid transition; open → open succeeds without an event."""
    state = replace(opened(), status=was)
    if was == to:
        assert rules.decide_transition(state, to, "command") == []
    elif to in ALLOWED[was]:
        [event] = rules.decide_transition(state, to, "command")
        moved = after(state, event)
        assert (moved.status, moved.resolved_at) == (to, NOW if to == "resolved" else None)
    else:
        with pytest.raises(InvalidTransition) as refused:
            rules.decide_transition(state, to, "command")
        assert refused.value.code == "invalid_transition"


def test_the_machine_is_exactly_that_of_1_5():
    assert {
        "open": {"waiting", "resolved", "expired"},
        "waiting": {"open", "resolved", "expired"},
        "resolved": {"open"},
        "expired": {"open"},
    } == ALLOWED


@pytest.mark.parametrize(("late", "expires"), [(timedelta(0), False), (timedelta(seconds=1), True)])
def test_a20_a_commitment_expires_strictly_after_its_grace(late: timedelta, expires: bool):
    """A20: due 2026-10-01T00:00Z, grace 14 d; sweep at 2026-10-15T00:00Z and one second later: kept; expired."""
    state = opened(due_at=datetime(2026, 10, 1, tzinfo=UTC))
    events = rules.decide_expiry(state, NOW + late, GRACE)
    assert bool(events) is expires
    if expires:
        [event] = events
        assert isinstance(event, e.CommitmentTransitioned)
        assert (event.cause, event.policy) == ("expiry", "commitment_expiry: due_at < now - 14 d")


def test_a_grace_of_zero_expires_at_once():
    state = opened(due_at=NOW)
    assert rules.decide_expiry(state, NOW, timedelta(0)) == []
    assert rules.decide_expiry(state, NOW + timedelta(microseconds=1), timedelta(0)) != []


def test_what_somebody_revived_does_not_expire_again_until_it_has_another_due_date():
    state = opened(due_at=NOW - timedelta(days=20))
    expired = after(state, *rules.decide_expiry(state, NOW, GRACE))
    revived = after(expired, *rules.decide_transition(expired, "open", "command"))
    assert revived.status == "open" and rules.decide_expiry(revived, NOW, GRACE) == []
    later = after(revived, *rules.decide_schedule(revived, rules.Schedule(due_at=NOW + timedelta(days=1))))
    assert rules.decide_expiry(later, NOW + timedelta(days=15), GRACE) == []
    assert rules.decide_expiry(later, NOW + timedelta(days=15, seconds=1), GRACE) != []


def test_only_a_passed_time_to_bring_it_up_is_cleared_and_everything_else_stays():
    owner = uuid4()
    state = opened(owner=owner, next_surfacing_at=NOW, recurrence="FREQ=DAILY")
    assert rules.decide_surfaced(state, NOW) == []
    cleared = after(state, *rules.decide_surfaced(state, NOW + timedelta(seconds=1)))
    assert (cleared.next_surfacing_at, cleared.owner, cleared.recurrence) == (None, owner, "FREQ=DAILY")
    done = after(state, *rules.decide_transition(state, "resolved", "command"))
    assert rules.decide_surfaced(done, NOW + timedelta(days=1)) == []


@pytest.mark.parametrize("to", ["expired", "resolved"])
def test_an_effect_is_undone_and_that_again_and_each_gives_back_what_was(to: CommitmentStatus):
    waiting = after(opened(due_at=NOW), *rules.decide_transition(opened(), "waiting", "command"))
    [event] = rules.decide_transition(waiting, to, "proposal", proposal=uuid4())
    moved, effect = after(waiting, event), uuid4()
    undone = after(moved, *rules.decide_undo(moved, event, version=moved.version, effect=effect, undo=uuid4()))
    assert (undone.status, undone.resolved_at) == ("waiting", None)
    with pytest.raises(Conflict) as refused:
        rules.decide_undo(undone, event, version=moved.version, effect=effect, undo=uuid4())
    assert refused.value.details["reason"] == "later_history"
    again = after(
        undone,
        *rules.decide_undo(undone, event, version=moved.version, effect=effect, undo=uuid4(), again=True),
    )
    assert again.status == to
    assert rules.decide_undo(again, event, version=moved.version, effect=effect, undo=uuid4()) != []


def test_an_effect_stays_where_later_history_stands_on_it():
    state = opened()
    [event] = rules.decide_transition(state, "expired", "expiry", policy="p")
    moved = after(state, event)
    revived = after(moved, *rules.decide_transition(moved, "open", "command"))
    with pytest.raises(Conflict) as refused:
        rules.decide_undo(revived, event, version=moved.version, effect=uuid4(), undo=uuid4())
    assert refused.value.details["reason"] == "later_history"
    with pytest.raises(Conflict) as never:
        rules.decide_undo(moved, event, version=moved.version, effect=uuid4(), undo=uuid4(), again=True)
    assert never.value.details["reason"] == "not_undone"


def test_a_carried_commitment_goes_back_to_the_memory_it_came_from():
    state, successor = opened(), uuid4()
    [event] = rules.decide_carry(state, successor, uuid4())
    carried = after(state, event)
    assert carried.memory_id == successor and rules.is_effect(event)
    undone = after(
        carried, *rules.decide_undo(carried, event, version=carried.version, effect=uuid4(), undo=uuid4())
    )
    assert undone.memory_id == state.memory_id


def test_only_what_came_of_a_proposal_or_a_policy_is_an_effect():
    state = opened()
    causes = ("command", "revise", "expiry", "closer", "proposal")
    found = {one: rules.is_effect(rules.decide_transition(state, "resolved", one)[0]) for one in causes}
    assert found == {"command": False, "revise": False, "expiry": True, "closer": True, "proposal": True}
    assert not rules.is_effect(rules.decide_carry(state, uuid4())[0])
