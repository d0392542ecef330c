"""The checks of `doctor` that need running servers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...domain.errors import LethelogError
from ..settings import DEFAULT_TENANT
from .broker_checks import check_broker
from .checks import MUCH_LAG, Check
from .output import counted
from .role_checks import check_roles
from .standing import Standing, look, tenant_id

if TYPE_CHECKING:
    from ...projections.progress import Progress
    from ...projections.rebuild import Rebuild
    from ...streams.database import Connection, Database
    from ..settings import Settings

VERIFIED = 1_000
"""Events at the end of the log that are held against the hash chain."""


@dataclass
class ServerFindings:
    """What the servers showed."""

    checks: list[Check] = field(default_factory=list[Check])
    sealed: bool | None = None
    """Whether the vault holds keys, that is, whether data are sealed under the master key."""
    built_as: str | None = None
    """Version of the read model ``live_memory``, which names its embedding model."""


async def check_servers(settings: "Settings", *, start: bool) -> ServerFindings:
    """Look at the servers, and at what they hold."""
    found = ServerFindings()
    async with AsyncExitStack() as stack:
        try:
            if start and (settings.database_url is None or settings.broker_url is None):
                from ..embedded import join

                stack.enter_context(await asyncio.to_thread(join, settings.data_dir))
            standing = await look(settings)
        except LethelogError as error:
            found.checks.append(Check("servers", "fault", error.message))
            return found
        found.checks += _of_standing(standing)
        if standing.problem is None and (standing.servers is None or standing.servers.running):
            await _look_deeper(settings, standing, found)
    return found


def _of_standing(standing: Standing) -> list[Check]:
    found: list[Check] = []
    servers = standing.servers
    if servers is not None:
        if servers.running:
            found.append(Check("servers", "ok", f"running, process {servers.supervisor_pid}"))
        elif servers.last_error:
            found.append(Check("servers", "warning", f"not running; last error: {servers.last_error}"))
        else:
            found.append(Check("servers", "idle", "not running (they start on demand)", ""))
        if servers.restarts:
            found.append(
                Check(
                    "restarts",
                    "warning",
                    f"{servers.restarts} since {servers.started_at}",
                    f"See {servers.data_dir}/logs",
                )
            )
    if standing.worker is not None:
        found.append(_worker(standing))
    elif (gone := standing.killed_worker) is not None:
        says = f"process {gone.pid}, started {gone.started_at}, is gone and was not stopped"
        log = f"; its log: {gone.log}" if gone.log else ""
        found.append(Check("worker", "warning", says, f"Start it again: lethelog up{log}"))
    else:
        found.append(
            Check("worker", "idle", "not running (commands do the work they need; lethelog up keeps one)")
        )
    if standing.problem:
        found.append(Check("database", "fault", standing.problem))
    return found


def _worker(standing: Standing) -> Check:
    from importlib.metadata import version

    worker = standing.worker
    assert worker is not None
    here = version("lethelog")
    if worker.version and worker.version != here:
        return Check(
            "worker",
            "warning",
            f"runs version {worker.version}, this is {here}",
            "Run: lethelog down && lethelog up",
        )
    return Check("worker", "ok", f"running, process {worker.pid}")


async def _look_deeper(settings: "Settings", standing: Standing, found: ServerFindings) -> None:
    from ...streams.database import Database
    from .erasure_checks import check_erasures
    from .serving import broker_settings
    from .webhook_checks import check_webhooks

    async with AsyncExitStack() as stack:
        try:
            url = settings.database_url.get_secret_value() if settings.database_url else None
            if url is None:
                from ..embedded import join

                servers = stack.enter_context(await asyncio.to_thread(join, settings.data_dir))
                url = servers.database_url
            worker = settings.worker_database_url.get_secret_value() if settings.worker_database_url else None
            # With the rights of the login: the roles may not exist before the first use.
            database = Database(url, worker_url=worker, size=2, role=None)
            stack.push_async_callback(database.close)
            await database.open()
            async with database.connection() as connection:
                found.checks += [check async for check in _database(connection, url, found)]
                found.checks += [check async for check in check_roles(connection)]
            found.checks += await _log(database, standing)
            found.checks += _read_models(standing)
            found.checks += [check async for check in check_erasures(settings, database, standing)]
            found.checks += [check async for check in check_webhooks(database)]
            broker = await asyncio.to_thread(broker_settings, settings)
            found.checks += [check async for check in check_broker(settings, broker, database, standing)]
            found.checks += [check async for check in _tenant(settings, database, standing)]
        except LethelogError as error:
            found.checks.append(Check("database", "fault", error.message))


async def _database(connection: "Connection", url: str, found: ServerFindings) -> AsyncGenerator[Check]:
    row = await (await connection.execute("show server_version")).fetchone()
    version = str(row[0]).split()[0] if row else "?"
    major = int(version.split(".")[0]) if version.split(".")[0].isdigit() else 0
    level = "ok" if major >= 16 else "warning"
    yield Check("postgresql", level, version, "" if level == "ok" else "PostgreSQL 16 or newer is tested")
    row = await (
        await connection.execute(
            "select (select extversion from pg_extension where extname = 'vector'), "
            "(select default_version from pg_available_extensions where name = 'vector')"
        )
    ).fetchone()
    installed, available = row or (None, None)
    if installed:
        yield Check("pgvector", "ok", str(installed))
    elif available:
        yield Check("pgvector", "idle", f"{available} is available and is set up at first use")
    else:
        yield Check("pgvector", "fault", "the extension vector is not installed on the server", "Install pgvector")
    yield await asyncio.to_thread(_schema, url)
    from ...projections.generations import are_prepared
    from ...projections.progress import read_progress

    row = await (
        await connection.execute("select to_regclass('lethelog_vault.tenant_keys') is not null")
    ).fetchone()
    if row and row[0]:
        row = await (
            await connection.execute("select exists (select 1 from lethelog_vault.tenant_keys)")
        ).fetchone()
        found.sealed = bool(row and row[0])
    if await are_prepared(connection):
        found.built_as = (await read_progress(connection, "live_memory")).version or None


def _schema(url: str) -> Check:
    from ..migrations import schema_revision

    present, newest = schema_revision(url)
    if present is None:
        return Check("schema", "idle", f"not set up yet; {newest} at first use")
    if present == newest:
        return Check("schema", "ok", present)
    if present < newest:  # revisions are numbered
        return Check("schema", "idle", f"{present}; moved to {newest} at next use")
    return Check("schema", "fault", f"{present} is newer than this version knows ({newest})", "Upgrade Lethelog")


async def _log(database: "Database", standing: Standing) -> list[Check]:
    """Whether the log's last commits still say what was written, up to its head."""
    from ...streams import audit

    if not standing.head:
        return []
    found = await audit.verify(database, first=max(1, standing.head - VERIFIED + 1))
    if found.finding is not None:
        at = f"{found.finding.problem} at position {found.finding.position}"
        return [Check("log", "fault", at, "Run: lethelog audit verify, and see docs on what it found")]
    return [Check("log", "ok", f"at {found.upto}, its last {counted(found.events, 'event')} fit the chain")]


