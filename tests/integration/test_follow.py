"""Following: events as they come, in order, each once, and nothing left on the broker."""

import asyncio
import contextlib

import pytest
from lethelog.domain.errors import Unavailable
from lethelog.streams.broker import STREAM_KINDS, BrokerSettings
from lethelog.streams.follow import follow
from lethelog.streams.relay import Relay
from lethelog.streams.topology import Topology

from .broker_fixtures import SECRET, append, connected, eventually


async def take(events, count: int) -> list:
    found = []
    async with asyncio.timeout(20):
        async for event in events:
            found.append(event)
            if len(found) == count:
                return found
    raise AssertionError("the events ended")


async def test_a_follower_gets_what_is_new_and_later_what_comes(log, broker, carried):
    await append(log, 3)
    await carried.reached(3)
    async with contextlib.aclosing(follow(broker, names=("memory.remembered",), decode=log.decode)) as events:
        first = asyncio.create_task(anext(events))
        await eventually(lambda: _followers(broker), "the follower listens")
        await append(log, 2)
        assert ((await first).position, (await first).event.content) == (4, SECRET)
        [second] = await take(events, 1)
        assert second.position == 5
    await eventually(lambda: _no_follower(broker), "nothing is left behind")


@pytest.mark.parametrize(("start", "expected"), [("all", [1, 2, 3, 4]), (2, [3, 4]), (0, [1, 2, 3, 4])])
async def test_a_follower_may_start_where_it_likes(log, broker, carried, start, expected):
    await append(log, 4)
    await carried.reached(4)
    async with contextlib.aclosing(follow(broker, start=start)) as events:
        assert [event.position for event in await take(events, len(expected))] == expected


async def test_without_keys_personal_text_stays_closed(log, broker, carried):
    await append(log, 1)
    await carried.reached(1)
    async with contextlib.aclosing(follow(broker, start="all")) as events:
        [event] = await take(events, 1)
    assert (event.name, event.event.memory_type, event.event.content, event.event.topic) == (
        "memory.remembered",
        "fact",
        None,
        None,
    )


async def test_only_the_names_asked_for_are_followed(log, broker, carried):
    await append(log, 2)
    await carried.reached(2)
    async with contextlib.aclosing(follow(broker, names=("proposal.*", "pass.*"), start="all")) as events:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await anext(events)


async def test_following_goes_on_through_a_killed_and_an_emptied_broker(
    log, database, tail, own_nats, broker_prefix
):
    broker = BrokerSettings(own_nats.url, broker_prefix)
    relay = Relay(database, tail, broker)
    await relay.open()
    await append(log, 3)
    await relay.reached(3)
    async with contextlib.aclosing(follow(broker, start="all")) as events:
        assert [event.position for event in await take(events, 3)] == [1, 2, 3]
        own_nats.kill()
        await append(log, 2)
        own_nats.start()
        assert [event.position for event in await take(events, 2)] == [4, 5]
        own_nats.kill()
        own_nats.empty()
        own_nats.start()
        await append(log, 2)
        assert [event.position for event in await take(events, 2)] == [6, 7]
    await relay.close()


async def test_a_long_backlog_comes_quickly_and_whole(log, broker, carried):
    await append(log, 1500)
    await carried.reached(1500)
    async with contextlib.aclosing(follow(broker, start="all")) as events:
        assert [event.position for event in await take(events, 1500)] == list(range(1, 1501))


async def test_a_broker_that_is_not_there_is_an_error_at_once():
    with pytest.raises(Unavailable, match="the broker does not answer"):
        await anext(follow(BrokerSettings("nats://127.0.0.1:1")))


async def test_following_makes_no_stream_of_its_own(broker):
    with pytest.raises(Unavailable):
        await anext(follow(broker))
    assert len(await Topology(broker).drift()) == len(STREAM_KINDS)


async def _followers(broker: BrokerSettings) -> int:
    client = await connected(broker)
    try:
        return len(await client.jetstream().consumers_info(broker.stream("events")))
    finally:
        await client.close()


async def _no_follower(broker: BrokerSettings) -> bool:
    return await _followers(broker) == 0
