"""The relay carries every event to the broker once and in order, through crashes of everything around it."""

import asyncio
import json
import os
import signal
import sys
from datetime import UTC, datetime
from uuid import UUID, uuid4

import psycopg
import pytest
from lethelog.domain import events as e
from lethelog.streams import cloudevents, payloads
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.relay import Relay, relay_state

from .broker_fixtures import SECRET, TENANT, append, connected, envelope, eventually, remembering, stored


async def positions(broker: BrokerSettings) -> list[int]:
    """What the stream of events holds, in the order it holds it."""
    client = await connected(broker)
    found = [int(message.headers["Nats-Msg-Id"]) for message in await stored(client, broker)]
    await client.close()
    return found


async def reaches(relay: Relay, position: int) -> None:
    async with asyncio.timeout(30):
        await relay.reached(position)


async def test_every_event_is_carried_once_in_order_and_sealed(log, database, tail, broker):
    stream = uuid4()
    await log.append(remembering(stream))
    await append(log, 20)
    relay = Relay(database, tail, broker)
    await relay.open()
    await append(log, 20)
    await reaches(relay, 41)
    client = await connected(broker)
    messages = await stored(client, broker)
    await client.close()
    await relay.close()
    assert [int(m.headers["Nats-Msg-Id"]) for m in messages] == list(range(1, 42))
    first = json.loads(messages[0].data)
    assert (first["position"], first["type"], first["subject"]) == (1, "memory.remembered", str(stream))
    assert messages[0].subject == f"{broker.prefix}.events.{TENANT.hex}.{stream.int % 16}.memory.remembered"
    assert not [m for m in messages if SECRET.encode() in m.data]


async def test_a_new_event_is_carried_when_it_is_announced_and_not_at_the_next_poll(
    log, database, tail, broker, monkeypatch
):
    monkeypatch.setattr("lethelog.streams.reader.POLL_SECONDS", 60.0)
    relay = Relay(database, tail, broker)
    await relay.open()
    await append(log, 1)
    await reaches(relay, 1)
    for position in range(2, 12):
        await append(log, 1)
        await reaches(relay, position)
    await relay.close()


async def test_an_event_whose_announcement_is_lost_is_found_by_the_poll(log, database, tail, broker):
    relay = Relay(database, tail, broker)
    await relay.open()
    await append(log, 1)
    await reaches(relay, 1)
    await tail.close()
    await append(log, 5)
    await reaches(relay, 6)
    await relay.close()


async def test_an_uncommitted_event_is_never_passed(log, database, database_url, tail, broker):
    await append(log, 3)
    relay = Relay(database, tail, broker)
    await relay.open()
    await reaches(relay, 3)
    slow = uuid4()
    body = payloads.encode(
        e.MemoryPinned(), envelope(), tenant=TENANT, stream=slow, version=1, key_of=lambda _: None
    )
    async with await psycopg.AsyncConnection.connect(database_url) as held:
        await held.execute(
            "select * from lethelog.append(array[%s::uuid], array[%s::bytea], array[%s::bytea], array[%s::uuid], "
            "'{1}', array[%s::uuid], '{1}', array['memory.pinned'], array[%s::uuid], array[%s::bytea], "
            "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
            (TENANT, os.urandom(16), b"", slow, slow, uuid4(), body),
        )
        later = asyncio.gather(*(log.append(remembering()) for _ in range(10)))
        # Long enough for several polls of the relay.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await asyncio.shield(later)
        assert await positions(broker) == [1, 2, 3]
        await held.commit()
    assert sorted(o.position for o in await later) == list(range(5, 15))
    await reaches(relay, 14)
    assert await positions(broker) == list(range(1, 15))
    await relay.close()


async def test_nothing_is_missed_while_many_write(log, database, tail, broker):
    relay = Relay(database, tail, broker)
    await relay.open()

    async def write() -> None:
        for _ in range(60):
            await log.append(remembering())

    await asyncio.gather(*(write() for _ in range(8)))
    await reaches(relay, 480)
    assert await positions(broker) == list(range(1, 481))
    assert await relay.lag() == 0
    await relay.close()


