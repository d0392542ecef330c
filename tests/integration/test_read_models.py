"""Read models: equal to their rebuild, safe in the hands of several processes, honest when they stall."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from lethelog.domain.errors import Conflict, InvalidInput, LethelogError, Misconfigured, NotCaughtUp
from lethelog.projections.as_of import AsOf
from lethelog.projections.filters import MemoryFilter
from lethelog.projections.generations import read_models
from lethelog.projections.live_memory import LiveMemory
from lethelog.projections.progress import wait_for
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.runner import ProjectionRunner, ensure_tables
from lethelog.projections.search import Search
from lethelog.streams.database import DOOR, Doors
from lethelog.streams.ending import end


def rebuilder(world, name: str, **options) -> Rebuilder:
    engine = world.engine
    return Rebuilder(engine.database, engine.log, engine.tail, engine.projection(name), **options)


async def fill(world) -> list:
    ids = [await world.remember(f"memory number {n}", tags=[f"t{n % 3}"]) for n in range(30)]
    for n, one in enumerate(ids[:10]):
        await (world.commands.archive if n % 2 else world.commands.pin)(world.caller, {"memory_id": one})
    await world.commands.revise(world.caller, {"memory_id": ids[20], "content": "a successor"})
    await world.commands.refute(world.caller, {"memory_id": ids[21], "reason": "never"})
    with pytest.raises(Conflict):
        await world.commands.revise(world.caller, {"memory_id": ids[23], "content": "memory number 21"})
    promise = {"memory_id": ids[22], "memory_type": "commitment", "content": "send number 22"}
    await world.commands.revise(world.caller, promise)
    return ids


@pytest.mark.parametrize(
    "name",
    [
        "live_memory",
        "review_queue",
        "memory_history",
        "facts",
        "commitments",
        "contradictions",
        "effects",
        "sessions",
    ],
)
async def test_a_read_model_equals_its_rebuild_row_by_row(world, name):
    await fill(world)
    await world.catch_up()
    compared = await rebuilder(world, name).compare()
    assert compared.equal and compared.position == await world.engine.log.head()
    if name == "live_memory":
        assert compared.differences[0].rows == 32


async def test_a_comparison_finds_a_row_that_was_tampered_with(world, database_url):
    ids = await fill(world)
    await world.catch_up()
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "update lethelog_views.live_memory set content = 'forged' where memory_id = %s", (ids[0],)
        )
    compared = await rebuilder(world, "live_memory").compare()
    assert not compared.equal
    assert (compared.differences[0].only_live, compared.differences[0].only_rebuilt) == (1, 1)


async def test_a_rebuild_repairs_the_live_view_and_reads_go_on(world, database_url):
    ids = await fill(world)
    await world.catch_up()
    with psycopg.connect(database_url) as connection:
        connection.execute("delete from lethelog_views.live_memory")
    reported = []
    rebuilt = await rebuilder(world, "live_memory").rebuild(lambda at, of: reported.append((at, of)))
    assert rebuilt.position == await world.engine.log.head() and reported[-1][0] == reported[-1][1]
    assert (await world.get(ids[0])).content == "memory number 0"
    assert (await rebuilder(world, "live_memory").compare()).equal
    new = await world.remember("written after the rebuild")
    assert new in await world.search("written after the rebuild")


async def test_writes_during_a_rebuild_are_in_it(world):
    await fill(world)
    runners = [asyncio.ensure_future(runner.run()) for runner in world.runners]

    async def write() -> list:
        return [await world.remember(f"meanwhile {n}") for n in range(20)]

    written, _ = await asyncio.gather(write(), rebuilder(world, "live_memory").rebuild())
    head = await world.engine.log.head()
    await wait_for(world.engine.database, "live_memory", head)
    assert len(await world.reading.get(world.caller, {"ids": written})) == 20
    compared = await rebuilder(world, "live_memory").compare()
    assert compared.equal
    for runner in runners:
        await end(runner)


async def test_f40_another_embedding_model_is_refused_until_a_rebuild(world, embedder):
    """F40: vectors of two models are never mixed; a rebuild needs no judge and no model of language."""
    first = await world.remember("Deploys go to Hetzner")
    await world.catch_up()

    class Other:
        model = "other@1"
        dimensions = 8

        def embed(self, texts):
            return embedder.embed(texts)[:, :8] / (embedder.embed(texts)[:, :8] ** 2).sum(1, keepdims=True) ** 0.5

    other = LiveMemory(world.engine.log, Other())
    with pytest.raises(Misconfigured, match="lethelog rebuild live_memory"):
        await ensure_tables(world.engine.database, [other])
    await Rebuilder(world.engine.database, world.engine.log, world.engine.tail, other).rebuild()
    await ensure_tables(world.engine.database, [other])
    async with read_models(world.engine.database) as connection:
        cursor = await connection.execute("select memory_id, embedding_model from live_memory")
        assert await cursor.fetchall() == [(first, "other@1")]


async def test_two_runners_of_one_read_model_apply_everything_once(world):
    """A second process is a hot standby, and one that does not know it leads no more changes nothing."""
    await fill(world)
    again = [
        ProjectionRunner(world.engine.database, world.engine.log, world.engine.tail, one)
        for one in world.engine.projections
    ]
    head = await world.engine.log.head()
    await asyncio.gather(*(runner.catch_up(head) for runner in [*world.runners, *again]))
    for name in ("live_memory", "review_queue", "memory_history", "facts", "contradictions", "effects"):
        assert (await rebuilder(world, name).compare()).equal


async def test_f44_an_event_that_cannot_be_applied_stalls_its_view_says_where_and_goes_on_once_it_can(world):
    """F44: nothing is skipped; other views go on; the error carries no content."""
    good = await world.remember("a good one")
    bad = await world.remember("zq-canary-9931 poison")
    after = await world.remember("a later one")

    class Failing(LiveMemory):
        broken = True

        async def apply(self, connection, schema, page, prepared):
            if self.broken and any(event.stream == bad for event in page):
                raise ValueError("zq-canary-9931")
            await super().apply(connection, schema, page, prepared)

    failing = Failing(world.engine.log, world.engine.embedder)
    runner = ProjectionRunner(world.engine.database, world.engine.log, world.engine.tail, failing)
    running = asyncio.ensure_future(runner.run())
    async with asyncio.timeout(20):
        while (await runner.progress()).stalled_at is None:
            await asyncio.sleep(0.02)
    progress = await runner.progress()
    [poison] = await world.engine.log.read_stream(world.caller.tenant, bad)
    assert progress.stalled_at == poison.position and progress.error == "memory.remembered: ValueError"
    assert progress.position == poison.position - 1
    failing.broken = False
    head = await world.engine.log.head()
    await wait_for(world.engine.database, "live_memory", head, seconds=30)
    assert (await runner.progress()).stalled_at is None
    assert len(await world.reading.get(world.caller, {"ids": [good, bad, after]})) == 3
    await end(running)


async def test_a_read_that_waits_for_a_position_nobody_reaches_says_so(world):
    await world.remember("nobody applies it")
    head = await world.engine.log.head()
    with pytest.raises(NotCaughtUp, match="live_memory"):
        await wait_for(world.engine.database, "live_memory", head, seconds=0.05)
    with pytest.raises(InvalidInput, match=f"after: is beyond the end of the log, which is at position {head}"):
        await wait_for(world.engine.database, "live_memory", head + 1, seconds=60)


async def test_an_embedder_that_is_down_delays_the_vector_and_not_the_memory(world):
    class Down:
        model = world.engine.embedder.model
        dimensions = world.engine.embedder.dimensions

        def embed(self, texts):
            raise LethelogError("down")

    view = LiveMemory(world.engine.log, Down())
    first = await world.remember("Deploys go to Hetzner")
    head = await world.engine.log.head()
    await ProjectionRunner(world.engine.database, world.engine.log, world.engine.tail, view).catch_up(head)
    assert await world.search("deploys hetzner") == [first]
    database = world.engine.database
    assert await world.engine.live_memory.fill_vectors(database) == 1
    assert await world.engine.live_memory.fill_vectors(database) == 0
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select embedding is not null, embedding_model from lethelog_views.live_memory"
        )
        assert await cursor.fetchall() == [(True, world.engine.embedder.model)]


async def test_a_memory_whose_key_is_destroyed_leaves_the_view_at_its_next_event_and_a_rebuild(
    world, database_url
):
    gone = await world.remember("zq-canary-9931")
    kept = await world.remember("a neighbour")
    await world.catch_up()
    with psycopg.connect(database_url) as connection:
        connection.execute("delete from lethelog_vault.data_keys where key_id = %s", (gone,))
    world.engine.vault._keys.clear()
    await rebuilder(world, "live_memory", grace=timedelta()).rebuild()
    assert (await world.reading.list(world.caller, {"status": "all"})).memories[0].id == kept
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select to_regclass('lethelog_views.live_memory')").fetchone() == (None,)
    async with read_models(world.engine.database) as connection:
        cursor = await connection.execute("select content from live_memory")
        assert await cursor.fetchall() == [("a neighbour",)]


async def test_search_finds_the_same_by_the_index_as_by_comparing_everything(world, database_url):
    """engine-notes 7: with two tenants in one table, whatever the plan, and the index really used."""
    other = await world.another_caller()
    for n in range(120):
        await world.remember(f"service {n} runs in region {n % 7} with {n * 3} replicas")
        await world.commands.remember(
            other, {"topic": "t", "content": f"invoice {n} of customer {n % 5} is overdue"}
        )
    await world.catch_up()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("analyze lethelog_views.live_memory")
        # New connections plan as they would for a table that is too large to be sorted.
        connection.execute(
            "do $$ begin execute format('alter database %I set enable_sort = off', current_database()); end $$"
        )
        connection.execute(
            "do $$ begin execute format('alter database %I set enable_seqscan = off', current_database()); end $$"
        )
    from lethelog.projections.search import Search
    from lethelog.streams.database import Database

    planned = Database(database_url)
    await planned.open()
    async with planned.connection() as connection:
        vector = "[" + ",".join(["0.1"] * world.engine.embedder.dimensions) + "]"
        explained = await connection.execute(
            "explain select memory_id from lethelog_views.live_memory where tenant = %s "
            "order by embedding operator(public.<=>) %s::public.halfvec limit 50",
            (world.caller.tenant, vector),
        )
        assert "live_memory_vectors" in str(await explained.fetchall())
    questions = ["service replicas in region 3", "overdue invoice of a customer", "region 5", "forty replicas"]
    exact = [
        [h.memory.id for h in (await world.reading.search(world.caller, {"query": q, "limit": 10})).hits]
        for q in questions
    ]
    world.reading._search = Search(planned.doors, world.engine.embedder, exact_up_to=0, index_share=0.0)
    indexed = [
        [h.memory.id for h in (await world.reading.search(world.caller, {"query": q, "limit": 10})).hits]
        for q in questions
    ]
    await planned.close()
    assert exact == indexed


async def test_an_index_that_brings_too_little_is_not_believed(world, database_url, monkeypatch):
    """engine-notes 7: under another tenant's many rows it gives up early, and says nothing."""
    from lethelog.projections import legs
    from lethelog.streams.database import Connection, Database

    other = await world.another_caller()
    for n in range(60):
        await world.remember(f"service {n} runs in region {n % 7}")
        for m in range(2):
            said = {"topic": "t", "content": f"service {n}.{m} runs in region {n % 7}"}
            await world.commands.remember(other, said)
    await world.catch_up()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("analyze lethelog_views.live_memory")
        for setting in ("enable_sort", "enable_seqscan", "enable_bitmapscan"):
            connection.execute(
                f"do $$ begin execute format('alter database %I set {setting} = off', current_database()); end $$"
            )
    query = {"query": "which service runs in region 3", "limit": 10}
    exact = (await world.reading.search(world.caller, query)).hits
    monkeypatch.setattr(legs, "HNSW_EF_PER_CANDIDATE", 0)
    monkeypatch.setattr(legs, "HNSW_MAX_SCAN_TUPLES", 1)
    planned = Database(database_url)
    await planned.open()
    indexed = Search(planned.doors, world.engine.embedder, exact_up_to=0, index_share=0.0)
    asked: list[str] = []
    original = Connection.execute

    async def noted(connection, statement, *values, **more):
        if "<=>" in statement:
            asked.append("all" if "offset 0" in statement else "index")
        return await original(connection, statement, *values, **more)

    monkeypatch.setattr(Connection, "execute", noted)
    world.reading._search = indexed
    assert (await world.reading.search(world.caller, query)).hits == exact and len(exact) == 10
    await planned.close()
    assert asked == ["index", "all"], "it believed the index"


