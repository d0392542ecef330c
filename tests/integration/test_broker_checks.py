"""What `doctor` says of the broker: a relay that stands still, durables that drifted."""

import pytest
from lethelog.handlers.operating.workers import durables_of_roles
from lethelog.ops.cli import broker_checks
from lethelog.ops.cli.background import WorkerState
from lethelog.ops.cli.standing import Standing
from lethelog.ops.settings import Settings
from lethelog.streams.relay import Relay, relay_state
from lethelog.streams.topology import Topology

from .broker_fixtures import append, connected

WORKER = WorkerState(1, "2026-03-01T09:00:00", "0", ("passes", "relay"), True, None)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(broker_checks, "_MOVING_SECONDS", 0.0)


async def checks(broker, database, worker: WorkerState | None = WORKER) -> dict[str, broker_checks.Check]:
    standing = Standing("", False, worker=worker, relay=await relay_state(database, broker))
    found = [one async for one in broker_checks.check_broker(Settings.load(), broker, database, standing)]
    return {one.name: one for one in found}


async def test_a_relay_that_stands_still_under_a_running_worker_is_a_warning_with_its_fix(
    log, database, tail, broker
):
    await append(log, 7)
    found = (await checks(broker, database))["relay"]
    assert (found.level, found.says) == ("warning", "stands still at 0, 7 events behind") and found.fix
    found = (await checks(broker, database, worker=None))["relay"]
    assert (found.level, found.says) == ("ok", "at 0, 7 events behind (carried while a worker runs)")
    relay = Relay(database, tail, broker)
    await relay.open()
    await relay.reached(7)
    await relay.close()
    assert (await checks(broker, database))["relay"].says == "at 7"


async def test_durables_that_are_missing_or_drifted_under_a_running_worker_are_a_warning(log, database, broker):
    assert (await checks(broker, database, worker=None))["durables"].level == "idle"
    assert (await checks(broker, database))["durables"].level == "warning"
    await Topology(broker, durables_of_roles(broker, WORKER.roles, "stated")).ensure()
    found = (await checks(broker, database))["durables"]
    assert (found.level, found.says) == ("ok", "as they should be")
    client = await connected(broker)
    js, events = client.jetstream(), broker.stream("events")
    present = (await js.consumer_info(events, "pass-verdicts")).config
    await js.add_consumer(events, present.evolve(ack_wait=1))
    found = (await checks(broker, database))["durables"]
    assert found.level == "warning" and "pass-verdicts" in found.says and "ack_wait" in found.says
    await js.delete_consumer(events, "pass-verdicts")
    found = (await checks(broker, database))["durables"]
    assert found.level == "warning" and "is missing" in found.says
    await client.close()
