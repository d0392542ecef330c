"""Webhooks: what happens reaches the receiver, signed, again and again until it is there, and nothing else of it."""

import asyncio
import base64
import dataclasses
import hashlib
import hmac
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from lethelog.domain.errors import Conflict, InvalidInput, NotFound, WrongKind
from lethelog.domain.events import Event, PassFailed, ProposalRejected, ProposalStaged, WebhookDisabled
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.operating.event_log import EventLog
from lethelog.handlers.operating.workers import Workers
from lethelog.handlers.webhooks import worker as worker_module
from lethelog.handlers.webhooks.settings import MOST_PER_TENANT, WebhookSettings
from lethelog.handlers.webhooks.views import DeliveryView, WebhookView
from lethelog.handlers.webhooks.webhooks import Webhooks
from lethelog.handlers.webhooks.worker import WebhookWorker
from lethelog.ops.cli.webhook_checks import check_webhooks
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.ending import end
from lethelog.streams.log import NewEvent, Unit
from lethelog.streams.payloads import Envelope, RecordedEvent

from ..webhook_receiver import Received, receiving
from .broker_fixtures import eventually

STAGED = json.loads((Path(__file__).parents[1] / "unit" / "event_samples" / "proposal.staged.1.json").read_text())
HERE = WebhookSettings(allow_private=True, timeout=5.0)


class Telling:
    """A world that sends webhooks to this machine, and one worker that does."""

    def __init__(self, world) -> None:
        self.world = world
        self.engine = dataclasses.replace(world.engine, webhooks=HERE)
        self.caller: Caller = world.caller
        self.webhooks = Webhooks(self.engine)
        self.worker = WebhookWorker(self.engine)

    async def add(self, url: str, **given) -> tuple[UUID, str]:
        made = await self.webhooks.add(self.caller, {"url": url, **given})
        return made.webhook.id, made.secret

    async def show(self, webhook: UUID) -> WebhookView:
        return await self.webhooks.show(self.caller, {"webhook_id": webhook})

    async def deliveries(self, webhook: UUID, **given) -> tuple[DeliveryView, ...]:
        return (await self.webhooks.deliveries(self.caller, {"webhook_id": webhook, **given})).deliveries

    async def append(
        self, event: Event, stream: UUID | None = None, version: int = 1, tenant=None
    ) -> RecordedEvent:
        """An event on record, not told of yet."""
        stream, cause, tenant = stream or uuid4(), uuid4(), tenant or self.caller.tenant
        envelope = Envelope(self.caller.actor, cause, cause)
        unit = Unit(tenant, stream, [NewEvent(stream, version, event)], envelope)
        await self.engine.log.append(unit)
        return (await self.engine.log.read_stream(tenant, stream))[-1]

    async def stage(self, **fields) -> RecordedEvent:
        memory = await self.world.remember(f"Deploys go to {uuid4()}")
        staged = {**STAGED, "memory_id": memory, "evidence_memory": memory, **fields}
        return await self.append(ProposalStaged.model_validate(staged))

    async def happen(self, **fields) -> RecordedEvent:
        """A proposal is staged, and the worker hears of it."""
        recorded = await self.stage(**fields)
        await self.worker.handle(recorded)
        return recorded


@pytest.fixture
async def telling(world) -> AsyncGenerator[Telling]:
    made = Telling(world)
    yield made
    await made.worker._sender.close()


def verified(one: Received, secret: str) -> bool:
    """As a receiver does it, by the specification."""
    signed = f"{one.headers['webhook-id']}.{one.headers['webhook-timestamp']}.".encode() + one.body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return f"v1,{expected}" in one.headers["webhook-signature"].split(" ")


@asynccontextmanager
async def serving(telling: Telling, broker: BrokerSettings) -> AsyncGenerator[Workers]:
    workers = Workers(telling.engine, broker=broker, roles={"relay", "webhooks"})
    await workers.open()
    try:
        yield workers
    finally:
        await workers.close()


# --- what is sent ------------------------------------------------------------------------------------------------------


