"""How everything stands, found out without starting or changing anything."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rich.table import Table
from rich.text import Text

from ...domain.errors import LethelogError
from .output import counted, moment, safe
from .session import VIEWS

if TYPE_CHECKING:
    from ...projections.progress import Progress
    from ...projections.rebuild import Rebuild
    from ...streams.broker import BrokerSettings
    from ...streams.database import Database
    from ...streams.relay import RelayState
    from ..embedded import ServerStatus
    from ..settings import Settings
    from .background import WorkerState
    from .session import Session

QUEUE_STATUSES = ("proposed", "applied", "rejected", "withdrawn")


@dataclass
class Standing:
    """What was found. A part is None where its server does not run or was never set up."""

    data_dir: str
    embedded: bool
    servers: "ServerStatus | None" = None
    worker: "WorkerState | None" = None
    killed_worker: "WorkerState | None" = None
    """The worker that ran last, where nobody stopped it and it is gone."""
    head: int | None = None
    read_models: "Sequence[Progress]" = ()
    rebuilds: "Sequence[Rebuild]" = ()
    leftovers: "Sequence[str]" = ()
    """Schemas with clear text that replays and comparisons left which were killed."""
    relay: "RelayState | None" = None
    parked: dict[str, int] | None = None
    """Messages that consumers set aside, by consumer; None where the broker does not answer."""
    queue: dict[str, int] | None = None
    problem: str | None = None
    """Why the database could not be looked at."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; holds no secret and no content."""
        return {
            "data_dir": self.data_dir,
            "embedded": self.embedded,
            "servers": self.servers.as_dict() if self.servers else None,
            "worker": self.worker.as_dict() if self.worker else None,
            "killed_worker": self.killed_worker.as_dict() if self.killed_worker else None,
            "head": self.head,
            "read_models": [
                {**asdict(one), "standing": one.standing, "stalled": one.stalled_at is not None}
                for one in self.read_models
            ],
            "rebuilds": [asdict(one) for one in self.rebuilds],
            "leftovers": list(self.leftovers),
            "relay": asdict(self.relay) if self.relay else None,
            "parked": self.parked,
            "queue": self.queue,
            "problem": self.problem,
        }


async def look(settings: "Settings") -> Standing:
    """Look at servers, worker, read models, relay and queue."""
    from . import background

    embedded = settings.database_url is None or settings.broker_url is None
    found = Standing(str(settings.data_dir), embedded, worker=background.current(settings.data_dir))
    found.killed_worker = background.killed(settings.data_dir)
    if embedded:
        from ..embedded import status

        found.servers = await asyncio.to_thread(status, settings.data_dir)
        if not found.servers.running:
            return found
    async with AsyncExitStack() as stack:
        try:
            await _look_into(settings, found, stack)
        except LethelogError as error:
            found.problem = error.message
    return found


async def _look_into(settings: "Settings", found: Standing, stack: AsyncExitStack) -> None:
    from ...streams.database import Database

    url = settings.database_url.get_secret_value() if settings.database_url else None
    if found.embedded:
        from ..embedded import join

        servers = stack.enter_context(await asyncio.to_thread(join, settings.data_dir))
        url = url or servers.database_url
    assert url is not None
    worker = settings.worker_database_url.get_secret_value() if settings.worker_database_url else None
    # With the rights of the login: the roles may not exist before the first use.
    database = Database(url, worker_url=worker, size=2, role=None)
    # A pool waits for a server that may come back; whoever looks wants to know now.
    await (await database.connect()).close()
    stack.push_async_callback(database.close)
    await database.open()
    if not await _exists(database, "lethelog.head"):
        return
    from ...projections.generations import are_prepared
    from ...projections.progress import read_progress
    from ...projections.rebuild import read_rebuilds
    from ...projections.scratch import read_leftovers
    from ...streams.relay import relay_state
    from .serving import broker_settings

    async with database.connection() as connection:
        row = await (await connection.execute("select position from lethelog.head")).fetchone()
        found.head = row[0] if row else 0
    broker = await asyncio.to_thread(broker_settings, settings)
    found.relay = await relay_state(database, broker)
    found.parked = await _parked(broker)
    async with database.connection() as connection:
        if not await are_prepared(connection):
            return
        found.read_models = [await read_progress(connection, name) for name in VIEWS]
        found.rebuilds = await read_rebuilds(connection, VIEWS)
        found.leftovers = [one.schema for one in await read_leftovers(connection)]
    if any(one.version for one in found.read_models):
        found.queue = await _queue(settings, database)


async def _parked(broker: "BrokerSettings") -> dict[str, int] | None:
    from ...streams.broker import close, connect, jetstream
    from ...streams.parking_place import parked_counts

    try:
        client = await connect(broker, name="status", reconnect=False)
        try:
            return await parked_counts(jetstream(client, broker), broker)
        finally:
            await close(client)
    except LethelogError:
        return None


