"""The runner: nothing twice, nothing skipped, whatever fails, and every trouble by its name."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import psycopg
import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import Conflict
from lethelog.projections import runner as runner_module
from lethelog.projections.applying import CannotApply
from lethelog.projections.live_memory import LiveMemory
from lethelog.projections.parked import list_parked
from lethelog.projections.parked_retry import ParkedEvents
from lethelog.projections.progress import Progress, read_progress, wait_for
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.runner import ProjectionRunner
from lethelog.streams import reader
from lethelog.streams.ending import end
from lethelog.streams.reader import LogTail

CANARY = "zq-canary-9931"


class Failing(LiveMemory):
    """Cannot take the events of some streams, as long as it is broken."""

    def __init__(self, world, *streams) -> None:
        super().__init__(world.engine.log, world.engine.embedder)
        self.streams = set(streams)

    def loading(self, start, target):
        return self

    async def apply(self, connection, schema, page, prepared):
        if any(event.stream in self.streams for event in page):
            raise ValueError(CANARY)
        await super().apply(connection, schema, page, prepared)


def a_runner(world, projection, **options) -> ProjectionRunner:
    engine = world.engine
    return ProjectionRunner(engine.database, engine.log, engine.tail, projection, **options)


@asynccontextmanager
async def running(*runners: ProjectionRunner):
    tasks = [asyncio.ensure_future(one.run()) for one in runners]
    yield
    for task in tasks:
        await end(task)


async def until(world, holds, name: str = "live_memory") -> Progress:
    """The progress of a read model as soon as something holds for it."""
    async with asyncio.timeout(30):
        while True:
            async with world.engine.database.connection() as connection:
                progress = await read_progress(connection, name)
            if holds(progress):
                return progress
            await asyncio.sleep(0.01)


async def compared(world, name: str = "live_memory"):
    engine = world.engine
    return await Rebuilder(engine.database, engine.log, engine.tail, engine.projection(name)).compare()


def rename(database_url: str, position: int, name: str) -> None:
    """What a newer version would have stored; the log refuses to be changed, so a test goes round that."""
    with psycopg.connect(database_url) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute("update lethelog.events set name = %s where position = %s", (name, position))


async def test_f44_an_event_that_fails_is_parked_with_what_follows_in_its_stream_and_the_others_go_on(world):
    """F44, with the rule of sequenced dead letters (engine-notes 2.4)."""
    bad = await world.remember(f"{CANARY} poison")
    good = await world.remember("a good one")
    await world.commands.pin(world.caller, {"memory_id": bad})
    failing = Failing(world, bad)
    async with running(a_runner(world, failing, retry_seconds=(0.01, 0.01))):
        progress = await until(world, lambda p: p.parked == 2 and not p.lag)
        assert (progress.standing, progress.stalled_at) == ("parked", None)
        await world.commands.pin(world.caller, {"memory_id": good})
        await world.commands.archive(world.caller, {"memory_id": bad})
        await until(world, lambda p: p.parked == 3 and not p.lag)
        [seen] = await world.reading.get(world.caller, {"ids": [good]})
        assert seen.pinned
        async with world.engine.database.connection() as connection:
            waiting = await list_parked(connection)
        assert [(one.event, one.error, one.attempts) for one in waiting] == [
            ("memory.remembered", "ValueError", 3),
            ("memory.pinned", "EarlierParked", 0),
            ("memory.archived", "EarlierParked", 0),
        ]
        assert CANARY not in str(waiting)
        events = ParkedEvents(world.engine.database, world.engine.log, failing)
        again = await events.retry(lambda *_: None)
        assert (again.applied, list(again.left.values())) == (0, ["memory.remembered: ValueError"])
        failing.streams.clear()
        assert (await events.retry(lambda *_: None)).applied == 3
        await world.commands.verify(world.caller, {"memory_id": bad})
        await until(world, lambda p: p.standing == "caught up")
    assert (await world.get(bad)).status == "archived"
    assert (await compared(world)).equal


async def test_a_parked_event_of_one_stream_is_tried_again_alone(world):
    one, other = await world.remember("one"), await world.remember("another")
    failing = Failing(world, one, other)
    async with running(a_runner(world, failing, retry_seconds=())):
        await until(world, lambda p: p.parked == 2)
    failing.streams.clear()
    done = await ParkedEvents(world.engine.database, world.engine.log, failing).retry(lambda *_: None, other)
    assert done.applied == 1
    assert [m.id for m in (await world.reading.list(world.caller, {})).memories] == [other]


async def test_a_rebuild_says_which_event_fails_newly_and_goes_on_from_there_once_it_can(world):
    for n in range(3):
        await world.remember(f"memory {n}")
    bad = await world.remember(f"{CANARY} poison")
    await world.remember("a later one")
    await world.catch_up()
    [poison] = await world.engine.log.read_stream(world.caller.tenant, bad)
    failing = Failing(world, bad)
    engine = world.engine
    rebuilder = Rebuilder(engine.database, engine.log, engine.tail, failing)
    with pytest.raises(CannotApply, match=f"at position {poison.position} cannot be applied") as raised:
        await rebuilder.rebuild()
    assert CANARY not in str(raised.value) and raised.value.details["position"] == poison.position
    assert (await world.get(bad)).id == bad
    async with engine.database.connection() as connection:
        assert await list_parked(connection) == []
    failing.streams.clear()
    assert (await rebuilder.rebuild()).resumed_at == poison.position - 1
    assert (await compared(world)).equal


async def test_a_name_that_only_a_newer_version_knows_stalls_the_views_that_read_its_namespace(
    world, database_url, monkeypatch
):
    """ADR 5: guessing would make the view wrong, and parking it would hide that this version is too old."""
    monkeypatch.setattr(runner_module, "STALL_SECONDS", 0.05)
    one = await world.remember("a memory")
    await world.commands.pin(world.caller, {"memory_id": one})
    pinned = await world.engine.log.head()
    await world.remember("a later one")
    rename(database_url, pinned, "memory.dreamt")
    queue = a_runner(world, world.engine.review_queue)
    async with running(a_runner(world, world.engine.live_memory, retry_seconds=()), queue):
        progress = await until(world, lambda p: p.stalled_at is not None)
        assert (progress.stalled_at, progress.error) == (pinned, "memory.dreamt: UnknownName")
        assert (progress.position, progress.standing, progress.parked) == (pinned - 1, "stalled", 0)
        # The queue reads nothing of that namespace, so it passes.
        await until(world, lambda p: p.standing == "caught up", "review_queue")
        rename(database_url, pinned, "memory.pinned")
        await until(world, lambda p: p.standing == "caught up")
    assert (await world.get(one)).pinned


async def test_an_event_in_a_schema_that_only_a_newer_version_knows_stalls_and_is_not_parked(world, monkeypatch):
    one = await world.remember("a memory")
    with monkeypatch.context() as newer:
        newer.setattr(e.MemoryPinned, "SCHEMA", 7)
        await world.commands.pin(world.caller, {"memory_id": one})
    async with running(a_runner(world, world.engine.live_memory, retry_seconds=())):
        progress = await until(world, lambda p: p.stalled_at is not None)
    assert (progress.error, progress.parked) == ("memory.pinned: WrittenByNewer", 0)


async def test_trouble_of_the_tables_stalls_and_parks_nothing(world, database_url, monkeypatch):
    monkeypatch.setattr(runner_module, "STALL_SECONDS", 0.05)
    await world.remember("a memory")
    with psycopg.connect(database_url) as connection:
        connection.execute("alter table lethelog_views.live_memory rename to elsewhere")
    async with running(a_runner(world, world.engine.live_memory, retry_seconds=())):
        progress = await until(world, lambda p: p.stalled_at is not None)
        assert (progress.error, progress.parked) == ("memory.remembered: UndefinedTable", 0)
        with psycopg.connect(database_url) as connection:
            connection.execute("alter table lethelog_views.elsewhere rename to live_memory")
        await until(world, lambda p: p.standing == "caught up")


async def test_lag_is_told_in_events_and_in_seconds_against_the_real_head(world):
    await world.catch_up()
    await world.remember("one")
    behind_since = datetime.now(UTC)
    first = await world.engine.log.head()
    await world.remember("two")
    progress = await until(world, lambda p: p.lag == 2)
    assert progress.standing == "no worker" and not progress.led
    at_least = (datetime.now(UTC) - behind_since).total_seconds()
    progress = await until(world, lambda p: p.lag_seconds >= at_least)
    recorded = await world.engine.log.recorded_at(first)
    assert recorded is not None
    assert progress.lag_seconds <= (datetime.now(UTC) - recorded).total_seconds()
    assert await world.runners[0].leadership.acquire()
    assert (await until(world, lambda p: p.led)).standing == "behind"
    await world.runners[0].leadership.release()
    await world.catch_up()
    progress = await until(world, lambda p: not p.lag)
    assert (progress.standing, progress.lag_seconds) == ("caught up", 0)


async def test_pages_grow_while_they_come_full_and_shrink_when_the_view_is_there(world, monkeypatch):
    for n in range(25):
        await world.remember(f"memory {n}")
    monkeypatch.setattr(runner_module, "SMALLEST_PAGE", 2)
    monkeypatch.setattr(runner_module, "LARGEST_PAGE", 8)
    asked: list[int] = []
    read = world.engine.log.read_page

    async def noted(after, limit, *more, **options):
        asked.append(limit)
        return await read(after, limit, *more, **options)

    monkeypatch.setattr(world.engine.log, "read_page", noted)
    async with running(world.runners[2]):
        await until(world, lambda p: p.standing == "caught up", "memory_history")
        async with asyncio.timeout(10):
            while asked[-1] != 2:
                await asyncio.sleep(0.01)
    assert asked[:4] == [2, 4, 8, 8]


async def test_a_leader_that_is_killed_inside_a_page_is_followed_by_the_standby(world, database_url, start):
    """kill -9 of a real process: nothing applied twice, nothing missing."""
    for n in range(30):
        await world.remember(f"memory {n}")
    head = await world.engine.log.head()
    leader = await start("project", database_url=database_url, view="memory_history", hold=head - 5)
    await leader.until(holding=True)
    standby = await start("project", database_url=database_url, view="memory_history")
    await standby.until(ready=True)
    progress = await until(world, lambda p: p.led, "memory_history")
    assert progress.position < head - 5
    await leader.kill()
    await wait_for(world.engine.database, "memory_history", head, seconds=30)
    found = await compared(world, "memory_history")
    assert found.equal and found.position == head


async def test_a_leader_whose_connection_is_ended_inside_a_page_applies_it_once(world, database_url):
    ended: list[int] = []

    class Unlucky(LiveMemory):
        async def apply(self, connection, schema, page, prepared):
            await super().apply(connection, schema, page, prepared)
            if not ended:
                ended.append(connection.info.backend_pid)
                with psycopg.connect(database_url, autocommit=True) as other:
                    other.execute("select pg_terminate_backend(%s)", (ended[0],))

    one = await world.remember("a memory")
    async with running(a_runner(world, Unlucky(world.engine.log, world.engine.embedder))):
        await until(world, lambda p: p.standing == "caught up")
    assert ended and (await world.get(one)).id == one
    assert (await compared(world)).equal


async def test_a_leader_that_lost_its_lock_inside_a_page_and_its_successor_apply_everything_once(
    world, database_url
):
    inside, go_on = asyncio.Event(), asyncio.Event()

    class Slow(LiveMemory):
        async def apply(self, connection, schema, page, prepared):
            await super().apply(connection, schema, page, prepared)
            inside.set()
            await go_on.wait()

    await world.remember("one")
    former = a_runner(world, Slow(world.engine.log, world.engine.embedder))
    async with running(former):
        async with asyncio.timeout(20):
            await inside.wait()
        lock = former.leadership._connection
        assert lock is not None
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute("select pg_terminate_backend(%s)", (lock.info.backend_pid,))
        successor = world.runners[0]
        async with running(successor):
            async with asyncio.timeout(20):
                while not await successor.leadership.still_held():
                    await asyncio.sleep(0.01)
            go_on.set()
            await world.remember("two")
            await until(world, lambda p: p.standing == "caught up")
    assert (await compared(world)).equal


async def test_a_listener_that_is_ended_listens_again_and_misses_no_commit(world, database_url, monkeypatch):
    """Without the poll: only the notification, or the look after listening anew, can wake the reader."""
    monkeypatch.setattr(reader, "POLL_SECONDS", 600)
    tail = LogTail(world.engine.database)
    await tail.open()
    try:
        for _ in range(2):
            ticks = tail.ticks
            with psycopg.connect(database_url, autocommit=True) as connection:
                [[ended]] = connection.execute(
                    "select count(pg_terminate_backend(pid)) from pg_stat_activity "
                    "where datname = current_database() and pid in "
                    "(select pid from pg_locks where locktype = 'advisory' and classid = 7283460)"
                ).fetchall()
            assert ended >= 1
            # Nobody listens now.
            await world.remember(f"written meanwhile {ticks}")
            async with asyncio.timeout(20):
                await tail.wait(ticks)
            ticks = tail.ticks
            await world.remember(f"written after {ticks}")
            async with asyncio.timeout(20):
                await tail.wait(ticks)
    finally:
        await tail.close()


def damage(database_url: str, position: int) -> None:
    """Make the body of an event unreadable, as a fault of a disk would."""
    with psycopg.connect(database_url) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(
            "update lethelog.events set body = substr(body, 1, length(body) - 1) || '\\x00' where position = %s",
            (position,),
        )


async def parked_in_the_middle(world, database_url) -> tuple:
    """A memory pinned, archived and verified, whose archiving cannot be read and is parked; and another."""
    one = await world.remember("a memory with a past")
    await world.commands.pin(world.caller, {"memory_id": one})
    archived = (await world.commands.archive(world.caller, {"memory_id": one})).position
    await world.commands.verify(world.caller, {"memory_id": one})
    other = await world.remember("another")
    damage(database_url, archived)
    world.engine.vault.forget()
    async with running(a_runner(world, world.engine.live_memory, retry_seconds=())):
        await until(world, lambda p: p.parked == 2 and not p.lag)
    return one, other, archived


def a_rebuilder(world, projection=None) -> Rebuilder:
    engine = world.engine
    return Rebuilder(engine.database, engine.log, engine.tail, projection or engine.live_memory)


async def test_what_is_parked_is_parked_in_a_rebuild_too_and_the_memory_stays_as_it_was(world, database_url):
    """One damaged event blocks neither a rebuild nor, with it, the change to a new version."""
    one, other, archived = await parked_in_the_middle(world, database_url)

    class Newer(LiveMemory):
        version = "99/other"

    rebuilt = await a_rebuilder(world, Newer(world.engine.log, world.engine.embedder)).rebuild()
    assert (rebuilt.parked, rebuilt.newly_parked) == (2, ())
    async with world.engine.database.connection() as connection:
        waiting = await list_parked(connection)
        progress = await read_progress(connection, "live_memory")
    assert [(p.position, p.error) for p in waiting] == [
        (archived, "UnreadableEvent"),
        (archived + 1, "EarlierParked"),
    ]
    assert (progress.version, progress.standing) == ("99/other", "parked")
    seen = {m.id: (m.status, m.pinned) for m in (await world.reading.list(world.caller, {})).memories}
    assert seen == {one: ("active", True), other: ("active", False)}


async def test_a_comparison_leaves_parked_streams_out_and_finds_what_is_wrong_in_others(world, database_url):
    one, other, _ = await parked_in_the_middle(world, database_url)
    found = await compared(world)
    assert found.equal and found.parked == 1 and found.differences[0].rows == 1
    for tampered, equal in ((one, True), (other, False)):
        with psycopg.connect(database_url) as connection:
            connection.execute(
                "update lethelog_views.live_memory set topic = 'forged' where memory_id = %s", (tampered,)
            )
        assert (await compared(world)).equal is equal
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute("select distinct schema from lethelog_views.parked")
        assert await cursor.fetchall() == [("lethelog_views",)]


async def test_a_rebuild_stops_at_what_is_newly_impossible_and_parks_it_only_where_it_was_told_to(
    world, database_url
):
    one, other, archived = await parked_in_the_middle(world, database_url)
    await world.commands.pin(world.caller, {"memory_id": other})
    await world.runners[0].catch_up(archived + 3)
    damage(database_url, archived + 3)
    with pytest.raises(CannotApply, match=f"at position {archived + 3} cannot be applied") as raised:
        await a_rebuilder(world).rebuild()
    assert "--park" in str(raised.value)
    rebuilt = await a_rebuilder(world).rebuild(failing="park")
    assert (rebuilt.parked, rebuilt.newly_parked) == (3, (archived + 3,))
    seen = {m.id: m.pinned for m in (await world.reading.list(world.caller, {})).memories}
    assert seen == {one: True, other: False}


async def test_a_loading_that_meets_a_failure_late_names_the_event_that_fails(world):
    """A loaded copy writes a memory with its last event; the one the database refuses may be its first."""
    bad = await world.remember(f"{CANARY} poison")
    [poison] = await world.engine.log.read_stream(world.caller.tenant, bad)
    await world.remember("another")
    await world.commands.pin(world.caller, {"memory_id": bad})

    class Refused(LiveMemory):
        def loading(self, start, target):
            loading = super().loading(start, target)
            write = loading.apply

            async def apply(connection, schema, page, prepared):
                if any(key[1] == bad for key in prepared.cleared):
                    raise ValueError(CANARY)
                await write(connection, schema, page, prepared)

            loading.apply = apply
            return loading

        async def apply(self, connection, schema, page, prepared):
            if any(event.stream == bad for event in page):
                raise ValueError(CANARY)
            await super().apply(connection, schema, page, prepared)

    refused = Refused(world.engine.log, world.engine.embedder)
    with pytest.raises(CannotApply, match=f"at position {poison.position} cannot be applied"):
        await a_rebuilder(world, refused).rebuild()
    async with running(a_runner(world, refused, retry_seconds=())):
        await until(world, lambda p: p.parked == 2 and not p.lag)
    assert (await a_rebuilder(world, refused).rebuild()).newly_parked == ()


async def test_what_is_applied_while_it_is_rebuilt_is_not_left_parked_in_the_next(world):
    bad = await world.remember(f"{CANARY} poison")
    failing = Failing(world, bad)
    async with running(a_runner(world, failing, retry_seconds=())):
        await until(world, lambda p: p.parked == 1 and not p.lag)
    rebuilder = a_rebuilder(world, failing)
    index = rebuilder._index

    async def mend_meanwhile(generation):
        failing.streams.clear()
        await ParkedEvents(world.engine.database, world.engine.log, failing).retry(lambda *_: None)
        await index(generation)

    rebuilder._index = mend_meanwhile
    with pytest.raises(Conflict, match="rebuild it again"):
        await rebuilder.rebuild()
    rebuilder._index = index
    rebuilt = await rebuilder.rebuild()
    assert (rebuilt.resumed_at, rebuilt.parked) == (None, 0)
    assert (await world.get(bad)).id == bad