async def test_a_proposal_reaches_the_receiver_over_the_broker_signed_and_without_content(telling, broker):
    async with receiving() as receiver, serving(telling, broker) as workers:
        webhook, secret = await telling.add(receiver.url)
        quote = f"zqcanary{uuid4().hex}"
        recorded = await telling.stage(quote=quote)
        await eventually(lambda: receiver.received, "the message arrives")
        [one] = receiver.received
        await eventually(lambda: workers.webhooks.outcomes["delivered"] == 1, "it is recorded")
    assert verified(one, secret) and not verified(one, "whsec_" + base64.b64encode(b"x" * 32).decode())
    said = json.loads(one.body)
    assert said["type"] == "proposal.staged"
    assert said["data"]["id"] == str(recorded.stream) and said["data"]["position"] == recorded.position
    assert (said["data"]["kind"], said["data"]["action"]) == ("retention", STAGED["action"])
    assert quote not in one.body.decode() and recorded.event.quote == quote
    [delivery] = await telling.deliveries(webhook)
    assert (delivery.status, delivery.event, delivery.position) == (
        "delivered",
        "proposal.staged",
        recorded.position,
    )
    assert [attempt.outcome for attempt in delivery.attempts] == ["204"] and one.headers["webhook-id"] == str(
        delivery.id
    )


async def test_a_decision_is_told_with_kind_and_action_of_its_proposal(telling):
    async with receiving() as receiver:
        await telling.add(receiver.url)
        staged = await telling.stage()
        decided = await telling.append(ProposalRejected(memory_id=staged.event.memory_id), staged.stream, 2)
        await telling.worker.handle(decided)
        await telling.worker.send_due()
    [one] = receiver.received
    data = json.loads(one.body)["data"]
    assert (data["kind"], data["action"], data["id"]) == ("retention", STAGED["action"], str(staged.stream))


async def test_only_what_happened_since_is_sent_of_this_tenant_and_of_the_chosen_names(telling):
    async with receiving() as receiver:
        before = await telling.stage()
        webhook, _ = await telling.add(receiver.url, names=["pass.failed"])
        other = await telling.world.another_caller()
        wanted = await telling.append(PassFailed(reason="x"))
        foreign = await telling.append(PassFailed(reason="x"), tenant=other.tenant)
        for recorded in (before, await telling.stage(), foreign, wanted, wanted):
            await telling.worker.handle(recorded)
        await telling.worker.send_due()
        assert [json.loads(one.body)["data"]["position"] for one in receiver.received] == [wanted.position]
        await telling.webhooks.change(telling.caller, {"webhook_id": webhook, "names": ["proposal.*"]})
        await telling.happen()
        await telling.worker.send_due()
        assert json.loads(receiver.received[-1].body)["type"] == "proposal.staged"


async def test_what_is_older_than_the_log_of_deliveries_is_not_sent_by_itself(telling):
    """A stream of the broker that was made anew begins with the oldest event."""
    async with receiving() as receiver:
        webhook, _ = await telling.add(receiver.url)
        recorded = await telling.stage()
        telling.world.clock.now = recorded.recorded_at + HERE.log_kept + timedelta(seconds=1)
        await telling.worker.handle(recorded)
        await telling.worker.send_due()
        assert receiver.received == [] and await telling.deliveries(webhook) == ()
        telling.world.clock.now = recorded.recorded_at
        await telling.worker.handle(recorded)
        await telling.worker.send_due()
        assert len(receiver.received) == 1, "the positive control"


# --- until it is there ---------------------------------------------------------------------------------------------------


async def test_a_failed_message_is_sent_again_later_under_the_same_id(telling):
    async with receiving(statuses=[500, 302, 204]) as receiver:
        webhook, secret = await telling.add(receiver.url)
        await telling.happen()
        for forward, sent in ((0, 1), (4, 1), (1, 2), (299, 2), (1, 3), (86_400, 3)):
            telling.world.clock.forward(seconds=forward)
            await telling.worker.send_due()
            assert len(receiver.received) == sent, forward
        assert len(set(receiver.ids)) == 1 and len({one.body for one in receiver.received}) == 1
        assert all(verified(one, secret) for one in receiver.received)
        times = [int(one.headers["webhook-timestamp"]) for one in receiver.received]
        assert times[1] - times[0] == 5 and times[2] - times[1] == 300, "each attempt is signed at its own time"
    [delivery] = await telling.deliveries(webhook)
    assert delivery.status == "delivered" and [one.outcome for one in delivery.attempts] == ["500", "302", "204"]
    shown = await telling.show(webhook)
    assert (shown.status, shown.delivered, shown.failed_attempts, shown.pending) == ("active", 1, 2, 0)


