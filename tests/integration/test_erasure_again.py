"""Erasures that meet one another: twice of the same, many at once, an old preview, a place that was not clean."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID, uuid4

import psycopg
import pytest
from lethelog.domain.errors import AccessDenied, Conflict, Erased, InvalidInput, Misconfigured
from lethelog.handlers.access.caller import TOKEN_PERMISSIONS
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.erasure.ledger import LedgerKeeping
from lethelog.handlers.erasure.saga import Saga
from lethelog.ops.cli.erasure_checks import check_erasures
from lethelog.streams.signing import SigningKey
from lethelog.streams.vault import DataKeys, Vault

from .held import Held, waiting
from .test_erasure import CANARY, clear_rows, erase


@pytest.fixture
def erasures(world) -> Erasures:
    return Erasures(world.engine)


async def test_what_is_erased_twice_stays_blocked(world, erasures):
    first = await world.remember(CANARY, user_id="ada")
    await erase(world, erasures, memory_id=first, re_entry="block")
    done = await erase(world, erasures, subject="ada", re_entry="block")
    assert done.blocked == 1
    assert (await world.get(await world.remember(CANARY))).status == "quarantined"


async def test_a_block_goes_where_it_is_erased_again_without_one(world, erasures):
    first = await world.remember(CANARY, user_id="ada")
    await erase(world, erasures, memory_id=first, re_entry="block")
    await erase(world, erasures, subject="ada")
    assert (await world.get(await world.remember(CANARY))).status == "active"


@pytest.mark.parametrize("what", [{"subject": "ada"}, {"project": "Apollo"}])
async def test_a_preview_of_somebody_who_was_erased_meanwhile_is_refused(world, erasures, what):
    await world.remember(f"{CANARY} 1", user_id="ada", project="Apollo")
    old = await erasures.preview(world.caller, what)
    await erase(world, erasures, **what)
    back = await world.remember(f"{CANARY} 2", user_id="ada", project="Apollo")
    with pytest.raises(Conflict, match="new preview"):
        await erasures.erase(world.caller, {"erasure_id": old.id, "reason": "asked_for"})
    assert (await world.get(back)).content == f"{CANARY} 2"
    await erase(world, erasures, **what)
    assert await clear_rows(world, CANARY) == []


async def test_a_persons_name_goes_as_an_agents_too(world, erasures):
    await world.remember(CANARY, user_id="ada")
    other = await world.remember("of somebody else", user_id="bob", agent_id="ada")
    assert (await world.get(other)).agent_id == "ada"
    await erase(world, erasures, subject="ada")
    view = await world.get(other)
    assert (view.content, view.user_id, view.agent_id) == ("of somebody else", "bob", None)


async def test_more_erasures_at_once_than_there_are_connections(world, erasures):
    """Each holds a connection while it waits for the others, and needs a second one when it is its turn."""
    memories = [await world.remember(f"{CANARY} {n}") for n in range(20)]
    previews = [await erasures.preview(world.caller, {"memory_id": one}) for one in memories]
    done = await asyncio.gather(
        *(erasures.erase(world.caller, {"erasure_id": one.id, "reason": "asked_for"}) for one in previews)
    )
    assert [one.phase for one in done] == ["verified"] * 20


async def test_a_look_that_opens_nothing_of_anybody_proves_nothing(world, erasures, monkeypatch):
    """F05: with keys that cannot be read every event looks erased, those of others too."""
    gone, _ = await world.remember(CANARY), await world.remember("of somebody else")
    await world.catch_up()

    async def none(_vault, _tenant, _ids):
        return DataKeys()

    with monkeypatch.context() as patched:
        patched.setattr(Vault, "data_keys", none)
        preview = await erasures.preview(world.caller, {"memory_id": gone})
        done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
        assert (done.phase, done.remaining) == ("incomplete", {"sealed events": "look_failed"})
        assert done.certificate is None
    done = await erasures.retry(world.caller, {"erasure_id": preview.id})
    assert done.verified and {one.place: one.control for one in done.places}["sealed events"] == "found_before"


async def test_what_was_left_in_a_place_is_taken_out_by_whoever_tries_again(world, erasures):
    memory = await world.remember(CANARY)
    await world.catch_up()
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
    assert done.remaining == {"live_memory": "still_there"}
    async with world.engine.database.connection() as connection:
        await connection.execute("drop trigger keep on lethelog_views.live_memory")
    assert await clear_rows(world, CANARY)
    assert await erasures.carry_on_open() == 0
    assert await clear_rows(world, CANARY) == []
    done = await erasures.show(world.caller, {"erasure_id": preview.id})
    assert (done.phase, done.times_performed) == ("verified", 1)


async def test_a_certificate_of_what_was_only_previewed_is_refused(world, erasures):
    memory = await world.remember(CANARY)
    preview = await erasures.preview(world.caller, {"memory_id": memory})
    forged = SigningKey(b"x" * 32).sign({"erasure": str(preview.id), "tenant": str(world.caller.tenant)})
    with pytest.raises(InvalidInput, match="never done here"):
        await erasures.check_certificate(world.caller, forged)


async def test_lines_that_were_cut_off_the_end_of_the_ledger_are_missed_by_doctor(world, erasures):
    ledger = world.engine.erasure.ledger
    settings = SimpleNamespace(ledger_file=ledger.path)
    for n in range(3):
        await erase(world, erasures, memory_id=await world.remember(f"{CANARY} {n}"))
    # Looked at, but never asked for: it has no line.
    await erasures.preview(world.caller, {"memory_id": await world.remember("it stays")})

    async def said() -> tuple[str, str]:
        standing = SimpleNamespace(head=1)
        [check, *_] = [one async for one in check_erasures(settings, world.engine.database, standing)]
        return check.level, check.says

    assert (await said())[0] == "ok"
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(b"".join(lines[:1]))
    status, detail = await said()
    assert status == "fault" and "lacks 2 erasures" in detail
    ledger.path.unlink()
    assert "missing or empty, with 3 erasures on record" in (await said())[1]


async def test_done_again_by_the_ledger_it_still_says_what_it_left(world, erasures, database_url):
    source = await world.remember(f"{CANARY} source")
    summary = await world.remember("what follows from it", derived_from=[source])
    kept = data_key(database_url, source)
    done = await erase(world, erasures, memory_id=source, derived="list")
    assert done.left == (summary,)
    put_back(database_url, kept)
    assert await erasures.hold_to_ledger() == 1
    done = await erasures.retry(world.caller, {"erasure_id": done.id})
    assert (done.phase, done.times_performed, done.left) == ("verified", 2, (summary,))


async def test_a_lost_or_shortened_ledger_is_completed_from_the_log_and_nothing_is_taken_out_of_it(
    world, erasures
):
    ledger, keeping = world.engine.erasure.ledger, LedgerKeeping(world.engine)
    done = []
    for n in range(3):
        await world.remember(f"Note {n}", user_id=f"person {n}", session_id=f"s{n}")
        preview = await erasures.preview(world.caller, {"subject": f"person {n}"})
        done.append(await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"}))
    await erasures.preview(world.caller, {"scope": "only-looked-at"})
    whole = ledger.read()
    assert (await keeping.show(world.caller)).missing_count == 0
    assert (await keeping.complete(world.caller)).added == 0

    for kept in (whole[:0], whole[:1]):
        ledger.path.unlink()
        if kept:
            ledger.append(kept)
        lacking = [one.id for one in done[len(kept) :]]
        assert (await keeping.show(world.caller)).missing == tuple(lacking)
        found = await keeping.complete(world.caller)
        assert (found.entries, found.added, found.missing_count) == (3, 3 - len(kept), 0)
        assert [unordered(one) for one in ledger.read()] == [unordered(one) for one in whole]
    assert await erasures.hold_to_ledger() == 0

    foreign = replace(whole[0], erasure=uuid4(), memories=(uuid4(),))
    ledger.path.unlink()
    ledger.append([foreign])
    assert (await keeping.complete(world.caller)).entries == 4
    assert ledger.read()[0] == foreign, "of an erasure that this database never heard of"

    damaged = ledger.path.read_bytes().replace(b"asked_for", b"asked_fox", 1)
    ledger.path.write_bytes(damaged)
    with pytest.raises(Misconfigured, match="line 1"):
        await keeping.complete(world.caller)
    assert ledger.path.read_bytes() == damaged
    with pytest.raises(AccessDenied):
        await keeping.complete(replace(world.caller, permissions=TOKEN_PERMISSIONS))


async def test_who_opens_while_an_erasure_is_done_does_not_do_it_again(world, erasures, database_url):
    """The ledger names it before its keys go: whoever reads both in between waits, and looks again."""
    memory = await world.remember(CANARY)
    preview = await erasures.preview(world.caller, {"memory_id": memory})
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def stop(point: str) -> None:
        if point == "before the commit":
            reached.set()
            await go_on.wait()

    erasing = Erasures(world.engine, Saga(world.engine, checkpoint=stop))
    arguments = {"erasure_id": preview.id, "reason": "asked_for"}
    doing = asyncio.create_task(erasing.erase(world.caller, arguments))
    await reached.wait()
    assert data_key(database_url, memory) is not None, "nothing is committed yet"
    [entry] = world.engine.erasure.ledger.read()
    assert entry.erasure == preview.id
    opening = [asyncio.create_task(Erasures(world.engine).hold_to_ledger()) for _ in range(2)]
    with psycopg.connect(database_url, autocommit=True) as watcher:
        while waiting(watcher) < 2:
            await asyncio.sleep(0)
    go_on.set()
    done = await doing
    assert await asyncio.gather(*opening) == [0, 0]
    assert (done.phase, done.times_performed) == ("verified", 1)
    shown = await erasures.show(world.caller, {"erasure_id": preview.id})
    assert shown.times_performed == 1


async def test_two_that_open_a_database_that_was_put_back_erase_it_again_once(world, erasures, database_url):
    memory = await world.remember(CANARY)
    kept = data_key(database_url, memory)
    done = await erase(world, erasures, memory_id=memory)
    put_back(database_url, kept)
    held = Held(database_url)
    opening = [asyncio.create_task(Erasures(world.engine).hold_to_ledger()) for _ in range(2)]
    await held.is_waited_for()
    held.release()
    assert sorted(await asyncio.gather(*opening)) == [0, 1]
    shown = await erasures.retry(world.caller, {"erasure_id": done.id})
    assert (shown.phase, shown.times_performed) == ("verified", 2)


async def test_a_name_that_is_registered_while_its_tenant_is_erased_leaves_no_row(world, erasures, monkeypatch):
    caller = await world.another_caller()
    await world.commands.remember(caller, {"content": CANARY, "topic": "t", "user_id": "ada"})
    await world.catch_up()
    directory = world.engine.directory
    asked, go_on = asyncio.Event(), asyncio.Event()
    digest = directory._digest
    seen = 0

    async def held_digest(*arguments):
        nonlocal seen
        found = await digest(*arguments)
        seen += 1
        if seen == 2:  # the one for the row itself, after the look whether the name is there
            asked.set()
            await go_on.wait()
        return found

    monkeypatch.setattr(directory, "_digest", held_digest)
    registering = asyncio.create_task(directory.register(caller.tenant, "user", "grace"))
    await asyncio.wait_for(asked.wait(), 10)
    monkeypatch.setattr(directory, "_digest", digest)
    preview = await erasures.preview(caller, {"tenant": True})
    done = await erasures.erase(caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert done.verified
    go_on.set()
    with pytest.raises(Erased):
        await registering
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select count(*) from lethelog.directory where tenant = %s", (caller.tenant,)
        )
        assert await cursor.fetchone() == (0,)
    assert await directory.register(world.caller.tenant, "user", "grace"), "of another tenant it goes in"


@pytest.mark.parametrize("verb", ["accept", "reject"])
async def test_what_a_reviewer_said_leaves_no_digest_of_the_command(world, erasures, verb):
    from lethelog.handlers.erasure.rehearsal import Rehearsing

    memory = await world.remember(CANARY)
    other = await world.remember("Deploys go to Hetzner")
    rehearsing = Rehearsing(world.engine)
    for one in (memory, other):
        await rehearsing._propose(world.caller, one, CANARY)
    await world.catch_up()
    page = await world.reviewing.list(world.caller, {})
    for one in page.proposals:
        arguments = {"proposal_id": one.id, "comment": f"{CANARY} again", "key": f"key {one.id}"}
        await world.catch_up()
        deciding = asyncio.create_task(getattr(world.reviewing, verb)(world.caller, arguments))
        while not deciding.done():
            await world.catch_up()
        await deciding
    assert await digests(world) >= {one.id for one in page.proposals}
    gone = next(one.id for one in page.proposals if one.memory_id == memory)
    done = await erase(world, erasures, memory_id=memory)
    [checked] = [place for place in done.places if place.place == "command keys"]
    assert checked.before > 0 and checked.control == "found_before"
    assert gone not in await digests(world)
    assert {one.id for one in page.proposals} - {gone} <= await digests(world)


async def digests(world) -> set[UUID]:
    """Subjects of which there is a digest of what a command said."""
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute("select subject from lethelog.commands where hash <> ''")
        return {row[0] for row in await cursor.fetchall()}


def data_key(database_url: str, memory: UUID):
    with psycopg.connect(database_url) as connection:
        statement = "select tenant, key_id, wrapped from lethelog_vault.data_keys where key_id = %s"
        return connection.execute(statement, (memory,)).fetchone()


def put_back(database_url: str, row) -> None:
    """As a database of before the erasure has it."""
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "insert into lethelog_vault.data_keys (tenant, key_id, wrapped) values (%s, %s, %s)", row
        )


def unordered(entry):
    """All but when it was written down, which is a moment before it was done."""
    return replace(entry, at=None, memories=frozenset(entry.memories), names=frozenset(entry.names))
