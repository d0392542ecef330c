"""Handlers get every message until they are done with it, and only a broken message is set aside."""

import asyncio
import itertools
import json
import time
from collections import Counter
from uuid import uuid4

import psycopg
import pytest
from faststream.nats.message import NatsMessage
from lethelog.domain.errors import Unavailable
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.consumers import Consumers
from lethelog.streams.handling import Park, Reject, RetryLater, RetryPolicy
from lethelog.streams.log import Log
from lethelog.streams.master_keys import Keyring
from lethelog.streams.subscriptions import EventSubscription, TaskSubscription
from lethelog.streams.tasks import Task, TaskPublisher
from lethelog.streams.vault import Vault

from .broker_fixtures import SECRET, append, connected, eventually, remembering, stored

QUICK = RetryPolicy(max_deliveries=3, delays=(0.1, 0.3), ack_wait=5)


async def no_events(rows):
    raise AssertionError("no event was published")


async def parked(broker: BrokerSettings) -> list[dict]:
    client = await connected(broker)
    found = [json.loads(message.data) for message in await stored(client, broker, "parked")]
    await client.close()
    return found


async def durable(broker: BrokerSettings, kind: str, name: str):
    client = await connected(broker)
    info = await client.jetstream().consumer_info(broker.stream(kind), name)
    await client.close()
    return info


# --- events -------------------------------------------------------------------------------------------------------


async def test_events_come_opened_in_order_and_are_done_once_the_handler_returned(log, broker, carried):
    seen = []

    async def handle(event) -> None:
        seen.append((event.position, event.event.content))

    consumers = Consumers(broker, log.decode)
    await append(log, 5)
    await consumers.open([EventSubscription("view", ("memory.remembered",), handle)])
    await append(log, 5)
    await eventually(lambda: len(seen) == 10, "all events are handled")
    assert seen == [(position, SECRET) for position in range(1, 11)]
    await eventually(lambda: consumers.rule.outcomes["view", "handled"] == 10, "all are settled")
    [state] = await consumers.states()
    assert (state.name, state.waiting, state.open) == ("view", 0, 0)
    await consumers.close()


async def test_a_subscription_goes_on_where_it_was(log, broker, carried):
    seen = []

    async def handle(event) -> None:
        seen.append(event.position)

    for upto in (3, 6):
        consumers = Consumers(broker, log.decode)
        await consumers.open([EventSubscription("view", ("memory.*",), handle)])
        await append(log, 3)
        await eventually(lambda: len(seen) == upto, "the new events are handled")  # noqa: B023 - awaited here
        await consumers.close()
    assert seen == [1, 2, 3, 4, 5, 6]


async def test_only_events_of_the_names_asked_for_come(log, broker, carried):
    seen = []

    async def handle(event) -> None:
        seen.append(event.name)

    consumers = Consumers(broker, log.decode)
    await consumers.open([EventSubscription("view", ("proposal.*", "memory.remembered"), handle)])
    await append(log, 2)
    await eventually(lambda: len(seen) == 2, "the events are handled")
    await consumers.close()
    other = Consumers(broker, log.decode)
    await other.open([EventSubscription("other", ("proposal.*",), handle)])
    [state] = await other.states()
    assert (state.waiting, state.open) == (0, 0)
    await other.close()


async def test_an_event_that_cannot_be_read_is_set_aside_and_the_next_one_comes(log, broker, carried):
    seen = []

    async def handle(event) -> None:
        seen.append(event.position)

    await append(log, 1)
    await carried.reached(1)
    client = await connected(broker)
    js = client.jetstream()
    [good] = await stored(client, broker)
    unknown = json.loads(good.data) | {"type": "memory.levitated"}
    await js.publish(good.subject, b"\x00 not an event", headers={"Nats-Msg-Id": "x1"})
    await js.publish(good.subject, json.dumps(unknown).encode(), headers={"Nats-Msg-Id": "1.5"})
    consumers = Consumers(broker, log.decode)
    await consumers.open([EventSubscription("view", ("*",), handle, policy=QUICK)])
    await append(log, 1)
    await eventually(lambda: seen == [1, 2], "the readable events are handled")
    first, second = await parked(broker)
    assert (first["error"], first["durable"], first["sequence"], first["deliveries"]) == (
        "UnreadableEvent",
        "view",
        2,
        1,
    )
    assert (second["error"], second["sequence"], second["subject"]) == ("UnknownEvent", 3, good.subject)
    assert "position" not in first
    await consumers.close()
    await client.close()