async def test_a_receiver_that_asks_to_wait_is_waited_for(telling):
    async with receiving(statuses=[503, 204], headers={"Retry-After": "900"}) as receiver:
        webhook, _ = await telling.add(receiver.url)
        await telling.happen()
        await telling.worker.send_due()
        [delivery] = await telling.deliveries(webhook)
        assert delivery.next_attempt == telling.world.clock.now + timedelta(seconds=900)


async def test_after_ten_attempts_a_delivery_has_failed(telling):
    engine = dataclasses.replace(
        telling.engine, webhooks=dataclasses.replace(HERE, disable_after=timedelta(days=99))
    )
    telling.worker = WebhookWorker(engine)
    async with receiving(statuses=[500]) as receiver:
        webhook, _ = await telling.add(receiver.url)
        await telling.happen()
        for _ in range(12):
            await telling.worker.send_due()
            telling.world.clock.forward(days=1, seconds=1)
        assert len(receiver.received) == 10
    [delivery] = await telling.deliveries(webhook)
    assert delivery.status == "failed" and len(delivery.attempts) == 10 and delivery.next_attempt is None
    assert [one.id for one in await telling.deliveries(webhook, status="failed")] == [delivery.id]
    assert await telling.deliveries(webhook, status="pending") == ()
    assert (await telling.show(webhook)).status == "failing"


async def test_a_webhook_that_fails_for_days_is_disabled_on_the_record_and_can_be_enabled(telling):
    async with receiving(statuses=[500]) as receiver:
        webhook, _ = await telling.add(receiver.url)
        begun = telling.world.clock.now
        await telling.happen()
        await telling.worker.send_due()
        telling.world.clock.forward(days=4, hours=23)
        await telling.worker.send_due()
        waiting = await telling.happen()
        assert (await telling.show(webhook)).status == "failing"
        telling.world.clock.forward(hours=2)
        await telling.worker.send_due()
        events = await telling.engine.log.read_stream(telling.caller.tenant, webhook)
        assert events[-1].event == WebhookDisabled(reason="failing", failing_since=begun)
        assert events[-1].envelope.actor.kind == "worker"
        shown = await telling.show(webhook)
        assert (shown.status, shown.disabled_because, shown.pending) == ("disabled", "failing", 0)
        assert {one.status for one in await telling.deliveries(webhook)} == {"dropped"}
        meanwhile = await telling.happen()
        sent = len(receiver.received)
        for refused in (
            telling.webhooks.test(telling.caller, {"webhook_id": webhook}),
            telling.webhooks.replay(telling.caller, {"webhook_id": webhook, "from_position": 1}),
        ):
            with pytest.raises(Conflict, match="disabled"):
                await refused
        receiver.statuses = [204]
        assert (await telling.webhooks.enable(telling.caller, {"webhook_id": webhook})).status == "active"
        await telling.worker.send_due()
        assert len(receiver.received) == sent, "what was dropped stays so"
        replayed = await telling.webhooks.replay(
            telling.caller, {"webhook_id": webhook, "from_position": waiting.position}
        )
        await telling.worker.send_due()
        positions = [json.loads(one.body)["data"]["position"] for one in receiver.received[sent:]]
        assert replayed.queued == 2 and sorted(positions) == [waiting.position, meanwhile.position]
        await telling.happen()
        await telling.worker.send_due()
        assert len(receiver.received) == sent + 3, "and new ones come by themselves"


async def test_a_receiver_that_is_gone_is_told_nothing_more(telling):
    async with receiving(statuses=[410]) as receiver:
        webhook, _ = await telling.add(receiver.url)
        await telling.happen()
        await telling.happen()
        await telling.worker.send_due()
        assert len(receiver.received) == 1
        shown = await telling.show(webhook)
        assert (shown.status, shown.disabled_because) == ("disabled", "gone")


