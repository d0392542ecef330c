"""The past written out from the log: memories as they were, and read models in a schema of their own."""

import asyncio
import json
from datetime import timedelta

import psycopg
import pytest
from lethelog.domain.errors import AccessDenied, Conflict, InvalidInput, NotFound
from lethelog.handlers.access.caller import ALL_PERMISSIONS, Caller
from lethelog.handlers.forgetting.settings import PassSettings
from lethelog.handlers.judges.none import NoJudge
from lethelog.handlers.memory import AsyncMemory
from lethelog.handlers.operating.replaying import Replaying
from lethelog.projections.rebuild import Rebuilder
from lethelog.streams.payloads import UnreadableEvent, WrittenByNewer


@pytest.fixture
def replaying(world) -> Replaying:
    return Replaying(world.engine)


async def as_of(replaying: Replaying, caller: Caller, to) -> dict[str, str]:
    """topic -> status, as it was then."""
    return {view.topic: view.status async for view in replaying.memories(caller, {"to": to})}


def schemas(database_url: str) -> list[str]:
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select nspname from pg_namespace where nspname ~ '^lethelog_replay' order by 1")
        return [name for (name,) in rows.fetchall()]


async def test_each_point_of_the_log_gives_back_what_was_there(world, replaying):
    other = await world.another_caller()
    memory = await world.remember("Deploys go to Fly", topic="deploys")
    first = await world.engine.log.head()
    await world.commands.remember(other, {"content": "Theirs", "topic": "theirs"})
    await world.commands.archive(world.caller, {"memory_id": memory})
    archived = await world.engine.log.head()
    await world.commands.restore(world.caller, {"memory_id": memory})
    written = await world.commands.revise(
        world.caller, {"memory_id": memory, "content": "Deploys go to Hetzner", "topic": "deploys now"}
    )
    assert await as_of(replaying, world.caller, first - 1) == {}
    assert await as_of(replaying, world.caller, first) == {"deploys": "active"}
    assert await as_of(replaying, world.caller, archived - 1) == {"deploys": "active"}
    assert await as_of(replaying, world.caller, archived) == {"deploys": "archived"}
    assert await as_of(replaying, world.caller, written.position) == {
        "deploys": "superseded",
        "deploys now": "active",
    }
    assert await as_of(replaying, other, written.position) == {"theirs": "active"}


async def test_a_replay_to_an_instant_is_one_to_the_newest_position_then(world, replaying):
    memory = await world.remember("Deploys go to Fly", topic="deploys")
    written = await world.commands.archive(world.caller, {"memory_id": memory})
    [*_, archived] = await world.engine.log.read_stream(world.caller.tenant, memory)
    assert archived.position == written.position
    assert await as_of(replaying, world.caller, archived.recorded_at) == {"deploys": "archived"}
    just_before = archived.recorded_at - timedelta(microseconds=1)
    assert await as_of(replaying, world.caller, just_before) == {"deploys": "active"}
    assert await as_of(replaying, world.caller, just_before.isoformat()) == {"deploys": "active"}


async def test_expiry_goes_by_the_moment_that_is_replayed(world, replaying, clock):
    await world.remember("Freeze until noon", topic="freeze", expires_at="2100-01-01T00:00:00Z")
    head = await world.engine.log.head()
    clock.forward(days=365 * 100)
    assert await as_of(replaying, world.caller, head) == {"freeze": "active"}


async def test_what_was_erased_stays_erased_in_every_replay(world, replaying, database_url):
    await world.remember("Stays", topic="stays")
    gone = await world.remember("Goes", topic="goes")
    head = await world.engine.log.head()
    assert await as_of(replaying, world.caller, head) == {"stays": "active", "goes": "active"}
    with psycopg.connect(database_url) as connection:
        connection.execute("delete from lethelog_vault.data_keys where key_id = %s", (gone,))
    world.engine.vault._keys.clear()
    assert await as_of(replaying, world.caller, head) == {"stays": "active"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("body = substr(body, 1, length(body) - 1) || '\\x00'", UnreadableEvent),
        ("name = 'memory.dreamt'", WrittenByNewer),
    ],
)
async def test_an_event_that_cannot_be_read_or_is_not_known_ends_a_replay_that_would_need_it(
    world, replaying, database_url, change, error
):
    """A memory must not come out as it was before an event that is on record."""
    memory = await world.remember("Deploys go to Fly", topic="deploys")
    archived = (await world.commands.archive(world.caller, {"memory_id": memory})).position
    assert await as_of(replaying, world.caller, archived) == {"deploys": "archived"}
    with psycopg.connect(database_url) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(f"update lethelog.events set {change} where position = {archived}")
    world.engine.vault.forget()
    with pytest.raises(error, match=f"the event at position {archived} ") as raised:
        await as_of(replaying, world.caller, archived)
    assert type(raised.value) is error and raised.value.details["position"] == archived
    assert await as_of(replaying, world.caller, archived - 1) == {"deploys": "active"}


