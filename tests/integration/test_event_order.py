"""Events of one aggregate are handled in order, whatever fails, whoever handles them and whatever was parked."""

import asyncio
import random
from collections import Counter, defaultdict
from uuid import UUID, uuid4

import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import NotFound, Unavailable
from lethelog.streams import unhandled
from lethelog.streams.consumers import Consumers
from lethelog.streams.handling import Park, RetryLater, RetryPolicy
from lethelog.streams.log import Appended, Log, NewEvent, Unit
from lethelog.streams.parking_place import ParkingPlace
from lethelog.streams.subscriptions import EventSubscription, TaskSubscription
from lethelog.streams.tasks import Task, TaskPublisher
from lethelog.streams.unsettled_events import UnsettledEvents
from nats.js import JetStreamContext

from .broker_fixtures import TENANT, connected, envelope, eventually, remembering

QUICK = RetryPolicy(max_deliveries=3, delays=(0.1,), ack_wait=5)
ENDLESS = RetryPolicy(max_deliveries=1000, delays=(0.1,), ack_wait=5)


class Stories:
    """Appends events to aggregates, and knows at which positions each one's stand."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.positions: dict[UUID, list[int]] = defaultdict(list)

    async def tell(self, aggregate: UUID) -> int:
        version = len(self.positions[aggregate]) + 1
        unit = remembering(aggregate)
        if version > 1:
            unit = Unit(
                tenant=TENANT,
                subject=aggregate,
                events=[NewEvent(aggregate, version, e.MemoryPinned())],
                envelope=envelope(),
            )
        outcome = await self._log.append(unit)
        assert isinstance(outcome, Appended)
        self.positions[aggregate].append(outcome.position)
        return outcome.position


@pytest.fixture
def stories(log) -> Stories:
    return Stories(log)


class Handler:
    """Remembers what was handled, in order; fails at some positions until it is mended."""

    def __init__(self, *failing: int) -> None:
        self.failing = set(failing)
        self.tries: Counter[int] = Counter()
        self.done: list[int] = []
        self.by: dict[UUID, list[int]] = defaultdict(list)

    async def __call__(self, event) -> None:
        self.tries[event.position] += 1
        if event.position in self.failing:
            raise ValueError("cannot digest this")
        self.done.append(event.position)
        self.by[event.stream].append(event.position)


def view(handle, *, policy: RetryPolicy = QUICK, **more) -> EventSubscription:
    return EventSubscription("view", ("memory.*",), handle, policy=policy, **more)


async def parked(place: ParkingPlace) -> list[tuple[int, str]]:
    page, _ = await place.page()
    return sorted((one.position or 0, one.error) for one in page)


async def test_f44_later_events_of_an_aggregate_wait_while_an_earlier_one_is_retried_and_others_go_on(
    broker, carried, stories
):
    stuck, other = uuid4(), uuid4()
    first = await stories.tell(stuck)
    handler = Handler(first)
    consumers = Consumers(broker, carried_decode(stories))
    await consumers.open([view(handler, policy=ENDLESS, concurrency=2)])
    for _ in range(3):
        await stories.tell(stuck)
        await stories.tell(other)
    await eventually(lambda: handler.by[other] == stories.positions[other], "the other aggregate goes on")
    await eventually(lambda: handler.tries[first] > 3, "the first event is tried again and again")
    assert handler.by[stuck] == []
    [state] = await consumers.states()
    assert (state.retrying, state.parked) == (4, 0)
    handler.failing.clear()
    await eventually(lambda: handler.by[stuck] == stories.positions[stuck], "the rest follows, in order")
    assert set(handler.tries.values()) - {handler.tries[first]} == {1}
    await eventually(lambda: settled(consumers), "nothing waits")
    await consumers.close()


def carried_decode(stories: Stories):
    return stories._log.decode


async def settled(consumers: Consumers) -> bool:
    return all((s.waiting, s.open, s.retrying) == (0, 0, 0) for s in await consumers.states())


async def test_f44_behind_a_parked_event_the_later_ones_of_its_aggregate_are_parked_also_after_a_restart(
    broker, carried, stories, place
):
    stuck, other = uuid4(), uuid4()
    first = await stories.tell(stuck)
    handler = Handler(first)
    consumers = Consumers(broker, carried_decode(stories))
    await consumers.open([view(handler)])
    await eventually(lambda: consumers.rule.outcomes["view", "parked"] == 1, "the event is parked")
    await stories.tell(stuck)
    await stories.tell(other)
    await eventually(lambda: handler.by[other] == stories.positions[other], "the other aggregate goes on")
    await consumers.close()
    again = Consumers(broker, carried_decode(stories))
    await again.open([view(handler)])
    await stories.tell(stuck)
    await stories.tell(other)
    await eventually(lambda: handler.by[other] == stories.positions[other], "and after a restart")
    await eventually(lambda: settled(again), "all is settled")
    assert await parked(place) == [
        (position, "ValueError" if position == first else "EarlierParked") for position in stories.positions[stuck]
    ]
    assert handler.by[stuck] == [] and handler.tries[first] == 3
    [state] = await again.states()
    assert state.parked == 3
    await again.close()


async def test_an_event_being_retried_holds_its_aggregate_through_a_restart(broker, carried, stories):
    stuck = uuid4()
    first = await stories.tell(stuck)
    handler = Handler(first)
    policy = RetryPolicy(max_deliveries=9, delays=(1.5,), ack_wait=5)
    consumers = Consumers(broker, carried_decode(stories))
    await consumers.open([view(handler, policy=policy)])
    await eventually(lambda: handler.tries[first] == 1, "it failed")
    await eventually(lambda: consumers.rule.outcomes["view", "failed"] == 1, "it is put off")
    await consumers.close()
    handler.failing.clear()
    again = Consumers(broker, carried_decode(stories))
    await again.open([view(handler, policy=policy)])
    await stories.tell(stuck)
    await eventually(lambda: again.rule.outcomes["view", "behind"] == 1, "the second event waits behind it")
    assert handler.done == []
    await eventually(lambda: handler.done == stories.positions[stuck], "both are handled, in order")
    await again.close()


async def test_an_event_that_only_waits_is_never_parked_for_its_many_deliveries(
    broker, carried, stories, monkeypatch
):
    monkeypatch.setattr("lethelog.streams.sequences._LONGEST_WAIT", 0.05)
    stuck = uuid4()
    finish, tries, done = asyncio.Event(), Counter[int](), []

    async def handle(event) -> None:
        tries[event.version] += 1
        if event.version == 1 and tries[1] == 1:
            raise ValueError("once")
        if event.version == 1:
            await finish.wait()
        done.append(event.version)

    policy = RetryPolicy(delays=(0.1,), ack_wait=5, most_deliveries=6)
    consumers = Consumers(broker, carried_decode(stories))
    await consumers.open([view(handle, policy=policy, concurrency=2)])
    await stories.tell(stuck)
    await stories.tell(stuck)
    await eventually(lambda: consumers.rule.outcomes["view", "put_off"] > 20, "the second waits and waits")
    assert tries[2] == 0
    finish.set()
    await eventually(lambda: done == [1, 2], "both are handled")
    await eventually(lambda: settled(consumers), "nothing waits")
    assert [state.parked for state in await consumers.states()] == [0]
    await consumers.close()


async def test_an_event_does_not_overtake_one_that_fails_while_the_held_ones_are_read(
    broker, carried, stories, monkeypatch
):
    stuck = uuid4()
    working, reading, mended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    done: list[int] = []

    async def handle(event) -> None:
        if event.version == 1 and not mended.is_set():
            working.set()
            await reading.wait()
            raise ValueError("once")
        done.append(event.version)

    consumers = Consumers(broker, carried_decode(stories))
    await consumers.open([view(handle, policy=ENDLESS, concurrency=2)])
    lowest = UnsettledEvents.lowest

    async def slowly(self, js, key):
        found = await lowest(self, js, key)
        if key[1] == stuck and working.is_set() and not reading.is_set():
            reading.set()  # the first fails now, behind this reading of the retries
            await eventually(lambda: consumers.rule.outcomes["view", "failed"] == 1, "it is among the retries")
            await eventually(lambda: not first_in_hand(), "and no more in hand")
        return found

    def first_in_hand() -> bool:
        return any(1 in one._in_hand for one in consumers._sequences.values())

    monkeypatch.setattr(UnsettledEvents, "lowest", slowly)
    await stories.tell(stuck)
    await eventually(working.is_set, "the first is at work")
    await stories.tell(stuck)
    await eventually(lambda: consumers.rule.outcomes["view", "behind"] == 1 or done, "the second has its turn")
    assert done == []
    mended.set()
    await eventually(lambda: done == [1, 2], "both are handled, in order")
    await consumers.close()


@pytest.mark.parametrize("fails", [[True], []])
async def test_an_event_does_not_overtake_one_that_another_process_has_at_work_however_long(
    broker, carried, stories, monkeypatch, fails
):
    monkeypatch.setattr("lethelog.streams.sequences._LONGEST_WAIT", 0.05)
    policy = RetryPolicy(max_deliveries=3, delays=(0.1,), ack_wait=5, most_deliveries=6)
    stuck, other = uuid4(), uuid4()
    working, finish = asyncio.Event(), asyncio.Event()
    done: list[tuple[int, UUID]] = []

    def handler(process: int):
        async def handle(event) -> None:
            if event.stream == stuck and event.version == 1 and not working.is_set():
                working.set()
                await finish.wait()
                if fails:
                    fails.clear()
                    raise ValueError("not this time")
            done.append((event.version, event.stream))

        return handle

    processes = [Consumers(broker, carried_decode(stories)) for _ in range(2)]
    for number, process in enumerate(processes):
        await process.open([view(handler(number), policy=policy)])
    await stories.tell(stuck)
    await working.wait()
    # One of the two processes is taken up, so all of these come to the other one.
    await stories.tell(stuck)
    await stories.tell(other)
    await stories.tell(other)
    await eventually(lambda: [(1, other), (2, other)] == done, "the other aggregate goes on")
    await eventually(
        lambda: sum(p.rule.outcomes["view", "put_off"] for p in processes) > 10,
        "the second event was put off more often than one is delivered that ends its processes",
    )
    finish.set()
    await eventually(lambda: len(done) == 4, "all are handled")
    assert done[2:] == [(1, stuck), (2, stuck)]
    assert [state.parked for state in await processes[0].states()] == [0]
    for process in processes:
        await process.close()


async def test_an_event_does_not_overtake_one_that_another_process_left_among_the_retries(
    broker, carried, stories, monkeypatch
):
    """Not even while this process has not yet heard from the broker what is there."""
    stuck, other = uuid4(), uuid4()
    handler = Handler()
    subscription = view(handler, concurrency=2)
    consumers = Consumers(broker, carried_decode(stories))
    await consumers.open([subscription])
    await consumers.close()
    # Another process takes the first event, moves it and acknowledges it.
    await stories.tell(stuck)
    client = await connected(broker)
    pull = await client.jetstream().pull_subscribe_bind("view", broker.stream("events"))
    [message] = await pull.fetch(1, timeout=10)
    await unhandled.retry_later(client, broker, message, unhandled.SoFar(), 0.0)
    await message.ack_sync()
    await client.close()
    heard, answers = asyncio.Event(), Counter[str]()
    get_msg, consumer_info = JetStreamContext.get_msg, JetStreamContext.consumer_info

    async def held_back(self, *arguments, **named):
        await heard.wait()
        return await get_msg(self, *arguments, **named)

    async def counted(self, *arguments, **named):
        found = await consumer_info(self, *arguments, **named)
        answers["in all"] += 1
        return found

    monkeypatch.setattr(JetStreamContext, "get_msg", held_back)
    consumers = Consumers(broker, carried_decode(stories))
    await consumers.open([subscription])
    monkeypatch.setattr(JetStreamContext, "consumer_info", counted)
    await stories.tell(other)
    await eventually(lambda: answers["in all"], "the other aggregate's event looks what is there")
    await stories.tell(stuck)
    hand = consumers._sequences["view"]._in_hand
    await eventually(lambda: len(hand) == 2 or handler.done, "the second event is at the other worker")
    heard.set()
    await eventually(lambda: len(handler.done) == 3, "all are handled")
    assert handler.by[stuck] == stories.positions[stuck]
    await consumers.close()


@pytest.mark.parametrize(("count", "seed"), [(1, 1), (3, 2)])
async def test_processes_with_several_workers_each_keep_every_aggregate_in_order(
    broker, carried, stories, count, seed
):
    """Failures, put-offs and slow handlers at random; no event begins before the one before it was handled."""
    chance = random.Random(seed)
    aggregates = [uuid4() for _ in range(8)]
    plan = {(a, v): chance.choice(["ok"] * 7 + ["fail", "later", "slow"]) for a in aggregates for v in range(1, 9)}
    handled: dict[UUID, list[int]] = defaultdict(list)
    at_work: Counter[UUID] = Counter()
    wrong: list[str] = []

    async def handle(event) -> None:
        key = (event.stream, event.version)
        if handled[event.stream] != list(range(1, event.version)) or at_work[event.stream]:
            wrong.append(f"{event.version} began after {handled[event.stream]}")
        at_work[event.stream] += 1
        try:
            kind, plan[key] = plan[key], "ok"
            if kind == "slow":
                await asyncio.sleep(0.05)
            if kind == "fail":
                raise ValueError("once")
            if kind == "later":
                raise RetryLater(0.05)
            await asyncio.sleep(0)
            handled[event.stream].append(event.version)
        finally:
            at_work[event.stream] -= 1

    processes = [Consumers(broker, carried_decode(stories)) for _ in range(count)]
    for process in processes:
        await process.open([view(handle, concurrency=3)])
    for _ in range(8):
        await asyncio.gather(*(stories.tell(one) for one in aggregates))
    await eventually(lambda: sum(map(len, handled.values())) == 64 or wrong, "all are handled")
    assert wrong == []
    await eventually(lambda: settled(processes[0]), "nothing waits")
    assert all(versions == list(range(1, 9)) for versions in handled.values())
    for process in processes:
        await process.close()


async def test_order_costs_no_request_while_nothing_failed(broker, carried, stories, monkeypatch):
    asked: Counter[str] = Counter()
    for name in ("consumer_info", "get_msg"):
        original = getattr(JetStreamContext, name)

        async def counted(self, *args, _original=original, _name=name, **kwargs):
            asked[_name] += 1
            return await _original(self, *args, **kwargs)

        monkeypatch.setattr(JetStreamContext, name, counted)
    handler = Handler()
    aggregates = [uuid4() for _ in range(5)]
    for one in aggregates * 2:
        await stories.tell(one)
    await carried.reached(10)
    consumers = Consumers(broker, carried_decode(stories))
    await consumers.open([view(handler)])
    await eventually(lambda: len(handler.done) == 10, "the first are handled")
    asked.clear()
    for one in aggregates * 8:
        await stories.tell(one)
    await eventually(lambda: len(handler.done) == 50, "all are handled")
    # Only the check that comes round every few seconds may have asked for the durables.
    assert asked["get_msg"] == 0 and asked["consumer_info"] <= 4
    await consumers.close()


@pytest.mark.parametrize("cut", ["retry_later", "park"])
async def test_a_process_cut_off_between_moving_an_event_and_ending_its_delivery_moves_it_once(
    broker, carried, stories, place, monkeypatch, cut
):
    """What it moved is acknowledged by the broker; that it did is not, so the delivery comes again."""
    stuck = uuid4()
    first = await stories.tell(stuck)
    handler = Handler(first)
    original, cuts = getattr(Consumers, cut), []

    async def once_unheard(self, *arguments) -> None:
        await original(self, *arguments)
        if not cuts:
            cuts.append(arguments)
            raise Unavailable("the answer never came")

    monkeypatch.setattr(Consumers, cut, once_unheard)
    policy = RetryPolicy(max_deliveries=2 if cut == "retry_later" else 1, delays=(0.1,), ack_wait=5)
    consumers = Consumers(broker, carried_decode(stories))
    await consumers.open([view(handler, policy=policy)])
    await stories.tell(stuck)
    await eventually(lambda: consumers.rule.outcomes["view", "repeated"] == 1, "it came again and was known")
    await eventually(lambda: settled(consumers), "nothing waits")
    assert await parked(place) == list(zip(stories.positions[stuck], ("ValueError", "EarlierParked"), strict=True))
    assert handler.tries == {first: policy.max_deliveries}
    await consumers.close()


# --- replay -------------------------------------------------------------------------------------------------------


async def park_some(broker, stories, handler, aggregate: UUID, count: int) -> Consumers:
    first = await stories.tell(aggregate)
    handler.failing.add(first)
    consumers = Consumers(broker, carried_decode(stories))
    await consumers.open([view(handler)])
    for _ in range(count - 1):
        await stories.tell(aggregate)
    await eventually(lambda: consumers.rule.outcomes["view", "parked"] == count, "they are parked")
    return consumers


async def test_a_parked_sequence_is_replayed_in_order_and_new_events_go_behind_it(broker, carried, stories, place):
    stuck, handler = uuid4(), Handler()
    consumers = await park_some(broker, stories, handler, stuck, 4)
    handler.failing.clear()
    told: list[tuple[int, int]] = []
    done = await place.retry(consumer="view", progress=lambda n, of: told.append((n, of)))
    last = await stories.tell(stuck)
    await eventually(lambda: handler.done[-1:] == [last], "the new event is handled")
    assert handler.done == stories.positions[stuck]
    assert (done.sent, done.left) == (4, {}) and told[0] == (0, 4) and told[-1] == (4, 4)
    assert await parked(place) == []
    await consumers.close()


async def test_a_sequence_that_fails_again_is_parked_again_in_order(broker, carried, stories, place):
    stuck, handler = uuid4(), Handler()
    consumers = await park_some(broker, stories, handler, stuck, 3)
    await place.retry()
    await eventually(lambda: consumers.rule.outcomes["view", "parked"] >= 6, "they are parked again")
    await eventually(lambda: settled(consumers), "nothing waits")
    first, *others = stories.positions[stuck]
    assert await parked(place) == [(first, "ValueError"), *((one, "EarlierParked") for one in others)]
    assert handler.done == []
    handler.failing.clear()
    await place.retry()
    await eventually(lambda: handler.done == stories.positions[stuck], "they are handled in order")
    await consumers.close()


async def test_a_replay_cut_short_between_sending_and_removing_has_one_effect(
    broker, carried, stories, place, monkeypatch
):
    stuck, handler = uuid4(), Handler()
    consumers = await park_some(broker, stories, handler, stuck, 3)
    handler.failing.clear()

    async def crash(number: int) -> None:
        raise Unavailable("the operator's machine went away")

    with monkeypatch.context() as cut:
        cut.setattr(place, "_remove", crash)
        with pytest.raises(Unavailable):
            await place.retry()
    first, *others = stories.positions[stuck]
    await eventually(lambda: handler.done == [first], "the one that was sent is handled")
    await eventually(lambda: settled(consumers), "nothing waits")
    assert await parked(place) == [(one, "EarlierParked") for one in others]
    await place.retry()
    await eventually(lambda: handler.done == stories.positions[stuck], "the rest is handled")
    assert await parked(place) == []
    await consumers.close()


async def test_one_sequence_or_one_consumer_is_replayed_alone_and_an_unknown_one_is_an_error(
    broker, carried, stories, place
):
    handler, stuck, also = Handler(), uuid4(), uuid4()
    await (await park_some(broker, stories, handler, stuck, 2)).close()
    consumers = await park_some(broker, stories, handler, also, 2)
    handler.failing.clear()
    await place.retry(sequence=str(also))
    await eventually(lambda: handler.done == stories.positions[also], "that one is handled")
    assert [position for position, _ in await parked(place)] == stories.positions[stuck]
    with pytest.raises(NotFound):
        await place.retry(consumer="nobody")
    with pytest.raises(NotFound):
        await place.retry(sequence=str(uuid4()))
    await consumers.close()


async def test_a_dropped_event_is_never_handled_and_what_waited_behind_it_may_be_replayed(
    broker, carried, stories, place
):
    stuck, handler = uuid4(), Handler()
    consumers = await park_some(broker, stories, handler, stuck, 3)
    page, _ = await place.page(limit=1)
    assert (await place.drop(page[0].id, "obsolete", 12)).position == stories.positions[stuck][0]
    for gone in (page[0].id, 4):
        with pytest.raises(NotFound):
            await place.drop(gone, "obsolete")
    [record], _ = await place.dropped(consumer="view")
    shown = record["position"], record["reason"], record["ticket"]
    assert shown == (stories.positions[stuck][0], "obsolete", 12)
    [state] = await consumers.states()
    assert state.parked == 2
    await place.retry()
    await eventually(lambda: handler.done == stories.positions[stuck][1:], "the others are handled")
    await consumers.close()


async def test_a_list_of_parked_messages_is_bounded_and_goes_on_behind_its_cursor(broker, carried, stories, place):
    consumers = await park_some(broker, stories, Handler(), uuid4(), 5)
    found, after = [], 0
    while after is not None:
        page, after = await place.page(consumer="view", after=after, limit=2)
        assert len(page) <= 2
        found += [one.id for one in page]
    assert found == [1, 2, 3, 4, 5]
    assert await place.page(consumer="nobody") == ([], None)
    await consumers.close()


async def test_a_parked_task_is_sent_again_under_its_own_id(broker, database, place):
    done: list[tuple[str, dict]] = []
    broken = [True]

    async def handle(task: Task) -> None:
        if broken:
            raise Park("needs_a_person")
        done.append((task.id, task.body))

    async def no_events(rows):
        raise AssertionError("no event was published")

    consumers = Consumers(broker, no_events)
    await consumers.open([TaskSubscription("judge", handle, policy=QUICK)])
    async with TaskPublisher(broker) as publisher:
        await publisher.publish_task("judge", {"batch": "b7"}, "odd")
    await eventually(lambda: consumers.rule.outcomes["tasks-judge", "parked"] == 1, "it is parked")
    broken.clear()
    assert (await place.retry()).sent == 1
    await eventually(lambda: done == [("odd", {"batch": "b7"})], "it is done")
    assert await parked(place) == []
    await consumers.close()


async def test_what_cannot_be_sent_again_stays_and_says_why(broker, carried, stories, place):
    stuck, handler = uuid4(), Handler()
    consumers = await park_some(broker, stories, handler, stuck, 2)
    await consumers.close()
    client = await connected(broker)
    js = client.jetstream()
    await js.publish(broker.parked_subject("view"), b"not one of ours")
    await js.delete_consumer(broker.stream("retries"), "view")
    done = await place.retry()
    assert (done.sent, done.left) == (0, {1: "consumer_unknown", 2: "earlier_one_stays", 3: "unreadable"})
    assert len(await parked(place)) == 3
    await client.close()


# --- deleted on the server ----------------------------------------------------------------------------------------


async def test_a_durable_of_events_deleted_on_the_server_is_made_again_and_duplicates_are_known_by_position(
    broker, carried, stories
):
    stuck, other, handler = uuid4(), uuid4(), Handler()
    consumers = await park_some(broker, stories, handler, stuck, 2)
    await stories.tell(other)
    await eventually(lambda: handler.by[other] == stories.positions[other], "an event is handled")
    client = await connected(broker)
    await client.jetstream().delete_consumer(broker.stream("events"), "view")
    await stories.tell(other)
    await eventually(
        lambda: sorted(set(handler.by[other])) == stories.positions[other], "the next one is handled", 15
    )
    await eventually(lambda: settled(consumers), "all is settled")
    # All events came once more: those that are parked stay so, and are not parked twice.
    assert handler.by[stuck] == []
    [state] = await consumers.states()
    assert state.parked == 2
    await client.close()
    await consumers.close()


async def test_a_stream_of_events_deleted_on_the_server_is_refilled_and_consumers_lose_nothing(
    broker, carried, stories, monkeypatch
):
    monkeypatch.setattr("lethelog.streams.relay.CHECK_SECONDS", 0.2)
    handler = Handler()
    aggregates = [uuid4() for _ in range(3)]
    consumers = Consumers(broker, carried_decode(stories))
    await consumers.open([view(handler)])
    for one in aggregates:
        await stories.tell(one)
    await eventually(lambda: handler.done == [1, 2, 3], "they are handled")
    client = await connected(broker)
    await client.jetstream().delete_stream(broker.stream("events"))
    await client.close()
    for one in aggregates:
        await stories.tell(one)
    await eventually(lambda: set(handler.done) == {1, 2, 3, 4, 5, 6}, "the new ones are handled too", 20)
    await eventually(lambda: settled(consumers), "all is settled")
    # What was handled before the loss comes once more, before what is new.
    assert handler.done in ([1, 2, 3, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])
    await consumers.close()


async def test_a_parking_place_deleted_on_the_server_is_made_again_and_keeps_order_from_then_on(
    broker, carried, stories, place, monkeypatch
):
    monkeypatch.setattr("lethelog.streams.consumers.CHECK_SECONDS", 0.1)
    stuck, handler = uuid4(), Handler()
    consumers = await park_some(broker, stories, handler, stuck, 3)
    client = await connected(broker)
    js, stream = client.jetstream(), broker.stream("parked")
    await js.delete_stream(stream)
    read = consumers._sequences["view"]._unsettled._read["parked"]
    await eventually(lambda: read.upto == 0, "the loss is noticed")
    handler.failing.add(await stories.tell(stuck))
    await eventually(lambda: consumers.rule.outcomes["view", "parked"] == 4, "the next failure is parked")
    await stories.tell(stuck)
    await eventually(lambda: consumers.rule.outcomes["view", "parked"] == 5, "the one behind it too")
    fourth, fifth = stories.positions[stuck][3:]
    assert await parked(place) == [(fourth, "ValueError"), (fifth, "EarlierParked")]
    assert handler.by[stuck] == []
    await client.close()
    await consumers.close()
