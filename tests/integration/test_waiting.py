"""Waiting for a read model: told at once in the process that applies, found by looking in any other."""

import asyncio
from functools import partial

import pytest
from lethelog.domain.errors import NotCaughtUp, Unavailable
from lethelog.projections import progress as progress_module
from lethelog.projections.progress import wait_for
from lethelog.projections.waiting import Waiting, waiting_for


async def test_those_who_wait_share_one_look_and_only_those_who_are_reached_go_on():
    waiting, looks, answers = Waiting(), 0, asyncio.Queue[int]()

    async def look() -> int:
        nonlocal looks
        looks += 1
        return await answers.get()

    first, second, third = (asyncio.ensure_future(waiting.reached(n, look)) for n in (3, 5, 5))
    answers.put_nowait(3)
    await first
    assert looks <= 2 and not second.done() and not third.done()
    waiting.tell(4)
    await asyncio.sleep(0)
    assert not second.done()
    waiting.tell(5)
    await asyncio.gather(second, third)


async def test_a_look_that_fails_fails_those_who_wait_and_nobody_who_comes_later():
    waiting = Waiting()

    async def broken() -> int:
        raise Unavailable("the database does not answer")

    async def there() -> int:
        return 7

    waited = await asyncio.gather(waiting.reached(1, broken), waiting.reached(2, broken), return_exceptions=True)
    assert [type(one) for one in waited] == [Unavailable, Unavailable]
    await waiting.reached(7, there)


async def test_a_pool_that_is_closed_fails_its_own_and_not_those_who_wait_with_another():
    waiting = Waiting()

    async def closed() -> int:
        raise Unavailable("the database does not answer")

    async def there() -> int:
        return 7

    first, second = await asyncio.gather(
        waiting.reached(7, closed), waiting.reached(7, there), return_exceptions=True
    )
    assert (type(first), second) == (Unavailable, None)


async def test_nobody_looks_any_more_once_nobody_waits():
    waiting, looking = Waiting(), asyncio.Event()

    async def look() -> int:
        looking.set()
        return 0

    one = asyncio.ensure_future(waiting.reached(1, look))
    await looking.wait()
    [task] = [task for task in asyncio.all_tasks() if task.get_name() == "lethelog-positions"]
    one.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(one, task, return_exceptions=True)
    assert one.cancelled() and not task.cancelled()


async def test_whoever_applies_a_page_tells_those_in_its_process_and_no_look_is_needed(world, monkeypatch):
    await world.remember("before")
    await world.catch_up()
    database = world.engine.database
    looked = asyncio.Event()

    async def never(_connection, _name):
        looked.set()
        return 0, 2**62

    monkeypatch.setattr(progress_module, "read_position", never)
    await world.remember("after")
    head = await world.engine.log.head()
    waits = asyncio.ensure_future(wait_for(database, "live_memory", head))
    await looked.wait()
    assert not waits.done()
    await world.catch_up()
    await waits
    with pytest.raises(NotCaughtUp):
        await wait_for(database, "live_memory", head + 1, seconds=0.05)


async def test_a_copy_that_is_being_built_tells_nobody(world):
    """Its positions are not what readers see."""
    from lethelog.projections.rebuild import Rebuilder

    await world.remember("written before any view is there")
    head = await world.engine.log.head()
    engine = world.engine

    async def nowhere() -> int:
        return 0

    waits = asyncio.ensure_future(waiting_for(engine.database.url, "live_memory").reached(head, nowhere))
    build = partial(Rebuilder(engine.database, engine.log, engine.tail, engine.live_memory).build, "scratch_copy")
    assert await (await build(head)).position() == head
    assert not waits.done()
    await world.catch_up()
    await waits
