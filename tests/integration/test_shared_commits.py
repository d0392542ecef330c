"""Group commit: callers share a durable commit, and each gets its own outcome. Commits are held, never slept for."""

import asyncio
import contextlib
from collections.abc import Generator
from datetime import UTC, datetime
from uuid import UUID, uuid4

import psycopg
import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import Unavailable
from lethelog.streams import append
from lethelog.streams.append import call_statement, unit_arrays
from lethelog.streams.log import (
    Appended,
    Claim,
    ClaimHeld,
    CommandKey,
    Log,
    NewEvent,
    Repeated,
    Unit,
    VersionMoved,
)
from lethelog.streams.payloads import Actor, Envelope

from .held import Held

TENANT = uuid4()


def unit(stream: UUID, version: int = 1, **more) -> Unit:
    event: e.Event = e.MemoryReaffirmed()
    if version == 1:
        event = e.MemoryRemembered(
            memory_type="fact",
            scope="personal",
            topic="deploys",
            content="Deploys go to Hetzner",
            producer="user",
            trust="user",
            occurred_at=datetime(2026, 3, 1, 9, tzinfo=UTC),
        )
    return Unit(
        tenant=TENANT,
        subject=stream,
        events=[NewEvent(stream, version, event)],
        envelope=Envelope(Actor("agent", uuid4()), cause=uuid4(), correlation=uuid4()),
        new_keys=frozenset({stream}) if version == 1 else frozenset(),
        **more,
    )


class HeldCommit(Held):
    """Whatever is appended waits for its release, and how many commits there were is known."""

    def commits(self) -> int:
        row = self._watcher.execute("select count(*) from lethelog.roots").fetchone()
        assert row is not None
        return row[0]


@pytest.fixture
def held(database_url: str, log: Log) -> Generator[HeldCommit]:
    with contextlib.closing(HeldCommit(database_url)) as commit:
        yield commit


async def queued(log: Log, count: int) -> None:
    """Return once so many units wait behind the call that is under way."""
    while len(log._queue._waiting) < count:
        await asyncio.sleep(0)


async def test_whoever_comes_while_a_commit_is_under_way_shares_the_next_one(log, held):
    first = asyncio.create_task(log.append(unit(uuid4())))
    await held.is_waited_for()
    others = [asyncio.create_task(log.append(unit(uuid4()))) for _ in range(50)]
    await queued(log, 50)
    held.release()
    outcomes = await asyncio.gather(first, *others)
    assert all(isinstance(one, Appended) for one in outcomes)
    assert sorted(one.position for one in outcomes) == list(range(1, 52))
    assert held.commits() == 2


async def test_a_conflict_a_taken_claim_and_an_impossible_event_in_one_commit_fail_their_own_callers_only(
    log, held
):
    holder, existing = uuid4(), uuid4()
    claim = Claim("test", b"digest", None, holder)
    held.release()
    assert isinstance(await log.append(unit(holder, claims=[claim])), Appended)
    assert isinstance(await log.append(unit(existing)), Appended)
    blocked = HeldCommit(log._database.url)
    first = asyncio.create_task(log.append(unit(uuid4())))
    await blocked.is_waited_for()
    good = [asyncio.create_task(log.append(unit(uuid4()))) for _ in range(5)]
    skips = asyncio.create_task(log.append(unit(existing, version=7)))
    other = uuid4()
    claims = asyncio.create_task(log.append(unit(other, claims=[Claim("test", b"digest", None, other)])))
    nameless = unit(uuid4())
    nul = e.MemoryReaffirmed()
    object.__setattr__(nameless, "events", [NewEvent(uuid4(), 1, nul)])
    object.__setattr__(nameless, "claims", [Claim("a\x00b", b"x", None, uuid4())])
    impossible = asyncio.create_task(log.append(nameless))
    await queued(log, 8)
    blocked.release()
    assert all(isinstance(one, Appended) for one in await asyncio.gather(first, *good))
    assert await skips == VersionMoved(existing, 1)
    refused = await claims
    assert isinstance(refused, ClaimHeld) and refused.holder == holder
    with pytest.raises(psycopg.DataError):
        await impossible
    blocked.close()


