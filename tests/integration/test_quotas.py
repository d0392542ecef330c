"""Quotas are exact for any number of writers and processes, and what they cost is known."""

import asyncio
from functools import partial
from uuid import UUID

import pytest
from lethelog.domain.errors import InvalidInput, NotCaughtUp, QuotaExceeded
from lethelog.handlers.engine import open_engine
from lethelog.handlers.memories import MemoryCommands, Retry
from lethelog.handlers.tenancy import quotas as quotas_module
from lethelog.handlers.tenancy.policies import Policies
from lethelog.projections.progress import wait_for
from lethelog.streams.append import AppendQueue
from lethelog.streams.master_keys import Keyring


async def policy(world, **changes) -> None:
    await Policies(world.engine).change(world.caller, changes)


async def live(world) -> int:
    return await world.engine.log.count_claims(world.caller.tenant, "content")


async def test_at_the_cap_a_write_is_refused_and_appends_nothing(world):
    await policy(world, live_memories=2)
    first = await world.remember("one")
    await world.remember("two")
    head = await world.engine.log.head()
    with pytest.raises(QuotaExceeded) as refused:
        await world.remember("three")
    assert refused.value.details["cap"] == 2 and "three" not in str(refused.value.as_dict())
    assert await world.engine.log.head() == head
    again = await world.commands.remember(world.caller, {"topic": "t", "content": "one"})
    assert again.deduplicated and again.memory.id == first, "what is there already needs no room"
    revised = await world.commands.revise(world.caller, {"memory_id": first, "content": "one, revised"})
    await world.commands.archive(world.caller, {"memory_id": revised.memory.id})
    await world.remember("three")
    with pytest.raises(QuotaExceeded):
        await world.commands.restore(world.caller, {"memory_id": revised.memory.id})
    assert await live(world) == 2


async def test_a_cap_is_exact_for_several_processes_writing_at_once(world, database_url: str, embedder):
    await policy(world, live_memories=7)
    elsewhere = await open_engine(database_url, Keyring.of(b"m" * 32), embedder, clock=world.clock)
    both = (world.commands, MemoryCommands(elsewhere))
    outcomes = await asyncio.gather(
        *(
            commands.remember(world.caller, {"topic": "t", "content": f"{place} {number}"})
            for place, commands in enumerate(both)
            for number in range(10)
        ),
        return_exceptions=True,
    )
    await elsewhere.close()
    refused = [one for one in outcomes if isinstance(one, BaseException)]
    assert len(refused) == 13 and all(isinstance(one, QuotaExceeded) for one in refused)
    assert await live(world) == 7


async def test_a_retry_of_a_write_that_was_stored_is_answered_also_at_the_cap(world):
    await policy(world, live_memories=1, writes_per_minute=1)
    arguments = {"topic": "t", "content": "one"}
    first = await world.commands.remember(world.caller, arguments, Retry("k"))
    again = await world.commands.remember(world.caller, arguments, Retry("k"))
    assert again.memory.id == first.memory.id and again.position == first.position


async def test_the_oldest_freshness_goes_first_and_never_what_is_kept(world):
    pinned = await world.remember("pinned", pinned=True)
    core = await world.remember("core", core=True)
    verified = await world.remember("verified")
    await world.commands.verify(world.caller, {"memory_id": verified})
    world.clock.forward(days=1)
    old = await world.remember("old")
    world.clock.forward(days=1)
    reaffirmed = await world.remember("reaffirmed")
    world.clock.forward(days=1)
    young = await world.remember("young")
    world.clock.forward(days=1)
    await world.commands.reaffirm(world.caller, {"memory_id": reaffirmed})
    await policy(world, live_memories=6, at_cap="evict")
    gone: list[UUID] = []
    for number in range(3):
        await world.catch_up()
        world.clock.forward(days=1)
        written = await world.commands.remember(world.caller, {"topic": "t", "content": f"new {number}"})
        gone += written.evicted
        assert await live(world) == 6
    assert gone[:2] == [old, young] and reaffirmed not in gone
    event = (await world.engine.log.read_stream(world.caller.tenant, old))[-1]
    assert (event.name, event.event.rule) == ("memory.archived", "oldest_freshness")
    present = (await world.engine.tenants.get(world.caller.tenant, fresh=True)).policy_version
    assert event.envelope.policy == present == 2
    assert [(await world.get(one)).status for one in (old, pinned, core, verified)] == [
        "archived",
        *["active"] * 3,
    ]


async def test_what_has_expired_goes_before_what_is_fresh(world):
    await world.remember("older")
    world.clock.forward(days=1)
    expiring = await world.remember("expiring", expires_at="2026-03-03T00:00:00Z")
    world.clock.forward(days=5)
    await world.catch_up()
    await policy(world, live_memories=2, at_cap="evict")
    assert (await world.commands.remember(world.caller, {"topic": "t", "content": "new"})).evicted == (expiring,)


async def test_where_nobody_may_go_the_write_is_refused(world):
    await world.remember("pinned", pinned=True)
    await policy(world, live_memories=1, at_cap="evict")
    await world.catch_up()
    head = await world.engine.log.head()
    with pytest.raises(QuotaExceeded, match="pinned"):
        await world.remember("new")
    assert await world.engine.log.head() == head


