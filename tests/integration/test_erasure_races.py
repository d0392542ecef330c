"""What happens at the same time as an erasure must not bring anything back. Races are forced, never waited for."""

import asyncio

import pytest
from lethelog.domain.errors import Conflict, Erased
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.erasure.saga import Saga
from lethelog.handlers.memories import MemoryCommands
from lethelog.handlers.undoing.undoing import Undoing
from lethelog.projections import neighbours
from lethelog.projections.applying import Applier, MovedMeanwhile
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.replay import Replayer
from lethelog.projections.runner import ProjectionRunner
from lethelog.streams.directory import Directory
from lethelog.streams.log import Log
from lethelog.streams.master_keys import Keyring
from lethelog.streams.reader import LogTail
from lethelog.streams.recollection import hold_off, unseen
from lethelog.streams.vault import Vault

from .review_desk import decided, dependency, with_views
from .test_erasure import CANARY, clear_rows, same_as_rebuilt


@pytest.fixture
def erasures(world) -> Erasures:
    return Erasures(world.engine)


async def erase(world, erasures, **what):
    preview = await erasures.preview(world.caller, what)
    done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert done.verified, done.remaining
    return done


def applier(world, projection, schema=None) -> Applier:
    return Applier(world.engine.database, projection, schema, world.engine.log.recollection)


async def test_a_page_that_was_prepared_before_an_erasure_is_not_written_after_it(world, erasures):
    await world.catch_up()
    before = await world.engine.log.head()
    memory = await world.remember(CANARY)
    for projection in world.engine.projections:
        one = applier(world, projection)
        page = await one.prepare(await world.engine.log.read_page(before, 100), await one.epoch())
        await erase(world, erasures, memory_id=memory)
        with pytest.raises(MovedMeanwhile):
            await one.write(page, before)
    await world.catch_up()
    assert await clear_rows(world, CANARY) == []
    await same_as_rebuilt(world)


async def test_an_erasure_waits_for_a_page_that_is_being_written(world, erasures):
    memory = await world.remember(CANARY)
    await world.catch_up()
    async with world.engine.database.transaction() as connection:
        await hold_off(connection)
        erasing = asyncio.create_task(erase(world, erasures, memory_id=memory))
        async with world.engine.database.connection() as other:
            while True:
                cursor = await other.execute(
                    "select exists (select from pg_locks where locktype = 'advisory' and not granted and "
                    "database = (select oid from pg_database where datname = current_database()))"
                )
                if await cursor.fetchone() == (True,):
                    break
        assert not erasing.done()
        assert (await world.get(memory)).content == CANARY
    await erasing
    assert await clear_rows(world, CANARY) == []


async def test_a_rebuild_that_was_filling_when_something_was_erased_ends_without_it(world, erasures, monkeypatch):
    """Every projection, erased between a page that was loaded and one that is not yet; and again before the switch."""
    monkeypatch.setattr("lethelog.projections.runner.LARGEST_PAGE", 4)
    early = await world.remember(f"{CANARY} early")
    for n in range(6):
        await world.remember(f"between {n}")
    late = await world.commands.revise(world.caller, {"memory_id": early, "content": f"{CANARY} late"})
    await world.remember("the end")
    await world.catch_up()
    erased = False
    for projection in world.engine.projections:
        waiting: list[int] = []

        def report(done: int, _of: int, waiting=waiting) -> None:
            waiting.append(done)

        rebuilder = Rebuilder(world.engine.database, world.engine.log, world.engine.tail, projection)
        write = Applier.write

        async def write_and_erase(self, page, before, by=None, write=write):
            nonlocal erased
            if self._schema is not None and before > 4 and not erased:
                erased = True
                await erase(world, erasures, memory_id=late.memory.id)
            return await write(self, page, before, by)

        with monkeypatch.context() as patched:
            patched.setattr(Applier, "write", write_and_erase)
            await rebuilder.rebuild(report)
        assert await clear_rows(world, CANARY) == []
    assert erased
    await world.catch_up()
    await same_as_rebuilt(world)


