"""A database that dies under the writers, and rows and texts that it cannot take or give back."""

import asyncio
import contextlib
import os
import random
import signal
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import LethelogError, Unavailable
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.engine import Engine, open_engine
from lethelog.handlers.memories import MemoryCommands, Retry
from lethelog.handlers.reading import Reading
from lethelog.ops import embedded
from lethelog.ops.migrations import migrate
from lethelog.projections.live_memory import LiveMemory
from lethelog.projections.runner import ProjectionRunner, ensure_tables
from lethelog.streams.database import Database
from lethelog.streams.ending import end
from lethelog.streams.log import Appended, CommandKey, Log, NewEvent, Repeated, Unit
from lethelog.streams.master_keys import Keyring
from lethelog.streams.payloads import Actor, Envelope

from .broker_fixtures import eventually

WRITES = 200


@dataclass
class OwnDatabase:
    """A server that a test may kill; its supervisor starts it again."""

    folder: Path
    url: str

    @property
    def pid(self) -> int | None:
        return embedded.status(self.folder).postgres.pid

    def kill(self) -> int:
        """As a machine does it: the whole server, without a goodbye."""
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return pid

    def end_sessions(self) -> int:
        """Every session but this one."""
        with psycopg.connect(embedded.superuser_url(self.folder), autocommit=True) as connection:
            [[ended]] = connection.execute(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity "
                "where pid <> pg_backend_pid() and backend_type = 'client backend'"
            ).fetchall()
        return ended

    def answers(self) -> bool:
        with contextlib.suppress(psycopg.Error, LethelogError), psycopg.connect(self.url, connect_timeout=2):
            return True
        return False


@pytest.fixture(scope="module")
def own_servers() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="lethe-faults-"))
    folder.chmod(0o711)
    joined = embedded.join(folder)
    try:
        yield folder
    finally:
        joined.leave()
        embedded.discard(folder)


@pytest.fixture
def own_database(own_servers: Path) -> OwnDatabase:
    """A fresh migrated database on the server of this module."""
    name = f"fault_{uuid.uuid4().hex}"
    superuser = embedded.superuser_url(own_servers)
    deadline = time.monotonic() + 60
    while True:
        try:
            with psycopg.connect(superuser, autocommit=True) as connection:
                connection.execute(f"create database {name}")
            break
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, "the server does not come back"
    url = str(psycopg.conninfo.make_conninfo(superuser, dbname=name))
    migrate(url)
    return OwnDatabase(own_servers, url)


@dataclass
class Open:
    """A memory on a server that may die."""

    engine: Engine
    caller: Caller
    commands: MemoryCommands
    reading: Reading

    async def catch_up(self) -> int:
        head = await self.engine.log.head()
        for one in self.engine.projections:
            await ProjectionRunner(self.engine.database, self.engine.log, self.engine.tail, one).catch_up(head)
        return head


@pytest.fixture
async def opened(own_database: OwnDatabase, embedder) -> AsyncGenerator[Open]:
    engine = await open_engine(own_database.url, Keyring.of(b"m" * 32), embedder)
    await ensure_tables(engine.database, engine.projections)
    caller = Caller(uuid4(), Actor("person", uuid4()))
    await engine.tenants.ensure(caller.tenant, caller.actor)
    yield Open(engine, caller, MemoryCommands(engine), Reading(engine))
    await engine.close()


def text_of(n: int) -> dict[str, Any]:
    return {"topic": f"write {n}", "content": f"This is write number {n}"}


async def write_all(opened: Open) -> list[Any]:
    """So many writes at once, each under a key of its own; answers and errors by number."""
    return await asyncio.gather(
        *(opened.commands.remember(opened.caller, text_of(n), Retry(f"key {n}")) for n in range(WRITES)),
        return_exceptions=True,
    )


