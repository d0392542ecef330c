"""Opening a memory: servers, schema, keys, embedder, judge, workers — in that order, undone in reverse.

`Memory` and `AsyncMemory` here are what ``from lethelog import Memory, AsyncMemory`` gives.
"""

import asyncio
import contextlib
from collections.abc import Collection
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

import psycopg

from ..domain import stated
from ..domain.closing import SessionJudge
from ..domain.errors import InvalidInput, LethelogError
from ..domain.extraction import FactExtractor
from ..domain.judging import Judge
from ..domain.thresholds import Thresholds
from ..handlers.access.caller import Caller, actor_of
from ..handlers.access.credentials import Credential, Credentials, Verifier
from ..handlers.access.jwt_settings import JwtSettings
from ..handlers.blocking import BlockingMemory
from ..handlers.engine import Clock, Engine, open_engine, utc_now
from ..handlers.erasure.erasures import Erasures
from ..handlers.erasure.means import ErasureMeans
from ..handlers.forgetting.settings import PassSettings
from ..handlers.judges import JUDGES, open_judge
from ..handlers.judges.thresholds import thresholds_for
from ..handlers.memory import AsyncMemory as AsyncDoor
from ..handlers.operating.workers import ALL_ROLES, Role, Workers
from ..handlers.sessions.closer import CloserSettings
from ..handlers.tenancy.tenancy import Tenancy
from ..projections.embedders import open_embedder
from ..projections.embedders.floors import floor_for
from ..projections.runner import ensure_tables
from ..streams.broker import BrokerSettings
from ..streams.database import session_options
from ..streams.erasure_ledger import Ledger
from ..streams.payloads import Actor
from ..streams.signing import SigningKey
from .master_keys import open_keyring
from .migrations import check_logins, migrate
from .settings import DEFAULT_TENANT, Settings


class AsyncMemory(AsyncDoor):
    """Long-term memory for agents, asyncio. ``memory = await AsyncMemory.local(path)``."""

    @classmethod
    async def local(cls, path: str | Path | None = None, **settings: Any) -> "AsyncDoor":
        """Open the memory in a data directory, with its servers and workers; see `Memory.local`."""
        return await open_memory(Settings.load(data_dir=path, **settings))


class Memory(BlockingMemory):
    """Long-term memory for agents.

    >>> with Memory.local("./memory") as memory:                                            # doctest: +SKIP
    ...     memory.remember("Deploys go to Hetzner", memory_type="decision")
    ...     memory.search("where do deploys go?").hits[0].memory.content
    """

    @classmethod
    def local(cls, path: str | Path | None = None, **settings: Any) -> Self:
        """Open the memory in a data directory, with its servers and workers.

        The embedded servers start when nobody runs them yet, are shared with other processes of the same
        directory, and stop when the last one leaves. Settings are those of `ops.settings.Settings` (for example
        ``actor="agent:planner"``, ``judge="none"``); the environment gives the rest.

        Raises `Misconfigured` and `Unavailable`, each saying what is wrong and what to do.
        """
        chosen = Settings.load(data_dir=path, **settings)
        return cls(lambda: open_memory(chosen))

    @classmethod
    def open(cls, settings: Settings, roles: Collection[Role] = ALL_ROLES, *, ensure: bool = True) -> Self:
        """Open with ready settings and chosen background roles; the command line's way in."""
        return cls(lambda: open_memory(settings, roles, ensure=ensure))


async def open_memory(
    settings: Settings,
    roles: Collection[Role] = ALL_ROLES,
    *,
    clock: Clock = utc_now,
    ensure: bool = True,
) -> AsyncDoor:
    """Open everything. ``ensure`` makes the read models' tables and refuses other versions of them; a rebuild
    opens without it."""
    async with AsyncExitStack() as stack:
        database_url, owner_url, broker_url = await _servers(settings, stack)
        worker_url = settings.worker_database_url.get_secret_value() if settings.worker_database_url else None
        await asyncio.to_thread(migrate, owner_url)
        await asyncio.to_thread(check_logins, database_url, worker_url)
        keyring = await asyncio.to_thread(open_keyring, settings, lambda: _holds_keys(worker_url or database_url))
        embedder = await asyncio.to_thread(open_embedder, settings.embedder, **settings.embedder_options())
        stack.callback(embedder.close)
        signing = await asyncio.to_thread(SigningKey.open, settings.signing_file)
        engine = await open_engine(
            database_url,
            keyring,
            embedder,
            worker_url=worker_url,
            clock=clock,
            grace=timedelta(seconds=settings.rebuild_grace),
            erasure=ErasureMeans(Ledger(settings.ledger_file), signing),
            webhooks=settings.webhooks(),
        )
        stack.push_async_callback(engine.close)
        if ensure:
            await ensure_tables(engine.database, engine.projections)
        # Before anybody reads: the database may have been put back from before an erasure.
        await Erasures(engine).hold_to_ledger()
        whose = await open_credential(engine, settings)
        passes = open_pass_settings(settings, engine)
        stack.push_async_callback(passes.judge.close)
        extractor = open_extractor(settings)
        if extractor is not None:
            stack.push_async_callback(extractor.close)
        broker = BrokerSettings(broker_url, settings.broker_prefix)
        grace = timedelta(days=settings.commitment_expiry_grace_days)
        workers = Workers(
            engine,
            broker=broker,
            passes=passes,
            roles=roles,
            commitment_grace=grace,
            closer=CloserSettings(passes.judge, settings.session_closer_enabled),
            extractor=extractor,
        )
        stack.push_async_callback(workers.close)
        await workers.open()
        # Whatever any process wrote before this moment is in the first read.
        written = await engine.log.head()
        return AsyncDoor(
            engine,
            whose,
            passes,
            stack.pop_all().aclose,
            broker=broker,
            position=written,
            judge_named=partial(open_judge_named, settings),
            extractor=extractor,
        )


