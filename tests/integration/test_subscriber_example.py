"""The subscriber kit: a read model of one's own that resumes, repeats nothing and can be filled again."""

import asyncio
import contextlib
import os
import sqlite3
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

from lethelog.domain import events as e
from lethelog.streams.acknowledgments import QUEUE
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.handling import RetryPolicy
from lethelog.streams.leadership import Leadership
from lethelog.streams.log import Log, NewEvent, Unit
from lethelog.streams.parking_place import ParkingPlace
from lethelog.streams.relay import Relay
from lethelog.streams.subscriber_kit import subscribe
from lethelog.streams.tasks import TaskPublisher
from nats.js import JetStreamContext

from .broker_fixtures import SECRET, TENANT, append, connected, envelope, eventually

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "subscriber.py"


class ReadModel:
    """What a subscriber keeps: positions, in the order they were applied."""

    def __init__(self) -> None:
        self.applied: list[int] = []
        self.texts: list[str | None] = []

    def position(self) -> int:
        return self.applied[-1] if self.applied else 0

    async def apply(self, event) -> None:
        self.applied.append(event.position)
        self.texts.append(event.event.content)


@contextlib.asynccontextmanager
async def subscribed(broker, model: ReadModel, name: str = "reader", **more):
    running = asyncio.create_task(
        subscribe(broker, name, ["memory.remembered"], model.apply, position=model.position, **more)
    )
    try:
        yield running
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_a_read_model_is_fed_in_order_and_resumes(log, broker, carried):
    model = ReadModel()
    await append(log, 3)
    for upto in (5, 7):
        async with subscribed(broker, model):
            await append(log, 2)
            await eventually(lambda: len(model.applied) == upto, "fed")  # noqa: B023 - awaited here
    assert model.applied == [1, 2, 3, 4, 5, 6, 7]
    assert set(model.texts) == {None}


async def test_a_subscriber_may_be_there_before_the_first_event_and_the_first_relay(log, database, tail, broker):
    model = ReadModel()
    async with subscribed(broker, model, log=log):
        await append(log, 2)
        relay = Relay(database, tail, broker)
        await relay.open()
        await eventually(lambda: model.applied == [1, 2], "fed")
        await relay.close()


async def test_two_processes_of_one_name_take_turns_and_keep_the_order(log, broker, carried):
    model = ReadModel()
    async with subscribed(broker, model), subscribed(broker, model):
        for _ in range(5):
            await append(log, 8)
        await eventually(lambda: len(model.applied) >= 40, "fed")
    assert model.applied == list(range(1, 41))


async def test_with_the_log_sealed_text_is_opened(log, broker, carried):
    model = ReadModel()
    await append(log, 2)
    async with subscribed(broker, model, log=log):
        await eventually(lambda: len(model.applied) == 2, "fed")
    assert model.texts == [SECRET, SECRET]


async def test_an_event_applied_but_not_acknowledged_is_not_applied_twice(log, broker, carried):
    model = ReadModel()
    await append(log, 2)
    async with subscribed(broker, model):
        await eventually(lambda: len(model.applied) == 2, "fed")
    # The broker forgets how far this subscriber was, as it does when an acknowledgement is lost.
    client = await connected(broker)
    await client.jetstream().delete_consumer(broker.stream("events"), "reader")
    await client.close()
    async with subscribed(broker, model):
        await append(log, 1)
        await eventually(lambda: len(model.applied) == 3, "fed again")
    assert model.applied == [1, 2, 3]


async def test_a_read_model_that_was_emptied_is_filled_again(log, broker, carried):
    model = ReadModel()
    await append(log, 4)
    async with subscribed(broker, model):
        await eventually(lambda: len(model.applied) == 4, "fed")
    model.applied.clear()
    async with subscribed(broker, model):
        await eventually(lambda: len(model.applied) == 4, "filled again")
    assert model.applied == [1, 2, 3, 4]


async def test_what_the_broker_no_longer_holds_is_read_from_the_log(log, broker, carried):
    await append(log, 6)
    await carried.reached(6)
    client = await connected(broker)
    for sequence in (1, 2, 3):
        await client.jetstream().delete_msg(broker.stream("events"), sequence)
    await client.close()
    model = ReadModel()
    async with subscribed(broker, model, log=log):
        await eventually(lambda: len(model.applied) == 6, "fed")
    assert model.applied == [1, 2, 3, 4, 5, 6]


async def test_two_processes_that_both_read_old_events_from_the_log_apply_each_once_and_in_order(
    log, broker, carried, monkeypatch
):
    await append(log, 6)
    await carried.reached(6)
    client = await connected(broker)
    for sequence in (1, 2, 3):
        await client.jetstream().delete_msg(broker.stream("events"), sequence)
    await client.close()
    begun: list[int] = []
    finish, refused = asyncio.Event(), asyncio.Event()

    class Slow(ReadModel):
        async def apply(self, event) -> None:
            begun.append(event.position)
            await finish.wait()
            await super().apply(event)

    acquire = Leadership.acquire

    async def observed(self) -> bool:
        led = await acquire(self)
        if not led:
            refused.set()
        return led

    monkeypatch.setattr(Leadership, "acquire", observed)
    model = Slow()
    async with subscribed(broker, model, log=log):
        await eventually(lambda: begun == [1], "one process is at the first event")
        async with subscribed(broker, model, log=log):
            await eventually(lambda: refused.is_set() or len(begun) > 1, "the other one wants to begin")
            finish.set()
            await eventually(lambda: len(model.applied) >= 6, "fed")
    assert begun == model.applied == [1, 2, 3, 4, 5, 6]


