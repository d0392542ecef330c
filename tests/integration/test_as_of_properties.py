"""Whatever two tenants asked for: a read at any moment equals the same read on read models built up to there."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lethelog.domain.errors import LethelogError
from lethelog.domain.memory import Memory, evolve
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.memories import Retry
from lethelog.handlers.reading import Reading
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.runner import ProjectionRunner
from lethelog.projections.scratch import discard
from lethelog.streams.folding import fold_stream

from .test_properties import SCOPES, STEPS, TEXTS, Asked, Remembering, Run

MOMENT = timedelta(microseconds=1)
SPANS = [timedelta(seconds=seconds) for seconds in (-90, -1, 0, 0.02, 0.1, 60)]


@dataclass
class Dated(Run):
    """Memories with windows and expiries that lie around the moments of the log."""

    async def command(self, caller: Caller, one: Asked, target: UUID | None) -> Any:
        if one.verb not in ("remember", "revise"):
            return await super().command(caller, one, target)
        now, turn = self.world.clock.now, (one.target + len(one.text)) % len(SPANS)
        times: dict[str, Any] = {"occurred_at": now + min(SPANS[turn], timedelta(0))}
        if one.days is not None:
            times["expires_at"] = now + timedelta(milliseconds=25 * one.days)
        if one.target % 3 == 0:
            times["valid_from"] = now + SPANS[turn]
        if one.target % 3 == 1:
            times["valid_to"] = times.get("valid_from", now) + SPANS[-turn]
            times.setdefault("valid_from", times["valid_to"] - timedelta(seconds=1))
        said = {"content": one.text, "scope": one.scope, "tags": one.tags, **times}
        if one.verb == "remember":
            return await self.world.commands.remember(caller, {"topic": "t", **said}, Retry(one.key))
        about = {"memory_id": target, "expected_version": one.version}
        return await self.world.commands.revise(caller, {**about, **said}, Retry(one.key))


async def answer(read: Any) -> Any:
    """What a read says, without the times it echoes; the class of its error where it is refused."""
    try:
        said = await read
    except LethelogError as refused:
        return type(refused)
    if isinstance(said, tuple):
        return [one.model_copy(update={"as_of": None}) for one in said]
    return said.model_copy(update={"as_of": None})


class Past:
    """Read models built up to one position after another, beside the live ones."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._runners: list[ProjectionRunner] = []

    async def build(self) -> None:
        engine = self._world.engine
        for projection in (engine.live_memory, engine.memory_history):
            rebuilder = Rebuilder(engine.database, engine.log, engine.tail, projection)
            self._runners.append(await rebuilder.build(f"past_{projection.name}", 0))

    async def discard(self) -> None:
        engine = self._world.engine
        for projection in (engine.live_memory, engine.memory_history):
            await discard(engine.database, f"past_{projection.name}")

    async def at(self, position: int, now: datetime) -> tuple[Reading, Reading]:
        """(memories, histories) as they were read then."""
        for runner in self._runners:
            await runner.catch_up(position)
        engine = replace(self._world.engine, clock=lambda: now)
        return Reading(engine, scratch="past_live_memory"), Reading(engine, scratch="past_memory_history")


@dataclass
class Look:
    """One moment to look from, as an instant or as a position."""

    known_at: int | datetime
    position: int
    now: datetime


async def moments(world: Any, chosen: list[tuple[int, int]]) -> list[Look]:
    """Positions, and instants just before, at and after what was recorded there."""
    head = await world.engine.log.head()
    looks = []
    for number, shift in chosen:
        position = 1 + number % head
        at = await world.engine.log.recorded_at(position)
        looks.append(Look(position, position, at))
        if shift:
            instant = at + (shift - 2) * MOMENT
            looks.append(Look(instant, await world.engine.log.position_at(instant), instant))
    return sorted(looks, key=lambda look: look.position)


async def check(run: Dated, chosen: list[tuple[int, int]], held_at: list[timedelta]) -> None:
    await run.world.catch_up()
    past = Past(run.world)
    await past.build()
    try:
        for look in await moments(run.world, chosen):
            memories, histories = await past.at(look.position, look.now)
            for tenant in run.tenants:
                await check_reads(run.world.reading, memories, tenant.caller, look, look.now + held_at[0])
                await check_held(run.world, tenant.caller, look, [look.now + span for span in held_at])
                for one in tenant.ids[:6]:
                    asked = {"memory_id": one}
                    assert await answer(
                        run.world.reading.history(tenant.caller, {**asked, "known_at": look.known_at})
                    ) == await answer(histories.history(tenant.caller, asked))
    finally:
        await past.discard()