async def test_a_worker_that_is_killed_between_sending_and_recording_leaves_it_to_be_sent_again(
    telling, start, database_url
):
    """SIGKILL: the receiver has it, nobody recorded that, and it comes again under the same id."""
    async with receiving(released=asyncio.Event()) as receiver:
        webhook, _ = await telling.add(receiver.url)
        await telling.happen()
        child = await start("send_webhooks", database_url=database_url)
        await receiver.arrived.wait()
        await child.kill()
        receiver.released.set()
        [delivery] = await telling.deliveries(webhook)
        assert delivery.status == "pending" and delivery.attempts == (), "nothing was recorded"
        await telling.worker.send_due()
        assert len(receiver.received) == 1, "while it may be in somebody's hand it is not sent twice"
        async with telling.engine.database.connection() as connection:
            [taken_until] = await (
                await connection.execute("select taken_until from lethelog.webhook_deliveries")
            ).fetchone()
        telling.world.clock.now = taken_until
        await telling.worker.send_due()
        assert receiver.ids == [str(delivery.id)] * 2
        [delivery] = await telling.deliveries(webhook)
        assert delivery.status == "delivered" and len(delivery.attempts) == 1


async def test_several_workers_send_each_message_once(telling):
    async with receiving() as receiver:
        webhook, _ = await telling.add(receiver.url)
        for _ in range(12):
            await telling.happen()
        others = [WebhookWorker(telling.engine) for _ in range(3)]
        await asyncio.gather(*(one.send_due() for one in (telling.worker, *others)))
        assert len(receiver.ids) == len(set(receiver.ids)) == 12
        assert {one.status for one in await telling.deliveries(webhook)} == {"delivered"}
        for one in others:
            await one._sender.close()


async def test_a_receiver_that_does_not_answer_holds_up_no_other(telling, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 0.05)
    async with receiving(released=asyncio.Event()) as stuck, receiving() as quick:
        await telling.add(stuck.url)
        await telling.add(quick.url)
        running = asyncio.create_task(telling.worker.run())
        for number in range(1, 4):
            await telling.happen()
            await eventually(lambda number=number: len(quick.received) == number, "the other one gets it")
        assert len(stuck.received) == 1, "one at a time"
        stuck.released.set()
        await eventually(lambda: len(stuck.received) == 3, "and then the rest")
        await end(running)


async def test_what_is_being_sent_when_the_worker_stops_is_finished_and_recorded(telling):
    async with receiving(released=asyncio.Event()) as receiver:
        webhook, _ = await telling.add(receiver.url)
        await telling.happen()
        await telling.happen()
        running = asyncio.create_task(telling.worker.run())
        await receiver.arrived.wait()
        running.cancel()
        await asyncio.sleep(0)
        receiver.released.set()
        await asyncio.wait({running})
        assert len(receiver.received) == 1
        assert sorted(one.status for one in await telling.deliveries(webhook)) == ["delivered", "pending"]


async def test_while_the_broker_is_down_what_was_queued_is_sent_and_the_rest_follows(
    telling, own_nats, broker_prefix
):
    own = BrokerSettings(own_nats.url, broker_prefix)
    async with receiving(statuses=[500, 204]) as receiver, serving(telling, own):
        await telling.add(receiver.url)
        await telling.stage()
        await eventually(lambda: receiver.received, "the first attempt")
        own_nats.kill()
        telling.world.clock.forward(seconds=5)
        await eventually(lambda: len(receiver.received) == 2, "the second one without a broker")
        late = await telling.stage()
        own_nats.start()
        await eventually(lambda: len(receiver.received) == 3, "what happened meanwhile", 40)
        assert json.loads(receiver.received[2].body)["data"]["position"] == late.position


# --- secrets -------------------------------------------------------------------------------------------------------------