async def test_a_durable_at_which_another_process_is_at_work_is_left_alone(log, broker, carried, monkeypatch):
    """What that one applies and acknowledges while this one looks does not make the read model seem emptied."""
    model, asked = ReadModel(), []
    await append(log, 2)
    consumer_info = JetStreamContext.consumer_info
    async with subscribed(broker, model):
        await eventually(lambda: len(model.applied) == 2, "fed")
        first = (await durable(broker)).created

        async def while_another_goes_on(self, stream, name):
            if not asked:
                asked.append(name)
                await append(log, 1)

                async def acknowledged() -> bool:
                    return (await consumer_info(self, stream, name)).ack_floor.stream_seq == 3

                await eventually(acknowledged, "the other one has acknowledged the next event")
            return await consumer_info(self, stream, name)

        monkeypatch.setattr(JetStreamContext, "consumer_info", while_another_goes_on)
        async with subscribed(broker, model):
            await append(log, 1)
            await eventually(lambda: len(model.applied) == 4, "fed by both")
            assert asked == ["reader"] and (await durable(broker)).created == first
    assert model.applied == [1, 2, 3, 4]


async def durable(broker: BrokerSettings):
    client = await connected(broker)
    try:
        return await client.jetstream().consumer_info(broker.stream("events"), "reader")
    finally:
        await client.close()


async def test_a_gap_that_cannot_be_read_is_told(log, broker, carried, caplog):
    await append(log, 4)
    await carried.reached(4)
    client = await connected(broker)
    for sequence in (1, 2):
        await client.jetstream().delete_msg(broker.stream("events"), sequence)
    await client.close()
    model = ReadModel()
    async with subscribed(broker, model):
        await eventually(lambda: len(model.applied) == 2, "fed")
    assert model.applied == [3, 4]
    assert "no longer holds the events between positions 0 and 3" in caplog.text


async def test_when_all_that_the_broker_held_has_aged_out_it_is_read_from_the_log_or_told(
    log, broker, carried, caplog
):
    """Aged out in earnest: the server drops what is older than a second."""
    await append(log, 4)
    await carried.reached(4)
    client = await connected(broker)
    js, stream = client.jetstream(), broker.stream("events")
    present = (await js.stream_info(stream)).config
    await js.update_stream(present.evolve(max_age=1, duplicate_window=1))

    async def held() -> int:
        return (await js.stream_info(stream)).state.messages

    async def empty() -> bool:
        return not await held()

    await eventually(empty, "everything aged out")
    await js.update_stream(present)
    await client.close()
    with_log, without = ReadModel(), ReadModel()
    async with subscribed(broker, with_log, "with", log=log), subscribed(broker, without, "without"):
        await eventually(lambda: len(with_log.applied) == 4, "the log was read")
        await append(log, 2)
        await eventually(lambda: len(with_log.applied) == 6 and len(without.applied) == 2, "new events come")
    assert (with_log.applied, without.applied) == ([1, 2, 3, 4, 5, 6], [5, 6])
    assert "without: the broker no longer holds the events between positions 0 and 5" in caplog.text


class Choosy(ReadModel):
    """Fails at one position until it is mended; keyed by position, as the documentation asks for."""

    def __init__(self, fails_at: int) -> None:
        super().__init__()
        self.fails_at: int | None = fails_at

    def position(self) -> int:
        return max(self.applied, default=0)

    async def apply(self, event) -> None:
        if event.position == self.fails_at:
            raise ValueError("cannot digest this")
        if event.position not in self.applied:
            await super().apply(event)


QUICK = RetryPolicy(max_deliveries=2, delays=(0.05,), ack_wait=5)


async def test_an_event_that_fails_is_parked_and_applied_late_when_an_operator_sends_it_again(
    log, database, broker, carried
):
    model = Choosy(fails_at=2)
    await append(log, 4)
    client = await connected(broker)
    place = ParkingPlace(client, broker, database)

    async def parked() -> list[int | None]:
        return [one.position for one in (await place.page())[0]]

    for _ in range(2):  # and it stays parked when the subscriber starts again
        async with subscribed(broker, model, policy=QUICK):
            await eventually(lambda: model.applied == [1, 3, 4], "the others are applied")
        assert await parked() == [2]
    model.fails_at = None
    async with subscribed(broker, model, policy=QUICK):
        await place.retry(consumer="reader")
        await eventually(lambda: model.applied == [1, 3, 4, 2], "it is applied late")
    assert await parked() == []
    await client.close()