async def test_f44_an_event_whose_key_is_destroyed_comes_as_a_tombstone_and_is_not_set_aside(
    log, broker, carried, database, database_url
):
    seen: dict[int, tuple[str, str | None]] = {}

    async def handle(event) -> None:
        seen[event.position] = (event.name, event.event.content)

    gone, kept = uuid4(), uuid4()
    await log.append(remembering(gone))
    await log.append(remembering(kept))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("delete from lethelog_vault.data_keys where key_id = %s", (gone,))
    reader = Log(database, Vault(database, Keyring.of(b"m" * 32)))  # one that never knew the key
    consumers = Consumers(broker, reader.decode)
    await consumers.open([EventSubscription("view", ("memory.remembered",), handle, policy=QUICK)])
    await eventually(lambda: len(seen) == 2, "both came")
    assert seen == {1: ("memory.remembered", None), 2: ("memory.remembered", SECRET)}
    assert await parked(broker) == []
    await consumers.close()


# --- failing, putting off, ending ---------------------------------------------------------------------------------


async def test_a_failing_event_is_retried_then_parked_without_its_content_and_others_go_on(
    log, broker, carried, caplog
):
    tries: list[float] = []
    done = []

    async def handle(event) -> None:
        if event.position == 2:
            tries.append(time.monotonic())
            raise ValueError(f"cannot digest {event.event.content}")
        done.append(event.position)

    consumers = Consumers(broker, log.decode)
    await consumers.open([EventSubscription("view", ("memory.remembered",), handle, policy=QUICK)])
    await append(log, 3)
    await eventually(lambda: consumers.rule.outcomes["view", "parked"] == 1, "the event is parked")
    assert done == [1, 3]
    gaps = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert len(tries) == 3 and gaps[0] > 0.09 and gaps[1] > 0.29
    client = await connected(broker)
    [message] = await stored(client, broker, "parked")
    await client.close()
    told = json.loads(message.data)
    assert message.subject == f"{broker.prefix}.parked.view"
    assert {k: told[k] for k in ("durable", "error", "position", "failures", "stream")} == {
        "durable": "view",
        "error": "ValueError",
        "position": 2,
        "failures": 3,
        "stream": broker.stream("retries"),
    }
    assert SECRET.encode() not in message.data and SECRET not in caplog.text
    info = await durable(broker, "events", "view")
    assert (info.num_ack_pending, info.num_pending) == (0, 0)
    await consumers.close()


async def test_putting_off_is_not_failing(broker):
    tries: Counter[str] = Counter()

    async def handle(task: Task) -> None:
        tries[task.id] += 1
        if task.id == "later" and tries["later"] < 6:
            raise RetryLater(0.05)
        if task.id == "down" and tries["down"] < 6:
            raise Unavailable("the database does not answer")

    policy = RetryPolicy(max_deliveries=2, delays=(0.05,), ack_wait=5)
    async with TaskPublisher(broker) as publisher:
        consumers = Consumers(broker, no_events)
        await consumers.open([TaskSubscription("judge", handle, policy=policy)])
        await publisher.publish_task("judge", {}, "later")
        await publisher.publish_task("judge", {}, "down")
        await eventually(
            lambda: consumers.rule.outcomes["tasks-judge", "handled"] == 2, "both are done in the end"
        )
    assert tries == {"later": 6, "down": 6}
    assert await parked(broker) == []
    await consumers.close()


