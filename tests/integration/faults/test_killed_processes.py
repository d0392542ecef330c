"""kill -9 at the worst moment of each process: nothing acknowledged is lost, nothing takes effect twice."""

import asyncio
from collections import Counter
from uuid import UUID, uuid4

import psycopg
import pytest
from lethelog.domain import events as e
from lethelog.handlers.memories import Retry
from lethelog.projections.rebuild import Rebuilder
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.consumers import Consumers
from lethelog.streams.handling import RetryPolicy
from lethelog.streams.log import NewEvent, Unit
from lethelog.streams.payloads import RecordedEvent
from lethelog.streams.relay import Relay
from lethelog.streams.subscriptions import EventSubscription

from ..broker_fixtures import TENANT, append, connected, envelope, eventually, remembering, stored

ACK_WAIT = 3.0
"""Seconds until a dead process's delivery comes again; long enough to see that others do not wait for it."""


@pytest.fixture
def given(world, database_url) -> dict[str, str]:
    return {
        "database_url": database_url,
        "tenant": str(world.caller.tenant),
        "actor": str(world.caller.actor.id),
    }


async def test_a_writer_killed_while_its_append_is_under_way_loses_nothing_acknowledged_and_a_retry_completes(
    world, given, start, held
):
    """The server finishes the append of a dead client, so its events are there without an acknowledgement."""
    child = await start("write", **given, batches=[[0, 20]])
    await child.rest()
    again = await start("write", **given, batches=[[20, 40], [40, 60]])
    lock = held()
    await eventually(lambda: lock.waiting() == 1, "an append stands at the log")
    await again.kill()
    lock.release()
    acknowledged = {one["number"]: one["id"] for one in child.told + again.told if "id" in one}
    assert sorted(acknowledged) == list(range(20))

    async def remembered() -> list[str]:
        return [
            str(one.stream) for one in await world.engine.log.read_page(0, 500) if one.name == "memory.remembered"
        ]

    async def carried_out() -> list[str]:
        return [one for one in await remembered() if one not in acknowledged.values()]

    # Nobody heard of it and nobody tried again yet: it is the killed process's append.
    await eventually(carried_out, "the server finishes the append of the dead client")
    before_retry = set(await carried_out())

    async def write(number: int) -> str:
        text = {"topic": f"write {number}", "content": f"This is write number {number}"}
        return str((await world.commands.remember(world.caller, text, Retry(f"key {number}"))).memory.id)

    ids = await asyncio.gather(*(write(number) for number in range(60)))
    assert {number: ids[number] for number in acknowledged} == acknowledged
    assert Counter(await remembered()) == Counter(ids) and len(set(ids)) == 60
    assert before_retry <= set(ids)


async def test_a_projection_killed_inside_its_transaction_is_followed_by_its_standby_and_nothing_is_applied_twice(
    world, given, start, held, database_url
):
    for number in range(30):
        await world.remember(f"This is memory number {number}")
    lock = held("lock table lethelog_views.tracking in share mode")
    leader = await start("project", **given, view="memory_history")
    await leader.until(leading=True)
    standby = await start("project", **given, view="memory_history")
    await standby.until(ready=True)
    await eventually(lambda: lock.waiting() >= 1, "the leader has written its page and not its position")
    await leader.kill()
    lock.release()
    await standby.until(leading=True)
    head = await world.remember("This one comes after the kill") and await world.engine.log.head()
    [runner] = [one for one in world.runners if (await one.progress()).name == "memory_history"]

    async def caught_up() -> bool:
        return (await runner.progress()).position >= head

    await eventually(caught_up, "the standby has caught up")
    await standby.kill()
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select count(*) from lethelog_views.memory_history").fetchone()
    assert rows is not None and rows[0] >= 31
    await world.catch_up()
    for projection in world.engine.projections:
        found = await Rebuilder(world.engine.database, world.engine.log, world.engine.tail, projection).compare()
        assert found.equal, found


