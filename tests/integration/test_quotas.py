"""Quotas are exact for any number of writers and processes, and what they cost is known."""

import asyncio
from functools import partial
from typing import NamedTuple
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from lethelog.domain.errors import InvalidInput, NotCaughtUp, QuotaExceeded
from lethelog.handlers.engine import open_engine
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.memories import MemoryCommands, Retry
from lethelog.handlers.tenancy import quotas as quotas_module
from lethelog.handlers.tenancy.policies import Policies
from lethelog.projections.progress import wait_for
from lethelog.streams import append
from lethelog.streams.append import PreparedUnit
from lethelog.streams.log import CommandKey
from lethelog.streams.master_keys import Keyring

from .held import Held
from .test_erasure import erase


async def policy(world, **changes) -> None:
    await Policies(world.engine).change(world.caller, changes)


async def live(world) -> int:
    return await world.engine.log.count_claims(world.caller.tenant, "content")


async def test_at_the_cap_a_write_is_refused_and_appends_nothing(world):
    """Bound policy: cap reached: `fail` rejects the write."""
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
    """Bound policy: cap reached: `evict` names the evicted id."""
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
    _back(world, "update lethelog.usage set minute = minute - 1 where tenant = %s", tenant)
    await world.remember("in the next minute")


async def test_one_tenants_quota_is_not_anothers(world):
    await policy(world, live_memories=1, writes_per_minute=1)
    await world.remember("mine")
    other = await world.another_caller()
    for number in range(5):
        await world.commands.remember(other, {"topic": "t", "content": f"theirs {number}"})
    with pytest.raises(QuotaExceeded):
        await world.remember("mine, too")


async def test_at_a_cap_that_rejects_what_has_expired_holds_no_place(world):
    kept = await world.remember("kept")
    expiring = [
        await world.remember(f"expiring {n}", pinned=bool(n), expires_at="2026-03-03T00:00:00Z") for n in range(2)
    ]
    await policy(world, live_memories=3)
    await world.catch_up()
    with pytest.raises(QuotaExceeded):
        await world.remember("too early")
    world.clock.forward(days=5)
    written = [
        await world.commands.remember(world.caller, {"topic": "t", "content": f"new {n}"}) for n in range(2)
    ]
    assert {one for each in written for one in each.evicted} == set(expiring), (
        "a pin keeps no place beyond its end"
    )
    event = (await world.engine.log.read_stream(world.caller.tenant, expiring[0]))[-1]
    assert (event.name, event.event.rule) == ("memory.archived", "expired")
    with pytest.raises(QuotaExceeded) as refused:
        await world.remember("one too many")
    assert refused.value.details["cap"] == 3 and await live(world) == 3
    assert (await world.get(kept)).status == "active"


async def test_units_with_quotas_share_a_commit_and_only_the_one_that_is_too_much_is_refused(
    world, database_url: str
):
    caller, other = world.caller, await world.another_caller()
    first, second = await world.remember("one"), await world.remember("two")
    await policy(world, live_memories=3)
    held = Held(database_url)
    going = [asyncio.create_task(world.remember("three"))]
    await held.is_waited_for()
    going.append(asyncio.create_task(world.commands.archive(caller, {"memory_id": first})))
    await _queued(world, 1)
    going += [asyncio.create_task(world.remember(f"more {number}")) for number in range(3)]
    going += [
        asyncio.create_task(world.commands.remember(other, {"topic": "t", "content": f"theirs {number}"}))
        for number in range(3)
    ]
    await _queued(world, len(going) - 1)
    before = _one(database_url, "select count(*) from lethelog.roots")
    held.release()
    three, archived, *rest = await asyncio.gather(*going, return_exceptions=True)
    held.close()
    assert _one(database_url, "select count(*) from lethelog.roots") == before + 2, (
        "one commit for all that waited"
    )
    assert isinstance(three, UUID) and archived.changed
    more, theirs = rest[:3], rest[3:]
    assert [isinstance(one, QuotaExceeded) for one in more].count(True) == 2, "the place that was let go is one"
    assert all(one.changed for one in theirs) and await live(world) == 3
    await world.catch_up()
    assert (await world.get(second)).status == "active"


async def test_who_has_no_quota_sends_none(world, monkeypatch: pytest.MonkeyPatch):
    limited: list[int] = []
    judged = append.limit_arrays

    def watched(units):
        limited.extend(unit.limits is not None for unit in units)
        return judged(units)

    monkeypatch.setattr(append, "limit_arrays", watched)
    await asyncio.gather(*(world.remember(f"m {n}") for n in range(5)))
    assert limited == [False] * 5 and judged([PreparedUnit(uuid4(), uuid4(), CommandKey.fresh())]) == []
    assert _one(world.engine.database.url, "select count(*) from lethelog.usage") == 0
    await policy(world, live_memories=100)
    await world.remember("n")
    assert limited[-1] and _one(world.engine.database.url, "select live from lethelog.usage") == 6


async def test_what_was_erased_holds_no_place(world):
    ids = [await world.remember(f"m {n}") for n in range(3)]
    await policy(world, live_memories=3)
    with pytest.raises(QuotaExceeded):
        await world.remember("too many")
    await erase(world, Erasures(world.engine), memory_id=ids[0])
    await world.remember("in its place")
    with pytest.raises(QuotaExceeded):
        await world.remember("too many")
    assert await live(world) == 3