async def test_a_handler_may_end_a_message_or_set_it_aside_at_once(broker):
    tries: Counter[str] = Counter()

    async def handle(task: Task) -> None:
        tries[task.id] += 1
        raise Reject if task.id == "useless" else Park("needs_a_person")

    async with TaskPublisher(broker) as publisher:
        consumers = Consumers(broker, no_events)
        await consumers.open([TaskSubscription("judge", handle, policy=QUICK)])
        await publisher.publish_task("judge", {"n": 1}, "useless")
        await publisher.publish_task("judge", {"batch": "b7"}, "odd")
        await eventually(lambda: sum(consumers.rule.outcomes.values()) == 2, "both are settled")
    assert tries == {"useless": 1, "odd": 1}
    [aside] = await parked(broker)
    assert (aside["error"], aside["task"], aside["durable"]) == ("needs_a_person", {"batch": "b7"}, "tasks-judge")
    await consumers.close()


async def test_a_handler_that_takes_too_long_is_stopped_and_that_is_a_failure(broker):
    async def handle(task: Task) -> None:
        await asyncio.Event().wait()

    policy = RetryPolicy(max_deliveries=2, delays=(0.05,), ack_wait=5, time_limit=0.1)
    async with TaskPublisher(broker) as publisher:
        consumers = Consumers(broker, no_events)
        await consumers.open([TaskSubscription("judge", handle, policy=policy)])
        await publisher.publish_task("judge", {}, "endless")
        await eventually(lambda: consumers.rule.outcomes["tasks-judge", "parked"] == 1, "it is parked")
    [aside] = await parked(broker)
    assert aside["error"] == "TimeoutError"
    await consumers.close()


async def test_a_message_that_ends_every_process_it_comes_to_is_parked(broker):
    """Processes that died with it never answered; here they are plain clients that fall silent."""
    ran: list[str] = []

    async def handle(task: Task) -> None:
        ran.append(task.id)

    subscription = TaskSubscription("judge", handle, policy=RetryPolicy(ack_wait=0.2, most_deliveries=4))
    first = Consumers(broker, no_events)
    await first.open([subscription])
    await first.close()
    async with TaskPublisher(broker) as publisher:
        await publisher.publish_task("judge", {}, "poison")
    client = await connected(broker)
    pull = await client.jetstream().pull_subscribe_bind("tasks-judge", broker.stream("tasks"))
    for number in range(1, 5):
        [message] = await pull.fetch(1, timeout=5)
        assert message.metadata.num_delivered == number
    consumers = Consumers(broker, no_events)
    await consumers.open([subscription])
    await eventually(lambda: consumers.rule.outcomes["tasks-judge", "parked"] == 1, "it is parked")
    [aside] = await parked(broker)
    assert (aside["error"], aside["deliveries"], ran) == ("TooManyDeliveries", 5, [])
    await consumers.close()
    await client.close()


@pytest.mark.parametrize("held", [0.0, 60.0])
@pytest.mark.parametrize("error", [Unavailable("the database does not answer"), RetryLater(0.01)])
async def test_an_outage_of_any_length_parks_no_task(broker, monkeypatch, error, held):
    monkeypatch.setattr("lethelog.streams.delivery.HELD_SECONDS", held)
    tries: list[int] = []

    async def handle(task: Task) -> None:
        tries.append(task.put_off)
        if len(tries) < 13:
            raise error

    policy = RetryPolicy(max_deliveries=3, delays=(0.01,), ack_wait=5, most_deliveries=4)
    consumers = Consumers(broker, no_events)
    await consumers.open([TaskSubscription("judge", handle, policy=policy)])
    async with TaskPublisher(broker) as publisher:
        await publisher.publish_task("judge", {}, "one")
    await eventually(lambda: consumers.rule.outcomes["tasks-judge", "handled"] == 1, "it is done in the end")
    assert tries == (list(range(13)) if isinstance(error, RetryLater) else [0] * 13)
    assert await parked(broker) == []
    info = await durable(broker, "tasks", "tasks-judge")
    assert (info.num_ack_pending, info.num_pending) == (0, 0)
    await consumers.close()


