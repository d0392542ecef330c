"""A tenant's key is replaced while everything runs, and nothing that is sealed or digested changes."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lethelog.domain import events as e
from lethelog.domain.errors import Erased
from lethelog.handlers.memories import Retry
from lethelog.ops import migrations
from lethelog.streams import rotation as rotation_module
from lethelog.streams.append import AppendQueue
from lethelog.streams.database import Database
from lethelog.streams.directory import Directory
from lethelog.streams.log import Appended, Log, NewEvent, Unit
from lethelog.streams.master_keys import Keyring
from lethelog.streams.payloads import Actor, Envelope
from lethelog.streams.rotation import Rotation
from lethelog.streams.sealing import UnusableKey
from lethelog.streams.vault import Vault

from .held import Held
from .test_log_append import remembered

MASTER = b"m" * 32


def silent(_done: int, _of: int) -> None:
    return


def remembering(tenant: UUID, stream: UUID, content: str = "Deploys go to Hetzner") -> Unit:
    return Unit(
        tenant,
        stream,
        [NewEvent(stream, 1, remembered(content))],
        Envelope(Actor("agent", uuid4()), cause=uuid4(), correlation=uuid4()),
        new_keys=frozenset({stream}),
    )


@dataclass
class Process:
    """What another process at the same database has open; it remembers keys, as one that listens does."""

    database: Database
    vault: Vault
    log: Log

    @classmethod
    async def start(cls, database: Database) -> "Process":
        vault = Vault(database, Keyring.of(MASTER))
        vault.recollection.listen(0)
        log = Log(database, vault)
        await log.open()
        return cls(database, vault, log)

    async def remember(self, tenant: UUID, content: str = "Deploys go to Hetzner") -> UUID:
        stream = uuid4()
        assert isinstance(await self.log.append(remembering(tenant, stream, content)), Appended)
        return stream

    async def content(self, tenant: UUID, stream: UUID) -> str | None:
        [event] = await self.log.read_stream(tenant, stream)
        assert isinstance(event.event, e.MemoryRemembered)
        return event.event.content

    async def rotate(self, tenant: UUID, report=silent):
        return await Rotation(self.database, self.vault).rotate(tenant, report)


@pytest.fixture
async def process(database: Database):
    started = await Process.start(database)
    yield started
    await started.log.close()


@pytest.fixture
async def another(database: Database):
    started = await Process.start(database)
    yield started
    await started.log.close()


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation_module, "PAGE", 2)


def generations(database_url: str, tenant: UUID) -> tuple[list[int], set[int]]:
    """(generations of a tenant's key that are there, those that its data keys are wrapped under)."""
    with psycopg.connect(database_url) as superuser:
        keys = superuser.execute(
            "select generation from lethelog_vault.tenant_keys where tenant = %s order by 1", (tenant,)
        ).fetchall()
        wrapped = superuser.execute(
            "select wrapped from lethelog_vault.data_keys where tenant = %s", (tenant,)
        ).fetchall()
    return [one for (one,) in keys], {
        int.from_bytes(one[:4], "big") if len(one) == 64 else 1 for (one,) in wrapped
    }


# --- what stays and what goes -----------------------------------------------------------------------------------


async def test_everything_reads_as_before_in_every_process_and_the_old_key_is_gone(process, another, database_url):
    tenant = uuid4()
    streams = [await process.remember(tenant, f"text {n}") for n in range(3)]
    old = await another.vault.tenant_keys(tenant)
    reports: list[tuple[int, int]] = []
    rotated = await process.rotate(tenant, lambda done, of: reports.append((done, of)))
    assert (rotated.tenant, rotated.generation, rotated.data_keys) == (tenant, 2, 3)
    assert reports == [(0, 3), (3, 3)]
    assert generations(database_url, tenant) == ([2], {2})
    # One that remembers the old key reads and writes on; a new one knows nothing of the old key.
    assert [await another.content(tenant, one) for one in streams] == ["text 0", "text 1", "text 2"]
    written = await another.remember(tenant, "text 3")
    assert generations(database_url, tenant) == ([2], {2})
    assert await process.content(tenant, written) == "text 3"
    new = await another.vault.tenant_keys(tenant)
    assert set(new.generations) == {2} and new.generations[2] != old.generations[1]


@pytest.mark.parametrize("purpose", ["claims", "command", "directory-lookup", "directory-name", "something new"])
async def test_no_digest_changes_with_the_key(process, another, purpose: str):
    tenant = uuid4()
    before = await process.vault.purpose_key(tenant, purpose)
    for generation in (2, 3):
        assert (await process.rotate(tenant)).generation == generation
        assert await Vault(process.database, Keyring.of(MASTER)).purpose_key(tenant, purpose) == before
        assert await another.vault.purpose_key(tenant, purpose) == before


async def test_duplicates_retries_and_names_are_found_after_a_rotation(world):
    caller, text = world.caller, {"topic": "t", "content": "Deploys go to Hetzner", "project": "shop"}
    first = await world.commands.remember(caller, text, Retry("once"))
    project = await world.engine.directory.find(caller.tenant, "project", "shop")
    await Rotation(world.engine.database, world.engine.vault).rotate(caller.tenant, silent)
    again = await world.commands.remember(caller, text, Retry("once"))
    duplicate = await world.commands.remember(caller, text)
    assert first.memory.id == again.memory.id == duplicate.memory.id
    directory = Directory(world.engine.doors, Vault(world.engine.database, Keyring.of(MASTER)))
    assert await directory.find(caller.tenant, "project", "shop") == project
    assert await directory.names(caller.tenant, [project]) == {project: "shop"}
    assert (await world.get(first.memory.id)).project == "shop"


async def test_an_installation_replaces_all_keys_or_those_of_before_an_instant(world, database_url):
    other = await world.another_caller()
    rotation = Rotation(world.engine.database, world.engine.vault)
    for caller in (world.caller, other):
        await world.engine.vault.tenant_keys(caller.tenant)
    assert set(await rotation.tenants()) >= {world.caller.tenant, other.tenant}
    with psycopg.connect(database_url) as superuser:
        superuser.execute(
            "update lethelog_vault.tenant_keys set made_at = null where tenant = %s", (other.tenant,)
        )
        [[instant]] = superuser.execute("select min(made_at) from lethelog_vault.tenant_keys").fetchall()
    assert await rotation.tenants(instant) == [other.tenant]
    await rotation.rotate(other.tenant, silent)
    assert await rotation.tenants(instant) == [] and await rotation.unfinished() == 0


# --- broken off, and at once ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_pages")
async def test_a_rotation_that_is_broken_off_anywhere_goes_on_with_the_next(process, another, database_url):
    tenant = uuid4()
    streams = [await process.remember(tenant, f"text {n}") for n in range(7)]
    for page in range(4):

        def cut(done: int, _of: int, at: int = 2 if page else 0) -> None:
            if done >= at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            await process.rotate(tenant, cut)
        assert generations(database_url, tenant)[0] == [1, 2]
        assert await Rotation(process.database, process.vault).unfinished() == 1
        streams.append(await another.remember(tenant, f"text {len(streams)}"))
        fresh = Vault(process.database, Keyring.of(MASTER))
        assert fresh.recollection.turn() == 0
        for one in (process.vault, another.vault, fresh):
            assert not (await one.data_keys(tenant, streams)).unusable
            assert len((await one.data_keys(tenant, streams)).usable) == len(streams)
    rotated = await process.rotate(tenant)
    assert (rotated.generation, rotated.data_keys) == (2, 1)
    assert generations(database_url, tenant) == ([2], {2})
    assert [await another.content(tenant, one) for one in streams] == [f"text {n}" for n in range(11)]


@pytest.mark.usefixtures("small_pages")
async def test_several_rotations_at_once_do_one_work(process, another, database_url):
    tenant = uuid4()
    streams = [await process.remember(tenant, f"text {n}") for n in range(20)]
    done = await asyncio.gather(*(one.rotate(tenant) for one in (process, another, process, another)))
    assert {one.generation for one in done} == {2}
    assert sum(one.data_keys for one in done) == 20
    assert generations(database_url, tenant) == ([2], {2})
    assert [await process.content(tenant, one) for one in streams] == [f"text {n}" for n in range(20)]


KILLED = """
import asyncio, os, signal, sys
from uuid import UUID
from lethelog.streams import rotation
from lethelog.streams.database import Database
from lethelog.streams.master_keys import Keyring
from lethelog.streams.vault import Vault

async def main(url, tenant):
    rotation.PAGE = 2
    database = Database(url)
    await database.open()
    def report(done, of):
        if done >= 4:
            os.kill(os.getpid(), signal.SIGKILL)
    await rotation.Rotation(database, Vault(database, Keyring.of(b"m" * 32))).rotate(UUID(tenant), report)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_rotation_that_is_killed_loses_nothing_and_goes_on(process, another, database_url):
    tenant = uuid4()
    streams = [await process.remember(tenant, f"text {n}") for n in range(9)]
    killed = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", KILLED, database_url, str(tenant)],
        check=False,
        env=dict(os.environ),
    )
    assert killed.returncode == -signal.SIGKILL
    assert generations(database_url, tenant) == ([1, 2], {1, 2})
    assert [await another.content(tenant, one) for one in streams] == [f"text {n}" for n in range(9)]
    assert (await process.rotate(tenant)).data_keys == 5
    assert generations(database_url, tenant) == ([2], {2})
    assert [await another.content(tenant, one) for one in streams] == [f"text {n}" for n in range(9)]


# --- beside appends ---------------------------------------------------------------------------------------------


async def test_an_append_that_was_sealed_under_the_old_key_is_sealed_anew(process, another, database_url):
    """It is on its way when the key is replaced: behind the rotation, in the queue for the log."""
    tenant = uuid4()
    await another.remember(tenant)
    held = Held(database_url)
    rotating = asyncio.create_task(process.rotate(tenant))
    await held.is_waited_for()
    appending = asyncio.create_task(another.remember(tenant, "under the old key"))
    while held.waiting() < 2:
        await asyncio.sleep(0)
    held.release()
    stream = await appending
    await rotating
    held.close()
    assert generations(database_url, tenant) == ([2], {2})
    assert await process.content(tenant, stream) == "under the old key"
    assert len(await process.log.read_stream(tenant, stream)) == 1


async def test_a_unit_wrapped_under_a_replaced_key_is_refused_by_the_log_itself(process, another, database_url):
    """And those beside it in the call are stored."""
    tenant, other = uuid4(), uuid4()
    late, stream = (await another.log._prepare(remembering(tenant, uuid4())))[0], uuid4()
    fine = (await another.log._prepare(remembering(other, stream)))[0]
    await process.rotate(tenant)
    queue = AppendQueue(process.database)
    await queue.open()
    results = await asyncio.gather(queue.submit(late), queue.submit(fine))
    await queue.close()
    assert [(one.outcome, one.position) for one in results] == [("rekeyed", 0), ("ok", 1)]
    assert await process.content(other, stream) == "Deploys go to Hetzner"


@pytest.mark.usefixtures("small_pages")
async def test_reads_and_appends_go_on_beside_rotations(process, another, database_url):
    tenant = uuid4()
    streams: list[UUID] = []
    ended = asyncio.Event()

    async def write() -> None:
        while not ended.is_set():
            streams.append(await another.remember(tenant, f"text {len(streams)}"))
            assert await another.content(tenant, streams[-1]) == f"text {len(streams) - 1}"
            another.vault._keys.clear()

    writing = asyncio.create_task(write())
    for generation in (2, 3, 4):
        while len(streams) < generation * 5:
            await asyncio.sleep(0)
            assert not writing.done()
        assert (await process.rotate(tenant)).generation == generation
    ended.set()
    await writing
    fresh = Vault(process.database, Keyring.of(MASTER))
    found = await fresh.data_keys(tenant, streams)
    assert set(found.usable) == set(streams)
    assert generations(database_url, tenant) == ([4], {4})


# --- erased and damaged -----------------------------------------------------------------------------------------


async def test_an_erased_tenant_gets_no_new_key_not_even_amid_a_rotation(process, another, database_url):
    tenant = uuid4()
    await process.remember(tenant)

    def erase(_done: int, _of: int) -> None:
        with psycopg.connect(database_url) as superuser:
            superuser.execute(
                "select lethelog.erase(%s, %s, array[]::uuid[], array[]::uuid[], true, "
                "array[]::bytea[], array[]::uuid[])",
                (uuid4(), tenant),
            )

    with pytest.raises(KeyboardInterrupt):
        await process.rotate(tenant, cut_at(0))
    rotated = await process.rotate(tenant, erase)
    assert rotated.data_keys == 0
    with pytest.raises(Erased):
        await another.rotate(tenant)
    with psycopg.connect(database_url) as superuser:
        left = superuser.execute("select generation, wrapped from lethelog_vault.tenant_keys").fetchall()
        assert left == [(1, b"")]
        assert superuser.execute("select count(*) from lethelog_vault.data_keys").fetchall() == [(0,)]


def cut_at(number: int):
    def cut(done: int, _of: int) -> None:
        if done >= number:
            raise KeyboardInterrupt

    return cut


async def test_a_damaged_data_key_keeps_the_old_key_until_it_is_put_back(process, another, database_url):
    tenant = uuid4()
    bad, good = await process.remember(tenant, "bad"), await process.remember(tenant, "good")
    with psycopg.connect(database_url, autocommit=True) as superuser:
        [[whole]] = superuser.execute(
            "select wrapped from lethelog_vault.data_keys where key_id = %s", (bad,)
        ).fetchall()
        put = "update lethelog_vault.data_keys set wrapped = %s where key_id = %s"
        for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), b"\x00\x00\x00\x09" + whole[4:], b""):
            superuser.execute(put, (damaged, bad))
            with pytest.raises(UnusableKey, match=str(bad)):
                await process.rotate(tenant)
            assert generations(database_url, tenant)[0] == [1, 2]
            assert (await another.vault.data_keys(tenant, [bad, good])).usable.keys() >= {good}
            another.vault.forget()
        superuser.execute(put, (whole, bad))
    assert (await process.rotate(tenant)).data_keys == 1
    assert [await another.content(tenant, one) for one in (bad, good)] == ["bad", "good"]


# --- the time before --------------------------------------------------------------------------------------------

FORM_OF_BEFORE = (
    "update lethelog_vault.data_keys set wrapped = substr(wrapped, 5) where octet_length(wrapped) = 64"
)


async def test_keys_of_before_there_were_generations_read_and_are_rotated(process, another, database_url):
    tenant = uuid4()
    streams = [await process.remember(tenant, f"text {n}") for n in range(3)]
    with psycopg.connect(database_url) as superuser:
        superuser.execute(FORM_OF_BEFORE)
    assert [await another.content(tenant, one) for one in streams] == ["text 0", "text 1", "text 2"]
    assert (await process.rotate(tenant)).data_keys == 3
    another.vault.forget()
    assert [await another.content(tenant, one) for one in streams] == ["text 0", "text 1", "text 2"]


# --- any order --------------------------------------------------------------------------------------------------

MASTERS = [MASTER]
"""Newest first; the tenants of earlier examples are still there, and are wrapped anew with the others."""
STEPS = st.lists(st.sampled_from(["remember", "rotate", "cut", "master", "restart"]), max_size=12)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_whatever_is_replaced_in_whatever_order_everything_reads_and_digests_stay(
    steps: list[str], database_url: str, monkeypatch_once
):
    asyncio.run(_replaced_in_order(steps, database_url))


@pytest.fixture(scope="module")
def monkeypatch_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rotation_module, "PAGE", 2)
        yield


async def _replaced_in_order(steps: list[str], database_url: str) -> None:
    masters = MASTERS
    database, tenant = Database(database_url), uuid4()
    await database.open()

    def opened() -> Vault:
        vault = Vault(database, Keyring(lambda: list(masters)))
        vault.recollection.listen(0)
        return vault

    vault, texts = opened(), dict[UUID, str]()
    running = opened()
    digest = await vault.purpose_key(tenant, "claims")
    log = Log(database, vault)
    await log.open()
    for step in steps:
        if step == "remember":
            stream = uuid4()
            texts[stream] = f"text {len(texts)}"
            await log.append(remembering(tenant, stream, texts[stream]))
        elif step == "rotate":
            await Rotation(database, running).rotate(tenant, silent)
        elif step == "cut":
            with pytest.raises(KeyboardInterrupt):
                await Rotation(database, running).rotate(tenant, cut_at(0))
        elif step == "master":
            masters.insert(0, os.urandom(32))
            await running.rewrap_tenant_keys(silent)
        else:
            running = opened()
        for one in (vault, running, opened()):
            found = await one.data_keys(tenant, texts)
            assert set(found.usable) == set(texts) and not found.unusable
            assert await one.purpose_key(tenant, "claims") == digest
    read = await log.read_streams(tenant, texts)
    assert {stream: events[0].event.content for stream, events in read.items()} == texts
    await log.close()
    await database.close()


def test_the_revision_before_is_reached_again_while_no_key_was_replaced(database_url):
    """And refused afterwards: what is wrapped under a second key, it could not read."""
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine

    config = Config()
    config.set_main_option("script_location", os.path.dirname(migrations.__file__))  # noqa: PTH120
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database_url))

    def to(revision: str) -> None:
        with engine.begin() as bound:
            config.attributes["connection"] = bound
            (command.downgrade if revision < BEFORE_TENANT_KEYS + "x" else command.upgrade)(config, revision)

    tenant = asyncio.run(_remembered_in(database_url, None))
    to(BEFORE_TENANT_KEYS)
    to("head")
    assert asyncio.run(_remembered_in(database_url, tenant)) == tenant
    with pytest.raises(Exception, match="a tenant's key was replaced"):
        to(BEFORE_TENANT_KEYS)
    engine.dispose()


BEFORE_TENANT_KEYS = "0011"


async def _remembered_in(database_url: str, tenant: UUID | None) -> UUID:
    """Remember something; or rotate the key of a tenant that has something, and read it."""
    database = Database(database_url)
    await database.open()
    process = await Process.start(database)
    if tenant is None:
        tenant = uuid4()
        await process.remember(tenant)
    else:
        assert (await process.rotate(tenant)).data_keys == 1
        [event] = await process.log.read_page(0, 10)
        assert isinstance(event.event, e.MemoryRemembered) and event.event.content == "Deploys go to Hetzner"
    await process.log.close()
    await database.close()
    return tenant
