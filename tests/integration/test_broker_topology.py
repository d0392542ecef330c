"""Streams and durables are made, compared and mended in one place; a broker that is not there is an error at once."""

import asyncio
import time

import pytest
from lethelog.domain.errors import Misconfigured, Unavailable
from lethelog.streams.broker import BrokerSettings, connect
from lethelog.streams.tasks import TaskPublisher
from lethelog.streams.topology import Change, Durable, Topology
from nats.js.api import ConsumerConfig, StreamConfig

from .broker_fixtures import connected


def durables(broker: BrokerSettings) -> list[Durable]:
    return [
        Durable("queue-view", "events", (broker.event_filter("proposal.*"), broker.event_filter("pass.*"))),
        Durable("tasks-judge", "tasks", (broker.task_subject("judge"),), ack_wait=60, max_ack_pending=8),
    ]


async def test_what_is_missing_is_made_once(broker: BrokerSettings):
    topology = Topology(broker, durables(broker))
    stream = broker.stream
    assert await topology.drift() == [
        f"stream {stream('events')} is missing",
        f"stream {stream('tasks')} is missing",
        f"stream {stream('retries')} is missing",
        f"stream {stream('parked')} is missing",
        f"durable queue-view of {stream('events')} is missing",
        f"durable tasks-judge of {stream('tasks')} is missing",
    ]
    assert await topology.ensure() == [
        Change("created", f"stream {stream('events')}"),
        Change("created", f"stream {stream('tasks')}"),
        Change("created", f"stream {stream('retries')}"),
        Change("created", f"stream {stream('parked')}"),
        Change("created", f"durable queue-view of {stream('events')}"),
        Change("created", f"durable tasks-judge of {stream('tasks')}"),
    ]
    assert await topology.drift() == []
    assert await topology.ensure() == []


async def test_many_processes_may_ensure_at_the_same_time(broker: BrokerSettings):
    await asyncio.gather(*(Topology(broker, durables(broker)).ensure() for _ in range(5)))
    assert await Topology(broker, durables(broker)).drift() == []


async def test_streams_keep_what_they_are_for(broker: BrokerSettings):
    await Topology(broker).ensure()
    client = await connected(broker)
    js = client.jetstream()
    events, tasks, retries, parked = [
        (await js.stream_info(broker.stream(k))).config for k in ("events", "tasks", "retries", "parked")
    ]
    assert (events.subjects, events.retention, events.storage) == (
        [f"{broker.prefix}.events.>"],
        "limits",
        "file",
    )
    assert (events.max_age, tasks.max_age, retries.max_age, parked.max_age) == (7 * 24 * 3600, 0, 0, 0)
    assert (tasks.subjects, tasks.retention) == ([f"{broker.prefix}.tasks.>"], "workqueue")
    assert (retries.subjects, retries.retention) == ([f"{broker.prefix}.retries.>"], "workqueue")
    assert {c.duplicate_window for c in (events, tasks, retries, parked)} == {120}
    await client.close()


async def test_a_setting_changed_later_reaches_stream_and_durable(broker: BrokerSettings):
    await Topology(broker, durables(broker)).ensure()
    changed = BrokerSettings(broker.url, broker.prefix, events_max_age=3600)
    later = [Durable("queue-view", "events", (broker.event_filter("proposal.*"),), ack_wait=5)]
    topology = Topology(changed, later)
    events = broker.stream("events")
    assert await topology.drift() == [
        f"stream {events} differs in max_age",
        f"durable queue-view of {events} differs in filter_subject",
        f"durable queue-view of {events} differs in filter_subjects",
        f"durable queue-view of {events} differs in ack_wait",
    ]
    assert await topology.ensure() == [
        Change("updated", f"stream {events}", ("max_age",)),
        Change("updated", f"durable queue-view of {events}", ("filter_subject", "filter_subjects", "ack_wait")),
    ]
    assert await topology.drift() == []
    client = await connected(broker)
    info = await client.jetstream().consumer_info(events, "queue-view")
    assert (info.config.filter_subject, info.config.ack_wait) == (broker.event_filter("proposal.*"), 5)
    await client.close()