def stored(url: str, tenant: UUID) -> Counter[UUID]:
    """How often each memory was remembered, by the log itself."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select stream, position from lethelog.events where tenant = %s and name = 'memory.remembered'",
            (tenant,),
        ).fetchall()
        [[head], [gapless]] = connection.execute(
            "select position from lethelog.head union all "
            "(select count(*) from (select position from lethelog.events group by 1) x)"
        ).fetchall()
    assert head == gapless, "positions have a gap or a double"
    return Counter(stream for stream, _ in rows)


async def everything_is_there_once(opened: Open, url: str, first: list[Any]) -> None:
    """Every acknowledged write exactly once; every other one said `Unavailable` and is safe to try again."""
    acknowledged = {n: one.memory.id for n, one in enumerate(first) if not isinstance(one, BaseException)}
    failed = [one for one in first if isinstance(one, BaseException)]
    assert [repr(one) for one in failed if not isinstance(one, Unavailable)] == []
    present = stored(url, opened.caller.tenant)
    assert set(acknowledged.values()) <= set(present) and set(present.values()) <= {1}
    second = await write_all(opened)
    assert [repr(one) for one in second if isinstance(one, BaseException)] == []
    for n, answer in enumerate(second):
        assert n not in acknowledged or answer.memory.id == acknowledged[n]
    present = stored(url, opened.caller.tenant)
    assert present == Counter({answer.memory.id: 1 for answer in second}) and len(present) == WRITES
    await opened.catch_up()
    listed = [
        view
        for begin in range(0, WRITES, 20)
        for view in await opened.reading.get(
            opened.caller, {"ids": [a.memory.id for a in second[begin : begin + 20]]}
        )
    ]
    assert [view.content for view in listed] == [text_of(n)["content"] for n in range(WRITES)]


async def test_sessions_that_are_ended_under_two_hundred_writers_lose_and_double_nothing(opened, own_database):
    writing = asyncio.create_task(write_all(opened))
    ended = 0
    for _ in range(25):
        ended += await asyncio.to_thread(own_database.end_sessions)
    assert ended > 5, "no session was ended, so nothing was tried"
    await everything_is_there_once(opened, own_database.url, await writing)


async def test_a_server_that_is_killed_under_two_hundred_writers_loses_and_doubles_nothing(opened, own_database):
    """SIGKILL, then recovery: what was acknowledged was durable."""
    writing = asyncio.create_task(write_all(opened))
    await eventually(lambda: stored_so_far(own_database) >= 20, "some writes are stored")
    killed = own_database.kill()
    first = await writing
    await eventually(lambda: own_database.pid not in (None, killed) and own_database.answers(), "it is back", 60)
    assert stored_so_far(own_database) >= 20
    await everything_is_there_once(opened, own_database.url, first)


def stored_so_far(own_database: OwnDatabase) -> int:
    with psycopg.connect(own_database.url) as connection:
        [[count]] = connection.execute("select position from lethelog.head").fetchall()
    return count


async def test_a_database_that_is_gone_is_a_clear_error_for_every_command_and_read(
    own_servers, own_database, embedder, monkeypatch
):
    """Nothing hangs, nothing is half-done, and everything goes on once it is back."""
    monkeypatch.setattr("lethelog.handlers.engine.Database", partial(Database, wait_seconds=0.5))
    engine = await open_engine(own_database.url, Keyring.of(b"m" * 32), embedder)
    try:
        await ensure_tables(engine.database, engine.projections)
        caller = Caller(uuid4(), Actor("person", uuid4()))
        await engine.tenants.ensure(caller.tenant, caller.actor)
        opened = Open(engine, caller, MemoryCommands(engine), Reading(engine))
        known = (await opened.commands.remember(caller, text_of(0))).memory.id
        head = await opened.catch_up()
        await asyncio.to_thread(embedded.stop, own_servers)
        for call, arguments in (
            (opened.commands.remember, text_of(1)),
            (opened.commands.archive, {"memory_id": known}),
            (opened.commands.revise, {"memory_id": known, "content": "c"}),
            (opened.reading.get, {"ids": [known]}),
            (opened.reading.search, {"query": "write"}),
            (opened.reading.list, {}),
            (opened.reading.history, {"memory_id": known}),
        ):
            with pytest.raises(Unavailable) as said:
                async with asyncio.timeout(20):
                    await call(caller, arguments)
            assert "number" not in str(said.value) and "PostgreSQL" in str(said.value)
        joined = await asyncio.to_thread(embedded.join, own_servers)
        try:
            await eventually(lambda: answers(engine.database), "the database is used again", 3)
            assert await engine.log.head() == head, "something was written meanwhile"
            assert (await opened.commands.remember(caller, text_of(1))).changed
            assert (await opened.reading.get(caller, {"ids": [known]}))[0].status == "active"
        finally:
            joined.leave()
    finally:
        await engine.close()


async def answers(database: Database) -> bool:
    with contextlib.suppress(Unavailable):
        async with database.connection() as connection:
            await connection.execute("select 1")
            return True
    return False


async def test_a_database_that_was_away_for_long_is_used_again_soon_after_it_is_back(own_servers, own_database):
    """The wait between two attempts must not grow with the time that it was away."""
    database = Database(own_database.url, wait_seconds=1.0)
    await database.open()
    await asyncio.to_thread(embedded.stop, own_servers)
    for _ in range(5):
        assert not await answers(database)
    joined = await asyncio.to_thread(embedded.join, own_servers)
    try:
        await eventually(lambda: answers(database), "it is used again", 1.5)
    finally:
        await database.close()
        joined.leave()


# --- a repeat whose first try was lost ------------------------------------------------------------------------------


def remembering(content: str, key: CommandKey) -> Unit:
    stream = uuid4()
    event = e.MemoryRemembered(
        memory_type="fact",
        scope="personal",
        topic="t",
        content=content,
        producer="user",
        trust="user",
        occurred_at="2026-03-01T09:00:00Z",  # type: ignore[arg-type]
    )
    return Unit(
        tenant=UUID(int=1),
        subject=stream,
        events=[NewEvent(stream, 1, event)],
        envelope=Envelope(Actor("agent", UUID(int=2)), cause=stream, correlation=stream),
        command=key,
        new_keys=frozenset({stream}),
    )


async def test_a_repeat_whose_call_had_to_be_tried_again_is_still_a_repeat(log: Log):
    """Two callers use one command key; the second one's call fails once, then meets the first one's row.

    That row is not its own: to take it for one would answer with a memory that was never written.
    """
    key = CommandKey(b"one key", b"one command")
    first, second = remembering("c", key), remembering("c", key)
    appended = await log.append(first)
    assert isinstance(appended, Appended)
    original = log._queue._call

    async def lost_once(batch: Any) -> None:
        log._queue._call = original
        raise psycopg.OperationalError("the connection is lost")

    log._queue._call = lost_once
    assert await log.append(second) == Repeated(appended.position, first.subject)
    assert await log.read_stream(UUID(int=1), second.subject) == []


# --- rows and texts that cannot be taken ---------------------------------------------------------------------------


def damage(url: str, stream: UUID) -> None:
    """Flip the last bit of a stored body, which the log itself would refuse."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set session_replication_role = replica")
        changed = connection.execute(
            "update lethelog.events set body = set_byte(body, length(body) - 1, get_byte(body, length(body) - 1) # 1) "
            "where stream = %s",
            (stream,),
        )
        assert changed.rowcount == 1