@pytest.mark.parametrize("whole_order", [False, True])
@pytest.mark.parametrize("error", [Unavailable("the database does not answer"), RetryLater(0.01)])
async def test_an_outage_of_any_length_parks_no_event(log, broker, carried, monkeypatch, error, whole_order):
    """Nor does it let later events pass where the order of the whole log is kept."""
    monkeypatch.setattr("lethelog.streams.delivery.HELD_SECONDS", 0.0)
    tries: Counter[int] = Counter()
    done: list[int] = []

    async def handle(event) -> None:
        tries[event.position] += 1
        if event.position == 1 and tries[1] < 13:
            raise error
        done.append(event.position)

    policy = RetryPolicy(max_deliveries=3, delays=(0.01,), ack_wait=5, most_deliveries=4)
    open_at_once = 1 if whole_order else 1000
    consumers = Consumers(broker, log.decode)
    await append(log, 3)
    await consumers.open([EventSubscription("view", ("*",), handle, policy=policy, max_ack_pending=open_at_once)])
    await eventually(lambda: sorted(done) == [1, 2, 3], "all are handled in the end")
    assert tries == {1: 13, 2: 1, 3: 1}
    if whole_order:
        assert done == [1, 2, 3]
    assert await parked(broker) == []
    await consumers.close()


async def test_how_often_a_task_was_put_off_is_known_to_the_next_process(broker):
    tries: list[int] = []

    async def handle(task: Task) -> None:
        tries.append(task.put_off)
        if task.put_off < 3:
            raise RetryLater(0.05)

    for outcome in ("put_off", "handled"):
        consumers = Consumers(broker, no_events)
        await consumers.open([TaskSubscription("judge", handle, policy=QUICK)])
        async with TaskPublisher(broker) as publisher:
            await publisher.publish_task("judge", {}, "one")  # the second time it is known
        await eventually(lambda: consumers.rule.outcomes["tasks-judge", outcome], f"it is {outcome}")  # noqa: B023
        await consumers.close()
    assert tries == [0, 1, 2, 3]


async def test_closing_gives_back_at_once_what_only_waits_for_a_server(broker):
    tried = asyncio.Event()
    done: list[int] = []

    async def down(task: Task) -> None:
        tried.set()
        raise Unavailable("the database does not answer")

    async def handle(task: Task) -> None:
        done.append(task.delivery)

    policy = RetryPolicy(ack_wait=60, delays=(0.1,))
    first = Consumers(broker, no_events, grace=30)
    await first.open([TaskSubscription("judge", down, policy=policy)])
    async with TaskPublisher(broker) as publisher:
        await publisher.publish_task("judge", {}, "one")
    await asyncio.wait_for(tried.wait(), 10)
    # Long before its grace is over.
    await asyncio.wait_for(first.close(), 10)
    second = Consumers(broker, no_events)
    await second.open([TaskSubscription("judge", handle, policy=policy)])
    await eventually(lambda: done == [2], "the next process has it")
    await second.close()


async def test_no_more_handlers_are_at_work_than_asked_for_also_while_one_is_tried_again(log, broker, carried):
    at_work = most = 0
    failed, finish = asyncio.Event(), asyncio.Event()
    done: list[int] = []

    async def handle(event) -> None:
        nonlocal at_work, most
        if event.position == 1 and not failed.is_set():
            failed.set()
            raise ValueError("once")
        at_work += 1
        most = max(most, at_work)
        await finish.wait()
        at_work -= 1
        done.append(event.position)

    consumers = Consumers(broker, log.decode)
    await append(log, 2)
    await consumers.open([EventSubscription("view", ("*",), handle, concurrency=1, policy=QUICK)])
    await eventually(lambda: consumers.rule.running["view"] == 2, "a new one and one that comes again are here")
    await eventually(lambda: at_work, "one of them is at work")
    finish.set()
    await eventually(lambda: sorted(done) == [1, 2], "both are handled")
    assert most == 1
    await consumers.close()


# --- long work and competition ------------------------------------------------------------------------------------


@pytest.fixture
def beats(monkeypatch) -> Counter[str]:
    """Heartbeats that the broker was sent, by task; three of them are an ack_wait."""
    sent: Counter[str] = Counter()
    beat = NatsMessage.in_progress

    async def counted(message: NatsMessage) -> None:
        await beat(message)
        sent[message.raw_message.header["Nats-Msg-Id"].rpartition(":")[2]] += 1

    monkeypatch.setattr(NatsMessage, "in_progress", counted)
    return sent


