"""The subscriber kit: a read model of one's own that resumes, repeats nothing and can be filled again."""

import asyncio
import contextlib
import os
import sqlite3
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from lethelog.domain import events as e
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.log import Log, NewEvent, Unit
from lethelog.streams.relay import Relay
from lethelog.streams.subscribe import subscribe

from .broker_fixtures import SECRET, TENANT, append, connected, envelope, eventually

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "subscriber.py"


@pytest.fixture
def settings(servers, broker_prefix) -> BrokerSettings:
    return BrokerSettings(servers.broker_url, broker_prefix)


@pytest.fixture
async def carried(log, database, tail, settings):
    relay = Relay(database, tail, settings)
    await relay.open()
    yield relay
    await relay.close()


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
async def subscribed(settings, model: ReadModel, name: str = "reader", **more):
    running = asyncio.create_task(
        subscribe(settings, name, ["memory.remembered"], model.apply, position=model.position, **more)
    )
    try:
        yield running
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_a_read_model_is_fed_in_order_and_resumes(log, settings, carried):
    model = ReadModel()
    await append(log, 3)
    for upto in (5, 7):
        async with subscribed(settings, model):
            await append(log, 2)
            await eventually(lambda: len(model.applied) == upto, "fed")  # noqa: B023 - awaited here
    assert model.applied == [1, 2, 3, 4, 5, 6, 7]
    assert set(model.texts) == {None}


async def test_with_the_log_sealed_text_is_opened(log, settings, carried):
    model = ReadModel()
    await append(log, 2)
    async with subscribed(settings, model, log=log):
        await eventually(lambda: len(model.applied) == 2, "fed")
    assert model.texts == [SECRET, SECRET]


async def test_an_event_applied_but_not_acknowledged_is_not_applied_twice(log, settings, carried):
    model = ReadModel()
    await append(log, 2)
    async with subscribed(settings, model):
        await eventually(lambda: len(model.applied) == 2, "fed")
    # The broker forgets how far this subscriber was, as it does when an acknowledgement is lost.
    client = await connected(settings)
    await client.jetstream().delete_consumer(settings.stream("events"), "reader")
    await client.close()
    async with subscribed(settings, model):
        await append(log, 1)
        await eventually(lambda: len(model.applied) == 3, "fed again")
    assert model.applied == [1, 2, 3]


async def test_a_read_model_that_was_emptied_is_filled_again(log, settings, carried):
    model = ReadModel()
    await append(log, 4)
    async with subscribed(settings, model):
        await eventually(lambda: len(model.applied) == 4, "fed")
    model.applied.clear()
    async with subscribed(settings, model):
        await eventually(lambda: len(model.applied) == 4, "filled again")
    assert model.applied == [1, 2, 3, 4]


async def test_what_the_broker_no_longer_holds_is_read_from_the_log(log, settings, carried):
    await append(log, 6)
    await carried.reached(6)
    client = await connected(settings)
    for sequence in (1, 2, 3):
        await client.jetstream().delete_msg(settings.stream("events"), sequence)
    await client.close()
    model = ReadModel()
    async with subscribed(settings, model, log=log):
        await eventually(lambda: len(model.applied) == 6, "fed")
    assert model.applied == [1, 2, 3, 4, 5, 6]


async def test_a_gap_that_cannot_be_read_is_told(log, settings, carried, caplog):
    await append(log, 4)
    await carried.reached(4)
    client = await connected(settings)
    for sequence in (1, 2):
        await client.jetstream().delete_msg(settings.stream("events"), sequence)
    await client.close()
    model = ReadModel()
    async with subscribed(settings, model):
        await eventually(lambda: len(model.applied) == 2, "fed")
    assert model.applied == [3, 4]
    assert "no longer holds the events between positions 0 and 3" in caplog.text


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
async def example(settings: BrokerSettings, file: Path):
    environment = os.environ | {
        "LETHELOG_BROKER_URL": settings.url,
        "LETHELOG_BROKER_PREFIX": settings.prefix,
        "PROPOSALS_DB": str(file),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        await process.communicate()


async def test_the_example_keeps_proposals_and_resumes_after_it_is_killed(log, settings, carried, tmp_path):
    file = tmp_path / "proposals.sqlite"

    def kept() -> list[tuple[str, str]]:
        if not file.exists():
            return []
        with contextlib.closing(sqlite3.connect(file)) as db, contextlib.suppress(sqlite3.OperationalError):
            return db.execute("select memory, action from proposals order by position").fetchall()
        return []

    first = await stage(log, "archive")
    await carried.reached(2)
    async with example(settings, file) as process:
        await eventually(lambda: len(kept()) == 1, "the first proposal is kept")
        assert await process.stdout.readline() == f"archive proposed for memory {first}\n".encode()
    second = await stage(log, "supersede")
    async with example(settings, file):
        await eventually(lambda: len(kept()) == 2, "the second proposal is kept")
    assert kept() == [(str(first), "archive"), (str(second), "supersede")]
    assert SECRET.encode() not in file.read_bytes()


def test_the_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) < 40
