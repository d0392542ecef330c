"""Generations of read models: readers follow the pointer, and meet neither a gap nor a half-filled view."""

import asyncio
from datetime import timedelta

import psycopg
import pytest
from lethelog.domain.errors import Unavailable
from lethelog.projections.generations import read_generations, read_models
from lethelog.projections.progress import read_progress
from lethelog.projections.rebuild import Rebuilder, drop_retired
from lethelog.projections.runner import ensure_tables
from lethelog.projections.scratch import discard
from lethelog.streams.ending import end

AT_ONCE = timedelta()


def rebuilder(world, name: str = "live_memory", **options) -> Rebuilder:
    engine = world.engine
    return Rebuilder(engine.database, engine.log, engine.tail, engine.projection(name), **options)


async def schemas(world, name: str = "live_memory") -> dict[str, str]:
    async with world.engine.database.connection() as connection:
        return {one.schema: one.state for one in await read_generations(connection, name)}


async def test_a_reader_who_began_before_a_switch_sees_the_old_generation_whole_until_it_ends(world):
    first = await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    database = world.engine.database
    async with read_models(database) as held:
        # Nothing is read yet: only the pointer was.
        second = await world.remember("Deploys go to Vienna")
        rebuilt = await rebuilder(world, grace=AT_ONCE).rebuild()
        assert rebuilt.schema == "lethelog_views_live_memory_2"
        assert await schemas(world) == {"lethelog_views": "retired", "lethelog_views_live_memory_2": "current"}
        assert await drop_retired(database, world.engine.live_memory, AT_ONCE) == []
        cursor = await held.execute("select memory_id from live_memory")
        assert await cursor.fetchall() == [(first,)]
        async with read_models(database) as fresh:
            cursor = await fresh.execute("select memory_id from live_memory order by position")
            assert await cursor.fetchall() == [(first,), (second,)]
    [dropped] = await drop_retired(database, world.engine.live_memory, AT_ONCE)
    assert dropped.schema == "lethelog_views"
    assert await schemas(world) == {"lethelog_views_live_memory_2": "current"}
    assert await world.search("deploys") != []


async def test_a_retired_generation_stays_for_the_grace_period(world):
    await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    await rebuilder(world).rebuild()
    assert await drop_retired(world.engine.database, world.engine.live_memory, timedelta(hours=1)) == []
    assert (await schemas(world))["lethelog_views"] == "retired"


async def test_readers_and_writers_during_two_rebuilds_meet_no_error_and_no_gap(world):
    for n in range(40):
        await world.remember(f"memory number {n}")
    await world.catch_up()
    running = [asyncio.ensure_future(runner.run()) for runner in world.runners]
    ended = asyncio.Event()
    seen: list[int] = []

    async def read() -> None:
        while not ended.is_set():
            page = await world.reading.list(world.caller, {"limit": 1})
            found = await world.reading.search(world.caller, {"query": "memory number 7", "limit": 3})
            assert found.hits[0].memory.content == "memory number 7"
            seen.append(page.total)

    readers = [asyncio.ensure_future(read()) for _ in range(3)]
    for n in range(2):
        await asyncio.gather(
            rebuilder(world, grace=AT_ONCE).rebuild(), *(world.remember(f"meanwhile {n} {m}") for m in range(5))
        )
    ended.set()
    await asyncio.gather(*readers)
    assert seen and min(seen) >= 40
    for one in running:
        await end(one)
    await world.catch_up()
    assert (await world.reading.list(world.caller, {"limit": 1})).total == 50
    assert (await rebuilder(world).compare()).equal


async def test_tables_of_an_earlier_lethelog_are_generation_one_and_go_on_working(world, database_url):
    first = await world.remember("written by an earlier version")
    await world.catch_up()
    with psycopg.connect(database_url) as connection:
        connection.execute("drop index lethelog_views.tracking_pointer")
        connection.execute(
            "alter table lethelog_views.tracking drop column schema, drop column state, drop column since, "
            "add primary key (name)"
        )
    with pytest.raises(psycopg.errors.UndefinedColumn):
        await world.reading.get(world.caller, {"ids": [first]})
    await ensure_tables(world.engine.database, world.engine.projections)
    assert (await world.get(first)).content == "written by an earlier version"
    second = await world.remember("written by this one")
    assert (await world.get(second)).id == second
    await rebuilder(world, grace=AT_ONCE).rebuild()
    assert await schemas(world) == {"lethelog_views_live_memory_2": "current"}
    assert (await world.get(first)).id == first


async def test_a_read_of_models_that_were_never_built_says_so(world, database_url):
    with psycopg.connect(database_url) as connection:
        connection.execute("drop schema lethelog_views cascade")
    with pytest.raises(Unavailable, match="lethelog doctor"):
        await world.reading.list(world.caller, {})
    with pytest.raises(Unavailable, match="lethelog doctor"):
        await world.reading.search(world.caller, {"query": "deploys"})


async def test_a_scratch_copy_is_read_by_its_name_and_only_there(world):
    first = await world.remember("Deploys go to Hetzner")
    before = await world.catch_up()
    await world.commands.archive(world.caller, {"memory_id": first})
    await world.catch_up()
    await rebuilder(world).build("lethelog_test_scratch", before)
    for scratch, archived in (("lethelog_test_scratch", False), (None, True)):
        async with read_models(world.engine.database, scratch=scratch) as connection:
            cursor = await connection.execute("select archived from live_memory")
            assert await cursor.fetchall() == [(archived,)]
    await discard(world.engine.database, "lethelog_test_scratch")
    with pytest.raises(Unavailable):
        async with read_models(world.engine.database, scratch="lethelog_test_scratch") as connection:
            await connection.execute("select archived from live_memory")


async def test_a_running_worker_goes_on_with_the_new_generation(world):
    running = asyncio.ensure_future(world.runners[0].run())
    await world.remember("before")
    await rebuilder(world).rebuild()
    await world.remember("after")
    head = await world.engine.log.head()
    async with asyncio.timeout(20):
        while True:
            async with world.engine.database.connection() as connection:
                progress = await read_progress(connection, "live_memory")
            if progress.position == head:
                break
            await asyncio.sleep(0.01)
    assert progress.schema == "lethelog_views_live_memory_2"
    assert (await world.reading.list(world.caller, {})).total == 2
    await end(running)