def _read_models(standing: Standing) -> list[Check]:
    return [
        *(_read_model(one, standing) for one in standing.read_models),
        *(_rebuild(one) for one in standing.rebuilds),
        *(
            Check(
                "clear text",
                "warning",
                f"the schema {one} was left by a replay or comparison that was killed",
                f"Run: lethelog replay --drop {one}",
            )
            for one in standing.leftovers
        ),
    ]


def _read_model(one: "Progress", standing: Standing) -> Check:
    behind = f", {counted(one.lag, 'event')} and {one.lag_seconds:.0f} s behind" if one.lag else ""
    says = f"{one.standing} at {one.position}, {one.version}{behind}"
    match one.standing:
        case "never built":
            return Check(one.name, "idle", "is built at first use")
        case "stalled":
            says = f"stalled at position {one.stalled_at} ({one.error}){behind}"
            fix = (
                "Upgrade if a newer version wrote it. Otherwise it is tried again until its cause is mended; to "
                f"set it aside instead, run: lethelog rebuild {one.name} --park"
            )
            return Check(one.name, "fault", says, fix)
        case "parked":
            says = f"parked: {counted(one.parked, 'event')} could not be applied{behind}"
            fix = f"See: lethelog parked list; once mended: lethelog parked retry --read-model {one.name}"
            return Check(one.name, "fault", says, fix)
        case "no worker" if standing.worker is not None and one.lag > MUCH_LAG:
            return Check(one.name, "fault", says, "Look at the worker's log (lethelog status)")
        case "behind" if one.lag > MUCH_LAG:
            return Check(
                one.name, "warning", says, "It moves; look again, or at the worker's log (lethelog status)"
            )
        case _:
            return Check(one.name, "ok", says)


def _rebuild(one: "Rebuild") -> Check:
    if one.running:
        return Check(f"rebuild of {one.name}", "ok", f"runs, at {one.position}")
    fix = f"Go on with: lethelog rebuild {one.name}; or drop it: lethelog rebuild {one.name} --cancel"
    return Check(f"rebuild of {one.name}", "warning", f"was broken off at {one.position}", fix)


def _unmade(settings: "Settings") -> Check:
    if settings.token is not None or settings.token_file is not None:
        return Check("tenant", "idle", "is that of the token; see: lethelog token check")
    if settings.tenant == DEFAULT_TENANT:
        return Check("tenant", "idle", f"{settings.tenant} is made at first use")
    fix = "See: lethelog tenant list; to make it: lethelog tenant create NAME"
    return Check("tenant", "warning", f"there is no tenant {settings.tenant}", fix)


async def _tenant(settings: "Settings", database: "Database", standing: Standing) -> AsyncGenerator[Check]:
    """Whether this tenant may be judged, and what waits for its reviewers."""
    from ...handlers.tenancy.tenants import Tenants
    from ...streams.log import Log
    from ...streams.vault import Vault
    from ..master_keys import load_keyring

    try:
        tenant = await tenant_id(settings, database) if standing.head is not None else None
    except LethelogError:
        return  # the master key; it has a check of its own
    if tenant is None:
        yield _unmade(settings)
        return
    log = Log(database, Vault(database, load_keyring(settings)))
    state = await Tenants(log).get(tenant, fresh=True)
    if state.judgment:
        yield Check("tenant", "ok", f"{settings.tenant}, may be judged")
    else:
        fix = "To allow it: lethelog settings judgment on"
        yield Check("tenant", "idle", f"{settings.tenant}, judging is off, so nothing is proposed", fix)
    if standing.queue is not None:
        waiting = standing.queue["proposed"]
        yield Check(
            "review queue",
            "ok",
            f"{counted(waiting, 'proposal')} waiting" + (": lethelog review" if waiting else ""),
        )