async def check_reads(present: Reading, past: Reading, caller: Caller, look: Look, valid_at: datetime) -> None:
    listings: list[dict[str, Any]] = [
        {"status": "all", "limit": 100},
        {"limit": 100},
        {"limit": 2, "current": True},
        {"status": "all", "scope": SCOPES[1], "valid_at": valid_at, "limit": 100},
    ]
    for asked in listings:
        then = await answer(present.list(caller, {**asked, "known_at": look.known_at}))
        assert cursorless(then) == cursorless(await answer(past.list(caller, asked))), (look, asked)
    for asked in (
        {"query": TEXTS[2]},
        {"query": "vim", "status": "all", "limit": 25},
        {"query": "in", "limit": 2},
    ):
        for times in ({}, {"valid_at": valid_at}):
            then = await answer(present.search(caller, {**asked, **times, "known_at": look.known_at}))
            assert then == await answer(past.search(caller, {**asked, **times})), (look, asked, times)
    listed = await past.list(caller, {"status": "all", "limit": 20})
    for ids in ([one.id for one in listed.memories], [UUID(int=7)]):
        if ids:
            then = await answer(present.get(caller, {"ids": ids, "known_at": look.known_at}))
            assert then == await answer(past.get(caller, {"ids": ids}))


def cursorless(page: Any) -> Any:
    """A cursor belongs to its question, and the two questions differ."""
    return page.model_copy(update={"next_cursor": page.next_cursor is not None})


async def check_held(world: Any, caller: Caller, look: Look, instants: list[datetime]) -> None:
    """`valid_at` against the rule itself, folded from the events that were on record."""
    streams: dict[UUID, list[Any]] = {}
    for one in await world.engine.log.read_page(0, 10_000, look.position):
        if one.tenant == caller.tenant and one.name.startswith("memory."):
            streams.setdefault(one.stream, []).append(one)
    states: list[Memory] = [state for events in streams.values() if (state := fold_stream(events, evolve))]
    for instant in instants:
        asked = {"status": "all", "limit": 100, "known_at": look.known_at, "valid_at": instant}
        page = await world.reading.list(caller, asked)
        assert {one.id for one in page.memories} == {state.id for state in states if state.held(instant)}


@pytest.mark.timeout(420)  # only where it fails: then the shortest example is looked for
async def test_a_read_at_any_moment_equals_the_read_of_a_view_built_up_to_there(world, database_url):
    world.engine.live_memory._embedder = world.engine.search._embedder = Remembering(world.engine.embedder)
    world.clock.now = datetime.now(UTC)
    object.__setattr__(world.engine, "embedder", world.engine.search._embedder)
    loop = asyncio.get_running_loop()

    async def holds(
        steps: list[tuple[Asked, ...]], chosen: list[tuple[int, int]], held_at: list[timedelta]
    ) -> None:
        world.clock.now = datetime.now(UTC)
        run = Dated(world, database_url)
        await run.begin()
        for step in steps:
            await run.step(step)
        await check(run, chosen, held_at)

    @settings(
        max_examples=6,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(
        steps=STEPS,
        chosen=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3)), min_size=3, max_size=5),
        held_at=st.lists(
            st.sampled_from([span + n * MOMENT for span in SPANS for n in (-1, 0)]), min_size=2, max_size=3
        ),
    )
    @example(
        steps=[
            (Asked("remember", days=1),),
            (Asked("remember", target=1, text=TEXTS[2]), Asked("remember", tenant=1)),
            (Asked("pin"),),
            (Asked("move", scope="work", tags=("t",)), Asked("archive", target=1)),
            (Asked("revise", text=TEXTS[4]), Asked("restore", target=1)),
            (Asked("refute", target=1),),
            (Asked("remember", text=TEXTS[3]),),
            (Asked("release", target=3), Asked("suppress", target=2)),
        ],
        chosen=[(n, n % 4) for n in range(16)],
        held_at=[timedelta(0), timedelta(seconds=-1)],
    )
    def whatever_is_asked(
        steps: list[tuple[Asked, ...]], chosen: list[tuple[int, int]], held_at: list[timedelta]
    ) -> None:
        asyncio.run_coroutine_threadsafe(holds(steps, chosen, held_at), loop).result(120)

    await asyncio.to_thread(whatever_is_asked)
