"""Reading and following the log itself."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from lethelog.domain.errors import InvalidInput
from lethelog.handlers.operating.event_log import PAGE, EventLog
from lethelog.handlers.operating.views import EventView
from lethelog.streams.pages import Selection, read_rows


@pytest.fixture
def events(world) -> EventLog:
    return EventLog(world.engine)


async def all_of(events: EventLog, caller, **query) -> list[EventView]:
    found: list[EventView] = []
    position: int | None = 1
    while position is not None:
        page = await events.page(caller, {**query, "from_position": position, "limit": 2})
        assert len(page.events) <= 2
        found += page.events
        position = page.next_position
    return found


async def take(following: AsyncGenerator[EventView], count: int) -> list[EventView]:
    async with asyncio.timeout(20):
        return [await anext(following) for _ in range(count)]


async def test_pages_hold_every_event_of_the_tenant_once_and_in_order(world, events):
    other = await world.another_caller()
    mine = []
    for number in range(5):
        mine.append(await world.remember(f"Mine number {number}"))
        await world.commands.remember(other, {"content": f"Theirs number {number}", "topic": "theirs"})
    found = await all_of(events, world.caller)
    positions = [one.position for one in found]
    assert positions == sorted(set(positions))
    assert [one.stream for one in found if one.event == "memory.remembered"] == mine
    theirs = await all_of(events, other)
    assert not {one.event_id for one in found} & {one.event_id for one in theirs}
    assert len(found) + len(theirs) == await world.engine.log.head()


async def test_events_come_opened_with_who_did_it_and_why(world, events):
    memory = await world.remember("Deploys go to Hetzner")
    await world.commands.archive(world.caller, {"memory_id": memory, "reason": "moved to Fly"})
    page = await events.page(world.caller, {"stream": memory})
    remembered, archived = page.events
    assert remembered.data is not None and remembered.data["content"] == "Deploys go to Hetzner"
    assert (archived.event, archived.version, archived.data["reason"]) == ("memory.archived", 2, "moved to Fly")
    assert archived.actor.startswith("person") and archived.correlation != remembered.correlation
    assert page.upto == archived.position


async def test_names_and_families_narrow_and_bounds_are_inclusive(world, events):
    memory = await world.remember("Deploys go to Hetzner")
    await world.commands.archive(world.caller, {"memory_id": memory})
    archived = await all_of(events, world.caller, names=("memory.archived",))
    assert [one.event for one in archived] == ["memory.archived"]
    family = await all_of(events, world.caller, names=("memory.*",))
    assert [one.event for one in family] == ["memory.remembered", "memory.archived"]
    at = archived[0].position
    page = await events.page(world.caller, {"from_position": at, "to": at})
    assert [one.position for one in page.events] == [at]
    page = await events.page(world.caller, {"to": at - 1, "names": ["memory.*"]})
    assert [one.event for one in page.events] == ["memory.remembered"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"names": ["memory.forgotten"]}, "names"),
        ({"names": ["*"]}, "names"),
        ({"limit": 501}, "limit"),
        ({"limit": 0}, "limit"),
        ({"from_position": 0}, "from_position"),
        ({"to": 10_000}, "to"),
        ({"to": "2026-03-01T09:00:00"}, "to"),
        ({"to": 0}, "to"),
        ({"stream": "not an id"}, "stream"),
        ({"since": 3}, "since"),
    ],
)
async def test_a_question_that_makes_no_sense_names_its_field(world, events, query, field):
    with pytest.raises(InvalidInput) as refused:
        await events.page(world.caller, query)
    assert refused.value.field == field


async def test_another_tenants_stream_looks_like_one_that_does_not_exist(world, events):
    other = await world.another_caller()
    theirs = (await world.commands.remember(other, {"content": "Theirs", "topic": "theirs"})).memory.id
    assert (await events.page(world.caller, {"stream": theirs})).events == ()
    assert (await events.page(world.caller, {"stream": uuid4()})).events == ()
    assert len((await events.page(other, {"stream": theirs})).events) == 1


async def test_a_tail_gives_each_event_once_in_order_as_it_is_committed(world, events):
    other = await world.another_caller()
    before = await world.remember("Before")
    async with contextlib.aclosing(events.tail(world.caller, {"names": ["memory.*"]})) as following:
        first = asyncio.ensure_future(take(following, 1))
        # The tail has begun once its first read of the log is over: what is written from here on must be in it.
        await asyncio.sleep(0)
        while not first.done():
            latest = await world.remember(f"After {uuid4()}")
            await world.commands.remember(other, {"content": f"Theirs {uuid4()}", "topic": "theirs"})
        [seen] = await first
        assert seen.stream != before
        rest = [seen.stream]
        while rest[-1] != latest:
            rest += [one.stream for one in await take(following, 1)]
        assert len(rest) == len(set(rest))


async def test_a_tail_from_the_beginning_reads_page_after_page_and_goes_on(world, events):
    count = PAGE + 3
    await asyncio.gather(*(world.remember(f"Number {number}") for number in range(count)))
    async with contextlib.aclosing(events.tail(world.caller, {"from_position": 1})) as following:
        found = await take(following, await world.engine.log.head())
        assert [one.position for one in found] == list(range(1, len(found) + 1))
        added = await world.remember("One more")
        [last] = await take(following, 1)
        assert last.stream == added


async def test_a_tail_goes_on_when_its_listening_connection_is_cut(world, events, database_url):
    async with contextlib.aclosing(events.tail(world.caller, {"from_position": 1})) as following:
        await take(following, await world.engine.log.head())
        with psycopg.connect(database_url, autocommit=True) as superuser:
            cut = superuser.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where query = 'select epoch from lethelog.erasing' and datname = current_database()"
            ).fetchall()
        assert cut == [(True,)]
        added = await world.remember("Written while nobody listened")
        [last] = await take(following, 1)
        assert last.stream == added


async def test_a_small_tenants_log_is_read_without_looking_through_that_of_a_large_one(world, database_url):
    small, large, late = uuid4(), uuid4(), uuid4()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "insert into lethelog.events (position, tenant, stream, version, name, event_id, recorded_at, body, hash) "
            "select n, case when n %% 4000 = 0 then %s::uuid when n > 18000 and n %% 4 = 1 then %s else %s end, "
            "gen_random_uuid(), 1, 'memory.rated', gen_random_uuid(), now(), decode(repeat('ab', 300), 'hex'), '' "
            "from generate_series(1000, 21000) n",
            (small, late, large),
        )
        connection.execute("analyze lethelog.events")

    async def touched(connection) -> int:
        """Rows of the table that this session looked at and did not report yet."""
        cursor = await connection.execute(
            "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables "
            "where relid = 'lethelog.events'::regclass"
        )
        [[count]] = await cursor.fetchall()
        return count

    async def looked_at(tenant: UUID, **how: Any) -> tuple[int, int]:
        """(events found, rows of the table that were looked at)"""
        async with world.engine.doors.tenant(tenant) as connection:
            before = await touched(connection)
            rows = await read_rows(connection, 0, 100, only=Selection(tenant, **how))
            return len(rows), await touched(connection) - before

    # More often than a statement needs to be to get a plan for any tenant.
    for how in ({}, {"namespace": "memory."}):
        for tenant, number in 8 * ((small, 5), (late, 100), (large, 100)):
            found, touched_rows = await looked_at(tenant, **how)
            # A few of others may stand between them, and at some the planner looks on its own.
            assert found == number <= touched_rows <= number + 150