async def positions(broker: BrokerSettings) -> list[int]:
    """What the stream of events holds, in the order it holds it."""
    client = await connected(broker)
    found = [int(message.headers["Nats-Msg-Id"]) for message in await stored(client, broker)]
    await client.close()
    return found


async def count(broker: BrokerSettings) -> int:
    client = await connected(broker)
    try:
        return (await client.jetstream().stream_info(broker.stream("events"))).state.messages
    finally:
        await client.close()


async def test_a_relay_killed_between_publish_and_checkpoint_sends_nothing_twice(
    log, database_url, broker, start, held
):
    given = {"database_url": database_url, "broker_url": broker.url, "prefix": broker.prefix}
    await append(log, 10)
    relay = await start("relay", **given)
    await relay.until(leading=True)

    def checkpoint() -> int:
        with psycopg.connect(database_url) as connection:
            row = connection.execute("select max(position) from lethelog.relay").fetchone()
        return (row[0] if row else 0) or 0

    await eventually(lambda: checkpoint() == 10, "the first events are carried")
    lock = held("select position from lethelog.relay for update")
    await append(log, 50)

    async def published() -> bool:
        return await count(broker) > 10

    await eventually(published, "further events are on the stream")
    await eventually(lambda: lock.waiting() == 1, "the checkpoint waits to be stored")
    await relay.kill()
    # The server still has the dead process's statement; it must not outlive it.
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' "
            "and datname = current_database() and pid <> pg_backend_pid()"
        )
    lock.release()
    assert checkpoint() == 10
    await append(log, 5)
    await start("relay", **given)
    await eventually(lambda: checkpoint() == 65, "the next relay has caught up")
    assert await positions(broker) == list(range(1, 66))


async def test_a_relay_on_standby_takes_over_from_one_that_is_killed_in_full_flight(
    log, database_url, broker, start
):
    given = {"database_url": database_url, "broker_url": broker.url, "prefix": broker.prefix}
    leader = await start("relay", **given)
    await leader.until(leading=True)
    standby = await start("relay", **given)
    await standby.until(ready=True)
    await append(log, 400)

    async def some() -> bool:
        return await count(broker) > 0

    await eventually(some, "the leader carries events")
    writing = asyncio.ensure_future(append(log, 800))
    await leader.kill()
    await standby.until(leading=True)
    await writing

    async def all_there() -> bool:
        return await count(broker) >= 1200

    await eventually(all_there, "the standby carries the rest")
    assert await positions(broker) == list(range(1, 1201))


async def test_events_behind_one_whose_process_was_killed_wait_until_it_comes_to_another(
    log, database, tail, broker, start
):
    """The survivor cannot know what the dead one had; it finds out, and other aggregates go on meanwhile."""
    stuck, other = uuid4(), uuid4()
    relay = Relay(database, tail, broker)
    await relay.open()
    dead = await start("consume", broker_url=broker.url, prefix=broker.prefix, durable="view", ack_wait=ACK_WAIT)
    await dead.until(ready=True)
    await log.append(remembering(stuck))
    await dead.until(begun=1, of=str(stuck))
    handled: list[tuple[UUID, int]] = []

    async def handle(event: RecordedEvent) -> None:
        handled.append((event.stream, event.version))

    survivor = Consumers(broker, log.decode)
    policy = RetryPolicy(ack_wait=ACK_WAIT)
    await survivor.open([EventSubscription("view", ("*",), handle, policy=policy, concurrency=2)])
    await dead.kill()
    for unit in (pinning(stuck), remembering(other)):
        await log.append(unit)
    await eventually(lambda: handled == [(other, 1)], "the other aggregate goes on", ACK_WAIT)
    await eventually(lambda: len(handled) == 3, "the rest is handled once the dead one's delivery comes again")
    assert handled[1:] == [(stuck, 1), (stuck, 2)]
    await survivor.close()
    await relay.close()


def pinning(stream: UUID) -> Unit:
    return Unit(tenant=TENANT, subject=stream, events=[NewEvent(stream, 2, e.MemoryPinned())], envelope=envelope())