async def test_url_and_secret_stand_nowhere_in_clear(telling, database_url):
    """Not in the log, in what `log show` answers, in the table of deliveries, or in any other."""
    import psycopg

    word = f"zqcanary{uuid4().hex}"
    async with receiving(statuses=[500]) as receiver:
        webhook, secret = await telling.add(f"{receiver.url}?key={word}")
        await telling.happen()
        await telling.worker.send_due()
        rotated = await telling.webhooks.rotate(telling.caller, {"webhook_id": webhook})
        page = await EventLog(telling.engine).page(telling.caller, {"names": ["webhook.*"]})
    shown = "".join(one.model_dump_json() for one in page.events)
    shown += "".join(one.model_dump_json() for one in await telling.deliveries(webhook))
    secrets = (secret.removeprefix("whsec_"), rotated.secret.removeprefix("whsec_"))
    assert len(page.events) == 2
    stored = ""
    with psycopg.connect(database_url) as connection:
        for (table,) in connection.execute(
            "select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "where c.relkind = 'r' and n.nspname ~ '^lethelog'"
        ).fetchall():
            for row in connection.execute(f"select * from {table}").fetchall():
                stored += "".join(one.decode("latin-1") if isinstance(one, bytes) else str(one) for one in row)
    for hidden in (word, *secrets):
        assert hidden not in shown and hidden not in stored
        assert base64.b64encode(hidden.encode()).decode()[:20] not in shown + stored
    assert "proposal.staged" in stored, "the positive control"
    view = await telling.show(webhook)
    assert view.url.endswith(word) and "secret" not in WebhookView.model_fields


async def test_after_a_rotation_both_secrets_sign_until_the_overlap_is_over(telling):
    async with receiving() as receiver:
        webhook, first = await telling.add(receiver.url)
        made = await telling.webhooks.rotate(telling.caller, {"webhook_id": webhook, "overlap_seconds": 60})
        assert made.secret != first and made.webhook.signs_twice_until == telling.world.clock.now + timedelta(
            minutes=1
        )
        await telling.happen()
        await telling.worker.send_due()
        telling.world.clock.forward(seconds=60)
        await telling.happen()
        await telling.worker.send_due()
    during, afterwards = receiver.received
    assert verified(during, first) and verified(during, made.secret)
    assert not verified(afterwards, first) and verified(afterwards, made.secret)


async def test_a_url_that_leads_inside_is_refused_and_one_that_came_to_lead_there_is_not_sent_to(telling):
    """Server-side request forgery: at the door for what a URL says, at each attempt for what it leads to."""
    closed = dataclasses.replace(telling.engine, webhooks=WebhookSettings(timeout=5.0))
    async with receiving() as receiver:
        with pytest.raises(InvalidInput) as refused:
            await Webhooks(closed).add(telling.caller, {"url": receiver.url})
        assert refused.value.field == "url"
        webhook, _ = await telling.add(receiver.url)
        await telling.happen()
        guarded = WebhookWorker(closed)
        await guarded.send_due()
        assert receiver.received == []
        [delivery] = await telling.deliveries(webhook)
        assert [one.outcome for one in delivery.attempts] == ["address_refused"]
        await guarded._sender.close()


# --- what a tenant does with them ----------------------------------------------------------------------------------------


async def test_a_tenant_has_so_many_webhooks_and_no_more_also_when_all_are_added_at_once(telling):
    url = "https://example.org/hook"
    added = await asyncio.gather(*(telling.add(url) for _ in range(MOST_PER_TENANT + 3)), return_exceptions=True)
    assert sum(isinstance(one, Conflict) for one in added) == 3
    listed = (await telling.webhooks.list(telling.caller)).webhooks
    assert len(listed) == MOST_PER_TENANT
    removed = await telling.webhooks.remove(telling.caller, {"webhook_id": listed[4].id})
    assert removed.status == "removed"
    assert len((await telling.webhooks.list(telling.caller)).webhooks) == MOST_PER_TENANT - 1
    again, _ = await telling.add(url)
    assert again in {one.id for one in (await telling.webhooks.list(telling.caller)).webhooks}
    with pytest.raises(Conflict):
        await telling.add(url)