async def test_long_work_is_not_given_to_a_second_worker_while_its_heart_beats(broker, beats):
    await long_work(broker, True, 1, lambda started: beats["long"] >= 9)


async def test_long_work_without_a_heartbeat_is_given_to_a_second_worker(broker, beats):
    """What the test before this one would see if the heart did not beat."""
    await long_work(broker, False, 2, lambda started: len(started) == 2)
    assert not beats


async def long_work(broker, heartbeat: bool, runs: int, long_enough) -> None:
    started: list[int] = []
    finish = asyncio.Event()

    async def handle(task: Task) -> None:
        started.append(task.delivery)
        await finish.wait()

    subscription = TaskSubscription("judge", handle, policy=RetryPolicy(ack_wait=1.0), heartbeat=heartbeat)
    processes = [Consumers(broker, no_events) for _ in range(2)]
    async with TaskPublisher(broker) as publisher:
        for process in processes:
            await process.open([subscription])
        await publisher.publish_task("judge", {}, "long")
        await eventually(lambda: long_enough(started), "the ack_wait is long over")
        assert started == list(range(1, runs + 1))
        finish.set()
        await eventually(lambda: sum(p.rule.outcomes["tasks-judge", "handled"] for p in processes) == runs, "done")
    info = await durable(broker, "tasks", "tasks-judge")
    assert (info.num_ack_pending, info.num_pending) == (0, 0)
    for process in processes:
        await process.close()


async def test_f43_ten_long_tasks_in_two_processes_are_each_begun_once_however_long_the_last_ones_wait(
    broker, beats
):
    """Each takes longer than its ack_wait, and most wait while others are at work; none waits in a client's buffer."""
    begun: list[tuple[str, int]] = []
    at_work = [0, 0]
    most = [0, 0]
    done: list[str] = []

    def handler(process: int):
        async def handle(task: Task) -> None:
            begun.append((task.id, task.delivery))
            at_work[process] += 1
            most[process] = max(most[process], at_work[process])
            longer = beats[task.id] + 4
            await eventually(lambda: beats[task.id] >= longer, "it took longer than its ack_wait")
            at_work[process] -= 1
            done.append(task.id)

        return handle

    policy = RetryPolicy(ack_wait=1.0)
    processes = [Consumers(broker, no_events) for _ in range(2)]
    for number, process in enumerate(processes):
        await process.open([TaskSubscription("judge", handler(number), policy=policy)])
    async with TaskPublisher(broker) as publisher:
        for number in range(10):
            await publisher.publish_task("judge", {}, str(number))
    await eventually(lambda: len(done) == 10, "all are done")
    assert sorted(begun) == sorted((str(number), 1) for number in range(10))
    assert most == [1, 1]
    for process in processes:
        await process.close()


async def test_f43_a_task_that_hangs_is_cut_by_its_time_limit_and_those_behind_it_are_done(broker):
    done: list[str] = []
    cut: list[str] = []

    async def handle(task: Task) -> None:
        if task.id == "hangs":
            try:
                await asyncio.Event().wait()
            finally:
                cut.append(task.id)
        done.append(task.id)

    policy = RetryPolicy(max_deliveries=2, delays=(0.05,), ack_wait=5, time_limit=0.3)
    consumers = Consumers(broker, no_events)
    await consumers.open([TaskSubscription("judge", handle, policy=policy)])
    async with TaskPublisher(broker) as publisher:
        for identity in ("hangs", *map(str, range(10))):
            await publisher.publish_task("judge", {}, identity)
    await eventually(lambda: consumers.rule.outcomes["tasks-judge", "parked"] == 1, "it is parked")
    await eventually(lambda: sorted(done) == sorted(map(str, range(10))), "the others are done")
    assert cut == ["hangs", "hangs"]
    await consumers.close()


