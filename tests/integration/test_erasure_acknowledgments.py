"""Subscribers erase their copies and say so: it is on record once, and who did not say so is listed."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from lethelog.handlers.erasure.acknowledgments import OWN_CONSUMERS
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.operating.workers import ALL_ROLES, Workers, durables_of_roles
from lethelog.streams.acknowledgments import QUEUE
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.handling import Park
from lethelog.streams.subscriber_kit import Erased, subscribe
from lethelog.streams.tasks import TaskPublisher
from lethelog.streams.topology import Durable, Topology

from .broker_fixtures import connected, eventually


@pytest.fixture
def erasures(world, broker) -> Erasures:
    return Erasures(world.engine, broker=broker)


@asynccontextmanager
async def working(world, broker, *roles) -> AsyncGenerator[None]:
    workers = Workers(world.engine, broker=broker, roles=roles)
    await workers.open()
    try:
        yield
    finally:
        await workers.close()


class Reader:
    """A subscriber that keeps ids, and erases them."""

    def __init__(self) -> None:
        self.applied: list[int] = []
        self.kept: set[UUID] = set()
        self.erased: list[Erased] = []
        self.refuses = False

    def position(self) -> int:
        return max(self.applied, default=0)

    async def apply(self, event) -> None:
        self.applied.append(event.position)
        self.kept.add(event.stream)

    async def erase(self, erased: Erased) -> None:
        if self.refuses:
            raise Park("cannot_erase")
        self.applied.append(erased.position)
        self.kept -= set(erased.memories)
        self.erased.append(erased)


@asynccontextmanager
async def subscribed(broker, reader: Reader, name: str = "reader", **more) -> AsyncGenerator[None]:
    running = asyncio.create_task(
        subscribe(
            broker,
            name,
            ["memory.remembered"],
            reader.apply,
            position=reader.position,
            erased=reader.erase,
            **more,
        )
    )
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def erase(world, erasures: Erasures, **what) -> UUID:
    preview = await erasures.preview(world.caller, what)
    done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert done.verified, done.remaining
    return preview.id


async def shown(world, erasures: Erasures, erasure: UUID) -> tuple[list[str], list[str]]:
    """Who acknowledged, and who is late."""
    view = await erasures.show(world.caller, {"erasure_id": erasure})
    return [one.consumer for one in view.acknowledged], list(view.late or ())


async def events_of(world, erasure: UUID) -> list[str]:
    return [one.name for one in await world.engine.log.read_stream(world.caller.tenant, erasure)]


async def exist(broker, *names: str) -> None:
    """Durables of subscribers, at work or not."""
    await Topology(broker, [Durable(name, "events", (broker.event_filter(),)) for name in names]).ensure()


async def say(broker, count: int = 1, **body: Any) -> None:
    """Publish as whoever may publish can; each message another one to the broker."""
    async with TaskPublisher(broker) as tasks:
        for _ in range(count):
            assert await tasks.publish_task(QUEUE, body, uuid4().hex)


async def drained(broker) -> None:
    async with TaskPublisher(broker) as tasks:

        async def none_waits() -> bool:
            return not await tasks.waiting(QUEUE)

        await eventually(none_waits, "every acknowledgment was handled")


async def test_a_subscriber_that_erased_its_copies_is_on_record_and_those_that_did_not_are_listed_as_late(
    world, broker, erasures
):
    reader = Reader()
    await exist(broker, "sleeper", "pass-manager")
    gone, stays = await world.remember("Deploys go to Hetzner"), await world.remember("Backups stay 30 days")
    async with working(world, broker, "relay", "erasures"), subscribed(broker, reader):
        await eventually(lambda: {gone, stays} <= reader.kept, "it keeps both")
        erasure = await erase(world, erasures, memory_id=gone)

        async def acknowledged() -> bool:
            return (await shown(world, erasures, erasure))[0] == ["reader"]

        await eventually(acknowledged, "it is on record")
    assert stays in reader.kept and gone not in reader.kept
    [erased] = reader.erased
    assert (erased.erasure, erased.tenant, erased.memories, erased.everything) == (
        erasure,
        world.caller.tenant,
        (gone,),
        False,
    )
    view = await erasures.show(world.caller, {"erasure_id": erasure})
    recorded = await world.engine.log.read_stream(world.caller.tenant, erasure)
    [said] = [one for one in recorded if one.name == "erasure.acknowledged"]
    assert [(one.consumer, one.at) for one in view.acknowledged] == [("reader", said.recorded_at)]
    assert (view.late, view.late_count) == (("sleeper",), 1)
    assert view.verified and view.certificate is not None


async def test_five_deliveries_to_two_workers_are_one_acknowledgment(world, broker, erasures):
    await exist(broker, "reader", "other")
    erasure = await erase(world, erasures, memory_id=await world.remember("Deploys go to Hetzner"))
    body = {"tenant": str(world.caller.tenant), "erasure": str(erasure)}
    await say(broker, 5, **body, consumer="reader")
    await say(broker, 5, **body, consumer="other")
    async with working(world, broker, "erasures"), working(world, broker, "erasures"):
        await drained(broker)
    assert (await events_of(world, erasure)).count("erasure.acknowledged") == 2
    acknowledged, late = await shown(world, erasures, erasure)
    assert (sorted(acknowledged), late) == (["other", "reader"], [])


async def test_a_subscriber_killed_before_it_acknowledged_does_so_after_its_restart(
    world, broker, erasures, start
):
    gone = await world.remember("Deploys go to Hetzner")
    erasure = await erase(world, erasures, memory_id=gone)
    told = {"erasure": str(erasure), "memories": [str(gone)]}
    # Its read model holds the erasure already: it was stored with the position, and only the word was not given.
    given = {
        "broker_url": broker.url,
        "prefix": broker.prefix,
        "durable": "reader",
        "position": await world.engine.log.head(),
    }
    async with working(world, broker, "relay", "erasures"):
        first = await start("subscriber", **given, hangs=True)
        await first.until(**told)
        await first.kill()
        await drained(broker)
        assert await shown(world, erasures, erasure) == ([], ["reader"])
        second = await start("subscriber", **given, hangs=False)
        await second.until(**told)

        async def acknowledged() -> bool:
            return await shown(world, erasures, erasure) == (["reader"], [])

        await eventually(acknowledged, "it is on record")
        await second.kill()
    assert not [one for one in first.told + second.told if "applied" in one]


async def test_what_names_no_consumer_or_no_performed_erasure_changes_nothing(world, broker, erasures, caplog):
    await exist(broker, "reader", *OWN_CONSUMERS)
    memory = await world.remember("Deploys go to Hetzner")
    erasure = await erase(world, erasures, memory_id=memory)
    previewed = await erasures.preview(world.caller, {"memory_id": await world.remember("Backups stay")})
    other = await world.another_caller()
    true = {"tenant": str(world.caller.tenant), "erasure": str(erasure), "consumer": "reader"}
    head = await world.engine.log.head()
    forged: list[tuple[str, dict[str, Any]]] = [
        ("unknown_consumer", {**true, "consumer": "nobody"}),
        ("unknown_consumer", {**true, "consumer": "pass-manager"}),
        ("unknown_erasure", {**true, "erasure": str(uuid4())}),
        ("unknown_erasure", {**true, "erasure": str(memory)}),
        ("unknown_erasure", {**true, "tenant": str(other.tenant)}),
        ("nothing_erased", {**true, "erasure": str(previewed.id)}),
        ("malformed", {}),
        ("malformed", {**true, "erasure": "x"}),
        ("malformed", {**true, "consumer": 7}),
        ("malformed", {**true, "consumer": "x" * 300}),
        ("malformed", {**true, "more": "x"}),
    ]
    for _, body in forged:
        await say(broker, **body)
    async with working(world, broker, "erasures"):
        await drained(broker)
        assert await world.engine.log.head() == head
        assert sorted(one for line in caplog.messages if (one := _refusal(line))) == sorted(
            why for why, _ in forged
        )
        assert await shown(world, erasures, erasure) == ([], ["reader"])
        await say(broker, **true)
        await drained(broker)
    assert await world.engine.log.head() == head + 1
    assert await shown(world, erasures, erasure) == (["reader"], [])


def _refusal(line: str) -> str | None:
    before, found, why = line.partition("an acknowledgment of an erasure was refused: ")
    return why if found and not before else None


async def test_an_erasure_in_several_parts_is_acknowledged_only_when_each_was_erased(
    world, broker, erasures, place, monkeypatch
):
    monkeypatch.setattr("lethelog.handlers.erasure.performed.IDS_PER_EVENT", 1)
    reader = Reader()
    reader.refuses = True
    gone = {await world.remember(f"Deploys go to server {n}", scope="deploys") for n in range(3)}
    erasure = await erase(world, erasures, scope="deploys")
    assert (await events_of(world, erasure)).count("erasure.performed") == 3

    async def parked() -> int:
        return len((await place.page())[0])

    async def all_parked() -> bool:
        return await parked() == 3

    async with working(world, broker, "relay", "erasures"), subscribed(broker, reader):
        await eventually(all_parked, "the first part is parked and the others behind it")
        assert await shown(world, erasures, erasure) == ([], ["reader"])
        reader.refuses = False
        await place.retry(consumer="reader")

        async def acknowledged() -> bool:
            return await shown(world, erasures, erasure) == (["reader"], [])

        await eventually(acknowledged, "all parts are erased")
    assert {one for erased in reader.erased for one in erased.memories} == gone and not reader.kept
    assert (await events_of(world, erasure)).count("erasure.acknowledged") == 1


async def _carried(broker, position: int) -> bool:
    client = await connected(broker)
    info = await client.jetstream().stream_info(broker.stream("events"))
    await client.close()
    return info.state.last_seq >= position


async def _forget(broker, count: int) -> None:
    client = await connected(broker)
    for sequence in range(1, count + 1):
        await client.jetstream().delete_msg(broker.stream("events"), sequence)
    await client.close()


async def test_a_subscriber_that_catches_up_from_the_log_is_known_before_it_acknowledges(world, broker, erasures):
    """What the broker no longer holds is read from the log, and its durable is there by then."""
    reader = Reader()
    erasure = await erase(world, erasures, memory_id=await world.remember("Deploys go to Hetzner"))
    head = await world.engine.log.head()
    async with working(world, broker, "relay"):
        await exist(broker, "watcher")
        await eventually(lambda: _carried(broker, head), "everything is carried")
    await _forget(broker, head)
    await world.remember("Backups stay 30 days")
    async with working(world, broker, "relay", "erasures"), subscribed(broker, reader, log=world.engine.log):

        async def acknowledged() -> bool:
            return await shown(world, erasures, erasure) == (["reader"], ["watcher"])

        await eventually(acknowledged, "it is on record")


async def test_a_broker_that_does_not_answer_leaves_it_open_who_is_late(world, broker, erasures):
    erasure = await erase(world, erasures, memory_id=await world.remember("Deploys go to Hetzner"))
    assert (await erasures.show(world.caller, {"erasure_id": erasure})).late == ()
    away = Erasures(world.engine, broker=BrokerSettings("nats://token@127.0.0.1:1", broker.prefix))
    assert (await away.show(world.caller, {"erasure_id": erasure})).late is None


def test_our_own_durables_are_known_for_what_they_are(broker):
    durables = durables_of_roles(broker, ALL_ROLES, "stated")
    assert {one.name for one in durables if one.stream == "events"} == OWN_CONSUMERS
    assert f"tasks-{QUEUE}" in {one.name for one in durables}