async def test_each_search_is_planned_for_its_own_question(world, database_url):
    """A plan for any question would read its words again with every row that it looks at."""
    await fill(world)
    await world.catch_up()
    alone = Doors(database_url, size=1, role=DOOR)
    await alone.open()
    search = Search(alone, world.engine.embedder)
    for n in range(20):
        await search.search(f"memory number {n}", MemoryFilter(world.caller.tenant, AsOf(world.clock.now)), 5)
    async with alone.connection() as connection:
        cursor = await connection.execute(
            "select custom_plans, generic_plans from pg_prepared_statements where statement like '%%text_leg%%'"
        )
        [(custom, generic)] = await cursor.fetchall()
    await alone.close()
    assert custom > 10 and generic == 0


async def test_a_small_tenant_in_a_large_table_is_searched_exactly(world):
    """The index is not asked where the filter keeps a small share of the table."""
    first = await world.remember("a lonely note")
    await world.catch_up()
    async with world.engine.database.connection() as connection:
        await connection.execute("analyze lethelog_views.live_memory")
    present = MemoryFilter(world.caller.tenant, AsOf(world.clock.now))
    for share, indexed in ((2.0, frozenset()), (0.0, {"live_memory"})):
        search = Search(world.engine.doors, world.engine.embedder, exact_up_to=0, index_share=share)
        assert await search._indexed(present) == indexed
    assert await world.search("lonely note") == [first]