async def open_credential(engine: Engine, settings: Settings) -> Caller | Credential:
    """Who this process works for: the bearer of a token, or the operator. Raises `InvalidCredential`."""
    text = settings.credential()
    if text is None:
        return await open_caller(engine, settings)
    credentials = open_credentials(engine, settings)
    await credentials.caller(text)
    return Credential(credentials, text)


def open_credentials(engine: Engine, settings: Settings) -> Credentials:
    """What checks tokens, and JWTs of the issuer that the settings name."""
    issuer = settings.jwt()
    return Credentials(engine, None if issuer is None else _verifier(engine, issuer))


def _verifier(engine: Engine, issuer: JwtSettings) -> Verifier:
    # Imported here: what checks signatures and fetches keys is for the few who show a token of an issuer.
    from ..handlers.access.jwt_verifier import JwtVerifier

    return JwtVerifier(engine, issuer)


async def open_caller(engine: Engine, settings: Settings) -> Caller:
    """The tenant and actor the settings name. Only the default tenant is made by being named.

    Raises `NotFound` for a tenant that was never made, and makes nothing then.
    """
    kind, name = actor_of(settings.actor)
    tenancy = Tenancy(engine)
    if settings.tenant == DEFAULT_TENANT:
        tenant = await tenancy.begin(DEFAULT_TENANT, kind, name)
    else:
        tenant = await tenancy.by_name(settings.tenant)
    return Caller(tenant.id, Actor(kind, await engine.directory.register(tenant.id, "actor", name)))


def open_pass_settings(settings: Settings, engine: Engine) -> PassSettings:
    """Judge, thresholds and floor the settings name."""
    judge, thresholds = _judge_and_thresholds(settings, settings.judge_thresholds)
    return PassSettings(
        judge=judge,
        thresholds=thresholds,
        default_floor=floor_for(engine.embedder.model),
        enabled=settings.forgetting_pass_enabled,
    )


def open_extractor(settings: Settings) -> FactExtractor | None:
    """The extractor that the settings name; close it when done. None where they name none."""
    chosen = settings.extractor()
    if chosen is None:
        return None
    # Imported here: the HTTP client takes a while to load, and few have an extractor.
    from ..handlers.extracting.chat_extractor import ChatExtractor

    return ChatExtractor(chosen)


def open_judge_named(settings: Settings, name: str) -> tuple[Judge, Thresholds]:
    """A judge for a what-if, and the thresholds selected for it; close it when done. Raises `InvalidInput`."""
    if name not in JUDGES:
        raise InvalidInput("judge", f"must be one of {', '.join(JUDGES)}")
    # The file is of the judge that the settings name, and refused for any other.
    file = settings.judge_thresholds if name == settings.judge else None
    return _judge_and_thresholds(settings.model_copy(update={"judge": name}), file)


def _judge_and_thresholds(settings: Settings, file: Path | None) -> tuple[SessionJudge, Thresholds]:
    judge = open_judge(settings.judge, systemone=settings.systemone())
    thresholds = thresholds_for(
        judge.identity, file=file, starting=settings.judge_starting_values, shipped=_shipped(judge.name)
    )
    return judge, thresholds


async def _servers(settings: Settings, stack: AsyncExitStack) -> tuple[str, str, str]:
    """URLs of the database, of the database as its owner, and of the broker."""
    database = settings.database_url.get_secret_value() if settings.database_url else None
    owner = settings.database_owner_url.get_secret_value() if settings.database_owner_url else None
    broker = settings.broker_url.get_secret_value() if settings.broker_url else None
    if database is None or broker is None:
        from .embedded import join

        joining = asyncio.ensure_future(asyncio.to_thread(join, settings.data_dir))
        try:
            servers = await asyncio.shield(joining)
        except asyncio.CancelledError:
            # Whoever gave up meanwhile must not stay joined: the servers would outlive their last client.
            with contextlib.suppress(LethelogError):
                (await joining).leave()
            raise
        stack.callback(servers.leave)
        owner = owner or (servers.owner_url if database is None else None)
        database = database or servers.database_url
        broker = broker or servers.broker_url
    return database, owner or database, broker


def _holds_keys(worker_url: str) -> bool:
    with psycopg.connect(worker_url, connect_timeout=10, options=session_options()) as connection:
        row = connection.execute("select exists (select 1 from lethelog_vault.tenant_keys)").fetchone()
    return row is not None and row[0]


def _shipped(judge: str) -> Thresholds | None:
    return stated.THRESHOLDS if judge == "stated" else None
