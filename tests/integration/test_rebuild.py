"""Rebuilds: broken off, killed, cancelled, raced and resumed; whatever happens, readers see a whole view."""

import asyncio
from datetime import timedelta

import psycopg
import pytest
from lethelog.domain.errors import Conflict
from lethelog.projections import runner as runner_module
from lethelog.projections.applying import CannotApply
from lethelog.projections.generations import read_generations, read_models
from lethelog.projections.live_memory import LiveMemory
from lethelog.projections.progress import wait_for
from lethelog.projections.rebuild import Rebuilder, read_rebuilds

ALL = (
    "live_memory",
    "review_queue",
    "memory_history",
    "facts",
    "commitments",
    "contradictions",
    "effects",
    "sessions",
)


class Held(LiveMemory):
    """Says when it is inside the page of a position, and goes on when it may."""

    def __init__(self, world, position: int) -> None:
        super().__init__(world.engine.log, world.engine.embedder)
        self.position = position
        self.inside, self.go_on = asyncio.Event(), asyncio.Event()

    def loading(self, start, target):
        return self

    async def apply(self, connection, schema, page, prepared):
        await super().apply(connection, schema, page, prepared)
        if page[0].position <= self.position <= page[-1].position:
            self.inside.set()
            await self.go_on.wait()


def rebuilder(world, projection=None, **options) -> Rebuilder:
    engine = world.engine
    return Rebuilder(engine.database, engine.log, engine.tail, projection or engine.live_memory, **options)


