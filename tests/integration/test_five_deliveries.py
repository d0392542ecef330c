"""Five deliveries of one message, in any order and at the same time, have one effect (F43)."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any
from uuid import uuid4

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.forgetting.judge_worker import JudgeWorker
from lethelog.handlers.forgetting.pass_manager import PassManager
from lethelog.handlers.forgetting.requesting import Passes
from lethelog.handlers.forgetting.settings import PassSettings
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.ending import end
from lethelog.streams.payloads import RecordedEvent
from lethelog.streams.relay import Relay
from lethelog.streams.subscriber_kit import subscribe
from lethelog.streams.tasks import Task

from .broker_fixtures import append, connected, eventually, stored
from .passes import ToldJudge, old, pass_settings, sure

TIMES = 5
MEMORIES = 3
FEW = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # what fails is short enough as it is
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def deliveries(draw: st.DrawFn, messages: int) -> list[list[int]]:
    """Every message `TIMES` times in any order, in groups that come at the same time."""
    order = draw(st.permutations([n for n in range(messages) for _ in range(TIMES)]))
    groups: list[list[int]] = []
    while order:
        size = draw(st.integers(1, 4))
        groups.append(list(order[:size]))
        order = order[size:]
    return groups


async def deliver(groups: list[list[int]], handle: Any, messages: list[Any]) -> None:
    for group in groups:
        await asyncio.gather(*(handle(messages[n % len(messages)]) for n in group))


class Collected:
    """Stands in for the publisher: keeps what a pass sends out, and says that nothing waits."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}

    async def publish_task(self, queue: str, body: Mapping[str, Any], msg_id: str) -> bool:
        new = msg_id not in self.tasks
        self.tasks.setdefault(msg_id, Task(queue, msg_id, dict(body), 1))
        return new

    async def waiting(self, queue: str) -> int:
        return 0


async def a_pass_of_its_own(world, requests, tasks, verdicts, together: PassSettings) -> None:
    """One tenant's pass, every one of whose messages comes five times; two managers and two judges share them."""
    caller = await world.another_caller()
    await world.engine.tenants.set_judgment(caller.tenant, True, caller.actor)
    world.caller = caller
    memories = [await old(world, f"Deploys of team {n} go to Fly.io", topic=f"team {n}") for n in range(MEMORIES)]
    published = Collected()
    managers = [PassManager(world.engine, together, published) for _ in range(2)]  # type: ignore[arg-type]
    judges = [JudgeWorker(world.engine, together) for _ in range(2)]
    turns = itertools.count()

    async def on_requested(event: RecordedEvent) -> None:
        await managers[next(turns) % 2].on_requested(event)

    async def on_verdict(event: RecordedEvent) -> None:
        await managers[next(turns) % 2].on_verdict(event)

    async def judge(task: Task) -> None:
        await judges[next(turns) % 2].handle(task)

    view = await Passes(world.engine, together).request(caller)
    await deliver(requests, on_requested, await world.engine.log.read_stream(caller.tenant, view.id))
    await deliver(tasks, judge, list(published.tasks.values()))
    told = await everything(world, caller)
    recorded = [one for one in told if one.name == "verdict.recorded"]
    await deliver(verdicts, on_verdict, recorded)

    told = await everything(world, caller)
    names = Counter(one.name for one in told)
    assert names["pass.started"] == names["pass.candidates_selected"] == names["pass.dispatched"] == 1
    [selected] = [one.event for one in told if one.name == "pass.candidates_selected"]
    assert len(selected.items) >= 2
    assert names["verdict.recorded"] == len(selected.items) == names["proposal.staged"]
    assert names["verdict.refused"] == names["proposal.dismissed"] == 0
    staged = {one.event.memory_id for one in told if one.name == "proposal.staged"}
    assert len(staged) == names["proposal.staged"] and staged <= set(memories)
    budget = await world.engine.tenants.budget(caller.tenant, view.requested_at.date())
    calls = {one.event.call_id for one in recorded}
    assert set(budget.reserved) == set(budget.settled) and len(budget.settled) == len(calls)
    assert names["tenant.budget_reserved"] == names["tenant.budget_settled"] == len(calls)


async def everything(world, caller: Caller) -> list[RecordedEvent]:
    head = await world.engine.log.head()
    found = [one for at in range(0, head, 500) for one in await world.engine.log.read_page(at, 500)]
    return [one for one in found if one.tenant == caller.tenant]


async def test_f43_a_pass_whose_every_message_comes_five_times_judges_charges_and_proposes_once(judging_world):
    together = pass_settings(ToldJudge(sure("archive")))
    running = [asyncio.ensure_future(runner.run()) for runner in judging_world.runners]
    loop = asyncio.get_running_loop()

    @FEW
    @given(requests=deliveries(1), tasks=deliveries(MEMORIES), verdicts=deliveries(MEMORIES))
    def whatever_comes(requests, tasks, verdicts) -> None:
        _on(loop, a_pass_of_its_own(judging_world, requests, tasks, verdicts, together))

    try:
        await asyncio.to_thread(whatever_comes)
    finally:
        for one in running:
            await end(one)


async def test_a_subscriber_applies_each_event_once_and_in_order_however_often_it_comes(
    log, database, tail, servers, broker_prefix
):
    """The stream itself holds every event five times; only the first of each comes in order."""
    settings_ = BrokerSettings(servers.broker_url, broker_prefix)
    relay = Relay(database, tail, settings_)
    await relay.open()
    await append(log, 4)
    await relay.reached(4)
    await relay.close()
    client = await connected(settings_)
    first = await stored(client, settings_)
    loop = asyncio.get_running_loop()

    async def repeated(groups: list[list[int]]) -> None:
        js = client.jetstream()
        for number in itertools.chain(*groups):
            message = first[number]
            await js.publish(message.subject, message.data, headers={"Nats-Msg-Id": str(uuid4())})
        held = (await js.stream_info(settings_.stream("events"))).state.messages
        applied: list[int] = []

        async def apply(event: RecordedEvent) -> None:
            applied.append(event.position)

        name = f"reader-{uuid4().hex}"
        running = asyncio.ensure_future(
            subscribe(settings_, name, ["*"], apply, position=lambda: applied[-1] if applied else 0)
        )

        async def through() -> bool:
            try:
                info = await js.consumer_info(settings_.stream("events"), name)
            except Exception:
                return False
            return bool(info.ack_floor) and info.ack_floor.stream_seq == held

        await eventually(through, "the subscriber went through the stream")
        await end(running)
        assert applied == [1, 2, 3, 4]

    @FEW
    @given(groups=deliveries(4))
    def whatever_comes(groups: list[list[int]]) -> None:
        _on(loop, repeated(groups))

    await asyncio.to_thread(whatever_comes)
    await client.close()


def _on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    asyncio.run_coroutine_threadsafe(work, loop).result(60)