async def test_the_planner_is_asked_how_many_rows_there_are_once_in_some_seconds(world, monkeypatch):
    from lethelog.projections import estimates
    from lethelog.streams.database import Connection

    memory_id = await world.remember("Deploys go to Fly")
    other = await world.another_caller()
    assert await world.search("deploys") == [memory_id]
    asked: list[str] = []
    original = Connection.execute

    async def noted(connection, statement, *values, **more):
        if statement.startswith("explain"):
            asked.append(statement)
        return await original(connection, statement, *values, **more)

    monkeypatch.setattr(Connection, "execute", noted)
    assert await world.search("deploys", status="active") == [memory_id]
    assert not asked, "a filter keeps no more than its tenant has"
    assert (await world.reading.search(other, {"query": "deploys"})).hits == ()
    assert len(asked) == 1
    monkeypatch.setattr(estimates, "BELIEVED_SECONDS", 0.0)
    third = await world.another_caller()
    for times in (2, 3):
        assert (await world.reading.search(third, {"query": "deploys"})).hits == ()
        assert len(asked) == times


async def test_f44_a_body_that_cannot_be_read_stalls_the_views_that_want_it_and_says_where(world, database_url):
    """One damaged row of any tenant is named and waited for; it neither ends the runner nor is it skipped."""
    good = await world.remember("a good one")
    bad = await world.remember("a damaged one")
    [damaged] = await world.engine.log.read_stream(world.caller.tenant, bad)
    with psycopg.connect(database_url) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(
            "update lethelog.events set body = 'x' || body where position = %s", (damaged.position,)
        )
    runner = world.runners[0]
    running = asyncio.ensure_future(runner.run())
    async with asyncio.timeout(20):
        while (await runner.progress()).stalled_at is None:
            assert not running.done()
            await asyncio.sleep(0.02)
    progress = await runner.progress()
    assert (progress.stalled_at, progress.error) == (damaged.position, "memory.remembered: UnreadableEvent")
    assert (await world.reading.get(world.caller, {"ids": [good]}))[0].id == good
    with psycopg.connect(database_url) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(
            "update lethelog.events set body = substr(body, 2) where position = %s", (damaged.position,)
        )
    await wait_for(world.engine.database, "live_memory", await world.engine.log.head(), seconds=30)
    await end(running)