async def test_a_cap_that_was_lowered_is_reached_by_evicting_more(world):
    for number in range(5):
        await world.remember(f"m {number}")
        world.clock.forward(hours=1)
    await world.catch_up()
    await policy(world, live_memories=2, at_cap="evict")
    written = await world.commands.remember(world.caller, {"topic": "t", "content": "new"})
    assert len(written.evicted) == 4 and await live(world) == 2


async def test_writers_at_a_cap_that_was_lowered_evict_no_more_than_it_needs(world):
    for number in range(30):
        await world.remember(f"m {number}")
        world.clock.forward(hours=1)
    await world.catch_up()
    await policy(world, live_memories=25, at_cap="evict")
    written = await asyncio.gather(
        *(world.commands.remember(world.caller, {"topic": "t", "content": f"n {n}"}) for n in range(3))
    )
    gone = [one for each in written for one in each.evicted]
    assert len(gone) == len(set(gone)) == 8 and await live(world) == 25


async def test_two_tries_of_one_command_at_the_cap_are_one_and_answer_alike(world):
    await world.remember("old")
    await world.catch_up()
    await policy(world, live_memories=1, at_cap="evict")
    arguments = {"topic": "t", "content": "new"}
    tries = await asyncio.gather(*(world.commands.remember(world.caller, arguments, Retry("k")) for _ in range(3)))
    assert len({one.memory.id for one in tries}) == 1 and await live(world) == 1


async def test_where_the_oldest_are_not_known_yet_a_write_says_so_and_not_that_they_are_pinned(
    world, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(quotas_module, "wait_for", partial(wait_for, seconds=0.1))
    await world.remember("not seen by the read model")
    await policy(world, live_memories=1, at_cap="evict")
    with pytest.raises(NotCaughtUp):
        await world.remember("new")
    await world.catch_up()
    assert (await world.commands.remember(world.caller, {"topic": "t", "content": "new"})).evicted


async def test_more_than_are_looked_at_in_one_go_may_be_gone_already(world, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quotas_module, "LOOKED_AT", 2)
    ids = [await world.remember(f"m {number}") for number in range(4)]
    await world.catch_up()
    for one in ids[:3]:
        await world.commands.archive(world.caller, {"memory_id": one})
    await policy(world, live_memories=1, at_cap="evict")
    assert (await world.commands.remember(world.caller, {"topic": "t", "content": "new"})).evicted == (ids[3],)


async def test_evicting_under_load_stays_at_the_cap(world):
    for number in range(4):
        await world.remember(f"m {number}")
        world.clock.forward(hours=1)
    await world.catch_up()
    await policy(world, live_memories=4, at_cap="evict")
    written = await asyncio.gather(
        *(world.commands.remember(world.caller, {"topic": "t", "content": f"n {n}"}) for n in range(4))
    )
    gone = [one for each in written for one in each.evicted]
    assert len(gone) == len(set(gone)) == 4 and await live(world) == 4


async def test_writes_per_minute_are_exact_and_the_error_says_when_to_try_again(world):
    await policy(world, writes_per_minute=3)
    tenant = world.caller.tenant
    async with world.engine.database.connection() as connection:
        # So that no minute ends while the test writes.
        await (
            await connection.execute(
                "select pg_sleep(case when extract(second from now()) > 50 then 10.1 else 0 end)"
            )
        ).fetchall()
    outcomes = await asyncio.gather(*(world.remember(f"m {n}") for n in range(8)), return_exceptions=True)
    refused = [one for one in outcomes if isinstance(one, QuotaExceeded)]
    assert len(refused) == 5 and all(0 < one.details["retry_after"] <= 60 for one in refused)
    await world.commands.archive(
        world.caller, {"memory_id": next(one for one in outcomes if isinstance(one, UUID))}
    )
    _back(world, "update lethelog.write_counts set minute = minute - 1 where tenant = %s", tenant)
    await world.remember("in the next minute")


async def test_one_tenants_quota_is_not_anothers(world):
    await policy(world, live_memories=1, writes_per_minute=1)
    await world.remember("mine")
    other = await world.another_caller()
    for number in range(5):
        await world.commands.remember(other, {"topic": "t", "content": f"theirs {number}"})
    with pytest.raises(QuotaExceeded):
        await world.remember("mine, too")


async def test_who_has_no_quota_pays_nothing_for_it(world, monkeypatch: pytest.MonkeyPatch):
    limited: list[int] = []
    call = AppendQueue._call

    async def watched(self, batch):
        if batch[0].unit.limits is not None:
            limited.append(len(batch))
        await call(self, batch)

    monkeypatch.setattr(AppendQueue, "_call", watched)
    await asyncio.gather(*(world.remember(f"m {n}") for n in range(10)))
    assert limited == []
    await policy(world, live_memories=100)
    await asyncio.gather(*(world.remember(f"n {n}") for n in range(5)))
    assert limited == [1] * 5


@pytest.mark.parametrize("changes", [{"live_memories": 0}, {"writes_per_minute": 0}, {"at_cap": "drop"}])
async def test_a_quota_that_cannot_be_is_refused(world, changes):
    with pytest.raises(InvalidInput) as refused:
        await policy(world, **changes)
    assert refused.value.field == next(iter(changes))


def _back(world, statement: str, *values: object) -> None:
    import psycopg

    with psycopg.connect(world.engine.database.url, autocommit=True) as connection:
        connection.execute(statement, values)
