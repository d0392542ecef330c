"""The checks of `doctor` that look at the broker: streams, durables, relay, and what was set aside."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from nats.js.errors import NotFoundError

from ...domain.errors import LethelogError
from .checks import MUCH_LAG, Check
from .output import counted
from .standing import Standing

_MOVING_SECONDS = 1.0
"""How long a relay that is behind is given to show that it moves."""

if TYPE_CHECKING:
    from nats.aio.client import Client

    from ...streams.broker import BrokerSettings
    from ...streams.database import Database
    from ...streams.relay import RelayState
    from ...streams.topology import Durable
    from ..settings import Settings


async def check_broker(
    settings: "Settings", broker: "BrokerSettings", database: "Database", standing: Standing
) -> AsyncGenerator[Check]:
    """Look at the broker, and at what the relay and the consumers left on it."""
    from ...streams.broker import close, connect

    try:
        client = await connect(broker, name="doctor", reconnect=False)
    except LethelogError as error:
        yield Check("broker", "fault", error.message, "Writes go on; start NATS, or check LETHELOG_BROKER_URL")
        return
    try:
        version = client.connected_server_version
        yield Check("broker", "ok", f"NATS {version.major}.{version.minor}.{version.patch}, JetStream")
        yield await _drift(client, broker, "streams", (), standing)
        yield await _drift(client, broker, "durables", await _durables_of(settings, broker, standing), standing)
        async for check in _left_on(client, broker):
            yield check
    except LethelogError as error:
        yield Check("streams", "fault", error.message)
    finally:
        await close(client)
    if standing.relay is not None:
        yield await _relay(broker, database, standing.relay, standing.worker is not None)


async def _relay(broker: "BrokerSettings", database: "Database", state: "RelayState", worker_runs: bool) -> Check:
    """How far the broker is behind the log; with a worker that should carry, whether it moves."""
    from ...streams.relay import relay_state

    if not state.lag or not worker_runs:
        behind = f", {counted(state.lag, 'event')} behind (carried while a worker runs)" if state.lag else ""
        return Check("relay", "ok", f"at {state.position}{behind}")
    await asyncio.sleep(_MOVING_SECONDS)
    now = await relay_state(database, broker)
    behind = f"{counted(now.lag, 'event')} behind"
    if now.lag and now.position == state.position:
        fix = "See the worker's log; a broker whose disk was full must be restarted: lethelog down && lethelog up"
        return Check("relay", "warning", f"stands still at {now.position}, {behind}", fix)
    level = "warning" if now.lag > MUCH_LAG else "ok"
    return Check("relay", level, f"at {now.position}, {behind} and moving")


async def _durables_of(settings: "Settings", broker: "BrokerSettings", standing: Standing) -> "Sequence[Durable]":
    """What the worker, or one of these settings, consumes by."""
    from ...handlers.judges import open_judge
    from ...handlers.operating.workers import ALL_ROLES, durables_of_roles

    try:
        judge = open_judge(settings.judge, systemone=settings.systemone())
    except LethelogError:
        return ()  # the judge; it has a check of its own
    await judge.close()
    roles = frozenset[str](ALL_ROLES if standing.worker is None else standing.worker.roles)
    if settings.extractor_url is None:
        roles -= {"extraction"}  # without an extractor there is nothing to consume for
    return durables_of_roles(broker, roles, judge.identity)


async def _drift(
    client: "Client", broker: "BrokerSettings", part: str, durables: "Sequence[Durable]", standing: Standing
) -> Check:
    """Whether streams, or durables on them, are as they should be; what is missing is made at first use."""
    from ...streams.topology import Topology

    drift = [one for one in await Topology(broker, durables).drift(client) if one.startswith(part[:-1])]
    missing = [one for one in drift if one.endswith("is missing")]
    if not drift:
        return Check(part, "ok", "as they should be")
    if len(missing) < len(drift) or (missing and part == "durables" and standing.worker is not None):
        return Check(part, "warning", "; ".join(drift), "A worker mends this while it runs: lethelog up")
    return Check(part, "idle", f"{counted(len(missing), part[:-1])} not there yet; made when a worker first runs")


async def _left_on(client: "Client", broker: "BrokerSettings") -> AsyncGenerator[Check]:
    """How far the consumers are, and what was set aside."""
    from ...streams.broker import jetstream, translated
    from ...streams.parking_place import parked_counts, retrying_counts

    js = jetstream(client, broker)
    states: list[str] = []
    with translated():
        for kind in ("events", "tasks"):
            try:
                consumers = await js.consumers_info(broker.stream(kind))
            except NotFoundError:
                continue
            states += [
                f"{one.name}: {one.num_pending or 0} waiting, {one.num_ack_pending or 0} open"
                for one in consumers
                if one.config.durable_name
            ]
    if states:
        yield Check("consumers", "ok", "; ".join(sorted(states)))
    else:
        yield Check("consumers", "idle", "none yet; a worker makes them")
    retrying, parked = await retrying_counts(js, broker), await parked_counts(js, broker)
    if retrying:
        yield Check("retries", "ok", f"wait to be tried again: {_counted(retrying)}")
    if parked:
        fix = "See: lethelog parked list; then lethelog parked retry, or drop"
        yield Check("parked", "warning", f"failed again and again, or stand behind: {_counted(parked)}", fix)
    else:
        yield Check("parked", "ok", "nothing was set aside")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} of {name}" for name, count in counts.items())