async def test_a_rebuild_of_an_emptied_read_model_applies_what_was_parked_in_its_order(
    log, database, broker, carried
):
    model = Choosy(fails_at=2)
    await append(log, 4)
    client = await connected(broker)
    place = ParkingPlace(client, broker, database)
    async with subscribed(broker, model, policy=QUICK):
        await eventually(lambda: model.applied == [1, 3, 4], "the others are applied")
    model.fails_at = None
    model.applied.clear()
    async with subscribed(broker, model, policy=QUICK):
        await eventually(lambda: len(model.applied) == 4, "everything is applied")
    assert model.applied == [1, 2, 3, 4] and (await place.page())[0] == []
    await client.close()


# --- the example of the documentation, as a process of its own ----------------------------------------------------


async def stage(log: Log, action: str) -> UUID:
    memory, proposal = uuid4(), uuid4()
    await append_event(
        log,
        memory,
        e.MemoryRemembered(
            memory_type="fact",
            scope="personal",
            topic="deploys",
            content=SECRET,
            producer="user",
            trust="user",
            occurred_at=datetime(2026, 3, 1, 9, tzinfo=UTC),
        ),
        new_keys=frozenset({memory}),
    )
    await append_event(log, proposal, staged(memory, action))
    return memory


def staged(memory: UUID, action: str) -> e.ProposalStaged:
    return e.ProposalStaged.model_validate(
        {
            "related_id": None if action == "archive" else uuid4(),
            "pass_id": uuid4(),
            "ref": "1",
            "rule": "single",
            "action": action,
            "memory_id": memory,
            "probability": 0.9,
            "probabilities": {"keep": 0.1, action: 0.9},
            "judge": "stated",
            "model": "stated-1",
            "seen": {memory: 1},
            "evidence_memory": memory,
            "quote": SECRET,
            "threshold": 0.8,
            "verdict_event": uuid4(),
        }
    )


async def append_event(log: Log, stream: UUID, event: e.Event, **more) -> None:
    await log.append(
        Unit(tenant=TENANT, subject=stream, events=[NewEvent(stream, 1, event)], envelope=envelope(), **more)
    )


@contextlib.asynccontextmanager
async def example(broker: BrokerSettings, file: Path, *arguments: str):
    environment = os.environ | {
        "LETHELOG_BROKER_URL": broker.url,
        "LETHELOG_BROKER_PREFIX": broker.prefix,
        "PROPOSALS_DB": str(file),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), *arguments, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        await process.communicate()


def kept(file: Path) -> list[tuple[str, str]]:
    """What the example's read model holds, in the order of the log."""
    if not file.exists():
        return []
    with contextlib.closing(sqlite3.connect(file)) as db, contextlib.suppress(sqlite3.OperationalError):
        return db.execute("select memory, action from proposals order by position").fetchall()
    return []


async def test_the_example_starts_from_position_0_resumes_after_it_is_killed_and_can_be_rebuilt(
    log, broker, carried, tmp_path
):
    file = tmp_path / "proposals.sqlite"
    first = await stage(log, "archive")
    await carried.reached(2)
    async with example(broker, file) as process:
        await eventually(lambda: len(kept(file)) == 1, "the first proposal is kept")
        assert await process.stdout.readline() == f"archive proposed for memory {first}\n".encode()
    await asyncio.gather(*(stage(log, "supersede") for _ in range(120)))
    events = [one for at in (0, 200) for one in await log.read_page(at, 200)]
    expected = [(str(one.event.memory_id), one.event.action) for one in events if one.name == "proposal.staged"]
    async with example(broker, file):
        await eventually(lambda: len(kept(file)) > 5, "it is at work")
    assert len(kept(file)) < 121, "it was through before it was killed"
    async with example(broker, file):
        await eventually(lambda: len(kept(file)) == 121, "the next one goes on")
    assert kept(file) == expected
    assert SECRET.encode() not in file.read_bytes()
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        db.execute("update proposals set action = 'wrong'")
        db.execute("delete from proposals where position < 50")
    async with example(broker, file, "--rebuild"):
        await eventually(lambda: kept(file) == expected, "it is built anew, whatever was in it")


async def test_the_example_erases_its_copies_and_keeps_none_of_what_was_erased_when_it_is_rebuilt(
    log, broker, carried, tmp_path
):
    file = tmp_path / "proposals.sqlite"
    gone, stays = await stage(log, "archive"), await stage(log, "archive")
    async with example(broker, file):
        await eventually(lambda: len(kept(file)) == 2, "both proposals are kept")
        await append_event(log, uuid4(), e.ErasurePerformed(memories=(gone,), because="request"))
        await eventually(lambda: kept(file) == [(str(stays), "archive")], "the one that was erased is gone")
        async with TaskPublisher(broker) as tasks:

            async def acknowledged() -> bool:
                return await tasks.waiting(QUEUE) == 1

            # While it runs: the answer goes out after the rows are gone.
            await eventually(acknowledged, "it acknowledged")
    async with example(broker, file, "--rebuild") as process:
        lines = [await process.stdout.readline() for _ in range(3)]
    assert lines[2] == b"1 memories erased\n" and kept(file) == [(str(stays), "archive")]


def test_the_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) < 60
