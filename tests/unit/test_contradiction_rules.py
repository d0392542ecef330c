"""The contradiction aggregate (behaviour.md 4.4; D12)."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from lethelog.domain import events as e
from lethelog.domain.contradiction import (
    contradiction_id,
    decide_dismiss,
    decide_undo_resolution,
    evolve_contradiction,
    refuse_if_resolved,
)
from lethelog.domain.errors import Conflict

ONE, OTHER, STREAM, UNDO, EFFECT = (UUID(int=n) for n in range(1, 6))
AT = datetime(2026, 3, 1, tzinfo=UTC)
PAIR = {"memory_id": ONE, "related_id": OTHER}
FLAGGED = e.ContradictionFlagged(**PAIR, found_by="verdict", source=UUID(int=9))
RESOLVED = e.ContradictionResolved(**PAIR, outcome="one", holds=ONE, replaces=OTHER)


def state_of(*events: e.Event):
    state = None
    for version, event in enumerate(events, 1):
        state = evolve_contradiction(state, event, stream=STREAM, version=version, recorded_at=AT)
    assert state is not None
    return state


def test_a_pair_has_one_id_whichever_is_named_first():
    assert contradiction_id(ONE, OTHER) == contradiction_id(OTHER, ONE)
    assert contradiction_id(ONE, OTHER) != contradiction_id(ONE, UNDO)


def test_a_decision_is_final_until_it_is_undone_and_can_be_undone_and_redone():
    decided = state_of(FLAGGED, RESOLVED)
    assert (decided.status, decided.holds) == ("resolved", ONE)
    with pytest.raises(Conflict):
        refuse_if_resolved(decided)
    assert decide_dismiss(decided, UNDO) == []
    undone = decide_undo_resolution(decided, RESOLVED, effect_id=EFFECT, undo=UNDO, again=False)
    reopened = state_of(FLAGGED, RESOLVED, undone)
    assert (reopened.status, reopened.outcome, reopened.holds) == ("open", None, None)
    refuse_if_resolved(reopened)
    redone = decide_undo_resolution(reopened, RESOLVED, effect_id=EFFECT, undo=UNDO, again=True)
    again = state_of(FLAGGED, RESOLVED, undone, redone)
    assert (again.status, again.outcome, again.holds, again.replaces) == ("resolved", "one", ONE, OTHER)


def test_an_undo_of_what_was_decided_anew_is_refused():
    undone = decide_undo_resolution(
        state_of(FLAGGED, RESOLVED), RESOLVED, effect_id=EFFECT, undo=UNDO, again=False
    )
    with pytest.raises(Conflict):
        decide_undo_resolution(
            state_of(FLAGGED, RESOLVED, undone), RESOLVED, effect_id=EFFECT, undo=UNDO, again=False
        )
    with pytest.raises(Conflict):
        decide_undo_resolution(state_of(FLAGGED, RESOLVED), RESOLVED, effect_id=EFFECT, undo=UNDO, again=True)