async def test_a_removed_webhook_is_sent_nothing_more(telling):
    async with receiving() as receiver:
        webhook, _ = await telling.add(receiver.url)
        await telling.happen()
        await telling.webhooks.remove(telling.caller, {"webhook_id": webhook})
        await telling.happen()
        await telling.worker.send_due()
        assert receiver.received == []
    [delivery] = await telling.deliveries(webhook)
    assert delivery.status == "dropped"
    for refused in (
        telling.webhooks.rotate(telling.caller, {"webhook_id": webhook}),
        telling.webhooks.enable(telling.caller, {"webhook_id": webhook}),
        telling.webhooks.replay(telling.caller, {"webhook_id": webhook, "from_position": 1}),
        telling.webhooks.replay_delivery(telling.caller, {"delivery_id": delivery.id}),
    ):
        with pytest.raises(Conflict):
            await refused


async def test_events_are_sent_again_from_a_position_page_by_page_under_their_ids(telling):
    async with receiving() as receiver:
        webhook, _ = await telling.add(receiver.url)
        happened = [await telling.happen() for _ in range(5)]
        await telling.worker.send_due()
        first = receiver.ids[:]
        position, queued = happened[1].position, 0
        while position is not None:
            arguments = {"webhook_id": webhook, "from_position": position, "limit": 2}
            page = await telling.webhooks.replay(telling.caller, arguments)
            position, queued = page.next_position, queued + page.queued
        await telling.worker.send_due()
        assert queued == 4 and sorted(receiver.ids[5:]) == sorted(first[1:])
        before_it_was_added = {"webhook_id": webhook, "from_position": 1, "limit": 2_000}
        assert (await telling.webhooks.replay(telling.caller, before_it_was_added)).queued == 5
    listed = await telling.deliveries(webhook, limit=2)
    assert [one.position for one in listed] == [happened[4].position, happened[3].position]
    rest = await telling.webhooks.deliveries(telling.caller, {"webhook_id": webhook, "cursor": listed[1].id})
    assert [one.position for one in rest.deliveries] == [one.position for one in happened[2::-1]]
    assert rest.next_cursor is None


async def test_one_delivery_is_sent_again_at_once(telling):
    async with receiving(statuses=[500, 204, 204]) as receiver:
        webhook, _ = await telling.add(receiver.url)
        await telling.happen()
        await telling.worker.send_due()
        [delivery] = await telling.deliveries(webhook)
        for _ in range(2):
            again = await telling.webhooks.replay_delivery(telling.caller, {"delivery_id": delivery.id})
            assert again.status == "pending" and again.next_attempt == telling.world.clock.now
            await telling.worker.send_due()
        assert receiver.ids == [str(delivery.id)] * 3
    [delivery] = await telling.deliveries(webhook)
    assert delivery.status == "delivered" and len(delivery.attempts) == 3


async def test_a_test_message_tells_what_came_of_it(telling, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 0.05)
    async with receiving(statuses=[204, 500]) as receiver:
        webhook, secret = await telling.add(receiver.url)
        running = asyncio.create_task(telling.worker.run())
        took = await telling.webhooks.test(telling.caller, {"webhook_id": webhook})
        failed = await telling.webhooks.test(telling.caller, {"webhook_id": webhook})
        await end(running)
        assert (took.status, took.event, failed.status) == ("delivered", "webhook.test", "pending")
        assert failed.attempts[0].outcome == "500" and verified(receiver.received[0], secret)
        untaken = await telling.webhooks.test(telling.caller, {"webhook_id": webhook, "seconds": 0})
        assert (untaken.status, untaken.attempts) == ("pending", ())


async def test_another_tenants_webhooks_and_deliveries_are_not_there(telling):
    async with receiving() as receiver:
        webhook, _ = await telling.add(receiver.url)
        await telling.happen()
        [delivery] = await telling.deliveries(webhook)
        other = await telling.world.another_caller()
        assert (await telling.webhooks.list(other)).webhooks == ()
        for refused in (
            telling.webhooks.show(other, {"webhook_id": webhook}),
            telling.webhooks.deliveries(other, {"webhook_id": webhook}),
            telling.webhooks.replay(other, {"webhook_id": webhook, "from_position": 1}),
            telling.webhooks.replay_delivery(other, {"delivery_id": delivery.id}),
            telling.webhooks.remove(other, {"webhook_id": webhook}),
        ):
            with pytest.raises(NotFound):
                await refused
        memory = await telling.world.remember("no webhook")
        with pytest.raises(WrongKind):
            await telling.show(memory)