async def test_so_many_tasks_are_at_work_at_once_as_there_are_workers_and_no_slow_one_holds_up_the_rest(broker):
    release = asyncio.Event()
    at_work: set[str] = set()
    done: list[str] = []

    async def handle(task: Task) -> None:
        at_work.add(task.id)
        if task.id == "slow":
            await release.wait()
        at_work.discard(task.id)
        done.append(task.id)

    async with TaskPublisher(broker) as publisher:
        consumers = Consumers(broker, no_events)
        await consumers.open([TaskSubscription("judge", handle, concurrency=2)])
        await publisher.publish_task("judge", {}, "slow")
        await eventually(lambda: at_work == {"slow"}, "the slow task is at work")
        for number in range(20):
            await publisher.publish_task("judge", {}, f"quick-{number}")
        await eventually(lambda: len(done) == 20, "the quick tasks are done")
        assert at_work == {"slow"} and consumers.rule.running["tasks-judge"] == 1
        release.set()
        await eventually(lambda: len(done) == 21, "the slow task is done")
    await consumers.close()


async def test_two_processes_share_a_queue_and_do_each_task_once(broker):
    done: list[tuple[int, str]] = []
    processes = [Consumers(broker, no_events) for _ in range(2)]

    def handler(process: int):
        async def handle(task: Task) -> None:
            await asyncio.sleep(0.005)
            done.append((process, task.id))

        return handle

    for number, process in enumerate(processes):
        await process.open([TaskSubscription("judge", handler(number), concurrency=2)])
    async with TaskPublisher(broker) as publisher:
        for number in range(60):
            await publisher.publish_task("judge", {"n": number}, str(number))
    await eventually(lambda: len(done) == 60, "all tasks are done")
    assert Counter(task for _, task in done) == Counter(str(n) for n in range(60))
    assert {process for process, _ in done} == {0, 1}
    for process in processes:
        await process.close()


async def test_a_task_published_twice_under_one_id_is_done_once(broker):
    done: list[tuple[str, str, dict, int]] = []

    async def handle(task: Task) -> None:
        done.append((task.queue, task.id, task.body, task.delivery))

    consumers = Consumers(broker, no_events)
    await consumers.open([TaskSubscription("judge", handle), TaskSubscription("embed", handle)])
    async with TaskPublisher(broker) as publisher:
        assert [await publisher.publish_task("judge", {"n": 1}, "a:1") for _ in range(3)] == [True, False, False]
        assert await publisher.publish_task("embed", {"n": 2}, "a:1") is True
        await publisher.publish_task("judge", {"n": 3}, "last")
    await eventually(lambda: len(done) == 3, "all tasks are done")
    assert sorted(done) == [
        ("embed", "a:1", {"n": 2}, 1),
        ("judge", "a:1", {"n": 1}, 1),
        ("judge", "last", {"n": 3}, 1),
    ]
    await consumers.close()


# --- what breaks around it ----------------------------------------------------------------------------------------


async def test_close_lets_running_handlers_finish(broker):
    started, finish = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def handle(task: Task) -> None:
        started.set()
        await finish.wait()
        done.append(task.id)

    consumers = Consumers(broker, no_events)
    async with TaskPublisher(broker) as publisher:
        await consumers.open([TaskSubscription("judge", handle)])
        await publisher.publish_task("judge", {}, "one")
        await started.wait()
        closing = asyncio.create_task(consumers.close())
        await publisher.publish_task("judge", {}, "two")
        finish.set()
        await closing
    assert done == ["one"]
    info = await durable(broker, "tasks", "tasks-judge")
    assert (info.num_ack_pending, info.num_pending) == (0, 1)


async def test_close_gives_back_what_does_not_finish_and_the_next_worker_has_it_at_once(broker):
    started = asyncio.Event()
    second: list[int] = []

    async def stuck(task: Task) -> None:
        started.set()
        await asyncio.Event().wait()

    async def handle(task: Task) -> None:
        second.append(task.delivery)

    policy = RetryPolicy(ack_wait=60)
    first = Consumers(broker, no_events, grace=0.2)
    async with TaskPublisher(broker) as publisher:
        await first.open([TaskSubscription("judge", stuck, policy=policy)])
        await publisher.publish_task("judge", {}, "one")
        await started.wait()
        await first.close()
    consumers = Consumers(broker, no_events)
    await consumers.open([TaskSubscription("judge", handle, policy=policy)])
    await eventually(lambda: second == [2], "the task came again", 5)
    await consumers.close()