async def _queue(settings: "Settings", database: "Database") -> dict[str, int] | None:
    """How many proposals of this tenant stand how. None where the tenant or the master key is not there yet."""
    from ...projections.generations import read_models

    tenant = await tenant_id(settings, database)
    if tenant is None:
        return None
    async with read_models(database) as connection:
        cursor = await connection.execute(
            "select status, count(*) from review_queue where tenant = %s and status <> 'dismissed' group by 1",
            (tenant,),
        )
        counted = dict(await cursor.fetchall())
    return {status: counted.get(status, 0) for status in QUEUE_STATUSES}


async def tenant_id(settings: "Settings", database: "Database") -> UUID | None:
    """The tenant's opaque id, if it was ever made here and the master key is at hand."""
    from ...streams.directory import INSTALLATION, Directory
    from ...streams.vault import Vault
    from ..master_keys import keys_from_file, load_keyring

    if settings.token is not None or settings.token_file is not None:
        return None
    if keys_from_file(settings) and not settings.key_file.exists():
        return None
    vault = Vault(database, load_keyring(settings))
    return await Directory(database.doors, vault).find(INSTALLATION, "tenant", settings.tenant)


async def _exists(database: "Database", relation: str) -> bool:
    async with database.connection() as connection:
        row = await (await connection.execute("select to_regclass(%s) is not null", (relation,))).fetchone()
    return bool(row and row[0])


def print_standing(session: "Session") -> None:
    """Look, and print it."""
    found = asyncio.run(look(session.settings))
    printer = session.printer
    if printer.json_only:
        printer.document(found.as_dict())
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("data directory", safe(found.data_dir))
    if found.servers is not None:
        _add_servers(table, found.servers)
    else:
        table.add_row("servers", "of one's own (LETHELOG_DATABASE_URL, LETHELOG_BROKER_URL)")
    worker = found.worker
    if found.killed_worker is not None:
        gone = f"process {found.killed_worker.pid} is gone and was not stopped; start it again: lethelog up"
        table.add_row("worker", Text(gone, "red"))
    elif worker is None:
        table.add_row("worker", Text("not running; commands do the work they need", "dim"))
    else:
        table.add_row("worker", Text(f"running, process {worker.pid}, {', '.join(worker.roles)}", "green"))
    if found.problem:
        table.add_row("database", safe(found.problem, "red"))
    if found.relay is not None:
        behind = "nothing behind" if not found.relay.lag else f"{counted(found.relay.lag, 'event')} behind"
        table.add_row("broker", f"at {found.relay.position}, {behind}")
    if found.parked:
        said = ", ".join(f"{count} of {name}" for name, count in found.parked.items())
        table.add_row("parked", safe(f"{said}; see: lethelog parked list", "yellow"))
    if found.queue is not None:
        said = ", ".join(f"{count} {status}" for status, count in found.queue.items() if count)
        table.add_row("review queue", said or "empty")
    printer.out.print(table)
    if found.read_models:
        printer.out.print(_read_models(found))


def _add_servers(table: Table, servers: "ServerStatus") -> None:
    if not servers.running:
        table.add_row("servers", Text(f"{servers.phase}; they start when a command needs them", "dim"))
    else:
        stay = "until lethelog down" if servers.held else "while somebody uses them"
        table.add_row("servers", Text(f"running, {stay}", "green"))
        vector = f", pgvector {servers.pgvector_version}" if servers.pgvector_version else ""
        table.add_row("PostgreSQL", safe(f"{servers.postgres.version}{vector}, process {servers.postgres.pid}"))
        table.add_row("", safe(f"socket in {servers.socket_dir}"))
        table.add_row("NATS", safe(f"{servers.broker.version}, 127.0.0.1:{servers.broker_port}"))
    if servers.last_error:
        table.add_row("last error", safe(servers.last_error, "red"))


def _read_models(found: Standing) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("read model", "position", "behind", "moved", "state"):
        table.add_column(title, justify="right" if title in ("position", "behind") else "left", overflow="fold")
    for one in found.read_models:
        table.add_row(one.name, str(one.position), _lag(one), moment(one.moved_at), _state(one))
    for one in found.rebuilds:
        says = "runs" if one.running else f"broken off; lethelog rebuild {one.name} goes on, --cancel drops it"
        lag = max(0, (found.head or 0) - one.position)
        table.add_row(f"{one.name} (rebuild)", str(one.position), str(lag), "", Text(says, "yellow"))
    return table


def _lag(one: "Progress") -> str:
    return f"{one.lag}, {one.lag_seconds:.0f} s" if one.lag else "0"


def _state(one: "Progress") -> Text:
    if one.standing == "stalled":
        return Text(f"stalled at {one.stalled_at}: {one.error}", "red")
    if one.standing == "parked":
        return Text(f"parked: {one.parked}; see: lethelog parked list", "red")
    return Text(one.standing, {"caught up": "green", "never built": "dim"}.get(one.standing, "yellow"))
