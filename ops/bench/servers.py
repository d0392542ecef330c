"""The servers a run measures on: of its own in a temporary folder, or those the settings name.

Whatever the run makes on them, it takes away again: databases, streams, folder.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ...domain.errors import Misconfigured
from ...handlers.engine import Engine, open_engine
from ...handlers.erasure.means import ErasureMeans
from ...projections.embedders import Embedder
from ...projections.runner import ensure_tables
from ...streams.broker import STREAM_KINDS, BrokerSettings, close, connect, jetstream
from ...streams.master_keys import Keyring
from ..migrations import migrate
from ..settings import Settings
from .flush import flush_ms


@dataclass(frozen=True)
class Servers:
    """Where to measure. ``database_url`` may create databases; ``disk`` is a folder on the database's disk."""

    database_url: str
    broker_url: str
    disk: Path | None

    def flush_ms(self) -> float | None:
        """How long the database's disk takes to make a write durable; None where that disk is out of reach."""
        return None if self.disk is None else flush_ms(self.disk)

    @asynccontextmanager
    async def database(self) -> AsyncGenerator[str]:
        """The URL of an empty, migrated database; dropped afterwards."""
        name = f"lethelog_bench_{uuid4().hex}"
        await asyncio.to_thread(_on_server, self.database_url, sql.SQL("create database {}"), name)
        try:
            url = make_conninfo(self.database_url, dbname=name)
            await asyncio.to_thread(migrate, url)
            yield url
        finally:
            await asyncio.to_thread(
                _on_server, self.database_url, sql.SQL("drop database if exists {} with (force)"), name
            )

    @asynccontextmanager
    async def engine(self, embedder: Embedder, erasure: ErasureMeans | None = None) -> AsyncGenerator[Engine]:
        """An engine over a database of its own, with the tables of every read model."""
        async with self.database() as url:
            engine = await open_engine(url, Keyring.of(os.urandom(32)), embedder, erasure=erasure)
            try:
                await ensure_tables(engine.database, engine.projections)
                yield engine
            finally:
                await engine.close()

    @asynccontextmanager
    async def broker(self) -> AsyncGenerator[BrokerSettings]:
        """Streams of its own on the broker; deleted afterwards."""
        settings = BrokerSettings(self.broker_url, f"lethelog_bench_{uuid4().hex[:12]}")
        try:
            yield settings
        finally:
            client = await connect(settings, name="bench")
            try:
                js = jetstream(client, settings)
                present = {info.config.name for info in await js.streams_info()}
                for kind in STREAM_KINDS:
                    if settings.stream(kind) in present:
                        await js.delete_stream(settings.stream(kind))
            finally:
                await close(client)


@asynccontextmanager
async def own_servers() -> AsyncGenerator[Servers]:
    """Embedded servers in a temporary folder, discarded afterwards."""
    from .. import embedded

    folder = Path(tempfile.mkdtemp(prefix="lethelog-bench-"))
    try:
        running = await asyncio.to_thread(embedded.join, folder)
        try:
            yield Servers(embedded.superuser_url(folder), running.broker_url, _disk(folder))
        finally:
            running.leave()
    finally:
        await asyncio.to_thread(embedded.discard, folder)


@asynccontextmanager
async def servers_here(settings: Settings) -> AsyncGenerator[Servers]:
    """The servers that the settings name; the embedded ones of the data directory where they name none.

    Raises `Misconfigured` when the database user may not create databases.
    """
    given = settings.database_url.get_secret_value() if settings.database_url else None
    broker = settings.broker_url.get_secret_value() if settings.broker_url else None
    if given is not None and broker is not None:
        yield Servers(given, broker, None)
        return
    from .. import embedded

    with await asyncio.to_thread(embedded.join, settings.data_dir) as running:
        yield Servers(
            given or embedded.superuser_url(settings.data_dir),
            broker or running.broker_url,
            None if given is not None else _disk(settings.data_dir),
        )


def _disk(data_dir: Path) -> Path | None:
    from .. import embedded

    cluster = Path(embedded.status(data_dir).cluster_dir)
    return next((folder for folder in (cluster.parent, data_dir) if os.access(folder, os.W_OK)), None)


def _on_server(url: str, statement: sql.SQL, name: str) -> None:
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement.format(sql.Identifier(name)))
    except psycopg.errors.InsufficientPrivilege:
        raise Misconfigured(
            "the database user may not create databases, and a measurement needs one of its own; "
            "leave --here out, or let an administrator run: alter role … createdb"
        ) from None