async def lives(world, count: int = 30) -> list:
    """Memories with later events, so that most of them are not final for a while."""
    ids = [await world.remember(f"memory number {n}") for n in range(count)]
    for one in ids[: count // 2]:
        await world.commands.pin(world.caller, {"memory_id": one})
    for one in ids[count // 4 : count // 3]:
        await world.commands.archive(world.caller, {"memory_id": one})
    return ids


async def states(world) -> list[str]:
    async with world.engine.database.connection() as connection:
        return sorted(one.state for one in await read_generations(connection, "live_memory"))


async def rebuilds(world):
    async with world.engine.database.connection() as connection:
        return await read_rebuilds(connection, ALL)


async def broken_off(world, position: int) -> None:
    """Begin a rebuild and cancel it inside the page of a position."""
    held = Held(world, position)
    task = asyncio.ensure_future(rebuilder(world, held).rebuild())
    async with asyncio.timeout(20):
        await held.inside.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_rebuild_that_was_killed_goes_on_where_it_stopped(world, database_url, start):
    """kill -9 of the process inside a page; the page it was in is not there, those before are."""
    await lives(world)
    head = await world.catch_up()
    process = await start("rebuild", database_url=database_url, view="live_memory", hold=25)
    await process.until(holding=True)
    [seen] = await rebuilds(world)
    assert seen.running and seen.position == 20
    await process.kill()
    async with asyncio.timeout(20):
        while (await rebuilds(world))[0].running:
            await asyncio.sleep(0.02)
    later = await world.remember("written while nobody rebuilt")
    await world.commands.pin(world.caller, {"memory_id": later})
    rebuilt = await rebuilder(world).rebuild()
    assert (rebuilt.resumed_at, rebuilt.position) == (20, head + 2)
    assert await rebuilds(world) == []
    assert (await rebuilder(world).compare()).equal


async def test_a_rebuild_that_was_killed_once_it_had_its_indexes_only_catches_up(world, monkeypatch):
    await lives(world, 4)
    head = await world.catch_up()
    rebuilding = rebuilder(world)

    async def cut(*_args):
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(rebuilding, "_switch", cut)
        with pytest.raises(KeyboardInterrupt):
            await rebuilding.rebuild()
    assert await states(world) == ["current", "filled"]
    assert (await rebuilding.rebuild()).resumed_at == head
    assert (await rebuilding.compare()).equal


async def test_a_rebuild_that_was_broken_off_leaves_the_view_alone_and_can_be_dropped(world, monkeypatch):
    monkeypatch.setattr(runner_module, "LARGEST_PAGE", 10)
    ids = await lives(world)
    await world.catch_up()
    await broken_off(world, 15)
    assert (await world.get(ids[0])).pinned
    [left] = await rebuilds(world)
    assert (left.running, left.position) == (False, 10)
    [dropped] = await rebuilder(world).cancel()
    assert dropped.schema == left.schema and await states(world) == ["current"]
    assert await rebuilder(world).cancel() == []
    assert (await rebuilder(world).rebuild()).resumed_at is None


async def test_what_another_version_had_begun_is_not_gone_on_with(world, monkeypatch):
    monkeypatch.setattr(runner_module, "LARGEST_PAGE", 10)
    await lives(world)
    await world.catch_up()
    await broken_off(world, 15)

    class Newer(LiveMemory):
        version = "99/other"

    newer = Newer(world.engine.log, world.engine.embedder)
    rebuilt = await rebuilder(world, newer, grace=timedelta()).rebuild()
    assert rebuilt.resumed_at is None and await states(world) == ["current"]


async def test_of_two_rebuilds_at_once_one_is_refused_and_neither_is_dropped_under_the_other(world):
    await lives(world, 4)
    await world.catch_up()
    held = Held(world, 2)
    first = asyncio.ensure_future(rebuilder(world, held).rebuild())
    async with asyncio.timeout(20):
        await held.inside.wait()
    with pytest.raises(Conflict, match="being rebuilt already"):
        await rebuilder(world).rebuild()
    with pytest.raises(Conflict, match="being rebuilt already"):
        await rebuilder(world).cancel()
    held.go_on.set()
    assert (await first).position == await world.engine.log.head()
    assert (await rebuilder(world).compare()).equal


async def test_readers_see_the_old_view_whole_until_a_rebuild_takes_its_place(world):
    ids = await lives(world, 8)
    await world.catch_up()
    held = Held(world, await world.engine.log.head())
    rebuilding = asyncio.ensure_future(rebuilder(world, held).rebuild())
    async with asyncio.timeout(20):
        await held.inside.wait()
    assert (await world.reading.list(world.caller, {"status": "all"})).total == len(ids)
    late = await world.remember("written while it is filled")
    assert (await world.get(late)).id == late
    held.go_on.set()
    assert (await rebuilding).position == await world.engine.log.head()
    assert (await world.reading.get(world.caller, {"ids": [late]}))[0].id == late


async def test_a_comparison_does_not_hold_up_the_live_view(world):
    """It compares what both were at one moment, while the view goes on."""
    await lives(world, 8)
    await world.catch_up()
    comparing = rebuilder(world)
    compared_at, go_on = asyncio.Event(), asyncio.Event()
    see = comparing._see_both

    async def then_wait(*args):
        position = await see(*args)
        compared_at.set()
        await go_on.wait()
        return position

    comparing._see_both = then_wait
    task = asyncio.ensure_future(comparing.compare())
    async with asyncio.timeout(20):
        await compared_at.wait()
    before = await world.engine.log.head()
    await world.remember("written while it is compared")
    await world.catch_up()
    await wait_for(world.engine.database, "live_memory", before + 1)
    go_on.set()
    found = await task
    assert found.equal and found.position == before
    assert await states(world) == ["current"]


async def test_loading_forgets_nothing_when_it_keeps_less_than_it_meets(world, monkeypatch):
    """Memories that are let go before they are final are read again."""
    monkeypatch.setattr("lethelog.projections.live_memory_loading.KEPT", 2)
    monkeypatch.setattr(runner_module, "LARGEST_PAGE", 7)
    await lives(world)
    await world.catch_up()
    assert (await rebuilder(world).rebuild()).resumed_at is None
    async with read_models(world.engine.database) as connection:
        cursor = await connection.execute("select count(*) from memory_past")
        assert await cursor.fetchone() == (15 + 3,)
    # The comparison loads in the same way, so it is held against what the runner made page by page as well.
    async with world.engine.database.connection() as connection:
        for table in ("live_memory", "memory_past"):
            new = f"lethelog_views_live_memory_2.{table}"
            cursor = await connection.execute(
                f"select count(*) from (select to_jsonb(a) from lethelog_views.{table} a "
                f"except select to_jsonb(b) from {new} b) x"
            )
            assert await cursor.fetchone() == (0,), table


async def test_a_rebuild_that_fails_in_the_middle_of_large_pages_says_at_which_event(
    world, database_url, monkeypatch
):
    """The pages are made smaller until it is the one event, and what was built before it is right all the same."""
    monkeypatch.setattr(runner_module, "LARGEST_PAGE", 40)
    await lives(world)
    await world.catch_up()
    poison = 33
    [event] = await world.engine.log.read_page(poison - 1, 1)
    for name, outcome in (("memory.dreamt", None), (event.name, poison - 1)):
        with psycopg.connect(database_url) as connection:
            connection.execute("set session_replication_role = replica")
            connection.execute("update lethelog.events set name = %s where position = %s", (name, poison))
        if outcome is None:
            with pytest.raises(CannotApply, match=f"position {poison} .*UnknownName"):
                await rebuilder(world).rebuild()
        else:
            assert (await rebuilder(world).rebuild()).resumed_at == outcome
    assert (await rebuilder(world).compare()).equal