async def test_a_schema_holds_every_read_model_as_it_was_and_says_so(world, replaying, database_url):
    memory = await world.remember("Deploys go to Fly", topic="deploys")
    await world.remember("Logs go to Loki", topic="logs")
    head = await world.engine.log.head()
    await world.commands.archive(world.caller, {"memory_id": memory})
    reports: list[tuple[int, int]] = []
    made = await replaying.into(
        world.caller, {"name": "before", "to": head}, lambda done, of: reports.append((done, of))
    )
    assert (made.schema_name, made.position) == ("lethelog_replay_before", head)
    assert reports[-1][0] == reports[-1][1]
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select topic, archived from lethelog_replay_before.live_memory order by topic"
        ).fetchall()
        assert rows == [("deploys", False), ("logs", False)]
        assert connection.execute(
            "select max(position) from lethelog_replay_before.memory_history"
        ).fetchone() == (head,)
        assert connection.execute("select count(*) from lethelog_replay_before.review_queue").fetchone() == (0,)
        row = connection.execute("select obj_description('lethelog_replay_before'::regnamespace)").fetchone()
    assert row is not None and f"as of position {head}" in row[0]
    assert schemas(database_url) == ["lethelog_replay_before"]
    assert await replaying.names(world.caller) == ("before",)
    with pytest.raises(Conflict, match="already"):
        await replaying.into(world.caller, {"name": "before", "to": head})
    await replaying.drop(world.caller, "before")
    assert schemas(database_url) == []
    with pytest.raises(NotFound):
        await replaying.drop(world.caller, "before")


@pytest.mark.parametrize("end", ["cancel", "fail"])
async def test_a_replay_that_does_not_come_to_its_end_leaves_nothing_and_is_seen_only_whole(
    world, replaying, database_url, end, monkeypatch
):
    await world.remember("Deploys go to Fly")
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def held(*_) -> None:
        begun.set()
        await go_on.wait()
        raise LookupError

    monkeypatch.setattr(world.engine.projections[-1], "create_indexes", held)
    head = await world.engine.log.head()
    task = asyncio.create_task(replaying.into(world.caller, {"name": "cut", "to": head}))
    await begun.wait()
    assert schemas(database_url) == [
        f"lethelog_replaying_cut_{one.name}" for one in sorted(world.engine.projections, key=lambda one: one.name)
    ]
    assert await replaying.names(world.caller) == () and await replaying.leftovers(world.caller) == ()
    with pytest.raises(Conflict, match="being written"):
        await replaying.drop(world.caller, "cut")
    task.cancel() if end == "cancel" else go_on.set()
    with pytest.raises(asyncio.CancelledError if end == "cancel" else LookupError):
        await task
    assert schemas(database_url) == []


@pytest.mark.parametrize(
    "clears", ["the next comparison", "drop by the replay's name", "drop by the schema's name"]
)
async def test_what_a_killed_replay_leaves_is_listed_as_such_and_cleared(
    world, replaying, database_url, clears, start
):
    """kill -9 in the middle of a page; the name it was to have never appeared."""
    await world.remember("Deploys go to Fly")
    head = await world.catch_up()
    process = await start("replay", database_url=database_url, view="live_memory", hold=head)
    await process.until(holding=True)
    assert await replaying.leftovers(world.caller) == ()
    await process.kill()
    left = "lethelog_replaying_may_live_memory"
    async with asyncio.timeout(20):
        while await replaying.leftovers(world.caller) != (left,):
            await asyncio.sleep(0.02)
    assert await replaying.names(world.caller) == ()
    if clears == "the next comparison":
        engine = world.engine
        assert (await Rebuilder(engine.database, engine.log, engine.tail, engine.review_queue).compare()).equal
    else:
        await replaying.drop(world.caller, "may" if "replay's" in clears else left)
    assert schemas(database_url) == []
    assert (await replaying.into(world.caller, {"name": "may", "to": head})).parked == 0
    assert await replaying.names(world.caller) == ("may",)