async def test_writes_go_on_without_the_broker_and_are_carried_when_it_is_back(
    log, database, tail, own_nats, broker_prefix
):
    broker = BrokerSettings(own_nats.url, broker_prefix)
    relay = Relay(database, tail, broker)
    await relay.open()
    await append(log, 50)
    await reaches(relay, 50)
    own_nats.kill()
    await append(log, 50)
    await eventually(lambda: relay.problem, "the relay says what is wrong")
    assert "broker" in relay.problem
    assert await relay.lag() == 50
    own_nats.start()
    await reaches(relay, 100)
    assert relay.problem is None
    assert await positions(broker) == list(range(1, 101))
    await relay.close()


async def test_a_relay_started_before_its_broker_waits_for_it(log, database, tail, own_nats, broker_prefix):
    broker = BrokerSettings(own_nats.url, broker_prefix)
    own_nats.kill()
    relay = Relay(database, tail, broker)
    await relay.open()
    await append(log, 5)
    await eventually(lambda: relay.problem, "the relay says what is wrong")
    own_nats.start()
    await reaches(relay, 5)
    await relay.close()


async def test_a_broker_killed_while_events_stream_ends_with_each_once(
    log, database, tail, own_nats, broker_prefix
):
    broker = BrokerSettings(own_nats.url, broker_prefix)
    await append(log, 1500)
    relay = Relay(database, tail, broker)
    await relay.open()
    for mark in (1, 1000):
        await reaches(relay, mark)
        own_nats.kill()
        own_nats.start()
    await reaches(relay, 1500)
    assert await positions(broker) == list(range(1, 1501))
    await relay.close()


async def test_an_emptied_broker_is_filled_again(log, database, tail, own_nats, broker_prefix):
    broker = BrokerSettings(own_nats.url, broker_prefix)
    relay = Relay(database, tail, broker)
    await relay.open()
    await append(log, 30)
    await reaches(relay, 30)
    own_nats.kill()
    own_nats.empty()
    own_nats.start()
    await eventually(lambda: _holds(broker, 30), "the new broker holds all events")
    await append(log, 1)
    await reaches(relay, 31)
    assert await positions(broker) == list(range(1, 32))
    await relay.close()


async def test_a_stream_deleted_under_an_idle_relay_is_filled_again(log, database, tail, broker, monkeypatch):
    monkeypatch.setattr("lethelog.streams.relay.CHECK_SECONDS", 0.2)
    relay = Relay(database, tail, broker)
    await relay.open()
    await append(log, 30)
    await reaches(relay, 30)
    client = await connected(broker)
    await client.jetstream().delete_stream(broker.stream("events"))
    await client.close()
    await eventually(lambda: _holds(broker, 30), "the new stream holds all events")
    assert await positions(broker) == list(range(1, 31))
    await relay.close()


async def test_a_relay_killed_before_its_checkpoint_sends_nothing_twice(log, database, tail, broker):
    await append(log, 100)
    relay = Relay(database, tail, broker)
    await relay.open()
    await reaches(relay, 100)
    await relay.close()
    async with database.connection() as connection:
        await connection.execute("update lethelog.relay set position = 40")
    again = Relay(database, tail, broker)
    await again.open()
    await reaches(again, 100)
    await append(log, 1)
    await reaches(again, 101)
    assert await positions(broker) == list(range(1, 102))
    await again.close()