async def test_copies_of_every_state_are_cleaned(world, erasures, monkeypatch):
    """Retired, broken off, compared and replayed copies: D9's leftovers."""
    memory = await world.remember(CANARY)
    await world.catch_up()
    engine = world.engine
    await Rebuilder(engine.database, engine.log, engine.tail, engine.live_memory).rebuild()
    rebuilder = Rebuilder(engine.database, engine.log, engine.tail, engine.memory_history)

    async def broken_off(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(Rebuilder, "_index", broken_off)
        with pytest.raises(RuntimeError):
            await rebuilder.rebuild()
    await Replayer(engine.database, engine.log, engine.tail, engine.projections).replay(
        "may", await engine.log.head(), engine.clock()
    )
    where = {schema.split(".")[0] for schema in await clear_rows(world, CANARY)}
    assert {
        "lethelog_views",
        "lethelog_views_live_memory_2",
        "lethelog_views_memory_history_2",
        "lethelog_replay_may",
    } == where
    await erase(world, erasures, memory_id=memory)
    assert await clear_rows(world, CANARY) == []


async def test_a_replay_that_is_being_written_is_cleaned_too(world, erasures, monkeypatch):
    memory = await world.remember(CANARY)
    await world.catch_up()
    engine = world.engine
    publish = Replayer._publish

    async def erase_first(self, name: str, says: str) -> None:
        await erase(world, erasures, memory_id=memory)
        await publish(self, name, says)

    monkeypatch.setattr(Replayer, "_publish", erase_first)
    await Replayer(engine.database, engine.log, engine.tail, engine.projections).replay(
        "may", await engine.log.head(), engine.clock()
    )
    assert await clear_rows(world, CANARY) == []


async def test_the_neighbour_cache_forgets_the_words_of_its_groups(world, erasures):
    memory = await world.remember(f"{CANARY} alpha", memory_type="fact")
    other = await world.remember("alpha beta gamma", memory_type="fact")
    await world.catch_up()
    head = await world.engine.log.head()
    await neighbours.refresh(world.engine.database, world.caller.tenant, upto_position=head, neighbours=5)
    preview = await erasures.preview(world.caller, {"memory_id": memory})
    assert preview.places["neighbour cache"] == 1
    await erase(world, erasures, memory_id=memory)
    head = await world.catch_up()
    await neighbours.refresh(world.engine.database, world.caller.tenant, upto_position=head, neighbours=5)
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select memory_id, single_ids from lethelog_views.candidate_neighbours where tenant = %s",
            (world.caller.tenant,),
        )
        assert await cursor.fetchall() == [(other, [])]
        cursor = await connection.execute("select members from lethelog_views.candidate_groups")
        assert await cursor.fetchall() == [(1,)]


@pytest.fixture
def erased_before_the_append(world, erasures, monkeypatch):
    """Erases something right before the next command appends what it decided."""

    def prepare(**what) -> None:
        append = Log.append

        async def erase_first(self, unit):
            monkeypatch.setattr(Log, "append", append)
            await erase(world, erasures, **what)
            return await append(self, unit)

        monkeypatch.setattr(Log, "append", erase_first)

    return prepare


async def test_a_revision_that_read_its_predecessor_before_the_erasure_is_refused(world, erased_before_the_append):
    memory = await world.remember(f"{CANARY} one", topic=f"{CANARY} topic")
    erased_before_the_append(memory_id=memory)
    with pytest.raises(Erased):
        await world.commands.revise(world.caller, {"memory_id": memory, "content": "takes the topic along"})
    await world.catch_up()
    assert await clear_rows(world, CANARY) == []
    assert await clear_rows(world, "takes the topic along") == []


async def test_a_memory_cannot_follow_from_one_that_is_erased_meanwhile(world, erased_before_the_append):
    source = await world.remember("the source")
    erased_before_the_append(memory_id=source)
    with pytest.raises(Erased):
        await world.remember("follows from it", derived_from=[source])


async def test_a_name_that_was_looked_up_before_the_erasure_of_its_person_is_looked_up_again(
    world, erased_before_the_append
):
    await world.remember("about bob", user_id="bob")
    bob = await world.engine.directory.find(world.caller.tenant, "user", "bob")
    erased_before_the_append(subject="bob")
    new = await world.remember("about another bob", user_id="bob")
    assert (await world.get(new)).user_id == "bob"
    [event] = await world.engine.log.read_stream(world.caller.tenant, new)
    assert event.event.user not in (None, bob)