async def test_what_someone_changed_on_the_server_is_put_back(broker: BrokerSettings):
    topology = Topology(broker, durables(broker))
    await topology.ensure()
    client = await connected(broker)
    js = client.jetstream()
    tasks = broker.stream("tasks")
    config = (await js.consumer_info(tasks, "tasks-judge")).config
    await js.add_consumer(tasks, config.evolve(ack_wait=1, max_deliver=3))
    assert await topology.drift() == [
        f"durable tasks-judge of {tasks} differs in ack_wait",
        f"durable tasks-judge of {tasks} differs in max_deliver",
    ]
    await topology.ensure()
    config = (await js.consumer_info(tasks, "tasks-judge")).config
    assert (config.ack_wait, config.max_deliver) == (60, -1)
    await client.close()


async def test_a_difference_no_update_can_mend_names_the_way_out(broker: BrokerSettings):
    client = await connected(broker)
    js = client.jetstream()
    tasks = broker.stream("tasks")
    await js.add_stream(StreamConfig(name=tasks, subjects=[broker.all_subjects("tasks")], retention="limits"))
    with pytest.raises(Misconfigured, match=f"stream {tasks} has another retention.*delete the stream"):
        await Topology(broker).ensure()
    await js.delete_stream(tasks)
    await Topology(broker).ensure()
    events = broker.stream("events")
    await js.add_consumer(
        events,
        ConsumerConfig(
            durable_name="queue-view", filter_subject=broker.event_filter("proposal.*"), deliver_policy="new"
        ),
    )
    with pytest.raises(Misconfigured, match=f"durable queue-view of {events} has another deliver_policy"):
        await Topology(broker, [Durable("queue-view", "events", (broker.event_filter("proposal.*"),))]).ensure()
    await client.close()


async def test_two_durables_on_one_queue_are_refused(broker: BrokerSettings):
    await Topology(broker, durables(broker)).ensure()
    with pytest.raises(Misconfigured, match="the broker refuses durable second"):
        await Topology(broker, [Durable("second", "tasks", (broker.task_subject("judge"),))]).ensure()


async def test_a_broker_that_is_not_there_is_unavailable_at_once():
    absent = BrokerSettings("nats://secret-token@127.0.0.1:1")
    began = time.monotonic()
    with pytest.raises(Unavailable, match="the broker does not answer") as caught:
        await Topology(absent).ensure()
    assert time.monotonic() - began < 2
    assert "secret-token" not in str(caught.value) + repr(absent)


async def test_a_broker_that_is_silent_is_unavailable_in_the_time_allowed():
    release = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await connect(BrokerSettings(f"nats://127.0.0.1:{port}", answer_timeout=0.3), name="test")
    assert time.monotonic() - began < 2
    release.set()
    server.close()


async def test_a_wrong_credential_is_a_setting_to_correct(broker: BrokerSettings):
    host = broker.url.rsplit("@", 1)[1]
    with pytest.raises(Misconfigured, match="refuses the credential; check LETHELOG_BROKER_URL"):
        await connect(BrokerSettings(f"nats://wrong@{host}"), name="test")


async def test_a_task_for_a_broker_that_is_down_is_given_up_after_the_patience_allowed():
    publisher = TaskPublisher(BrokerSettings("nats://127.0.0.1:1"), patience=1.0)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="did not take the task within 1 seconds"):
        await publisher.publish_task("judge", {"batch": 1}, "b1")
    assert 0.9 < time.monotonic() - began < 3


@pytest.mark.parametrize("prefix", ["", "Upper", "a.b", "a b", "a>", "9a", "x" * 42])
def test_a_prefix_that_is_no_word_is_refused(prefix: str):
    with pytest.raises(Misconfigured, match="prefix"):
        BrokerSettings("nats://127.0.0.1:1", prefix)


def test_a_queue_that_is_no_word_is_refused():
    with pytest.raises(Misconfigured, match="queue"):
        BrokerSettings("nats://127.0.0.1:1").task_subject("a.b")