_RELAY_PROCESS = """
import asyncio, sys
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.database import Database
from lethelog.streams.reader import LogTail
from lethelog.streams.relay import Relay

async def main(database_url, broker_url, prefix):
    database = Database(database_url)
    await database.open()
    tail = LogTail(database)
    await tail.open()
    await Relay(database, tail, BrokerSettings(broker_url, prefix)).open()
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_relay_process_killed_in_full_flight_is_followed_by_another(
    log, database, database_url, tail, broker
):
    await append(log, 1500)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _RELAY_PROCESS, database_url, broker.url, broker.prefix
    )
    await eventually(lambda: _holds(broker, 500), "some events are carried")
    process.send_signal(signal.SIGKILL)
    await process.wait()
    relay = Relay(database, tail, broker)
    await relay.open()
    await reaches(relay, 1500)
    assert await positions(broker) == list(range(1, 1501))
    await relay.close()


async def test_one_relay_leads_and_the_other_takes_over(log, database, database_url, tail, broker):
    relays = [Relay(database, tail, broker) for _ in range(2)]
    for relay in relays:
        await relay.open()
    await eventually(lambda: sum(r.leading for r in relays) == 1, "one leads")
    await append(log, 10)
    await reaches(relays[0], 10)
    [leader] = [r for r in relays if r.leading]
    with psycopg.connect(database_url, autocommit=True) as superuser:
        # The leader's lock lives in this connection; the server ends it as an administrator would.
        superuser.execute(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted "
            "and database = (select oid from pg_database where datname = current_database())"
        )
    await eventually(lambda: sum(r.leading for r in relays) == 1, "one leads again")
    await append(log, 10)
    await reaches(leader, 20)
    assert await positions(broker) == list(range(1, 21))
    for relay in relays:
        await relay.close()


async def test_two_leaders_at_once_harm_nothing(log, database, tail, broker, monkeypatch):
    async def always(self) -> bool:
        return True

    monkeypatch.setattr("lethelog.streams.leadership.Leadership.acquire", always)
    monkeypatch.setattr("lethelog.streams.leadership.Leadership.still_held", always)
    relays = [Relay(database, tail, broker) for _ in range(2)]
    for relay in relays:
        await relay.open()
    for _ in range(10):
        await append(log, 50)
    await reaches(relays[0], 500)
    assert await positions(broker) == list(range(1, 501))
    for relay in relays:
        await relay.close()


async def test_a_log_put_back_from_a_backup_is_not_carried_over_a_newer_stream(
    log, database, database_url, tail, broker
):
    relay = Relay(database, tail, broker)
    await relay.open()
    await append(log, 10)
    await reaches(relay, 10)
    await relay.close()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("alter table lethelog.events disable trigger all")
        connection.execute("delete from lethelog.events where position > 5")
        connection.execute("update lethelog.head set position = 5")
    again = Relay(database, tail, broker)
    await again.open()
    await eventually(lambda: again.problem, "the relay says what is wrong")
    assert "is at position 10, ahead of the log at 5" in again.problem
    assert await positions(broker) == list(range(1, 11))
    await again.close()


async def test_what_aged_out_of_the_stream_is_not_sent_again(log, database, tail, broker):
    relay = Relay(database, tail, broker)
    await relay.open()
    await append(log, 10)
    await reaches(relay, 10)
    await relay.close()
    client = await connected(broker)
    js = client.jetstream()
    for sequence in range(1, 11):
        await js.delete_msg(broker.stream("events"), sequence)
    again = Relay(database, tail, broker)
    await again.open()
    await append(log, 2)
    await reaches(again, 12)
    assert await positions(broker) == [11, 12]
    await again.close()
    await client.close()


async def test_lag_is_known_to_every_process(log, database, broker):
    await append(log, 7)
    state = await relay_state(database, broker)
    assert (state.position, state.lag) == (0, 7)


async def _holds(broker: BrokerSettings, count: int) -> bool:
    client = await connected(broker)
    try:
        return (await client.jetstream().stream_info(broker.stream("events"))).state.messages >= count
    except Exception:
        return False
    finally:
        await client.close()


async def test_an_event_larger_than_the_broker_takes_goes_without_its_body_and_holds_nobody_up():
    """Read from the log at its position instead; the broker's limit never stalls the relay."""
    header = (
        b'{"s":1,"a":["agent","00000000-0000-0000-0000-000000000001"],"c":"00000000-0000-0000-0000-000000000002",'
    )
    header += (
        b'"r":"00000000-0000-0000-0000-000000000002","p":1,"j":null,"k":[],"d":{"x":"' + b"y" * 5_000 + b'"}}'
    )
    body = b"\x01" + len(header).to_bytes(4, "big") + header
    row = (
        7,
        UUID(int=1),
        UUID(int=2),
        1,
        "memory.remembered",
        UUID(int=3),
        datetime(2026, 3, 1, tzinfo=UTC),
        body,
    )
    whole, short = cloudevents.to_message(row), cloudevents.to_message(row, largest=2_000)
    assert cloudevents.read_message(whole)[7] == body
    assert len(short) < 1_000 and json.loads(short)["position"] == 7
    with pytest.raises(payloads.UnreadableEvent, match="read it from the log"):
        cloudevents.read_message(short)