async def test_a_commit_whose_answer_is_lost_beside_an_impossible_unit_is_recognised_too(log, held):
    """What shares its call with a unit that the database refuses is stored by itself, and tried again by itself."""
    first = asyncio.create_task(log.append(unit(uuid4())))
    await held.is_waited_for()
    nameless = unit(uuid4(), claims=[Claim("a\x00b", b"x", None, uuid4())])
    impossible = asyncio.create_task(log.append(nameless))
    stream = uuid4()
    good = asyncio.create_task(log.append(unit(stream)))
    await queued(log, 2)
    queue = log._queue
    original = queue._call

    async def lose_the_answer(batch):
        if [one.unit.subject for one in batch] != [stream]:
            return await original(batch)
        queue._call = original
        await queue._connection.execute(call_statement(), unit_arrays([one.unit for one in batch]))
        raise psycopg.OperationalError("the connection is lost")

    queue._call = lose_the_answer
    held.release()
    await first
    with pytest.raises(psycopg.DataError):
        await impossible
    appended = await good
    [stored] = await log.read_stream(TENANT, stream)
    assert appended == Appended(stored.position, stored.recorded_at, (stored.event_id,))


async def test_an_earlier_command_about_the_same_memory_is_no_commit_whose_answer_was_lost(log):
    """Same key, same subject, another call that was lost before it got there: its events were never stored."""
    stream, key = uuid4(), CommandKey(b"one key", b"one command")
    await log.append(unit(stream))
    earlier = await log.append(unit(stream, 2, command=key))
    assert isinstance(earlier, Appended)
    queue = log._queue
    original = queue._call

    async def lost_on_the_way(batch):
        queue._call = original
        raise psycopg.OperationalError("the connection is lost")

    queue._call = lost_on_the_way
    assert await log.append(unit(stream, 2, command=key)) == Repeated(earlier.position, stream)


async def test_a_queue_that_is_full_refuses_at_once_and_takes_more_when_it_has_drained(log, held, monkeypatch):
    monkeypatch.setattr(append, "QUEUE_LIMIT", 3)
    first = asyncio.create_task(log.append(unit(uuid4())))
    await held.is_waited_for()
    waiting = [asyncio.create_task(log.append(unit(uuid4()))) for _ in range(3)]
    await queued(log, 3)
    refused = unit(uuid4())
    with pytest.raises(Unavailable, match="3 writes are waiting"):
        await log.append(refused)
    held.release()
    assert all(isinstance(one, Appended) for one in await asyncio.gather(first, *waiting))
    again = await log.append(refused)
    assert isinstance(again, Appended) and again.position == 5


async def test_closing_stores_what_waits_and_refuses_what_comes_later(log, held, database_url):
    streams = [uuid4() for _ in range(20)]
    first = asyncio.create_task(log.append(unit(uuid4())))
    await held.is_waited_for()
    waiting = [asyncio.create_task(log.append(unit(one))) for one in streams]
    await queued(log, 20)
    closing = asyncio.create_task(log.close())
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="closing; nothing was written"):
        await log.append(unit(uuid4()))
    assert not closing.done()
    held.release()
    await closing
    assert all(isinstance(one, Appended) for one in await asyncio.gather(first, *waiting))
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from lethelog.events").fetchone() == (21,)


async def test_two_units_of_one_stream_never_share_a_commit_and_keep_their_order(log, held):
    # Otherwise the tenant's key is read for each of them, and any may be the first to have it.
    log.recollection.listen(0)
    stream = uuid4()
    first = asyncio.create_task(log.append(unit(uuid4())))
    await held.is_waited_for()
    tasks = [asyncio.create_task(log.append(unit(stream, version))) for version in (1, 2, 3)]
    tasks.append(asyncio.create_task(log.append(unit(uuid4()))))
    await queued(log, 4)
    held.release()
    outcomes = await asyncio.gather(first, *tasks)
    assert all(isinstance(one, Appended) for one in outcomes)
    positions = [one.position for one in outcomes]
    assert positions[1] < positions[2] < positions[3]
    assert positions[4] < positions[2], "the unit that touches nothing of theirs went with the first of them"
    assert held.commits() == 4


