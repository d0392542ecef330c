"""The past written out from the log: memories as they were, and read models in a schema of their own."""

import asyncio
import json
from datetime import timedelta

import psycopg
import pytest
from lethelog.domain.errors import AccessDenied, Conflict, InvalidInput, NotFound
from lethelog.handlers.caller import Caller
from lethelog.handlers.replaying import Replaying
from lethelog.projections.replay import PREFIX, Replayer


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


async def test_a_replay_that_is_cancelled_leaves_nothing(world, replaying, database_url):
    await world.remember("Deploys go to Fly")
    begun = asyncio.Event()

    async def held(*_) -> None:
        begun.set()
        await asyncio.Event().wait()

    replayer = Replayer(world.engine.database, world.engine.log, world.engine.tail, world.engine.projections)
    replayer._fill = held  # type: ignore[method-assign]
    task = asyncio.create_task(replayer.replay("cut", 1, world.clock()))
    await begun.wait()
    assert schemas(database_url) == [f"{PREFIX}cut"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert schemas(database_url) == []


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


async def test_a_schema_of_all_tenants_is_for_whoever_administers_them(world, replaying):
    reader = Caller(world.caller.tenant, world.caller.actor, frozenset({"memory:read"}))
    await world.remember("Deploys go to Fly", topic="deploys")
    assert await as_of(replaying, reader, await world.engine.log.head()) == {"deploys": "active"}
    for refused in (
        replaying.into(reader, {"name": "mine", "to": 1}),
        replaying.names(reader),
        replaying.drop(reader, "mine"),
    ):
        with pytest.raises(AccessDenied):
            await refused


async def test_documents_are_json(world, replaying):
    await world.remember("Deploys go to Fly", topic="deploys", metadata={"a": 1.5}, tags=["ops"])
    head = await world.engine.log.head()
    [document] = [view.model_dump(mode="json") async for view in replaying.memories(world.caller, {"to": head})]
    assert json.loads(json.dumps(document)) == document
    assert (document["metadata"], document["tags"]) == ({"a": 1.5}, ["ops"])