class Wish(NamedTuple):
    """A unit of a call: what it wants, and what it is judged by."""

    tenant: int
    brings: int
    ends: bool
    moved: bool
    """Whether it is refused for another reason, and so counts for nothing."""
    cap: int | None
    rate: int | None

    def outcome(self, live: int, writes: int) -> str:
        """By a model that takes one unit after another."""
        grows = self.brings - self.ends
        if self.moved:
            return "version"
        if self.cap is not None and grows > 0 and live + grows > self.cap:
            return "live"
        if self.rate is not None and self.brings and writes + self.brings > self.rate:
            return "rate"
        return "ok"


CAPS = st.none() | st.integers(0, 8)
WISHES = st.lists(
    st.builds(Wish, st.integers(0, 1), st.integers(0, 2), st.booleans(), st.booleans(), CAPS, CAPS),
    min_size=1,
    max_size=8,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(WISHES, min_size=1, max_size=4))
def test_each_unit_of_a_call_is_judged_beside_those_that_stand_before_it(database_url: str, calls):
    tenants = [uuid4(), uuid4()]
    held = [[uuid4() for _ in range(4)] for _ in tenants]
    writes = [0, 0]
    with psycopg.connect(database_url, autocommit=True) as connection:
        for tenant, ids in zip(tenants, held, strict=True):
            assert _called(connection, [_unit(tenant, takes=ids)]) == ["ok"]
        began = _minute(connection)
        for wishes in calls:
            units, expected, judged = [], [], []
            for wish in wishes:
                mine = held[wish.tenant]
                takes, lets_go = [uuid4() for _ in range(wish.brings)], mine[:1] if wish.ends else []
                wish = wish._replace(ends=bool(lets_go))
                units.append(_unit(tenants[wish.tenant], takes, lets_go, 1 + wish.moved, (wish.cap, wish.rate)))
                judged.append((wish, takes, lets_go))
                # Nobody else of the call may touch what it lets go.
                held[wish.tenant] = mine[len(lets_go) :]
            live = [
                len(ids) + sum(len(gone) for one, _, gone in judged if one.tenant == n)
                for n, ids in enumerate(held)
            ]
            for wish, takes, lets_go in judged:
                expected.append(wish.outcome(live[wish.tenant], writes[wish.tenant]))
                if expected[-1] == "ok":
                    live[wish.tenant] += wish.brings - wish.ends
                    writes[wish.tenant] += wish.brings if wish.rate is not None else 0
                    held[wish.tenant] += takes
                else:
                    held[wish.tenant] += lets_go
            found = _called(connection, units)
            assume(_minute(connection) == began)
            assert found == expected
            for tenant, ids in zip(tenants, held, strict=True):
                present = connection.execute(
                    "select count(*), coalesce((select live from lethelog.usage where tenant = %(tenant)s), count(*)) "
                    "from lethelog.claims where tenant = %(tenant)s and kind = 'content'",
                    {"tenant": tenant},
                ).fetchone()
                assert present == (len(ids), len(ids))


@pytest.mark.parametrize("changes", [{"live_memories": 0}, {"writes_per_minute": 0}, {"at_cap": "drop"}])
async def test_a_quota_that_cannot_be_is_refused(world, changes):
    with pytest.raises(InvalidInput) as refused:
        await policy(world, **changes)
    assert refused.value.field == next(iter(changes))


async def _queued(world, count: int) -> None:
    """Return once so many units wait behind the call that is under way."""
    while len(world.engine.log._queue._waiting) < count:
        await asyncio.sleep(0)


def _unit(tenant: UUID, takes=(), lets_go=(), version: int = 1, limits=None) -> PreparedUnit:
    unit = PreparedUnit(tenant, uuid4(), CommandKey.fresh(), limits=limits)
    for one in takes:
        unit.add_event(one, version, "memory.remembered", uuid4(), b"")
        unit.add_claim("content", one.bytes, None, one)
    for one in lets_go:
        unit.add_event(uuid4(), version, "memory.archived", uuid4(), b"")
        unit.add_claim("content", one.bytes, one, None)
    if not unit.events:
        unit.add_event(uuid4(), version, "memory.rated", uuid4(), b"")
    return unit


def _called(connection: psycopg.Connection, units: list[PreparedUnit]) -> list[str]:
    """Outcomes of the units of one call."""
    limits = append.limit_arrays(units)
    statement = append.call_statement(limits=append.LIMITS if limits else ())
    rows = connection.execute(statement.encode(), [*append.unit_arrays(units), *limits]).fetchall()
    return [outcome for _, outcome, *_ in sorted(rows, key=lambda row: row[0])]


def _minute(connection: psycopg.Connection) -> int:
    return connection.execute("select floor(extract(epoch from clock_timestamp()) / 60)").fetchone()[0]


def _one(url: str, statement: str) -> int:
    with psycopg.connect(url) as connection:
        return connection.execute(statement).fetchone()[0]


def _back(world, statement: str, *values: object) -> None:
    with psycopg.connect(world.engine.database.url, autocommit=True) as connection:
        connection.execute(statement, values)