async def test_a_lone_caller_waits_for_nobody(log, held):
    held.release()
    for _ in range(3):
        before = held.commits()
        await log.append(unit(uuid4()))
        assert held.commits() == before + 1
        assert not log._queue._waiting


async def test_two_processes_worth_of_queues_append_at_once_and_positions_stay_gapless(log, database, vault):
    other = Log(database, vault)
    await other.open()
    outcomes = await asyncio.gather(*(one.append(unit(uuid4())) for _ in range(100) for one in (log, other)))
    await other.close()
    assert sorted(one.position for one in outcomes) == list(range(1, 201))


async def test_half_of_the_callers_of_a_commit_are_at_the_next_one_before_the_others_are_answered(log, held):
    """So that the next units are made while the database stores: all at once would wait for one and then the other."""
    # As in every process that hears of erasures: the tenant's key is kept, and the next unit needs no query.
    log.recollection.listen(0)
    queue, original = log._queue, log._queue._call
    answered: list[Appended] = []
    calls: list[tuple[int, int]] = []
    again: list[HeldCommit] = []

    async def twice() -> list[Appended]:
        answered.append(await log.append(unit(uuid4())))
        return [answered[-1], await log.append(unit(uuid4()))]

    async def hold_the_second(batch):
        calls.append((len(batch), len(answered)))
        if len(calls) == 2:
            again.append(HeldCommit(log._database.url))
        await original(batch)

    first = asyncio.create_task(log.append(unit(uuid4())))
    await held.is_waited_for()
    callers = [asyncio.create_task(twice()) for _ in range(40)]
    await queued(log, 40)
    queue._call = hold_the_second
    held.release()
    while not again:
        await asyncio.sleep(0)
    await again[0].is_waited_for()
    await queued(log, 20)
    assert len(answered) == 40, "the others of the first commit are answered while the next one is held"
    again[0].release()
    outcomes = [one for both in await asyncio.gather(*callers) for one in both]
    assert sorted(one.position for one in outcomes) == list(range(2, 82))
    assert isinstance(await first, Appended)
    assert calls == [(40, 0), (20, 20), (20, 40)]
    again[0].close()


async def test_a_conflict_in_one_half_leaves_the_other_as_it_is(log, held):
    """Each of forty callers goes on in its own stream, the last time from a version that is no longer there."""
    streams = [uuid4() for _ in range(40)]

    async def remember_and_reaffirm(stream: UUID) -> list[object]:
        remembered = await log.append(unit(stream))
        return [remembered, await log.append(unit(stream, 2)), await log.append(unit(stream, 2))]

    first = asyncio.create_task(log.append(unit(uuid4())))
    await held.is_waited_for()
    callers = [asyncio.create_task(remember_and_reaffirm(stream)) for stream in streams]
    await queued(log, 40)
    held.release()
    await first
    for stream, outcomes in zip(streams, await asyncio.gather(*callers), strict=True):
        assert [type(one) for one in outcomes] == [Appended, Appended, VersionMoved]
        assert outcomes[2] == VersionMoved(stream, 2)
        stored = await log.read_stream(TENANT, stream)
        assert [one.position for one in stored] == [one.position for one in outcomes[:2]]


async def test_who_is_stored_is_answered_also_when_the_writer_is_ended_between_the_two_halves(log, held):
    first = asyncio.create_task(log.append(unit(uuid4())))
    await held.is_waited_for()
    callers = [asyncio.create_task(log.append(unit(uuid4()))) for _ in range(40)]
    await queued(log, 40)
    callers[0].add_done_callback(lambda _: log._queue._writer.cancel())
    held.release()
    outcomes = await asyncio.gather(first, *callers)
    assert sorted(one.position for one in outcomes) == list(range(1, 42))
    with contextlib.suppress(asyncio.CancelledError):
        await log._queue._writer
    await log._queue.open()
