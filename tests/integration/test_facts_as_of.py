"""Whatever was asked for: facts at any moment are those of read models built up to there, and those of the rule."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lethelog.domain.errors import LethelogError
from lethelog.domain.fact import evolve_fact
from lethelog.domain.memory import evolve
from lethelog.handlers.facts import Facts
from lethelog.projections.as_of import AsOf
from lethelog.projections.facts import FactFilter, list_facts
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.scratch import discard
from lethelog.streams.database import TENANT_SETTING
from lethelog.streams.folding import fold_stream

from .test_facts import JANUARY, accepted, remember, take_back
from .test_properties import Run

DAY = timedelta(days=1)
Step = tuple[str, int, int]
"""What is done, to which memory or fact, and a number that tells windows and subjects apart."""
VERBS = ("remember", "accept", "undo", "redo", "refute", "release", "archive", "revise", "suppress", "restore")


@dataclass
class Told:
    """What was written."""

    world: Any
    memories: list[UUID] = field(default_factory=list)
    facts: list[UUID] = field(default_factory=list)

    async def do(self, step: Step) -> None:
        verb, target, number = step
        if verb != "remember" and not self.memories:
            return
        try:
            await self._do(verb, target, number)
        except (LethelogError, ValueError):
            # Refused by the rules, or nothing to take back; nothing is written then.
            return

    async def _do(self, verb: str, target: int, number: int) -> None:
        world = self.world
        if verb == "remember":
            # Few texts: one that was refuted comes back quarantined.
            facts = [self.window(number + n) | {"subject": f"s{n}", "predicate": "p"} for n in range(number % 3)]
            written = await remember(world, f"text {target % 3}", *facts)
            self.memories.append(written.memory.id)
            return
        memory = self.memories[target % len(self.memories)]
        about: dict[str, Any] = {"memory_id": memory}
        if verb == "accept":
            self.facts.append(await accepted(world, memory, subject=f"s{number % 3}", **self.window(number)))
        elif verb in ("undo", "redo"):
            await take_back(
                world, self.facts[target % len(self.facts)] if self.facts else memory, again=verb == "redo"
            )
        elif verb == "suppress":
            await world.commands.suppress(
                world.caller, about | {"plan_id": UUID(int=1), "approver": "ada", "reason": "plan"}
            )
        elif verb == "release":
            await world.commands.release(world.caller, about | {"reason": "so it is"})
        elif verb == "revise":
            written = await world.commands.revise(world.caller, about | {"content": f"revised {number}"})
            self.memories.append(written.memory.id)
        else:
            await getattr(world.commands, verb)(world.caller, about)

    def window(self, number: int) -> dict[str, Any]:
        begins = JANUARY + (number % 4) * DAY
        return {"value": f"v{number}", "valid_from": begins, "valid_to": begins + 2 * DAY if number % 2 else None}


async def by_the_rule(world, position: int, valid_at: datetime | None) -> set[UUID]:
    """Ids of the facts that hold, folded from the events on record at a position."""
    streams: dict[UUID, list[Any]] = {}
    for one in await world.engine.log.read_page(0, 10_000, position):
        if one.tenant == world.caller.tenant and one.name.partition(".")[0] in ("fact", "memory"):
            streams.setdefault(one.stream, []).append(one)
    memories = {
        stream: fold_stream(events, evolve)
        for stream, events in streams.items()
        if events[0].name == "memory.remembered"
    }
    found: set[UUID] = set()
    for stream, events in streams.items():
        if stream in memories:
            continue
        fact = fold_stream(events, evolve_fact)
        assert fact is not None
        memory = memories[fact.memory_id]
        assert memory is not None
        holds = fact.valid_to is None if valid_at is None else fact.holds_at(valid_at)
        if holds and not (fact.undone or memory.refuted or memory.quarantined or memory.suppressed):
            found.add(stream)
    return found


async def check(world, chosen: list[int], valid_at: datetime | None) -> None:
    head = await world.catch_up()
    engine, tenant = world.engine, world.caller.tenant
    built = [
        await Rebuilder(engine.database, engine.log, engine.tail, one).build(f"past_{one.name}", 0)
        for one in (engine.facts, engine.live_memory)
    ]
    try:
        for position in sorted({1 + n % head for n in chosen}):
            for runner in built:
                await runner.catch_up(position)
            at = await engine.log.recorded_at(position)
            then = FactFilter(tenant, AsOf(at, valid_at=valid_at))
            async with engine.database.transaction() as connection:
                await connection.execute(
                    f"select set_config('search_path', 'past_facts, past_live_memory, pg_catalog', true), "
                    f"set_config('{TENANT_SETTING}', '{tenant}', true)"
                )
                rows, total = await list_facts(connection, then, 200, None)
            asked: dict[str, Any] = {"limit": 200} | ({} if valid_at is None else {"valid_at": valid_at})
            by_position = await Facts(engine).get(world.caller, asked | {"known_at": position})
            by_instant = await Facts(engine).get(world.caller, asked | {"known_at": at})
            assert [one.id for one in by_position.facts] == [row.fact_id for row in rows], position
            assert [one.value for one in by_position.facts] == [row.value for row in rows]
            assert by_position.total == total == len(rows)
            assert {row.fact_id for row in rows} == await by_the_rule(world, position, valid_at), position
            last = await engine.log.position_at(at)
            assert {one.id for one in by_instant.facts} == await by_the_rule(world, last, valid_at), position
    finally:
        for name in ("past_facts", "past_live_memory"):
            await discard(engine.database, name)


@pytest.mark.timeout(300)  # only where it fails: then the shortest example is looked for
async def test_facts_at_any_moment_are_those_of_a_view_built_up_to_there(world, database_url):
    loop = asyncio.get_running_loop()

    async def holds(steps: list[Step], chosen: list[int], days: int | None) -> None:
        world.clock.now = datetime.now(UTC)
        run = Run(world, database_url)
        await run.begin()
        world.caller = run.tenants[0].caller
        told = Told(world)
        for step in steps:
            await told.do(step)
        await check(world, chosen, None if days is None else JANUARY + days * DAY)

    @settings(
        max_examples=3,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(
        steps=st.lists(
            st.tuples(st.sampled_from(("remember", "accept", *VERBS)), st.integers(0, 5), st.integers(0, 7)),
            min_size=8,
            max_size=25,
        ),
        chosen=st.lists(st.integers(0, 60), min_size=3, max_size=6),
        days=st.sampled_from([None, 0, 1, 2, 3]),
    )
    @example(
        steps=[
            ("remember", 0, 2),
            ("accept", 0, 0),
            ("undo", 0, 0),
            ("suppress", 0, 0),
            ("redo", 0, 0),
            ("restore", 0, 0),
            ("remember", 1, 1),
            ("refute", 0, 0),
            ("remember", 0, 2),
            ("release", 2, 0),
            ("revise", 1, 0),
        ],
        chosen=list(range(1, 24, 2)),
        days=None,
    )
    def whatever_is_asked(steps: list[Step], chosen: list[int], days: int | None) -> None:
        asyncio.run_coroutine_threadsafe(holds(steps, chosen, days), loop).result(120)

    await asyncio.to_thread(whatever_is_asked)
