"""Instants and positions of the log: which event was the newest at a moment, and that the answer stays."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import psycopg
import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import InvalidInput
from lethelog.streams.append import PreparedUnit, call_statement, unit_arrays
from lethelog.streams.ids import new_id
from lethelog.streams.log import Appended, CommandKey, Log, NewEvent, Unit
from lethelog.streams.payloads import Actor, Envelope

from .held import waiting

TENANT = uuid4()
ENVELOPE = Envelope(Actor("agent", uuid4()), cause=uuid4(), correlation=uuid4())
MOMENT = timedelta(microseconds=1)


async def append(log: Log, pins: int = 1) -> Appended:
    """A unit of so many events; all of them carry one time."""
    stream = uuid4()
    events = [NewEvent(stream, version, e.MemoryPinned()) for version in range(1, pins + 1)]
    outcome = await log.append(Unit(TENANT, stream, events, ENVELOPE))
    assert isinstance(outcome, Appended)
    return outcome


async def test_every_instant_has_the_last_position_recorded_at_or_before_it(log: Log):
    appended = [await append(log, pins=1 + n % 3) for n in range(9)]
    assert await log.position_at(appended[0].recorded_at - MOMENT) == 0
    for one in appended:
        assert await log.position_at(one.recorded_at) == one.position
        assert await log.recorded_at(one.position) == one.recorded_at
    for before, after in pairwise(appended):
        assert await log.position_at(after.recorded_at - MOMENT) == before.position
        assert before.recorded_at < after.recorded_at


async def test_an_empty_log_has_position_0_at_every_instant(log: Log):
    assert await log.position_at(datetime(2026, 1, 1, tzinfo=UTC)) == 0
    assert await log.recorded_at(1) is None


async def test_the_future_of_the_log_has_no_position(log: Log, database_url: str):
    await append(log)
    with psycopg.connect(database_url, autocommit=True) as connection:
        [now] = connection.execute("select clock_timestamp()").fetchone() or []
    assert await log.position_at(now) == 1
    with pytest.raises(InvalidInput) as refused:
        await log.position_at(now + timedelta(hours=1))
    assert refused.value.field == "instant"


async def test_an_instant_a_little_ahead_of_the_servers_clock_is_waited_for(log: Log, database_url: str):
    """The clocks of two machines differ; what is recorded while it waits is counted, and the answer is final."""
    await append(log)
    with psycopg.connect(database_url, autocommit=True) as connection:
        [at] = connection.execute("select clock_timestamp() + interval '0.3 s'").fetchone() or []
        asked = asyncio.create_task(log.position_at(at))
        meanwhile = await append(log)
        assert meanwhile.recorded_at < at and not asked.done()
        assert await asked == meanwhile.position
        assert connection.execute("select clock_timestamp() >= %s", (at,)).fetchone() == (True,)
        await append(log)
        assert await log.position_at(at) == meanwhile.position
        [far] = connection.execute("select clock_timestamp() + interval '3 s'").fetchone() or []
    with pytest.raises(InvalidInput, match="more than 2 s ahead of the server's clock"):
        await log.position_at(far)


async def test_while_the_clock_stands_behind_the_log_only_the_newest_instant_grows(log: Log, database_url: str):
    """A clock that was set back, as the log sees it: its newest time lies ahead of the server's clock."""
    first = await append(log)
    with psycopg.connect(database_url) as connection:
        connection.execute("set session_replication_role = replica")
        [newest] = (
            connection.execute(
                "update lethelog.head set recorded_at = clock_timestamp() + interval '1 h' returning recorded_at"
            ).fetchone()
            or []
        )
    second = await append(log)
    assert (second.recorded_at, await log.position_at(newest)) == (newest, second.position)
    third = await append(log)
    assert (third.recorded_at, await log.position_at(newest)) == (newest, third.position)
    assert await log.position_at(newest - MOMENT) == first.position
    with pytest.raises(InvalidInput):
        await log.position_at(newest + timedelta(seconds=3))


async def test_an_append_that_took_its_time_before_the_instant_is_counted(log: Log, database_url: str):
    """The answer is final: whoever asks again later is told the same."""
    await append(log)
    pending = PreparedUnit(TENANT, uuid4(), CommandKey.fresh())
    pending.add_event(new_id(), 1, "memory.pinned", new_id(), b"body")
    with psycopg.connect(database_url) as held, psycopg.connect(database_url, autocommit=True) as watcher:
        held.execute(call_statement().encode(), unit_arrays([pending]))
        [instant] = held.execute("select clock_timestamp()").fetchone() or []
        asked = asyncio.create_task(log.position_at(instant))
        while not waiting(watcher):
            assert not asked.done(), "it did not wait for the append that is under way"
            await asyncio.sleep(0)
        held.commit()
        assert await asked == 2 == await log.position_at(instant)


async def test_a_settled_instant_waits_for_no_append(log: Log, held):
    first, _ = await append(log), await append(log)
    held()
    assert await asyncio.wait_for(log.position_at(first.recorded_at), 5) == 1
