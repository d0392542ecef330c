"""The log: units are all or none, ordered, idempotent, and hold no clear text."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID, uuid4

import psycopg
import pytest
from lethelog.domain import events as e
from lethelog.streams import audit
from lethelog.streams.append import PreparedUnit, call_statement, unit_arrays
from lethelog.streams.database import Database
from lethelog.streams.log import (
    Appended,
    Claim,
    ClaimHeld,
    CommandKey,
    KeyTaken,
    Log,
    NewEvent,
    Repeated,
    Unit,
    VersionMoved,
)
from lethelog.streams.master_keys import Keyring
from lethelog.streams.payloads import Actor, Envelope
from lethelog.streams.vault import Vault

from .held import waiting

TENANT = uuid4()
WHEN = datetime(2026, 3, 1, 9, tzinfo=UTC)


def envelope() -> Envelope:
    return Envelope(Actor("agent", uuid4()), cause=uuid4(), correlation=uuid4(), policy=1)


def remembered(content: str = "Deploys go to Hetzner") -> e.MemoryRemembered:
    return e.MemoryRemembered(
        memory_type="fact",
        scope="personal",
        topic="deploys",
        content=content,
        tags=("infra",),
        producer="user",
        trust="user",
        occurred_at=WHEN,
    )


def unit(stream: UUID, *, version: int = 1, event: e.Event | None = None, tenant: UUID = TENANT, **more) -> Unit:
    event = event or remembered()
    return Unit(
        tenant=tenant,
        subject=stream,
        events=[NewEvent(stream, version, event)],
        envelope=envelope(),
        new_keys=frozenset({stream}) if version == 1 else frozenset(),
        **more,
    )


async def test_what_was_appended_reads_back_whole(log: Log):
    stream = uuid4()
    sent = unit(stream)
    appended = await log.append(sent)
    assert isinstance(appended, Appended) and appended.position == 1
    [read] = await log.read_stream(TENANT, stream)
    assert (read.position, read.version, read.name, read.event) == (
        1,
        1,
        "memory.remembered",
        sent.events[0].event,
    )
    assert read.envelope == sent.envelope
    assert read.recorded_at == appended.recorded_at
    assert read.event_id == appended.event_ids[0]


async def test_another_tenant_reads_nothing_of_it(log: Log):
    stream = uuid4()
    await log.append(unit(stream))
    assert await log.read_stream(uuid4(), stream) == []
    assert len(await log.read_stream(TENANT, stream)) == 1


async def test_positions_have_no_gap_after_refused_units(log: Log):
    stream = uuid4()
    outcomes = [await log.append(unit(s, version=v)) for s, v in [(stream, 1), (stream, 1), (uuid4(), 1)]]
    assert [type(o) for o in outcomes] == [Appended, VersionMoved, Appended]
    assert [o.position for o in outcomes if isinstance(o, Appended)] == [1, 2]
    assert outcomes[1] == VersionMoved(stream, 1)


async def test_a_version_that_skips_ahead_is_refused(log: Log):
    stream = uuid4()
    await log.append(unit(stream))
    assert await log.append(unit(stream, version=3, event=e.MemoryPinned())) == VersionMoved(stream, 1)


async def test_a_unit_is_all_or_none(log: Log):
    old, new = uuid4(), uuid4()
    await log.append(unit(old))
    both = Unit(
        tenant=TENANT,
        subject=new,
        events=[
            NewEvent(new, 1, remembered("x")),
            NewEvent(old, 5, e.MemorySuperseded(successor=new, edge="supersedes")),
        ],
        envelope=envelope(),
        new_keys=frozenset({new}),
        claims=[Claim("content", b"d", None, new)],
    )
    assert await log.append(both) == VersionMoved(old, 1)
    assert await log.read_stream(TENANT, new) == []
    assert await log.holders(TENANT, [("content", b"d")]) == [None]
    assert await log.head() == 1


async def test_a_command_key_makes_the_second_append_the_first_result(log: Log):
    stream = uuid4()
    key = CommandKey(b"k1", b"h1")
    first = await log.append(unit(stream, command=key))
    assert isinstance(first, Appended)
    again = await log.append(unit(uuid4(), command=key))
    assert again == Repeated(first.position, stream)
    assert await log.append(unit(uuid4(), command=CommandKey(b"k1", b"other"))) == KeyTaken(stream)
    assert await log.head() == 1


async def test_claims_are_taken_handed_over_and_released(log: Log):
    a, b = uuid4(), uuid4()
    claim = Claim("content", b"same", None, a)
    await log.append(unit(a, claims=[claim]))
    refused = await log.append(
        unit(b, claims=[Claim("content", b"free", None, b), Claim("content", b"same", None, b)])
    )
    assert refused == ClaimHeld(Claim("content", b"same", None, b), a)
    assert isinstance(await log.append(unit(b, claims=[Claim("content", b"same", a, b)])), Appended)
    assert await log.holders(TENANT, [("content", b"same"), ("content", b"free")]) == [b, None]
    released = unit(b, version=2, event=e.MemoryArchived(), claims=[Claim("content", b"same", b, None)])
    assert isinstance(await log.append(released), Appended)
    assert await log.holders(TENANT, [("content", b"same")]) == [None]


async def test_many_callers_share_commits_and_each_gets_its_own_outcome(log: Log):
    streams = [uuid4() for _ in range(200)]
    units = [unit(s, claims=[Claim("content", bytes([n % 50]), None, s)]) for n, s in enumerate(streams)]
    outcomes = await asyncio.gather(*(log.append(u) for u in units))
    stored = [o for o in outcomes if isinstance(o, Appended)]
    assert len(stored) == 50
    assert sorted(o.position for o in stored) == list(range(1, 51))
    assert all(isinstance(o, Appended | ClaimHeld) for o in outcomes)


async def test_one_call_stores_the_good_units_whole_and_nothing_of_those_it_refuses(log: Log, database_url: str):
    """Refused ones stand before, between and after the others, for every reason, with events, claims and keys."""
    here, key, earlier = uuid4(), CommandKey(b"key", b"hash"), uuid4()
    await log.append(unit(here, claims=[Claim("content", b"taken", None, here)]))
    await log.append(unit(earlier, command=key))
    pair_of, alone, other = uuid4(), uuid4(), uuid4()
    pair = Unit(
        tenant=TENANT,
        subject=pair_of,
        events=[NewEvent(pair_of, 1, remembered()), NewEvent(pair_of, 2, e.MemoryPinned())],
        envelope=envelope(),
        claims=[Claim("content", b"free", None, pair_of)],
        new_keys=frozenset({pair_of}),
    )
    units = [
        pair,
        unit(uuid4(), command=key),
        unit(uuid4(), command=CommandKey(b"key", b"another")),
        Unit(tenant=TENANT, subject=here, events=(), envelope=envelope()),
        unit(other, claims=[Claim("x", b"f", None, other), Claim("content", b"taken", None, other)]),
        unit(alone),
    ]
    skipping = [PreparedUnit(TENANT, uuid4(), CommandKey.fresh()) for _ in range(2)]
    for one in skipping:
        one.add_event(one.subject, 4, "memory.pinned", uuid4(), b"body")
    skipping[0].add_claim("content", b"skips", None, skipping[0].subject)
    prepared = [skipping[0], *[(await log._prepare(one))[0] for one in units], skipping[1]]
    with psycopg.connect(database_url, autocommit=True) as connection:
        answers = connection.execute(call_statement().encode(), unit_arrays(prepared)).fetchall()
        held = connection.execute("select digest, holder from lethelog.claims order by digest").fetchall()
        keys = connection.execute("select key_id from lethelog_vault.data_keys").fetchall()
        commands = connection.execute("select position from lethelog.commands order by position").fetchall()
    assert sorted((number, outcome, position, detail) for number, outcome, position, _, detail, _ in answers) == [
        (1, "version", None, 0),
        (2, "ok", 4, None),
        (3, "repeat", 2, None),
        (4, "key_reused", 2, None),
        (5, "ok", 4, None),
        (6, "claimed", None, 4),
        (7, "ok", 5, None),
        (8, "version", None, 0),
    ]
    assert held == [(b"free", pair_of), (b"taken", here)]
    assert {key_id for (key_id,) in keys} == {here, earlier, pair_of, alone}
    assert [position for (position,) in commands] == [1, 2, 4, 4, 5]
    page = await log.read_page(0, 10)
    assert [(one.position, one.stream) for one in page[2:]] == [(3, pair_of), (4, pair_of), (5, alone)]
    assert (await audit.verify(log._database)).intact


async def test_a_unit_the_database_cannot_take_fails_alone(log: Log):
    good, bad = uuid4(), uuid4()
    broken = unit(bad, version=2**70)
    results = await asyncio.gather(log.append(unit(good)), log.append(broken), return_exceptions=True)
    assert isinstance(results[0], Appended)
    assert isinstance(results[1], Exception)


async def test_the_stored_bytes_hold_no_personal_text(log: Log, database_url: str):
    stream = uuid4()
    canary = "zq-canary-9931"
    event = remembered(canary).model_copy(
        update={"topic": canary, "tags": (canary,), "metadata": {canary: canary}}
    )
    await log.append(unit(stream, event=event))
    with psycopg.connect(database_url) as connection:
        [[body]] = connection.execute("select body from lethelog.events").fetchall()
    assert canary.encode() not in body
    assert b"personal" in body  # the positive control: what is not personal stays readable
    [read] = await log.read_stream(TENANT, stream)
    assert read.event == event


async def test_a_destroyed_key_leaves_a_tombstone_and_not_an_error(
    log: Log, database: Database, database_url: str
):
    stream = uuid4()
    await log.append(unit(stream))
    with psycopg.connect(database_url) as connection:
        connection.execute("delete from lethelog_vault.data_keys where key_id = %s", (stream,))
    other = Log(database, Vault(database, Keyring.of(b"m" * 32)))
    [read] = await other.read_stream(TENANT, stream)
    assert isinstance(read.event, e.MemoryRemembered)
    assert (read.event.content, read.event.topic, read.event.tags) == (None, None, None)
    assert (read.event.memory_type, read.event.occurred_at) == ("fact", WHEN)


async def test_a_sealed_body_moved_to_another_row_does_not_open(log: Log, database_url: str):
    a, b = uuid4(), uuid4()
    await log.append(unit(a))
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "insert into lethelog.events select 99, tenant, %s, 1, name, gen_random_uuid(), recorded_at, body, hash from lethelog.events",
            (b,),
        )
    with pytest.raises(Exception, match="does not open"):
        await log.read_stream(TENANT, b)


@pytest.mark.parametrize(
    "statement",
    ["update lethelog.events set name = 'x'", "delete from lethelog.events", "truncate lethelog.events"],
)
async def test_the_log_refuses_to_be_changed(log: Log, database_url: str, statement: str):
    await log.append(unit(uuid4()))
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.Error, match="append-only"):
        connection.execute(statement)


def _raw_append(connection: psycopg.Connection, number: int) -> None:
    """One append inside whatever transaction the connection has open."""
    prepared = PreparedUnit(TENANT, uuid4(), CommandKey.fresh())
    prepared.add_event(uuid4(), 1, "raw", uuid4(), bytes([number]))
    connection.execute(call_statement().encode(), unit_arrays([prepared]))


async def test_f42_a_reader_never_passes_an_append_that_is_not_committed(log: Log, database_url: str):
    """F42: a transaction that holds position 1 open keeps position 2 from becoming visible before it."""
    first, second = psycopg.connect(database_url), psycopg.connect(database_url)
    _raw_append(first, 1)
    with psycopg.connect(database_url, autocommit=True) as watcher:
        later = asyncio.create_task(asyncio.to_thread(lambda: (_raw_append(second, 2), second.commit())))
        while not waiting(watcher):
            assert not later.done(), "the second append did not wait for the first one's commit"
            await asyncio.sleep(0)
        assert watcher.execute("select count(*) from lethelog.events").fetchone() == (0,)
        first.commit()
        await later
        rows = watcher.execute("select position, body from lethelog.events order by position").fetchall()
    assert rows == [(1, b"\x01"), (2, b"\x02")]
    first.close()
    second.close()


async def test_f42_a_tailing_reader_sees_every_position_once_and_in_order_while_writers_hold_theirs_open(
    database_url: str,
):
    """Eight writers keep their transactions open for spans of their own; a reader that remembers one number misses nothing."""
    import random
    import threading

    chance, per_writer = random.Random(7), 25
    spans = [[chance.random() / 200 for _ in range(per_writer)] for _ in range(8)]
    pause = threading.Event()

    def write(mine: list[float]) -> None:
        with psycopg.connect(database_url) as connection:
            for number, span in enumerate(mine):
                _raw_append(connection, number)
                pause.wait(span)
                connection.commit()

    writers = [threading.Thread(target=write, args=(mine,)) for mine in spans]
    seen: list[int] = []
    with psycopg.connect(database_url, autocommit=True) as reader:
        for writer in writers:
            writer.start()
        while len(seen) < 8 * per_writer:
            last = seen[-1] if seen else 0
            # Before the read: what a writer committed last must still be read.
            all_done = not any(writer.is_alive() for writer in writers)
            rows = reader.execute(
                "select position from lethelog.events where position > %s order by position", (last,)
            )
            seen += [position for (position,) in rows.fetchall()]
            if all_done and not rows.rowcount:
                break
    for writer in writers:
        writer.join()
    assert seen == list(range(1, 8 * per_writer + 1))


async def test_a_cancelled_caller_neither_loses_nor_doubles_its_unit(log: Log, held):
    stream = uuid4()
    key = CommandKey(b"key", b"hash")
    lock = held()
    task = asyncio.create_task(log.append(unit(stream, command=key)))
    await lock.is_waited_for()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    lock.release()
    assert isinstance(await log.append(unit(stream, command=key)), Repeated)
    assert len(await log.read_stream(TENANT, stream)) == 1


async def test_a_commit_whose_answer_was_lost_is_recognised(log: Log, database_url: str):
    """The server's connection dies after COMMIT and before the answer: success, not a conflict."""
    stream = uuid4()
    with psycopg.connect(database_url, autocommit=True) as admin:
        await log.append(unit(uuid4()))
        queue = log._queue
        original = queue._call

        async def lose_the_answer(batch):
            connection = queue._connection
            await connection.execute(call_statement(), unit_arrays([w.unit for w in batch]))
            queue._call = original
            admin.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))
            raise psycopg.OperationalError("the connection is lost")

        queue._call = lose_the_answer
        appended = await log.append(unit(stream))
    assert isinstance(appended, Appended) and appended.position == 2
    assert len(await log.read_stream(TENANT, stream)) == 1