async def test_f44_an_event_that_cannot_be_read_stalls_its_view_and_says_where(world, database_url):
    """F44: one that fails decode. What stands before it is applied, and a repair is enough to go on."""
    good = await world.remember("a good one")
    bad = await world.remember("a damaged one")
    await world.remember("a later one")
    [at] = await world.engine.log.read_stream(world.caller.tenant, bad)
    damage(database_url, bad)
    runner = world.runners[0]
    running = asyncio.ensure_future(runner.run())
    try:

        async def stalled() -> bool:
            assert not running.done(), f"the view's task ended: {running.exception()!r}"
            return (await runner.progress()).stalled_at == at.position

        await eventually(stalled, "the view says where it is stalled", 10)
        progress = await runner.progress()
        assert progress.position == at.position - 1
        assert (await world.reading.get(world.caller, {"ids": [good]}))[0].content == "a good one"
        damage(database_url, bad)  # the same bit again: repaired

        async def caught_up() -> bool:
            return (await runner.progress()).position == await world.engine.log.head()

        await eventually(caught_up, "it goes on by itself", 40)
    finally:
        await end(running)


async def test_a_command_on_a_damaged_memory_is_an_error_of_ours(world, database_url):
    bad, good = await world.remember("a damaged one"), await world.remember("a good one")
    damage(database_url, bad)
    for call, arguments in (
        (world.commands.archive, {"memory_id": bad}),
        (world.commands.revise, {"memory_id": bad, "content": "c"}),
        (world.commands.remember, {"topic": "t", "content": "a damaged one"}),
    ):
        with pytest.raises(LethelogError):
            await call(world.caller, arguments)
    assert (await world.commands.archive(world.caller, {"memory_id": good})).changed