async def test_the_log_of_deliveries_is_kept_for_its_time_and_not_beyond_its_tenant(telling):
    async with receiving() as receiver:
        webhook, _ = await telling.add(receiver.url)
        await telling.happen()
        await telling.worker.send_due()
        telling.world.clock.forward(days=20)
        waiting = await telling.stage()
        arguments = {"webhook_id": webhook, "from_position": waiting.position}
        await telling.webhooks.replay(telling.caller, arguments)
        telling.world.clock.forward(days=10)
        await telling.worker.clear()
        assert len(await telling.deliveries(webhook)) == 2
        telling.world.clock.forward(seconds=1)
        await telling.worker.clear()
        assert [one.position for one in await telling.deliveries(webhook)] == [waiting.position], (
            "what waits stays"
        )
    await erase_tenant(telling)
    await telling.worker.send_due()
    await telling.worker.clear()
    assert len(receiver.received) == 1
    async with telling.engine.database.connection() as connection:
        left = await (await connection.execute("select count(*) from lethelog.webhook_deliveries")).fetchone()
        health = await (await connection.execute("select count(*) from lethelog.webhook_health")).fetchone()
    assert (left, health) == ((0,), (0,))


async def erase_tenant(telling: Telling) -> None:
    """All keys and claims of the tenant go, as the erasure of a tenant destroys them."""
    async with telling.engine.database.transaction() as connection:
        await connection.execute(
            "select * from lethelog.erase(%s, %s, '{}', '{}', true, '{}', '{}')", (uuid4(), telling.caller.tenant)
        )
    telling.engine.vault.forget()


async def test_with_a_tenant_its_deliveries_are_erased_at_once_and_nobody_elses(telling):
    """In the erasing transaction: no worker runs here."""
    async with receiving(statuses=[500]) as receiver:
        kept, _ = await telling.add(receiver.url)
        await telling.happen()
        own, telling.caller = telling.caller, await telling.world.another_caller()
        await telling.add(receiver.url, names=["pass.failed"])
        await telling.worker.handle(await telling.append(PassFailed(reason="x")))
        await telling.worker.send_due()
        assert len(receiver.received) == 2
        both = {own.tenant, telling.caller.tenant}
        tables = ("webhook_deliveries", "webhook_health")
        assert [await tenants_in(telling, table) for table in tables] == [both, both]
        erasures = Erasures(telling.engine)
        preview = await erasures.preview(telling.caller, {"tenant": True})
        done = await erasures.erase(telling.caller, {"erasure_id": preview.id, "reason": "asked_for"})
        assert done.verified
        assert [await tenants_in(telling, table) for table in tables] == [{own.tenant}, {own.tenant}]
        telling.caller = own
        [delivery] = await telling.deliveries(kept)
        assert delivery.status == "pending"


async def tenants_in(telling: Telling, table: str) -> set[UUID]:
    async with telling.engine.database.connection() as connection:
        rows = await (await connection.execute(f"select tenant from lethelog.{table}")).fetchall()
    return {tenant for (tenant,) in rows}


async def test_doctor_tells_of_webhooks_that_fail_and_of_messages_that_nobody_sends(telling):
    from datetime import UTC, datetime

    database = telling.engine.database
    assert [one async for one in check_webhooks(database)] == []
    telling.world.clock.now = datetime.now(UTC)
    async with receiving(statuses=[500, 204]) as receiver:
        webhook, _ = await telling.add(receiver.url)
        [check] = [one async for one in check_webhooks(database)]
        assert (check.level, check.says) == ("ok", "1, none fails")
        await telling.happen()
        await telling.worker.send_due()
        [check] = [one async for one in check_webhooks(database)]
        assert (check.level, check.says) == ("warning", "1 of 1 fail") and receiver.url not in check.says
        telling.world.clock.forward(hours=-1)
        await telling.webhooks.test(telling.caller, {"webhook_id": webhook, "seconds": 0})
        [check] = [one async for one in check_webhooks(database)]
        assert check.level == "warning" and check.says.startswith("1 message due") and "lethelog up" in check.fix
