"""Several processes at one log: the rules hold between them as they do within one."""

import asyncio
from collections import Counter

import pytest
from lethelog.streams import audit
from lethelog.streams.log import Log

from ..broker_fixtures import eventually


@pytest.fixture
def given(world, database_url) -> dict[str, str]:
    return {
        "database_url": database_url,
        "tenant": str(world.caller.tenant),
        "actor": str(world.caller.actor.id),
    }


async def test_f28_twenty_parallel_remembers_of_one_sentence_in_two_processes_make_one_memory(
    world, given, start, held
):
    """Every one of them has decided before any of them is stored."""
    lock = held()
    children = [await start("remember_alike", **given, count=10) for _ in range(2)]
    await eventually(lambda: lock.waiting() == 2, "every process stands at the log")
    lock.release()
    told = [one for child in children for one in await child.rest()]
    assert len(told) == 20 and len({one["id"] for one in told}) == 1
    assert Counter(one["changed"] for one in told) == {True: 1, False: 19}
    page = await world.engine.log.read_page(0, 500)
    assert [one.name for one in page].count("memory.remembered") == 1


async def test_f30_two_processes_that_revise_one_version_make_one_successor_and_one_conflict(
    world, given, start, held
):
    memory = await world.remember("Deploys go to Fly.io")
    lock = held()
    children = [
        await start("revise", **given, memory=str(memory), version=1, content=f"Deploys go to {place}")
        for place in ("Hetzner", "Scaleway")
    ]
    await eventually(lambda: lock.waiting() == 2, "both stand at the log")
    lock.release()
    told = [one for child in children for one in await child.rest()]
    [successor] = [one["id"] for one in told if "id" in one]
    [conflict] = [one["conflict"] for one in told if "conflict" in one]
    assert successor in str(conflict), conflict
    names = [one.name for one in await world.engine.log.read_page(0, 500)]
    assert (names.count("memory.remembered"), names.count("memory.superseded")) == (2, 1)


async def test_f42_processes_that_append_at_once_leave_no_gap_and_a_reader_passes_nothing(world, given, start):
    """A tailing reader beside two writing processes sees every position once, in order; the chain holds."""
    log: Log = world.engine.log
    first = await log.head()
    children = [
        await start("write", **given, batches=[[n, n + 10] for n in range(begin, begin + 40, 10)])
        for begin in (0, 1000)
    ]
    seen: list[int] = []
    writing = asyncio.ensure_future(asyncio.gather(*(child.rest() for child in children)))
    at = first
    while not writing.done() or at < await log.head():
        page = await log.read_page(at, 50)
        seen += [event.position for event in page]
        at = seen[-1] if seen else at
        await asyncio.sleep(0)
    acknowledged = [one["id"] for told in await writing for one in told if "id" in one]
    assert seen == list(range(first + 1, first + len(seen) + 1))
    assert len(set(acknowledged)) == 80
    found = await audit.verify(world.engine.database)
    assert found.intact and found.upto == await log.head() and found.commits > 3