async def test_every_process_lets_go_of_keys_and_names_and_one_that_does_not_keeps_it_from_being_verified(
    world, erasures, monkeypatch
):
    memory = await world.remember(CANARY, user_id="ada")
    tenant = world.caller.tenant
    vault = Vault(world.engine.database, Keyring.of(b"m" * 32))
    directory = Directory(world.engine.doors, vault)
    log = Log(world.engine.database, vault)
    tail = LogTail(world.engine.database, vault.recollection)
    await tail.open()
    try:
        [event] = await log.read_stream(tenant, memory)
        assert event.event.content == CANARY
        ada = await directory.find(tenant, "user", "ada")
        assert (tenant.int, memory.int) in vault._keys and directory._names
        await erase(world, erasures, subject="ada")
        # Verified means that this process has seen it: nothing is waited for here.
        assert not vault._keys and not directory._names
        [event] = await log.read_stream(tenant, memory)
        assert event.event.content is None
        assert await directory.names(tenant, [ada]) == {}

        second = await world.remember("another")
        monkeypatch.setattr("lethelog.handlers.erasure.saga.SEEN_SECONDS", 0.3)

        async def deaf(self, connection, seen):
            await asyncio.Event().wait()

        monkeypatch.setattr(LogTail, "_see", deaf)
        preview = await erasures.preview(world.caller, {"memory_id": second})
        done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
        assert (done.phase, done.remaining) == ("incomplete", {"processes": "still_there"})
        async with world.engine.database.connection() as connection:
            assert await unseen(connection) == 2
    finally:
        await tail.close()


async def test_a_process_that_does_not_listen_remembers_nothing(world):
    memory = await world.remember(CANARY, user_id="ada")
    vault = Vault(world.engine.database, Keyring.of(b"m" * 32))
    log = Log(world.engine.database, vault)
    [event] = await log.read_stream(world.caller.tenant, memory)
    assert event.event.content == CANARY
    assert not vault._keys and not vault._tenants
    tail = LogTail(world.engine.database, vault.recollection)
    await tail.open()
    await log.read_stream(world.caller.tenant, memory)
    assert vault._keys
    await tail.close()
    assert not vault._keys


async def test_a_key_that_was_read_before_an_erasure_is_not_kept_after_it(world, erasures, monkeypatch):
    """The look-up is held between its reading and its keeping."""
    memory = await world.remember(CANARY)
    vault = world.engine.vault
    vault.forget()
    read = vault._read_wrapped

    async def held(tenant, ids):
        rows = await read(tenant, ids)
        monkeypatch.setattr(vault, "_read_wrapped", read)
        await erase(world, erasures, memory_id=memory)
        return rows

    monkeypatch.setattr(vault, "_read_wrapped", held)
    await world.engine.log.read_stream(world.caller.tenant, memory)
    [event] = await world.engine.log.read_stream(world.caller.tenant, memory)
    assert event.event.content is None


async def test_a_reader_that_is_behind_never_writes_what_was_erased_meanwhile(world, erasures):
    memory = await world.remember(CANARY)
    await erase(world, erasures, memory_id=memory)
    for projection in world.engine.projections:
        runner = ProjectionRunner(world.engine.database, world.engine.log, world.engine.tail, projection)
        await runner.catch_up(await world.engine.log.head())
    assert await clear_rows(world, CANARY) == []
    await same_as_rebuilt(world)


@pytest.mark.parametrize("taken_back", [False, True], ids=["accepted", "undone"])
async def test_a_decision_or_an_undo_that_read_a_memory_before_its_erasure_leaves_no_digest_of_it(
    world, erasures, monkeypatch, taken_back
):
    memory = await world.remember(CANARY, scope="deploys")
    proposal = await dependency(world, memory)
    undoing = Undoing(world.engine, world.commands)
    if taken_back:
        await decided(world, proposal)
    load, erased = MemoryCommands.load_many, []

    async def load_and_erase(self, tenant, ids):
        found = await load(self, tenant, ids)
        if memory in found and not erased:
            erased.append(memory)
            with monkeypatch.context() as alone:
                # Before the erasure takes the proposal back, which moves it on.
                alone.setattr(Saga, "_withdraw_proposals", nothing)
                await erase(world, erasures, scope="deploys")
        return found

    monkeypatch.setattr(MemoryCommands, "load_many", load_and_erase)
    if taken_back:
        done = await with_views(world, undoing.undo(world.caller, {"proposal_id": proposal}))
        assert (done.undone, done.refused) == (0, 1)
    else:
        with pytest.raises(Conflict):
            await decided(world, proposal)
    assert erased
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select kind from lethelog.claims where kind in ('content', 'ended', 'refuted')"
        )
        assert await cursor.fetchall() == []


async def nothing(*_given) -> None:
    pass