@pytest.mark.parametrize(
    ("change", "arguments", "filters"),
    [
        ("suppress", {"plan_id": uuid4(), "approver": "ada", "reason": "plan"}, {}),
        ("refute", {}, {}),
        ("archive", {}, {}),
        ("revise", {"content": "Deploys go to Hetzner"}, {"status": "active"}),
        ("move", {"scope": "elsewhere"}, {"scope": "work"}),
    ],
)
async def test_a_search_never_returns_what_was_hidden_or_moved_while_it_ran(
    world, monkeypatch, change, arguments, filters
):
    """The moment between the legs and the load is held; what still matches comes out all the same."""
    going = await world.remember("Deploys go to Fly", scope="work")
    staying = await world.remember("Deploys are on Mondays", scope="work")
    assert set(await world.search("deploys", **filters)) == {going, staying}
    load = Search._load

    async def held(self, connection, found, matching):
        assert {going, staying} <= set(found)
        monkeypatch.setattr(Search, "_load", load)
        await getattr(world.commands, change)(world.caller, {"memory_id": going, **arguments})
        await world.catch_up()
        return await load(self, connection, found, matching)

    monkeypatch.setattr(Search, "_load", held)
    result = await world.reading.search(world.caller, {"query": "deploys", **filters})
    assert [hit.memory.id for hit in result.hits] == [staying]


async def test_what_was_hidden_while_a_search_ran_leaves_its_place_to_the_next_best(world, monkeypatch):
    """Of two, the best is asked for and goes between the legs and the load: the other is the answer."""
    best = await world.remember("Deploys go to Fly")
    second = await world.remember("Deploys to Fly are on Mondays, after lunch")
    assert await world.search("deploys go to fly", limit=1) == [best]
    load = Search._load

    async def held(self, connection, found, matching):
        assert found == [best]
        monkeypatch.setattr(Search, "_load", load)
        await world.commands.archive(world.caller, {"memory_id": best})
        await world.catch_up()
        return await load(self, connection, found, matching)

    monkeypatch.setattr(Search, "_load", held)
    result = await world.reading.search(world.caller, {"query": "deploys go to fly", "limit": 1})
    assert [hit.memory.id for hit in result.hits] == [second]


async def test_many_readers_of_the_queue_never_starve_each_other_of_connections(world):
    """No read holds one pooled connection while it waits for another."""
    results = await asyncio.gather(*(world.reviewing.list(world.caller, {}) for _ in range(40)))
    assert all(page.total == 0 for page in results)