async def test_what_a_killed_comparison_leaves_is_listed_and_cleared_by_the_next_replay(
    world, replaying, database_url, start
):
    await world.remember("Deploys go to Fly")
    head = await world.catch_up()
    process = await start("compare", database_url=database_url, view="live_memory", hold=head)
    await process.until(holding=True)
    await process.kill()
    async with asyncio.timeout(20):
        while await replaying.leftovers(world.caller) != ("lethelog_compare_live_memory",):
            await asyncio.sleep(0.02)
    await replaying.into(world.caller, {"name": "may", "to": head})
    with psycopg.connect(database_url) as connection:
        found = connection.execute("select nspname from pg_namespace where nspname ~ '^lethelog_compare'")
        assert found.fetchall() == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"name": "ok", "to": 0}, "to"),
        ({"name": "ok", "to": 10_000}, "to"),
        ({"name": "ok", "to": "2026-03-01T09:00:00"}, "to"),
        ({"name": "ok", "to": "2999-01-01T00:00:00Z"}, "to"),
        ({"name": "ok"}, "to"),
        ({"name": 'x"; drop schema lethelog', "to": 1}, "name"),
        ({"name": "", "to": 1}, "name"),
        ({"name": "Upper", "to": 1}, "name"),
        ({"name": "a" * 25, "to": 1}, "name"),
        ({"name": 7, "to": 1}, "name"),
    ],
)
async def test_what_cannot_be_replayed_names_its_field_and_makes_nothing(
    world, replaying, database_url, arguments, field
):
    await world.remember("Deploys go to Fly")
    with pytest.raises(InvalidInput) as refused:
        await replaying.into(world.caller, arguments)
    assert refused.value.field == field
    assert schemas(database_url) == []


async def test_what_concerns_all_tenants_is_for_whoever_administers_the_installation(world, replaying, broker):
    """Administering one tenant, and all else that a credential can allow, is not enough."""
    await world.remember("Deploys go to Fly", topic="deploys")
    head = await world.catch_up()
    without = Caller(world.caller.tenant, world.caller.actor, ALL_PERMISSIONS - {"installation:admin"})
    only = Caller(world.caller.tenant, world.caller.actor, frozenset({"installation:admin"}))
    passes = PassSettings(NoJudge(), None, 0.0)

    def of_the_installation(caller):
        memory = AsyncMemory(world.engine, caller, passes, broker=broker)
        return (
            lambda: memory.rebuild("live_memory"),
            lambda: memory.cancel_rebuild("live_memory"),
            lambda: memory.compare("live_memory"),
            lambda: memory.parked(),
            lambda: memory.dropped(),
            lambda: memory.retry_parked(read_model="live_memory"),
            lambda: memory.verify_log(),
            lambda: memory.checkpoint(),
            lambda: memory.replay_into("mine", head),
            lambda: memory.replays(),
            lambda: memory.leftovers(),
            lambda: memory.drop_replay("mine"),
        )

    assert await as_of(replaying, without, head) == {"deploys": "active"}
    with pytest.raises(AccessDenied, match="installation:admin"):
        await AsyncMemory(world.engine, without, passes, broker=broker).drop_parked("message-1", reason="other")
    for refused in of_the_installation(without):
        with pytest.raises(AccessDenied, match="installation:admin"):
            await refused()
    assert await replaying.names(world.caller) == ()
    for allowed in of_the_installation(only):
        await allowed()


async def test_documents_are_json(world, replaying):
    await world.remember("Deploys go to Fly", topic="deploys", metadata={"a": 1.5}, tags=["ops"])
    head = await world.engine.log.head()
    [document] = [view.model_dump(mode="json") async for view in replaying.memories(world.caller, {"to": head})]
    assert json.loads(json.dumps(document)) == document
    assert (document["metadata"], document["tags"]) == ({"a": 1.5}, ["ops"])
