"""What read models and consumers set aside is one list, with pages, for Python as for the command line."""

import asyncio
import json
from uuid import UUID, uuid4

import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import EventParked, InvalidInput, NotFound, Unavailable
from lethelog.handlers.forgetting.settings import PassSettings
from lethelog.handlers.judges.none import NoJudge
from lethelog.handlers.memory import AsyncMemory
from lethelog.projections.progress import wait_for
from lethelog.projections.runner import ProjectionRunner
from lethelog.streams.ending import end
from lethelog.streams.log import Appended, NewEvent, Unit
from lethelog.streams.topology import Topology

from .broker_fixtures import connected, envelope


@pytest.fixture
async def door(world, broker) -> AsyncMemory:
    """A memory whose live_memory and review_queue parked an event each, and two consumers a message."""
    one = await world.remember("Deploys go to Fly.io")
    await world.catch_up()
    async with world.engine.database.connection() as connection:
        for name in ("live_memory", "review_queue"):
            await connection.execute(
                "insert into lethelog_views.parked (name, schema, tenant, stream, position, event, error, attempts) "
                "select t.name, t.schema, e.tenant, e.stream, e.position, e.name, 'ValueError', 4 "
                "from lethelog.events e, lethelog_views.tracking t where e.stream = %s and t.name = %s",
                (one, name),
            )
    await Topology(broker).ensure()
    client = await connected(broker)
    for consumer in ("listener", "webhook"):
        parked = {
            "durable": consumer,
            "subject": "s",
            "error": "ValueError",
            "failures": 5,
            "tenant": str(uuid4()),
            "aggregate": str(uuid4()),
            "position": 7,
        }
        await client.jetstream().publish(broker.parked_subject(consumer), json.dumps(parked).encode())
    await client.close()
    return AsyncMemory(world.engine, world.caller, PassSettings(NoJudge(), None, 0.0), broker=broker)


async def listed(door: AsyncMemory, **query) -> list[str]:
    """Where each one is parked, got one by one."""
    found, cursor = [], None
    while True:
        page = await door.parked(limit=1, **query, **({"cursor": cursor} if cursor else {}))
        found += [one.consumer or one.where for one in page.parked]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_pages_go_from_what_read_models_parked_to_what_consumers_did_and_miss_nothing(door):
    assert await listed(door) == ["live_memory", "review_queue", "listener", "webhook"]
    assert await listed(door, read_model="review_queue") == ["review_queue"]
    assert await listed(door, consumer="webhook") == ["webhook"]
    whole = await door.parked()
    assert len(whole.parked) == 4 and whole.next_cursor is None
    assert isinstance(whole.parked[0].sequence, UUID) and whole.parked[0].event == "memory.remembered"


async def test_a_dropped_message_is_listed_with_its_reason_and_no_longer_parked(door):
    [message] = (await door.parked(consumer="listener")).parked
    dropped = await door.drop_parked(message.id, reason="obsolete", ticket=12)
    assert (dropped.id, dropped.reason, dropped.ticket) == (message.id, "obsolete", 12)
    assert await listed(door) == ["live_memory", "review_queue", "webhook"]
    [record] = (await door.dropped()).parked
    assert (record.id, record.reason, record.ticket) == (message.id, "obsolete", 12)
    assert record.consumer == "listener"
    assert record.dropped_at is not None
    with pytest.raises(NotFound):
        await door.drop_parked(message.id, reason="obsolete", ticket=12)


async def test_one_read_models_events_are_tried_again_and_anothers_stay(door):
    done = await door.retry_parked(read_model="review_queue")
    assert (done.applied, done.sent, done.left) == (1, 0, ())
    assert await listed(door) == ["live_memory", "listener", "webhook"]
    done = await door.retry_parked(consumer="webhook")
    assert [(one.id, one.reason) for one in done.left] == [("message-2", "consumer_unknown")]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"read_model": "elsewhere"}, "read_model"),
        ({"read_model": "live_memory", "consumer": "listener"}, "read_model"),
        ({"limit": 0}, "limit"),
        ({"limit": 501}, "limit"),
        ({"cursor": "elsewhere-7"}, "cursor"),
        ({"consumer": "a.>"}, "consumer"),
        ({"unknown": 1}, "unknown"),
    ],
)
async def test_a_list_that_cannot_be_names_its_field(door, arguments, field):
    with pytest.raises(InvalidInput) as refused:
        await door.parked(**arguments)
    assert refused.value.field == field


async def test_without_a_broker_it_is_said_and_read_models_alone_are_listed(world, door):
    alone = AsyncMemory(world.engine, world.caller, PassSettings(NoJudge(), None, 0.0))
    assert await listed(alone, read_model="live_memory") == ["live_memory"]
    with pytest.raises(Unavailable, match="without a broker"):
        await alone.parked()


# --- proposals that are parked ---------------------------------------------------------------------------------------


async def staged(world, memory: UUID) -> tuple[UUID, int]:
    """A proposal about a memory, and the position of its first event."""
    proposal = uuid4()
    event = e.ProposalStaged(
        pass_id=uuid4(),
        ref="s0",
        rule="single",
        action="archive",
        memory_id=memory,
        probability=0.9,
        probabilities={"archive": 0.9},
        judge="stated:1",
        model="stated:1",
        seen={},
        verdict_event=uuid4(),
        threshold=0.85,
    )
    outcome = await world.engine.log.append(
        Unit(world.caller.tenant, proposal, [NewEvent(proposal, 1, event)], envelope())
    )
    assert isinstance(outcome, Appended)
    return proposal, outcome.position


async def test_a_proposal_whose_event_is_parked_is_never_called_unknown_and_comes_back_with_a_retry(
    world, monkeypatch
):
    """Neither by show nor in an explanation; others are listed, and another tenant knows nothing of it."""
    memory = await world.remember("Deploys go to Fly.io")
    good, _ = await staged(world, memory)
    bad, at = await staged(world, memory)
    queue, applying, failing = world.engine.review_queue, world.engine.review_queue.apply, [True]

    async def apply(connection, schema, page, prepared):
        if failing and any(event.position == at for event in page):
            raise ValueError("cannot digest this")
        await applying(connection, schema, page, prepared)

    monkeypatch.setattr(queue, "apply", apply)
    engine = world.engine
    parking = ProjectionRunner(engine.database, engine.log, engine.tail, queue, retry_seconds=())
    running = asyncio.ensure_future(parking.run())
    await wait_for(engine.database, queue.name, at, seconds=20)
    await end(running)
    await world.catch_up()
    reviewing, caller = world.reviewing, world.caller
    assert [one.id for one in (await reviewing.list(caller, {"after": at})).proposals] == [good]
    with pytest.raises(EventParked, match="lethelog parked list --read-model review_queue") as told:
        await reviewing.show(caller, {"proposal_id": bad, "after": at})
    assert (told.value.details["id"], told.value.details["position"]) == (bad, at)
    other = await world.another_caller()
    for asking, unknown in ((other, bad), (caller, uuid4())):
        with pytest.raises(NotFound):
            await reviewing.show(asking, {"proposal_id": unknown})
    failing.clear()
    door = AsyncMemory(engine, caller, PassSettings(NoJudge(), None, 0.0))
    assert (await door.retry_parked(read_model="review_queue", sequence=bad)).applied == 1
    assert (await reviewing.show(caller, {"proposal_id": bad})).proposal.id == bad
