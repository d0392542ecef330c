"""The lease of a session, given/when/then (behaviour.md 1.15)."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from lethelog.domain import events as e
from lethelog.domain.session import (
    LEASE,
    LOOKED_AT_WITHIN,
    Session,
    decide_closer_failed,
    decide_looked,
    decide_resume,
    decide_seen,
    decide_session_end,
    evolve_session,
    may_be_looked_at,
)
from lethelog.streams.payloads import Actor, Envelope, decode_envelope, encode, split

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)


def after(*events: e.Event, at: datetime = NOW) -> Session:
    state = None
    for version, event in enumerate((e.SessionOpened(session=uuid4()), *events), 1):
        state = evolve_session(
            state, event, stream=UUID(int=1), version=version, recorded_at=at if version > 1 else NOW
        )
    assert state is not None
    return state


def test_a_session_runs_until_its_lease_ends_and_not_at_that_instant():
    opened = after()
    assert opened.running(NOW + LEASE - timedelta(microseconds=1)) and not opened.running(NOW + LEASE)


def test_a_heartbeat_is_recorded_at_most_once_a_minute():
    opened = after()
    assert decide_seen(opened, NOW + timedelta(seconds=59), "heartbeat") == []
    assert decide_seen(opened, NOW + timedelta(seconds=60), "heartbeat") == [e.SessionSeen()]


def test_what_comes_after_the_lease_begins_it_anew_and_bumps_the_epoch():
    [resumed] = decide_seen(after(), NOW + LEASE, "write")
    assert resumed == e.SessionResumed(epoch=2, by="write")
    assert after(resumed, at=NOW + LEASE).running(NOW + LEASE)


def test_an_explicit_end_is_reopened_by_resuming_and_by_nothing_else():
    closed = after(e.SessionClosed())
    assert decide_seen(closed, NOW + timedelta(days=1), "write") == []
    assert decide_session_end(closed) == []
    [resumed] = decide_resume(closed, "resume")
    again = after(e.SessionClosed(), resumed)
    assert again.closed_at is None and again.epoch == 2


def test_the_lease_only_moves_forward():
    assert after(e.SessionSeen(), at=NOW - timedelta(hours=1)).last_seen_at == NOW


def test_the_session_stands_in_the_envelope_and_what_has_none_is_stored_as_before():
    tenant, stream = uuid4(), uuid4()
    envelope = Envelope(Actor("person", UUID(int=1)), cause=UUID(int=2), correlation=UUID(int=3))

    def stored(one: Envelope) -> bytes:
        event = e.MemoryPinned()
        return encode(event, one, tenant=tenant, stream=stream, version=2, key_of=lambda _id: None)

    run = uuid4()
    assert decode_envelope(split(stored(envelope._replace(session=run)))).session == run
    assert stored(envelope)[5:] == (
        b'{"s":1,"a":["person","00000000-0000-0000-0000-000000000001"],'
        b'"c":"00000000-0000-0000-0000-000000000002","r":"00000000-0000-0000-0000-000000000003",'
        b'"p":null,"j":null,"k":[],"d":{}}'
    )
    assert decode_envelope(split(stored(envelope))).session is None


# --- the closer -------------------------------------------------------------------------------------------------


def judged(commitment: UUID, followed: str) -> e.SessionCloserJudged:
    return e.SessionCloserJudged(
        epoch=1,
        commitment=commitment,
        memory_id=uuid4(),
        probability=0.7,
        probabilities={"not_done": 0.3, "done": 0.7},
        followed=followed,
        policy="p",
        judge="j",
        model="m",
        seen={},
        call_id=uuid4(),
    )


def test_a_session_is_looked_at_from_its_end_on_for_seven_days():
    opened = after()
    assert not may_be_looked_at(opened, NOW + LEASE - timedelta(microseconds=1))
    assert may_be_looked_at(opened, NOW + LEASE) and may_be_looked_at(opened, NOW + LOOKED_AT_WITHIN)
    assert not may_be_looked_at(opened, NOW + LOOKED_AT_WITHIN + timedelta(microseconds=1))
    assert may_be_looked_at(after(e.SessionClosed()), NOW)


def test_it_is_looked_at_once_until_it_is_taken_up_again():
    [looked] = decide_looked(after(e.SessionClosed()), 1, upto=7, asked=2, unanswered=0)
    done = after(e.SessionClosed(), looked)
    assert not may_be_looked_at(done, NOW) and done.looked_upto == 7
    again = after(e.SessionClosed(), looked, e.SessionResumed(epoch=2, by="open"), e.SessionClosed())
    assert may_be_looked_at(again, NOW) and again.looked_upto == 7
    assert decide_looked(again, 1, upto=9, asked=0, unanswered=0) == [], "it went on meanwhile"
    assert decide_closer_failed(again, 1, "judge_unavailable", NOW) == []


def test_what_was_acted_on_is_settled_for_good_and_what_was_only_judged_until_it_goes_on():
    one, two, three = uuid4(), uuid4(), uuid4()
    said = (judged(one, "resolved"), judged(two, "proposed"), judged(three, "nothing"))
    assert after(*said).settled == {one, two, three}
    assert after(*said, e.SessionResumed(epoch=2, by="resume")).settled == {one, two}


def test_failures_back_off_doubling_up_to_four_hours():
    """behaviour.md 1.15."""
    state, waits = after(e.SessionClosed()), []
    for _ in range(12):
        [failed] = decide_closer_failed(state, 1, "judge_unavailable", NOW)
        waits.append(failed.next_attempt_at - NOW)
        state = after(e.SessionClosed(), failed)
        assert not may_be_looked_at(state, NOW) and may_be_looked_at(state, failed.next_attempt_at)
    minutes = [wait / timedelta(minutes=1) for wait in waits]
    assert minutes == [1, 2, 4, 8, 16, 32, 64, 128, 240, 240, 240, 240]
    [looked] = decide_looked(state, 1, upto=7, asked=0, unanswered=0)
    assert after(e.SessionClosed(), looked).failures == 0
