"""The rules of one memory, without a database: what follows from a command, and what an event changes.

behaviour.md 1.1, 1.8, 1.9; settlements 3, 4, 5, 10, 16. Sentences read: given these events, when this is asked,
then these events follow (or it is refused).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lethelog.domain import commands as c
from lethelog.domain import events as e
from lethelog.domain.errors import Conflict, InvalidInput
from lethelog.domain.fields import parse
from lethelog.domain.memory import Memory, Owners, evolve
from lethelog.domain.memory_rules import (
    CLOCK_SKEW,
    Resolved,
    check_version,
    decide,
    decide_archive,
    decide_move,
    decide_prolong,
    decide_remember,
    decide_revise,
    decide_supersede,
    decide_suppress,
)

SAMPLES = Path(__file__).parent / "event_samples"
REPEATABLE = settings(derandomize=True, deadline=None, database=None)
ONE, OTHER, THIRD, PLAN, ADA = (UUID(int=n) for n in range(1, 6))


def fold(events, stream: UUID) -> Memory | None:
    """The state that (event, version, recorded_at) lead to, in order."""
    state: Memory | None = None
    for event, version, recorded_at in events:
        state = evolve(state, event, stream=stream, version=version, recorded_at=recorded_at)
    return state


T0 = datetime(2026, 3, 1, 9, tzinfo=UTC)


def remembered(**fields: Any) -> e.MemoryRemembered:
    said: dict[str, Any] = {
        "memory_type": "decision",
        "scope": "personal",
        "topic": "deploys",
        "content": "Deploys go to Hetzner",
        "tags": ("infra",),
        "producer": "user",
        "trust": "user",
        "occurred_at": T0,
    }
    return e.MemoryRemembered(**(said | fields))


ARCHIVED = e.MemoryArchived(reason="old")
SUPPRESSED = e.MemorySuppressed(plan_id=PLAN, approver=ADA, reason="plan")
REFUTED = e.MemoryRefuted(reason="never")
QUARANTINED = e.MemoryQuarantined(refuted_memory=OTHER)
SUPERSEDED = e.MemorySuperseded(successor=OTHER, edge="supersedes")
REMEMBERED = remembered()
NOTHING_RESOLVED = Resolved()


@dataclass(frozen=True)
class Sentence:
    """Given these events …"""

    events: tuple[e.Event, ...]

    @property
    def state(self) -> Memory:
        state = fold(((event, n, T0 + timedelta(minutes=n)) for n, event in enumerate(self.events, 1)), ONE)
        assert state is not None
        return state

    def when(self, asked: Callable[[Memory], list[e.Event]]) -> "Outcome":
        try:
            return Outcome(asked(self.state), None)
        except Conflict as refused:
            return Outcome([], refused)


@dataclass(frozen=True)
class Outcome:
    events: list[e.Event]
    refused: Conflict | None

    def then(self, *events: e.Event) -> None:
        assert self.refused is None and self.events == list(events)

    def then_nothing(self) -> None:
        assert self.refused is None and self.events == []

    def then_refused(self, *words: str) -> None:
        assert self.refused is not None, f"not refused: {self.events}"
        assert all(word in self.refused.message for word in words), self.refused.message


def given_events(*events: e.Event) -> Sentence:
    return Sentence((REMEMBERED, *events))


def asks(command: type[c.Input], **fields: Any) -> Callable[[Memory], list[e.Event]]:
    """The command as a function of the state it is asked of."""
    parsed = parse(command, {"memory_id": ONE, **fields})

    def asked(state: Memory) -> list[e.Event]:
        if isinstance(parsed, c.Suppress):
            check_version(state, parsed.expected_version)
            return decide_suppress(state, plan_id=parsed.plan_id, approver=ADA, reason=parsed.reason)
        if isinstance(parsed, c.Move):
            return decide_move(state, parsed, OTHER if parsed.project else None)
        if isinstance(parsed, c.Prolong):
            return decide_prolong(state, parsed, T0)
        if isinstance(parsed, c.Revise):
            successor, before = revised(state, parsed)
            return [*successor, *before]
        return decide(state, parsed)  # type: ignore[arg-type]

    return asked


def revised(
    state: Memory, command: c.Revise, resolved: Resolved = NOTHING_RESOLVED, **more: Any
) -> tuple[list[e.Event], list[e.Event]]:
    said: dict[str, Any] = {"successor_id": OTHER, "producer": "agent", "trust": "agent"}
    return decide_revise(state, command, resolved, T0 + timedelta(days=1), **(said | more))


ASKED: dict[str, tuple[type[c.Input], dict[str, Any]]] = {
    "archive": (c.Archive, {}),
    "prolong": (c.Prolong, {"expires_at": (T0 + timedelta(hours=2)).isoformat()}),
    "restore": (c.Restore, {}),
    "refute": (c.Refute, {}),
    "reaffirm": (c.Reaffirm, {}),
    "pin": (c.Pin, {}),
    "unpin": (c.Pin, {"pinned": False}),
    "verify": (c.Verify, {}),
    "release": (c.Release, {"reason": "it is so"}),
    "suppress": (c.Suppress, {"plan_id": PLAN, "approver": "ada", "reason": "plan"}),
    "revise": (c.Revise, {"content": "Deploys go to Fly.io"}),
    "move": (c.Move, {"scope": "work"}),
}
EVERY = {name: asks(command, **fields) for name, (command, fields) in ASKED.items()}
ARCHIVE, RESTORE, REFUTE, REAFFIRM, MOVE = (EVERY[n] for n in ("archive", "restore", "refute", "reaffirm", "move"))
RELEASE, SUPPRESS, REVISE = (EVERY[n] for n in ("release", "suppress", "revise"))
SETTLING = [name for name in EVERY if name not in ("reaffirm", "revise")]
"""Commands that bring a memory into a state, so that a second one finds it there."""

# --- sentences of behaviour.md 1.8 -----------------------------------------------------------------------------


def test_revising_writes_a_successor_and_closes_the_predecessor_together():
    state = given_events().state
    of_successor, of_predecessor = revised(
        state, parse(c.Revise, {"memory_id": ONE, "content": "Deploys go to Fly.io", "edge": "updates"})
    )
    [successor] = of_successor
    assert isinstance(successor, e.MemoryRemembered)
    assert (successor.predecessor, successor.edge, successor.content) == (ONE, "updates", "Deploys go to Fly.io")
    said_at = T0 + timedelta(days=1)
    assert of_predecessor == [e.MemorySuperseded(successor=OTHER, edge="updates", held_until=said_at)]


def test_a_topic_that_was_taken_from_the_text_is_taken_from_the_new_one():
    state = Sentence((remembered(content="Deploys go to Fly.io", topic="Deploys go to Fly.io"),)).state
    [successor], _ = revised(
        state, parse(c.Revise, {"memory_id": ONE, "content": "Deploys go to Hetzner\nsince May"})
    )
    assert isinstance(successor, e.MemoryRemembered) and successor.topic == "Deploys go to Hetzner"


def test_a_successor_inherits_filing_owners_and_topic_and_takes_what_is_given():
    owners = {"user": ADA, "agent": PLAN, "run": ONE, "session": OTHER, "subject": THIRD}
    state = Sentence((remembered(project=THIRD, metadata={"k": 1}, core=True, pinned=True, **owners),)).state
    [inherited], _ = revised(state, parse(c.Revise, {"memory_id": ONE, "content": "x"}))
    assert isinstance(inherited, e.MemoryRemembered)
    for name in ("memory_type", "scope", "project", "topic", "tags", "metadata", "core", "pinned"):
        assert getattr(inherited, name) == getattr(state, name)
    assert {name: getattr(inherited, name) for name in owners} == owners
    command = {"content": "x", "topic": "new", "tags": [], "metadata": {}, "memory_type": "fact", "scope": "work"}
    [given_anew], _ = revised(
        state,
        parse(c.Revise, {"memory_id": ONE, "project": "other", **command}),
        Resolved(PLAN, Owners(user=OTHER)),
    )
    assert isinstance(given_anew, e.MemoryRemembered)
    assert (given_anew.topic, given_anew.tags, given_anew.metadata) == ("new", (), None)
    assert (given_anew.memory_type, given_anew.scope, given_anew.project) == ("fact", "work", PLAN)
    assert (given_anew.user, given_anew.agent) == (OTHER, PLAN)


def test_a_successor_begins_its_own_validity_and_freshness():
    until = T0 + timedelta(days=9)
    state = Sentence((remembered(expires_at=until, valid_to=until, valid_from=T0, derived_from=(THIRD,)),)).state
    [successor], _ = revised(state, parse(c.Revise, {"memory_id": ONE, "content": "x"}))
    assert isinstance(successor, e.MemoryRemembered)
    assert (successor.expires_at, successor.valid_from, successor.valid_to, successor.derived_from) == (
        None,
        None,
        None,
        (),
    )
    assert successor.occurred_at == T0 + timedelta(days=1)
    assert fold([(successor, 1, T0)], OTHER).fresh_at == successor.occurred_at  # type: ignore[union-attr]


# --- what was true when ------------------------------------------------------------------------------------------

DAY = timedelta(days=1)
MOMENT = timedelta(microseconds=1)


def held_on(state: Memory, first: int = -3, last: int = 9) -> list[int]:
    """The days, counted from T0, on which a memory held."""
    return [day for day in range(first, last) if state.held(T0 + day * DAY)]


@pytest.mark.parametrize(
    ("said", "days"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ({"valid_from": T0 + 2 * DAY}, [2, 3, 4, 5, 6, 7, 8]),
        ({"valid_from": T0 - 2 * DAY, "valid_to": T0 + DAY}, [-2, -1, 0]),
        ({"valid_to": T0 + 2 * DAY}, [0, 1]),
        ({"valid_from": T0, "valid_to": T0}, []),
    ],
)
def test_a_memory_holds_from_its_beginning_and_no_more_at_its_end(said, days):
    state = Sentence((remembered(**said),)).state
    assert held_on(state) == days
    if days:
        assert not state.held(state.begins - MOMENT) and state.held(state.begins)


@pytest.mark.parametrize(
    ("said", "later", "days"),
    [
        ({}, {}, [0]),
        ({}, {"occurred_at": T0 + DAY / 2, "valid_from": T0 + 3 * DAY}, [0, 1, 2]),
        ({"valid_from": T0 + 2 * DAY}, {}, []),
        ({"valid_to": T0 + 6 * DAY}, {"valid_from": T0 + 3 * DAY}, [0, 1, 2]),
        ({"valid_to": T0 + 2 * DAY}, {"valid_from": T0 + 3 * DAY}, [0, 1]),
    ],
)
def test_a_superseded_memory_held_until_its_successor_begins(said, later, days):
    state = Sentence((remembered(**said),)).state
    _, [superseded] = revised(state, parse(c.Revise, {"memory_id": ONE, "content": "x", **later}))
    assert held_on(Sentence((remembered(**said), superseded)).state) == days


def test_f20_the_older_side_of_an_accepted_proposal_held_until_the_newer_one_was_said():
    arrived_late = given_events().state._replace(recorded_at=T0 + 9 * DAY)
    newer = given_events().state._replace(id=OTHER, occurred_at=T0 + 4 * DAY)
    [superseded] = decide_supersede(arrived_late, newer, PLAN)
    assert held_on(given_events(superseded).state) == [0, 1, 2, 3]


def test_a_supersession_that_does_not_say_until_when_counts_from_its_recording():
    """Schema 1."""
    state = given_events(SUPERSEDED).state
    assert state.held_until == T0 + timedelta(minutes=2)
    early = Sentence((remembered(valid_from=T0 + DAY), SUPERSEDED)).state
    assert early.held_until == early.begins and held_on(early) == []


@pytest.mark.parametrize("command", [c.Remember, c.Revise])
def test_an_end_before_the_beginning_is_refused(command):
    fields: dict[str, Any] = {"content": "x", "valid_to": T0 - DAY}
    fields |= {"memory_id": ONE} if command is c.Revise else {"topic": "t"}

    def decided(**more: Any) -> e.Event:
        asked = parse(command, fields | more)
        if isinstance(asked, c.Revise):
            return revised(given_events().state, asked)[0][0]
        return decide_remember(asked, NOTHING_RESOLVED, T0, producer="user", trust="user")[0]

    with pytest.raises(InvalidInput) as refused:
        decided()
    assert refused.value.field == "valid_to"
    for said in ({"valid_from": T0 - 2 * DAY}, {"occurred_at": T0 - 2 * DAY}):
        event = decided(**said)
        assert isinstance(event, e.MemoryRemembered) and event.valid_to == T0 - DAY


def test_a3_a_superseded_memory_is_not_revised_and_the_answer_names_its_successor():
    outcome = given_events(SUPERSEDED).when(REVISE)
    outcome.then_refused("superseded", str(OTHER))
    assert outcome.refused is not None and outcome.refused.details["successor"] == OTHER


def test_an_archived_memory_may_be_revised_and_is_superseded_then():
    outcome = given_events(ARCHIVED).when(REVISE)
    assert outcome.events[-1] == SUPERSEDED.model_copy(update={"held_until": T0 + timedelta(days=1)})
    assert given_events(ARCHIVED, SUPERSEDED).state.status(T0) == "superseded"


@pytest.mark.parametrize("ending", [SUPPRESSED, REFUTED, QUARANTINED])
def test_what_a_plan_hid_was_never_true_or_waits_for_a_person_is_not_revised(ending):
    given_events(ending).when(REVISE).then_refused("cannot be revised")


def test_a_memory_is_not_revised_into_a_refuted_text():
    state = given_events().state
    command = parse(c.Revise, {"memory_id": ONE, "content": "x"})
    with pytest.raises(Conflict, match="refuted"):
        revised(state, command, refuted_memory=THIRD)


def test_moving_changes_the_filing_and_says_what_it_was():
    given_events().when(asks(c.Move, scope="work", tags=["new"])).then(
        e.MemoryMoved(scope="work", scope_before="personal", tags=("new",), tags_before=("infra",))
    )


def test_moving_to_where_a_memory_is_writes_nothing():
    given_events().when(asks(c.Move, scope="personal", tags=["infra"])).then_nothing()
    given_events().when(asks(c.Move, no_project=True)).then_nothing()
    Sentence((remembered(project=OTHER),)).when(asks(c.Move, project="same")).then_nothing()


@pytest.mark.parametrize("ending", [SUPERSEDED, ARCHIVED, SUPPRESSED, REFUTED, QUARANTINED])
def test_a_memory_of_any_status_may_be_moved(ending):
    assert [type(event) for event in given_events(ending).when(MOVE).events] == [e.MemoryMoved]


def test_moving_touches_filing_freshness_and_state_version_and_nothing_else():
    before = Sentence((remembered(expires_at=T0 + timedelta(days=9), project=OTHER),)).state
    [event] = decide_move(before, parse(c.Move, {"memory_id": ONE, "scope": "work", "no_project": True}), None)
    at = T0 + timedelta(days=2)
    after = evolve(before, event, stream=ONE, version=2, recorded_at=at)
    assert after == before._replace(
        version=2, state_version=2, scope="work", project=None, fresh_at=at, changed_at=at
    )


def test_a_memory_that_expires_is_prolonged_and_never_cut_short():
    until = T0 + timedelta(hours=2)
    prolong = asks(c.Prolong, expires_at=until.isoformat())
    ends = Sentence((remembered(expires_at=T0 + timedelta(hours=1)),))
    ends.when(prolong).then(e.MemoryProlonged(expires_at=until))
    before, after = ends.state, Sentence((*ends.events, e.MemoryProlonged(expires_at=until))).state
    assert after == before._replace(version=2, expires_at=until, changed_at=after.changed_at)
    Sentence((remembered(expires_at=until),)).when(prolong).then_nothing()
    Sentence((remembered(expires_at=until + timedelta(hours=1)),)).when(prolong).then_nothing()
    given_events().when(prolong).then_nothing()
    Sentence((remembered(expires_at=T0),)).when(prolong).then_refused("expired", "remember it anew")
    Sentence((remembered(expires_at=until), ARCHIVED)).when(prolong).then_refused("archived", "prolonged")


def test_reaffirming_moves_freshness_and_nothing_else():
    before = given_events().state
    [event] = REAFFIRM(before)
    at = T0 + timedelta(days=2)
    after = evolve(before, event, stream=ONE, version=2, recorded_at=at)
    assert after == before._replace(version=2, fresh_at=at, changed_at=at)


@pytest.mark.parametrize("ending", [SUPERSEDED, ARCHIVED, SUPPRESSED, REFUTED, QUARANTINED])
def test_only_a_live_memory_is_reaffirmed(ending):
    given_events(ending).when(REAFFIRM).then_refused("cannot be reaffirmed")


@pytest.mark.parametrize("touch", [REAFFIRM, MOVE])
def test_freshness_never_moves_back(touch):
    """Behaviour.md 1.12: freshness is the greater of both times."""
    before = Sentence((remembered(occurred_at=T0 + timedelta(minutes=4)),)).state
    [event] = touch(before)
    after = evolve(before, event, stream=ONE, version=2, recorded_at=T0 + timedelta(minutes=1))
    assert after.fresh_at >= before.fresh_at


# --- sentences of behaviour.md 1.9, settlement 16 ----------------------------------------------------------------


@pytest.mark.parametrize(
    "memory_type", ["decision", "commitment", "blocker", "fact", "preference", "note", "event"]
)
def test_a_live_memory_of_any_type_may_be_archived(memory_type):
    """Archive: live only; status archived."""
    Sentence((remembered(memory_type=memory_type),)).when(asks(c.Archive, reason="old")).then(ARCHIVED)


@pytest.mark.parametrize(
    ("ending", "named"),
    [(SUPERSEDED, "superseded"), (SUPPRESSED, "suppressed"), (REFUTED, "refuted"), (QUARANTINED, "quarantined")],
)
def test_a_memory_that_ended_otherwise_is_not_archived(ending, named):
    given_events(ending).when(ARCHIVE).then_refused(named, "cannot be archived")


def test_restore_lifts_exactly_the_barriers_there_are():
    given_events(ARCHIVED).when(RESTORE).then(e.MemoryRestored(lifted=("archived",)))
    given_events(SUPPRESSED).when(RESTORE).then(e.MemoryRestored(lifted=("suppressed",)))
    given_events(ARCHIVED, SUPPRESSED).when(RESTORE).then(e.MemoryRestored(lifted=("archived", "suppressed")))
    given_events().when(RESTORE).then_nothing()
    given_events(SUPERSEDED).when(RESTORE).then_nothing()


def test_restoring_a_memory_that_was_revised_while_archived_leaves_it_superseded():
    given_events(ARCHIVED, SUPERSEDED).when(RESTORE).then(e.MemoryRestored(lifted=("archived",)))
    assert (
        given_events(ARCHIVED, SUPERSEDED, e.MemoryRestored(lifted=("archived",))).state.status(T0) == "superseded"
    )


@pytest.mark.parametrize(("ending", "named"), [(REFUTED, "refuted"), (QUARANTINED, "quarantined")])
def test_restore_never_undoes_a_refutation_or_a_quarantine(ending, named):
    given_events(ending).when(RESTORE).then_refused(named)
    given_events(ARCHIVED, ending).when(RESTORE).then_refused(named)


@pytest.mark.parametrize("ending", [None, SUPERSEDED, ARCHIVED, SUPPRESSED, QUARANTINED])
def test_a_memory_of_any_status_may_be_refuted(ending):
    given_events(*([ending] if ending else [])).when(asks(c.Refute, reason="never")).then(REFUTED)


def test_release_lets_a_quarantined_memory_in_and_does_nothing_to_others():
    given_events(QUARANTINED).when(RELEASE).then(e.MemoryReleased(reason="it is so"))
    for ending in ([], [ARCHIVED], [REFUTED]):
        given_events(*ending).when(RELEASE).then_nothing()


def test_b20_a_pinned_or_verified_memory_is_not_suppressed():
    given_events(e.MemoryPinned()).when(SUPPRESS).then_refused("pinned or verified")
    given_events(e.MemoryVerified()).when(SUPPRESS).then_refused("pinned or verified")
    given_events(e.MemoryPinned(), e.MemoryUnpinned()).when(SUPPRESS).then(SUPPRESSED)


def test_an_event_is_never_superseded_through_a_proposal_on_either_side():
    event = Sentence((remembered(memory_type="event"),)).state
    decision = given_events().state._replace(id=OTHER)
    for older, newer in ((event, decision), (decision, event)):
        with pytest.raises(Conflict, match="event"):
            decide_supersede(older, newer, PLAN)
    assert decide_supersede(given_events().state, decision, PLAN) == [
        e.MemorySuperseded(successor=OTHER, edge="supersedes", proposal=PLAN, held_until=T0)
    ]


@pytest.mark.parametrize("ending", [SUPERSEDED, ARCHIVED, SUPPRESSED, REFUTED, QUARANTINED])
def test_both_sides_of_a_supersession_must_be_live(ending):
    ended, live = given_events(ending).state, given_events().state._replace(id=OTHER)
    for older, newer in ((ended, live), (live, ended)):
        with pytest.raises(Conflict, match="part of a supersession"):
            decide_supersede(older, newer, PLAN)


# --- remember ----------------------------------------------------------------------------------------------------


def remember(now: datetime = T0, *, earlier: UUID | None = None, refuted: UUID | None = None, **fields: Any):
    command = parse(c.Remember, {"topic": "t", "content": "c", **fields})
    return decide_remember(
        command, Resolved(), now, producer="agent", trust="agent", earlier=earlier, refuted_memory=refuted
    )


def test_remembering_says_what_was_given_and_fills_in_scope_time_and_trust():
    [event] = remember()
    assert isinstance(event, e.MemoryRemembered)
    assert (event.scope, event.memory_type, event.occurred_at) == ("personal", "note", T0)
    assert (event.producer, event.trust, event.tags, event.metadata, event.pinned) == (
        "agent",
        "agent",
        (),
        None,
        False,
    )


def test_f09_refuted_text_comes_back_only_into_quarantine():
    events = remember(refuted=OTHER, earlier=THIRD)
    assert events[1:] == [QUARANTINED]
    state = fold([(event, n, T0) for n, event in enumerate(events, 1)], ONE)
    assert state is not None and state.status(T0) == "quarantined" and not state.live and not state.retrievable(T0)
    assert state.earlier == THIRD


def test_nothing_is_remembered_from_the_future_beyond_the_clocks_own_error():
    assert remember(occurred_at=T0 + CLOCK_SKEW)[0].occurred_at == T0 + CLOCK_SKEW  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput) as refused:
        remember(occurred_at=T0 + CLOCK_SKEW + timedelta(microseconds=1))
    assert refused.value.field == "occurred_at"


def test_a_refused_command_says_no_content():
    """F06: errors reach logs."""
    said = given_events(SUPERSEDED).when(ARCHIVE).refused
    assert said is not None
    assert "Hetzner" not in json.dumps(said.as_dict()) and "deploys" not in json.dumps(said.as_dict())


# --- whatever was done before --------------------------------------------------------------------------------------

FLAGS = ("archived", "suppressed", "refuted", "quarantined")
MEMORY_EVENTS: tuple[e.Event, ...] = (
    ARCHIVED,
    SUPPRESSED,
    REFUTED,
    QUARANTINED,
    SUPERSEDED,
    e.MemoryRestored(lifted=("archived", "suppressed")),
    e.MemoryReleased(reason="r"),
    e.MemoryPinned(),
    e.MemoryUnpinned(),
    e.MemoryVerified(),
    e.MemoryReaffirmed(),
    e.MemoryProlonged(expires_at=T0 + timedelta(hours=1)),
    e.MemoryMoved(scope="work", scope_before="personal"),
)
BEGINNINGS = st.sampled_from(
    [
        (remembered(),),
        (remembered(pinned=True),),
        (remembered(expires_at=T0 + timedelta(hours=1)),),
        (remembered(memory_type="event"),),
        (remembered(), QUARANTINED),
        (remembered(topic=None, content=None, tags=None, metadata=None),),
    ]
)
ANY_HISTORY = st.builds(
    lambda first, rest: Sentence((*first, *rest)),
    BEGINNINGS,
    st.lists(st.sampled_from(MEMORY_EVENTS), max_size=8),
)


def lived_through(first: tuple[e.Event, ...], names: Sequence[str]) -> Sentence:
    """What these commands make of a memory, refused ones left out: only states that can come to be."""
    sentence = Sentence(first)
    for name in names:
        events = [one for one in sentence.when(EVERY[name]).events if not isinstance(one, e.MemoryRemembered)]
        sentence = Sentence((*sentence.events, *events))
    return sentence


REACHED = st.builds(lived_through, BEGINNINGS, st.lists(st.sampled_from(list(EVERY)), max_size=10))


@REPEATABLE
@given(ANY_HISTORY, st.sampled_from(list(EVERY)))
def test_a_command_is_answered_or_refused_in_every_state_and_never_breaks(sentence: Sentence, name: str):
    sentence.when(EVERY[name])


@REPEATABLE
@given(ANY_HISTORY, st.sampled_from(list(EVERY)))
def test_every_command_from_an_older_version_is_refused_and_names_the_current_one(sentence: Sentence, name: str):
    state = sentence.state
    command, fields = ASKED[name]
    for expected in {state.state_version + 1, max(1, state.state_version - 1)} - {state.state_version}:
        outcome = sentence.when(asks(command, expected_version=expected, **fields))
        outcome.then_refused(f"version {state.state_version}")
        assert outcome.refused is not None and outcome.refused.details["current_version"] == state.state_version
    present = sentence.when(asks(command, expected_version=state.state_version, **fields))
    anyway = sentence.when(EVERY[name])
    assert (present.events, str(present.refused)) == (anyway.events, str(anyway.refused))


@REPEATABLE
@given(REACHED, st.sampled_from(SETTLING))
def test_a_command_asked_again_changes_nothing(sentence: Sentence, name: str):
    once = sentence.when(EVERY[name])
    if once.refused is None:
        Sentence((*sentence.events, *once.events)).when(EVERY[name]).then_nothing()


@REPEATABLE
@given(ANY_HISTORY, st.sampled_from(MEMORY_EVENTS))
def test_only_content_filing_ending_pin_and_verification_move_the_state_version(
    sentence: Sentence, event: e.Event
):
    before = sentence.state
    after = evolve(before, event, stream=ONE, version=before.version + 1, recorded_at=T0)
    assert after.version == before.version + 1
    moved = after.state_version - before.state_version
    assert moved == (0 if isinstance(event, e.MemoryReaffirmed | e.MemoryProlonged) else 1)


@REPEATABLE
@given(ANY_HISTORY, st.sampled_from(MEMORY_EVENTS))
def test_freshness_moves_only_by_a_move_or_a_reaffirmation(sentence: Sentence, event: e.Event):
    before, at = sentence.state, T0 + timedelta(days=30)
    after = evolve(before, event, stream=ONE, version=before.version + 1, recorded_at=at)
    touches = isinstance(event, e.MemoryMoved | e.MemoryReaffirmed)
    assert after.fresh_at == (at if touches else before.fresh_at)


@REPEATABLE
@given(ANY_HISTORY, st.sampled_from(MEMORY_EVENTS))
def test_no_event_of_a_memory_changes_its_text_its_owners_or_its_dates_but_that_it_expires_later(
    sentence: Sentence, event: e.Event
):
    before = sentence.state
    after = evolve(before, event, stream=ONE, version=before.version + 1, recorded_at=T0)
    for name in ("id", "topic", "content", "metadata", "owners", "memory_type", "occurred_at", "recorded_at"):
        assert getattr(after, name) == getattr(before, name)
    for name in (
        "valid_from",
        "valid_to",
        "derived_from",
        "predecessor",
        "earlier",
        "trust",
        "core",
    ):
        assert getattr(after, name) == getattr(before, name)
    prolonged = isinstance(event, e.MemoryProlonged)
    assert after.expires_at == (event.expires_at if prolonged else before.expires_at)


@REPEATABLE
@given(st.permutations([ARCHIVED, SUPPRESSED, REFUTED, QUARANTINED, SUPERSEDED]), st.integers(0, 5))
def test_the_strongest_ending_gives_the_status_whatever_the_order(order: list[e.Event], count: int):
    state = given_events(*order[:count]).state
    strongest = ["refuted", "quarantined", "superseded", "archived", "suppressed"]
    happened = {type(event).NAME.removeprefix("memory.") for event in order[:count]}
    assert state.status(T0) == next((one for one in strongest if one in happened), "active")


@REPEATABLE
@given(ANY_HISTORY, st.integers(-2, 2))
def test_live_retrievable_and_status_never_contradict_each_other(sentence: Sentence, hours: int):
    state, now = sentence.state, T0 + timedelta(hours=hours)
    status = state.status(now)
    if status == "erased":
        assert state.content is None
        return
    ended = any(getattr(state, flag) for flag in FLAGS)
    assert state.live == (not ended and state.successor is None)
    assert state.retrievable(now) == (not ended and not state.expired(now))
    assert (status in ("active", "expired")) == state.live
    assert not state.retrievable(now) or status in ("active", "superseded")


@REPEATABLE
@given(st.integers(-1_000_000, 1_000_000))
def test_f15_a_memory_is_expired_from_the_very_instant_it_expires(microseconds: int):
    at = T0 + timedelta(hours=1)
    state = Sentence((remembered(expires_at=at),)).state
    now = at + timedelta(microseconds=microseconds)
    assert state.expired(now) == (microseconds >= 0) and state.retrievable(now) == (microseconds < 0)


@REPEATABLE
@given(REACHED)
def test_archived_and_suppressed_never_meet_in_a_memory_that_only_commands_changed(sentence: Sentence):
    assert not (sentence.state.archived and sentence.state.suppressed)


@REPEATABLE
@given(REACHED)
def test_a_pinned_or_verified_memory_is_suppressed_only_if_it_was_before(sentence: Sentence):
    state = sentence.state
    if (state.pinned or state.verified) and not state.suppressed:
        assert sentence.when(SUPPRESS).refused is not None


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_written_about_an_erased_memory(name):
    erased = Sentence((remembered(topic=None, content=None, tags=None, metadata=None),))
    erased.when(EVERY[name]).then_refused("erased")


@REPEATABLE
@given(st.data())
def test_evolve_takes_every_event_there_is(data: st.DataObject):
    """An event of another kind, or of a later version, moves the stream version and when it changed, and nothing else."""
    name = data.draw(st.sampled_from(e.event_names()))
    cls = e.event_class(name)
    assert cls is not None
    event = cls.model_validate(json.loads((SAMPLES / f"{name}.{cls.SCHEMA}.json").read_text()))
    state = data.draw(ANY_HISTORY).state
    after = evolve(state, event, stream=ONE, version=state.version + 1, recorded_at=T0)
    if name == "memory.remembered":
        assert (after.state_version, after.version) == (1, state.version + 1)
    elif not name.startswith("memory."):
        assert after == state._replace(version=state.version + 1, changed_at=T0)
    else:
        assert after.id == ONE and after.version == state.version + 1


def test_a_stream_that_does_not_begin_with_a_memory_is_no_memory():
    with pytest.raises(ValueError, match="does not begin"):
        fold([(ARCHIVED, 1, T0)], ONE)
    assert fold([], ONE) is None


@REPEATABLE
@given(REACHED)
def test_archiving_by_a_proposal_names_it(sentence: Sentence):
    state = sentence.state
    if state.live and state.content is not None:
        assert decide_archive(state, proposal=PLAN) == [e.MemoryArchived(proposal=PLAN)]
