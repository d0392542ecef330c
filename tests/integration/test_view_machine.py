"""Whatever happens to runners and rebuilds while two tenants write, every read model says what the log says.

A machine of random commands, pages that are broken off, connections that are ended, restarts, and rebuilds that are
begun, killed, cancelled, resumed and finished. It ends with live == rebuilt from zero == rebuilt to n and continued.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from lethelog.domain.errors import Unavailable
from lethelog.projections import runner as runner_module
from lethelog.projections.generations import read_generations
from lethelog.projections.projection import Projection
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.runner import ProjectionRunner
from lethelog.projections.scratch import discard

from .test_properties import ONE, Asked, Remembering, Run

VIEWS = st.sampled_from(("live_memory", "live_memory", "live_memory", "memory_history", "review_queue"))
SMALL_PAGE = 3


class Stopped:
    """A projection that does something in the middle of the page that holds a position, after its rows are written."""

    def __init__(self, inner: Projection, position: int, then: Any) -> None:
        self._inner, self._position, self._then = inner, position, then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def loading(self, start: int, target: int) -> "Stopped":
        return Stopped(self._inner.loading(start, target), self._position, self._then)

    async def apply(self, connection, schema, page, prepared) -> None:
        await self._inner.apply(connection, schema, page, prepared)
        if page[0].position <= self._position <= page[-1].position:
            await self._then(connection)


class Views:
    """What the machine does, in the event loop of the test."""

    def __init__(self, world, database_url: str) -> None:
        self.world, self.engine, self.database_url = world, world.engine, database_url
        self.run = Run(world, database_url)
        self.runners: dict[str, ProjectionRunner] = {}

    async def begin(self) -> None:
        for projection in self.engine.projections:
            await self.rebuilder(projection).cancel()
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            schemas = connection.execute(
                "select schema from lethelog_views.tracking where schema <> 'lethelog_views' and state = 'current'"
            ).fetchall()
            for (schema,) in schemas:
                tables = connection.execute(
                    "select format('%%I.%%I', schemaname, tablename) from pg_tables where schemaname = %s",
                    (schema,),
                ).fetchall()
                connection.execute(f"truncate {', '.join(table for (table,) in tables)}")
        await self.run.begin()
        await self.restart()

    def rebuilder(self, projection: Any) -> Rebuilder:
        engine = self.engine
        return Rebuilder(engine.database, engine.log, engine.tail, projection, grace=timedelta())

    def runner(self, projection: Any) -> ProjectionRunner:
        return ProjectionRunner(self.engine.database, self.engine.log, self.engine.tail, projection)

    async def restart(self) -> None:
        self.runners = {one.name: self.runner(one) for one in self.engine.projections}

    async def catch_up(self, name: str) -> None:
        await self.runners[name].catch_up(await self.engine.log.head())

    async def stop_inside_a_page(self, name: str, share: float) -> None:
        """Cancel a runner in the page of some position that it has not applied yet."""
        position, head = await self.runners[name].position(), await self.engine.log.head()
        at = position + 1 + int(share * (head - position))
        await self._cancel_at(lambda one: self.runner(one).catch_up(head), name, min(at, head))

    async def end_a_connection(self, name: str) -> None:
        """The server ends the connection of a page; nothing of the page is there."""
        head = await self.engine.log.head()
        before = await self.runners[name].position()

        async def end(connection) -> None:
            with psycopg.connect(self.database_url, autocommit=True) as other:
                other.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))

        stopped = Stopped(self._projection(name), before + 1, end)
        try:
            await self.runner(stopped).catch_up(head)
        except Unavailable:
            assert await self.runners[name].position() == before

    async def begin_a_rebuild(self, name: str, share: float) -> None:
        """Break a rebuild off in the page of some position; what it had built is kept."""
        head = await self.engine.log.head()
        await self._cancel_at(lambda one: self.rebuilder(one).rebuild(), name, 1 + int(share * (head - 1)))

    async def rebuild(self, name: str) -> None:
        await self.rebuilder(self._projection(name)).rebuild()
        async with self.engine.database.connection() as connection:
            states = [one.state for one in await read_generations(connection, name)]
        assert states == ["current"], "a rebuild leaves nothing behind"

    async def cancel_a_rebuild(self, name: str) -> None:
        await self.rebuilder(self._projection(name)).cancel()

    async def check(self, share: float) -> None:
        head = await self.engine.log.head()
        cut = int(share * head)
        for projection in self.engine.projections:
            await self.catch_up(projection.name)
            compared = await self.rebuilder(projection).compare()
            assert compared.equal and compared.position == head, f"{projection.name}: {compared.differences}"
            runner = await self.rebuilder(projection).build("lethelog_cut", cut)
            await runner.catch_up(head)
            live = (await self.runners[projection.name].progress()).schema
            for table in projection.tables:
                await self._same(f"{live}.{table}", f"lethelog_cut.{table}")
            await discard(self.engine.database, "lethelog_cut")

    async def _same(self, one: str, other: str) -> None:
        rows = "select to_jsonb(x) - 'embedding' - 'lexemes' from"
        async with self.engine.database.connection() as connection:
            for left, right in ((one, other), (other, one)):
                cursor = await connection.execute(
                    f"select count(*) from ({rows} {left} x except all {rows} {right} x) z"
                )
                assert await cursor.fetchone() == (0,), f"{left} has rows that {right} has not"

    async def _cancel_at(self, work: Any, name: str, position: int) -> None:
        inside = asyncio.Event()

        async def hold(_connection) -> None:
            inside.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(work(Stopped(self._projection(name), position, hold)))
        waiting = asyncio.ensure_future(inside.wait())
        # A page of which the read model wants nothing has no inside: the work is done then.
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        for one in (task, waiting):
            one.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)

    def _projection(self, name: str) -> Projection:
        found = self.engine.projection(name)
        assert found is not None
        return found


class Machine(RuleBasedStateMachine):
    """The rules; hypothesis draws them in any order."""

    views: Views
    loop: asyncio.AbstractEventLoop
    cut = 0.0

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    @initialize(cut=st.floats(0, 1))
    def begin(self, cut: float) -> None:
        self.cut = cut
        self.do(self.views.begin())

    @rule(steps=st.lists(ONE, min_size=2, max_size=6))
    def command(self, steps: list[Asked]) -> None:
        for one in steps:
            self.do(self.views.run.do(one))

    @rule(name=VIEWS)
    def catch_up(self, name: str) -> None:
        self.do(self.views.catch_up(name))

    @rule(name=VIEWS, share=st.floats(0, 1))
    def stop_inside_a_page(self, name: str, share: float) -> None:
        self.do(self.views.stop_inside_a_page(name, share))

    @rule(name=VIEWS)
    def end_a_connection(self, name: str) -> None:
        self.do(self.views.end_a_connection(name))

    @rule()
    def restart(self) -> None:
        self.do(self.views.restart())

    @rule(name=VIEWS, share=st.floats(0, 1))
    def begin_a_rebuild(self, name: str, share: float) -> None:
        self.do(self.views.begin_a_rebuild(name, share))

    @rule(name=VIEWS, share=st.floats(0.5, 1), steps=st.lists(ONE, min_size=2, max_size=6))
    def write_while_a_rebuild_is_broken_off(self, name: str, share: float, steps: list[Asked]) -> None:
        self.begin_a_rebuild(name, share)
        self.command(steps)
        self.rebuild(name)

    @rule(name=VIEWS)
    def cancel_a_rebuild(self, name: str) -> None:
        self.do(self.views.cancel_a_rebuild(name))

    @rule(name=VIEWS)
    def rebuild(self, name: str) -> None:
        self.do(self.views.rebuild(name))

    def teardown(self) -> None:
        self.do(self.views.check(self.cut))


@pytest.mark.timeout(420)  # only where it fails: then the shortest sequence is looked for
async def test_whatever_happens_to_runners_and_rebuilds_every_view_says_what_the_log_says(
    world, database_url, monkeypatch
):
    monkeypatch.setattr(runner_module, "LARGEST_PAGE", SMALL_PAGE)
    world.engine.live_memory._embedder = world.engine.search._embedder = Remembering(world.engine.embedder)
    loop = asyncio.get_running_loop()

    class OfThisWorld(Machine):
        def __init__(self) -> None:
            super().__init__()
            self.loop = loop
            self.views = Views(world, database_url)

    await asyncio.to_thread(
        run_state_machine_as_test,
        OfThisWorld,
        settings=settings(
            max_examples=6,
            stateful_step_count=16,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