async def test_a_worker_that_vanishes_leaves_its_task_to_another(broker):
    started = asyncio.Event()
    done: list[int] = []

    async def stuck(task: Task) -> None:
        started.set()
        await asyncio.Event().wait()

    async def handle(task: Task) -> None:
        done.append(task.delivery)

    policy = RetryPolicy(ack_wait=0.8)
    first, second = Consumers(broker, no_events, grace=0.1), Consumers(broker, no_events)
    async with TaskPublisher(broker) as publisher:
        await first.open([TaskSubscription("judge", stuck, policy=policy)])
        await publisher.publish_task("judge", {}, "one")
        await started.wait()
        # Its connection is cut and it never gets to say anything more.
        assert first._broker is not None
        first._supervisor.cancel()
        await first._broker.connection.close()
        await second.open([TaskSubscription("judge", handle, policy=policy)])
        await eventually(lambda: done == [2], "the task came to the second worker")
    await second.close()
    await first.close()


async def test_a_durable_deleted_on_the_server_is_made_again_without_a_busy_loop(broker):
    done: list[str] = []

    async def handle(task: Task) -> None:
        done.append(task.id)

    consumers = Consumers(broker, no_events)
    async with TaskPublisher(broker) as publisher:
        await consumers.open([TaskSubscription("judge", handle, concurrency=2)])
        await publisher.publish_task("judge", {}, "before")
        await eventually(lambda: done == ["before"], "the first task is done")
        client = await connected(broker)
        cpu = time.process_time()
        await client.jetstream().delete_consumer(broker.stream("tasks"), "tasks-judge")
        await publisher.publish_task("judge", {}, "after")
        await eventually(lambda: done == ["before", "after"], "the second task is done", 10)
        assert time.process_time() - cpu < 1.0
        await client.close()
    await consumers.close()


async def test_a_stream_deleted_on_the_server_is_made_again(broker):
    done: list[str] = []

    async def handle(task: Task) -> None:
        done.append(task.id)

    consumers = Consumers(broker, no_events)
    async with TaskPublisher(broker) as publisher:
        await consumers.open([TaskSubscription("judge", handle)])
        client = await connected(broker)
        await client.jetstream().delete_stream(broker.stream("tasks"))
        await publisher.publish_task("judge", {}, "after")
        await eventually(lambda: done == ["after"], "the task is done", 10)
        await client.close()
    await consumers.close()


async def test_a_broker_killed_and_restarted_loses_no_task(own_nats, broker_prefix):
    broker = BrokerSettings(own_nats.url, broker_prefix)
    done: Counter[str] = Counter()

    async def handle(task: Task) -> None:
        await asyncio.sleep(0.01)
        done[task.id] += 1

    consumers = Consumers(broker, no_events)
    await consumers.open([TaskSubscription("judge", handle, policy=RetryPolicy(ack_wait=1), concurrency=2)])
    async with TaskPublisher(broker) as publisher:
        for number in range(60):
            await publisher.publish_task("judge", {}, str(number))
        own_nats.kill()
        await eventually(lambda: consumers.problem, "the consumers say what is wrong")
        own_nats.start()
        await publisher.publish_task("judge", {}, "60")
    await eventually(lambda: len(done) == 61, "all tasks are done")
    assert set(done) == {str(n) for n in range(61)}
    await eventually(lambda: consumers.problem is None, "all is well again")
    await consumers.close()


async def test_a_task_published_while_the_broker_is_down_arrives_when_it_is_back(own_nats, broker_prefix):
    broker = BrokerSettings(own_nats.url, broker_prefix)
    done: list[str] = []

    async def handle(task: Task) -> None:
        done.append(task.id)

    consumers = Consumers(broker, no_events)
    await consumers.open([TaskSubscription("judge", handle, policy=RetryPolicy(ack_wait=1))])
    async with TaskPublisher(broker, patience=15) as publisher:
        await publisher.publish_task("judge", {}, "first")
        own_nats.kill()
        publishing = asyncio.create_task(publisher.publish_task("judge", {}, "second"))
        await eventually(lambda: consumers.problem, "the loss is noticed")
        own_nats.start()
        await publishing
    await eventually(lambda: set(done) == {"first", "second"}, "both are done")
    await consumers.close()


