"""What rests on a memory that ended is put before somebody, once (behaviour.md 1.4, 4.5)."""

import asyncio
from uuid import UUID

import pytest
from lethelog.handlers.dependencies import reviews
from lethelog.handlers.dependencies.reviews import DependencyReviews
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.operating.workers import Workers

from .test_audit import tamper


async def derived(world, *sources: UUID, text: str = "So the budget is 12 a month") -> UUID:
    return await world.remember(text, derived_from=list(sources))


async def queue(world, **query):
    await world.catch_up()
    return (await world.reviewing.list(world.caller, {"kind": "dependency", **query})).proposals


async def swept(world):
    await world.catch_up()
    await DependencyReviews(world.engine).sweep()
    return await queue(world)


async def ended(world, how: str, memory_id: UUID) -> None:
    if how == "superseded":
        await world.commands.revise(world.caller, {"memory_id": memory_id, "content": "The rent is 2"})
    else:
        await world.commands.refute(world.caller, {"memory_id": memory_id})


@pytest.mark.parametrize("how", ["superseded", "refuted"])
async def test_a_memory_derived_from_one_that_ended_gets_one_review(world, how: str):
    source = await world.remember("The rent is 1")
    dependent = await derived(world, source)
    assert await swept(world) == ()
    await ended(world, how, source)
    [review] = await swept(world)
    assert (review.memory_id, review.related_id, review.action) == (dependent, source, "archive")
    assert review.details == {"ended": how} and review.seen == {dependent: 1}
    assert await swept(world) == (review,), "once"


async def test_accepting_archives_what_rested_on_it_and_rejecting_keeps_it_for_good(world):
    source = await world.remember("The rent is 1")
    first, second = await derived(world, source), await derived(world, source, text="Rent is most of it")
    await ended(world, "superseded", source)
    by_memory = {one.memory_id: one.id for one in await swept(world)}
    await world.reviewing.reject(world.caller, {"proposal_id": by_memory[second]})
    deciding = asyncio.ensure_future(world.reviewing.accept(world.caller, {"proposal_id": by_memory[first]}))
    while not deciding.done():
        await world.catch_up()
        await asyncio.wait([deciding], timeout=0.02)
    assert deciding.result().changed == (first,)
    assert [(await world.get(one)).status for one in (first, second)] == ["archived", "active"]
    assert {one.status for one in await swept(world)} == {"applied", "rejected"}


async def test_the_successor_of_what_ended_is_not_asked_about(world):
    source = await world.remember("The rent is 1")
    await world.commands.revise(
        world.caller, {"memory_id": source, "content": "The rent is 2", "derived_from": [source]}
    )
    assert await swept(world) == ()


async def test_a_dependent_that_is_not_live_any_more_is_not_asked_about(world):
    source = await world.remember("The rent is 1")
    dependent = await derived(world, source)
    await world.commands.archive(world.caller, {"memory_id": dependent})
    await ended(world, "refuted", source)
    assert await swept(world) == ()


async def test_an_archived_source_is_no_reason_to_ask(world):
    source = await world.remember("The rent is 1")
    await derived(world, source)
    await world.commands.archive(world.caller, {"memory_id": source})
    assert await swept(world) == ()


async def test_reviews_go_through_all_pages(world, monkeypatch):
    monkeypatch.setattr(reviews, "PAGE", 2)
    sources = [await world.remember(f"Rent {n} is high") for n in range(2)]
    made = {await derived(world, *sources, text=f"Budget {n} is low") for n in range(5)}
    for source in sources:
        await ended(world, "refuted", source)
    found = await swept(world)
    assert {one.memory_id for one in found} == made and len(found) == 5, "one open review per memory"


async def test_a_second_ended_source_is_asked_about_once_the_first_was_decided(world):
    sources = [await world.remember(f"Rent {n} is high") for n in range(2)]
    await derived(world, *sources)
    for source in sources:
        await ended(world, "refuted", source)
    [first] = await swept(world)
    await world.reviewing.reject(world.caller, {"proposal_id": first.id})
    found = await swept(world)
    assert {one.related_id for one in found} == set(sources)


async def erase(world, **what) -> None:
    erasures = Erasures(world.engine)
    preview = await erasures.preview(world.caller, what)
    done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert done.verified


async def test_what_rests_on_an_erased_memory_is_asked_about_and_what_went_with_it_is_not(world):
    source = await world.remember("The rent is 1")
    dependent = await derived(world, source)
    await erase(world, memory_id=source, derived="list")
    [review] = await swept(world)
    assert (review.memory_id, review.related_id, review.details) == (dependent, source, {"ended": "erased"})
    other = await world.remember("The heating is 1")
    await derived(world, other, text="So heating is 12 a year")
    await erase(world, memory_id=other, derived="cascade")
    assert await swept(world) == (review,)


async def test_a_review_outlives_the_erasure_of_what_ended(world):
    """Its memory is there still, and so is the question."""
    source = await world.remember("The rent is 1")
    dependent = await derived(world, source)
    await ended(world, "refuted", source)
    [review] = await swept(world)
    await erase(world, memory_id=source, derived="list")
    [still] = await swept(world)
    assert (still.id, still.memory_id, still.status) == (review.id, dependent, "proposed")
    await erase(world, memory_id=dependent)
    assert [one.status for one in await swept(world)] == ["withdrawn"]


async def test_the_worker_hears_of_it_from_the_broker(world, broker):
    source = await world.remember("The rent is 1")
    dependent = await derived(world, source)
    workers = Workers(world.engine, broker=broker, roles=("views", "relay", "dependencies"))
    await workers.open()
    try:
        await ended(world, "superseded", source)
        async with asyncio.timeout(30):
            while not (page := await world.reviewing.list(world.caller, {"kind": "dependency"})).proposals:
                await asyncio.sleep(0.05)
    finally:
        await workers.close()
    assert [one.memory_id for one in page.proposals] == [dependent]


async def test_a_tenant_whose_log_is_damaged_keeps_no_other_one_from_being_looked_at(world):
    first = await world.another_caller(UUID(int=1))  # it is looked at before all others
    for caller in (first, world.caller):
        source = (await world.commands.remember(caller, {"topic": "t", "content": "The rent is 1"})).memory.id
        said = {"topic": "t", "content": "So the budget is 12", "derived_from": [source]}
        await world.commands.remember(caller, said)
        await world.commands.refute(caller, {"memory_id": source})
    await world.catch_up()
    tamper(world.database_url, f"update lethelog.events set body = 'damaged' where stream = '{first.tenant}'")
    world.engine.tenants._cache.clear()
    assert await DependencyReviews(world.engine).sweep() == 1
    [review] = await queue(world)
    assert review.action == "archive"
