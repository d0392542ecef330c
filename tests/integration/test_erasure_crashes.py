"""Crashes, failures and restored databases: an erasure is carried to its end, and never goes back (F05, F08, D11)."""

import asyncio
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import psycopg
import pytest
from lethelog.domain.errors import Erased, InvalidInput, Misconfigured
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.engine import Engine, open_engine
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.erasure.means import ErasureMeans
from lethelog.handlers.erasure.places import Looking
from lethelog.handlers.erasure.saga import Saga
from lethelog.handlers.memories import MemoryCommands
from lethelog.handlers.reading import Reading
from lethelog.ops.cli.erasure_checks import check_erasures
from lethelog.ops.settings import Settings
from lethelog.projections.runner import ProjectionRunner, ensure_tables
from lethelog.streams.erasure_ledger import Ledger
from lethelog.streams.master_keys import Keyring
from lethelog.streams.payloads import Actor
from lethelog.streams.signing import SigningKey, check

from .archives import propose
from .test_erasure import CANARY, clear_rows, same_as_rebuilt

POINTS = [
    "before the ledger",
    "after the ledger",
    "after the clear copies",
    "after the keys",
    "before the commit",
    "after the commit",
    "before the proposals",
    "before looking",
]


@pytest.fixture
def erasures(world) -> Erasures:
    return Erasures(world.engine)


async def asked_for(world, erasures, monkeypatch, **what):
    """An erasure that is on record and not begun."""
    preview = await erasures.preview(world.caller, what)

    async def stop(*_: object) -> None:
        raise RuntimeError("the process ends here")

    with monkeypatch.context() as patched:
        patched.setattr(Saga, "carry_on", stop)
        with pytest.raises(RuntimeError):
            await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    return preview.id


@pytest.mark.parametrize("point", POINTS)
async def test_a_process_killed_at_any_step_leaves_an_erasure_that_a_worker_finishes(
    world, erasures, database_url, monkeypatch, point
):
    memory = await world.remember(CANARY, user_id="ada")
    await world.catch_up()
    erasure = await asked_for(world, erasures, monkeypatch, subject="ada")
    ledger = world.engine.erasure.ledger
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("killed_eraser.py")),
        *(database_url, str(ledger.path), str(world.caller.tenant), str(erasure), point),
    )
    assert await child.wait() == -signal.SIGKILL
    begun = POINTS.index(point) >= POINTS.index("after the commit")
    assert (await clear_rows(world, CANARY) == []) == begun
    assert await erasures.open() == [(world.caller.tenant, erasure)]
    if point != POINTS[0]:
        assert [entry.erasure for entry in ledger.read()] == [erasure]

    assert await erasures.carry_on_open() == 0

    done = await erasures.show(world.caller, {"erasure_id": erasure})
    assert (done.phase, done.times_performed) == ("verified", 1)
    await world.catch_up()
    assert await clear_rows(world, CANARY) == []
    with pytest.raises(Erased):
        await world.get(memory)
    await same_as_rebuilt(world)


@pytest.mark.parametrize("point", ["before the commit", "after the commit"])
async def test_f02_killed_between_the_event_and_the_read_models_nothing_is_found_after_a_restart(
    world, erasures, database_url, monkeypatch, tmp_path, point
):
    """F02: row, vector, words, the text's own claims and the card are all gone, and doctor finds nothing left."""
    text = f"{CANARY} locker code is 4471"
    memory, neighbour = await world.remember(text), await world.remember("The gym opens at 4471 Main Street")
    await propose(world, memory, quote=text)
    await world.catch_up()
    found = await world.reading.search(world.caller, {"query": "locker code 4471"})
    assert found.hits[0].memory.id == memory and set(await clear_rows(world, CANARY)) > {
        "lethelog_views.review_queue"
    }
    await world.commands.archive(world.caller, {"memory_id": memory})
    erasure = await asked_for(world, erasures, monkeypatch, memory_id=memory)
    ledger = world.engine.erasure.ledger
    arguments = (database_url, str(ledger.path), str(world.caller.tenant), str(erasure), point)
    script = str(Path(__file__).with_name("killed_eraser.py"))
    child = await asyncio.create_subprocess_exec(sys.executable, script, *arguments)
    assert await child.wait() == -signal.SIGKILL

    async def doctor() -> dict[str, str]:
        settings = Settings.load(data_dir=tmp_path, erasure_ledger=ledger.path)
        standing = SimpleNamespace(head=await world.engine.log.head())
        return {one.name: one.level async for one in check_erasures(settings, world.engine.database, standing)}

    assert (await doctor())["erasures"] == "fault"
    assert await erasures.carry_on_open() == 0
    await world.catch_up()
    hits = (await world.reading.search(world.caller, {"query": "locker code 4471"})).hits
    assert [hit.memory.id for hit in hits] == [neighbour]
    everything = await world.reading.list(world.caller, {"status": "all"})
    assert [one.id for one in everything.memories] == [neighbour]
    assert await clear_rows(world, CANARY) == []
    assert (await world.reviewing.list(world.caller, {"status": "proposed"})).proposals == ()
    assert (await doctor()) == {"erasure ledger": "ok", "erasures": "ok"}
    await same_as_rebuilt(world)
    assert await world.remember(text) != memory, "its claims are gone, so it is no duplicate"