async def test_a_connection_closed_for_good_neither_stops_the_loop_nor_the_work(broker):
    done: list[str] = []

    async def handle(task: Task) -> None:
        done.append(task.id)

    consumers = Consumers(broker, no_events)
    async with TaskPublisher(broker) as publisher:
        await consumers.open([TaskSubscription("judge", handle)])
        assert consumers._broker is not None
        await consumers._broker.connection.close()
        await publisher.publish_task("judge", {}, "after")
        await eventually(lambda: done == ["after"], "the task is done over a new connection", 10)
    await consumers.close()


async def test_a_broker_that_stays_away_is_met_again_over_a_new_connection(own_nats, broker_prefix, monkeypatch):
    monkeypatch.setattr("lethelog.streams.consumers._LOST_SECONDS", 0.3)
    broker = BrokerSettings(own_nats.url, broker_prefix)
    done: list[str] = []

    async def handle(task: Task) -> None:
        done.append(task.id)

    consumers = Consumers(broker, no_events)
    await consumers.open([TaskSubscription("judge", handle)])
    first = consumers._broker
    own_nats.kill()
    await eventually(lambda: consumers._broker is not first, "the old connection is given up")
    own_nats.start()
    async with TaskPublisher(broker) as publisher:
        await publisher.publish_task("judge", {}, "after")
    await eventually(lambda: done == ["after"], "the task is done")
    await consumers.close()


async def test_workers_that_stopped_asking_are_noticed_and_replaced(broker, monkeypatch):
    monkeypatch.setattr("lethelog.streams.consumers.CHECK_SECONDS", 0.1)
    done: list[str] = []

    async def handle(task: Task) -> None:
        done.append(task.id)

    consumers = Consumers(broker, no_events)
    async with TaskPublisher(broker) as publisher:
        await consumers.open([TaskSubscription("judge", handle)])
        await publisher.publish_task("judge", {}, "before")
        await eventually(lambda: done == ["before"], "the first task is done")
        assert consumers._broker is not None
        for subscriber in consumers._broker.subscribers:
            for task in subscriber.tasks:
                task.cancel()
        await publisher.publish_task("judge", {}, "after")
        await eventually(lambda: done == ["before", "after"], "the second task is done")
    await consumers.close()


async def test_a_broker_that_is_down_is_an_error_at_open_unless_one_is_patient(own_nats, broker_prefix):
    broker = BrokerSettings(own_nats.url, broker_prefix)
    done: list[str] = []

    async def handle(task: Task) -> None:
        done.append(task.id)

    own_nats.kill()
    with pytest.raises(Unavailable, match="the broker does not answer"):
        await Consumers(broker, no_events).open([TaskSubscription("judge", handle)])
    patient = Consumers(broker, no_events)
    await patient.open([TaskSubscription("judge", handle)], patient=True)
    await eventually(lambda: patient.problem, "it says what it waits for")
    own_nats.start()
    await eventually(lambda: patient.problem is None and patient._broker is not None, "it has begun")
    async with TaskPublisher(broker) as publisher:
        await publisher.publish_task("judge", {}, str(uuid4()))
    await eventually(lambda: len(done) == 1, "the task is done")
    await patient.close()


async def test_a_policy_changed_in_the_code_reaches_the_durable_that_exists(broker):
    async def handle(task: Task) -> None:
        return None

    for ack_wait in (30, 7):
        consumers = Consumers(broker, no_events)
        await consumers.open([TaskSubscription("judge", handle, policy=RetryPolicy(ack_wait=ack_wait))])
        assert (await durable(broker, "tasks", "tasks-judge")).config.ack_wait == ack_wait
        await consumers.close()


async def test_what_counts_for_metrics_names_no_id(log, broker, carried):
    async def handle(event) -> None:
        return None

    consumers = Consumers(broker, log.decode)
    await consumers.open([EventSubscription("view", ("*",), handle)])
    await log.append(remembering())
    await eventually(lambda: consumers.rule.outcomes["view", "handled"] == 1, "it is handled")
    assert set(consumers.rule.outcomes) == {("view", "handled")}
    await consumers.close()