async def test_the_longest_memory_that_may_be_imported_reaches_its_views(world):
    """262,144 characters, of words with a hyphen: each is one long and two short ones to the full-text parser."""
    letters = "абвгдежзиклмнопрстуфхцчшщэюя"
    chosen = random.Random(20260301)
    words = [
        "".join(chosen.choices(letters, k=5)) + "-" + "".join(chosen.choices(letters, k=5)) for _ in range(23_900)
    ]
    content = " ".join(words)[:262_144].strip()
    assert len(content) > 262_000
    written = await world.commands.import_memory(world.caller, {"topic": "t", "content": content})
    after = await world.remember("a later one")
    await world.catch_up()
    [long, later] = await world.reading.get(world.caller, {"ids": [written.memory.id, after]})
    assert long.content == content and later.content == "a later one"


async def test_f44_an_event_that_the_database_can_never_take_stalls_its_view_and_says_where(world):
    """A limit of the server is no lost connection: the view says so, instead of trying the page for ever in silence."""
    good = await world.remember("a good one")
    bad = await world.remember("a bad one")

    class Limited(LiveMemory):
        async def apply(self, connection, schema, page, prepared):
            if any(event.stream == bad for event in page):
                await connection.execute(
                    "select to_tsvector('simple', string_agg(repeat('x', 20) || n, ' ')) from generate_series(1, 90000) n"
                )
            await super().apply(connection, schema, page, prepared)

    view = Limited(world.engine.log, world.engine.embedder)
    runner = ProjectionRunner(world.engine.database, world.engine.log, world.engine.tail, view)
    running = asyncio.ensure_future(runner.run())
    try:

        async def stalled() -> bool:
            return (await runner.progress()).stalled_at is not None

        await eventually(stalled, "the view says where it is stalled", 10)
        progress = await runner.progress()
        [at] = await world.engine.log.read_stream(world.caller.tenant, bad)
        assert (progress.stalled_at, progress.error) == (at.position, "memory.remembered: ProgramLimitExceeded")
        assert (await world.reading.get(world.caller, {"ids": [good]}))[0].content == "a good one"
    finally:
        await end(running)


async def test_a_text_whose_small_letters_are_longer_does_not_bring_the_database_down(opened, own_database):
    """Ⱥ and Ⱦ take two bytes, their small letters three: 683 in a row are a word longer than the parser allows for."""
    before = own_database.pid
    texts = [letter * count for letter in "ȺȾ" for count in (682, 683, 700, 1_000, 1_023, 1_024, 2_000)]
    ids = [
        (await opened.commands.remember(opened.caller, {"topic": "t", "content": one})).memory.id for one in texts
    ]
    await opened.catch_up()
    views = await opened.reading.get(opened.caller, {"ids": ids})
    assert [view.content for view in views] == texts
    found = await opened.reading.search(opened.caller, {"query": texts[0]})
    assert found.hits[0].memory.id == ids[0]
    assert own_database.pid == before and not crashed(own_database.folder)


def crashed(folder: Path) -> bool:
    log = (folder / "logs" / "postgres.log").read_text(errors="replace")
    return "was terminated by signal 11" in log