async def test_a_place_that_cannot_be_cleaned_leaves_it_incomplete_until_it_is(world, erasures, monkeypatch):
    """F05: never success from a return code."""
    memory = await world.remember(CANARY)
    await world.catch_up()
    # A trigger that silently keeps the rows: the delete succeeds and deletes nothing.
    async with world.engine.database.connection() as connection:
        await connection.execute(
            "create function lethelog_views.keep() returns trigger language plpgsql as 'begin return null; end'"
        )
        await connection.execute(
            "create trigger keep before delete on lethelog_views.live_memory "
            "for each row execute function lethelog_views.keep()"
        )
    preview = await erasures.preview(world.caller, {"memory_id": memory})
    done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert (done.phase, done.remaining) == ("incomplete", {"live_memory": "still_there"})
    assert done.certificate is None and not done.verified
    head = await world.engine.log.head()
    again = await erasures.retry(world.caller, {"erasure_id": preview.id})
    assert again.phase == "incomplete" and await world.engine.log.head() == head
    page = await erasures.list(world.caller, {"unfinished": True})
    assert [one.id for one in page.erasures] == [preview.id]

    async with world.engine.database.connection() as connection:
        await connection.execute("drop trigger keep on lethelog_views.live_memory")
        await connection.execute("delete from lethelog_views.live_memory where memory_id = %s", (memory,))
    assert await erasures.carry_on_open() == 0
    assert (await erasures.show(world.caller, {"erasure_id": preview.id})).verified


async def test_the_look_would_find_what_is_there(world, erasures, monkeypatch):
    """The positive control of every place: before the erasure each of them finds something."""
    memory = await world.remember(CANARY, user_id="ada")
    await world.commands.revise(world.caller, {"memory_id": memory, "content": f"{CANARY} two"})
    await world.catch_up()
    preview = await erasures.preview(world.caller, {"subject": "ada"})
    for place in (
        "data keys",
        "sealed events",
        "directory",
        "claims",
        "live_memory",
        "memory_past",
        "memory_history",
    ):
        assert preview.places[place] > 0 or place == "memory_past", place
    done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert {one.place: one.control for one in done.places}["live_memory"] == "found_before"
    assert all(one.found == 0 for one in done.places)


async def test_an_old_database_put_back_revives_nothing(servers, database_url, embedder, clock, tmp_path):
    """F08, D11: last week's database, opened today with the ledger of today."""
    means = ErasureMeans(Ledger(tmp_path / "erasures.ledger"), SigningKey(b"s" * 32))
    caller = Caller(uuid4(), Actor("person", uuid4()))
    restored = f"test_{uuid4().hex}"

    @asynccontextmanager
    async def opened(url: str):
        engine = await open_engine(url, Keyring.of(b"m" * 32), embedder, clock=clock, erasure=means)
        try:
            await ensure_tables(engine.database, engine.projections)
            yield engine
        finally:
            await engine.close()

    async def catch_up(engine: Engine) -> None:
        head = await engine.log.head()
        for projection in engine.projections:
            await ProjectionRunner(engine.database, engine.log, engine.tail, projection).catch_up(head)

    async with opened(database_url) as engine:
        await engine.tenants.ensure(caller.tenant, caller.actor)
        commands = MemoryCommands(engine)
        written = await commands.remember(caller, {"content": CANARY, "topic": "t", "user_id": "ada"})
        memory = written.memory.id
        stays = (await commands.remember(caller, {"content": "Deploys go to Hetzner", "topic": "t"})).memory.id
        await catch_up(engine)
    try:
        with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
            name = psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]
            connection.execute(f"create database {restored} template {name}")
            connection.execute(f"grant create on database {restored} to lethelog_worker")
        async with opened(database_url) as engine:
            erasures = Erasures(engine)
            preview = await erasures.preview(caller, {"subject": "ada"})
            await erasures.erase(caller, {"erasure_id": preview.id, "reason": "asked_for", "re_entry": "block"})
        async with opened(servers.database_url(restored)) as engine:
            [event] = await engine.log.read_stream(caller.tenant, memory)
            assert event.event.content == CANARY  # what was put back really held it
            back = Erasures(engine)
            assert await back.hold_to_ledger() == 1
            assert await back.hold_to_ledger() == 0
            [event] = await engine.log.read_stream(caller.tenant, memory)
            assert event.event.content is None
            assert await back.carry_on_open() == 0
            shown = await back.show(caller, {"erasure_id": preview.id})
            assert (shown.phase, shown.memories, shown.blocked) == ("verified", 1, 1)
            await catch_up(engine)
            with pytest.raises(Erased):
                await Reading(engine).get(caller, {"ids": [memory]})
            [kept] = await Reading(engine).get(caller, {"ids": [stays]})
            assert kept.content == "Deploys go to Hetzner"
            assert await engine.directory.find(caller.tenant, "user", "ada") is None
            async with engine.database.connection() as connection:
                cursor = await connection.execute("select memory_id from lethelog_views.live_memory")
                assert await cursor.fetchall() == [(stays,)]
    finally:
        with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
            connection.execute(f"drop database if exists {restored} with (force)")


async def test_without_a_ledger_that_can_be_written_nothing_is_erased(world, erasures, tmp_path):
    memory = await world.remember(CANARY)
    preview = await erasures.preview(world.caller, {"memory_id": memory})
    world.engine.erasure.ledger.path.mkdir()
    with pytest.raises(Misconfigured, match="LETHELOG_ERASURE_LEDGER"):
        await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert (await world.get(memory)).content == CANARY
    world.engine.erasure.ledger.path.rmdir()
    assert await erasures.carry_on_open() == 0


async def test_a_line_of_the_ledger_that_was_changed_or_taken_out_shows(world, erasures):
    ledger: Ledger = world.engine.erasure.ledger
    for n in range(3):
        memory = await world.remember(f"{CANARY} {n}")
        preview = await erasures.preview(world.caller, {"memory_id": memory})
        await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    assert CANARY.encode() not in b"".join(lines) and len(ledger.read()) == 3
    ledger.path.write_bytes(b"".join(lines) + lines[0][:40])
    assert len(ledger.read()) == 3  # cut short by a crash: nothing was destroyed after it
    for damaged in ([lines[0], lines[2]], [lines[0].replace(b'"memory"', b'"tenant"'), *lines[1:]]):
        ledger.path.write_bytes(b"".join(damaged))
        with pytest.raises(Misconfigured, match="line"):
            ledger.read()


async def test_a_certificate_is_checked_without_a_server_and_against_one(world, erasures, monkeypatch):
    memory = await world.remember(CANARY)
    preview = await erasures.preview(world.caller, {"memory_id": memory})
    done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    document = done.certificate
    assert CANARY not in str(document)
    signed = check(document)
    assert signed.statement["data_keys_destroyed"]["ids"] == [str(memory)]
    assert (await erasures.check_certificate(world.caller, document)).holds
    # The same one again, after other things happened.
    await world.remember("something else")
    assert (await erasures.show(world.caller, {"erasure_id": preview.id})).certificate == document
    changed = {**document, "statement": {**document["statement"], "kind": "tenant"}}
    with pytest.raises(InvalidInput):
        check(changed)
    forged = SigningKey(b"x" * 32).sign({**document["statement"], "reason": "another"})
    found = await erasures.check_certificate(world.caller, forged)
    assert (found.own_key, found.on_record, found.holds) == (False, False, False)

    async def still_there(self, connection, erasing):
        return {**await count(self, connection, erasing), "data keys": 1}

    count = Looking.look_again
    monkeypatch.setattr(Looking, "look_again", still_there)
    found = await erasures.check_certificate(world.caller, document)
    assert (found.remaining, found.holds) == ({"data keys": "still_there"}, False)


async def test_an_engine_without_means_erases_nothing(world, database_url, embedder):
    memory = await world.remember(CANARY)
    engine = await open_engine(database_url, Keyring.of(b"m" * 32), embedder)
    try:
        bare = Erasures(engine)
        preview = await bare.preview(world.caller, {"memory_id": memory})
        with pytest.raises(Misconfigured):
            await bare.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
        assert (await bare.show(world.caller, {"erasure_id": preview.id})).phase == "previewed"
    finally:
        await engine.close()
    assert isinstance(world.engine.erasure, ErasureMeans)
