"""A broker that is away until the relay tries at its slowest pace, and a commit whose answer is cut off on the wire."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator
from uuid import uuid4

import psycopg
from lethelog.streams import relay as relaying
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.database import Database
from lethelog.streams.log import Appended, Log
from lethelog.streams.relay import Relay

from ..broker_fixtures import append, connected, eventually, remembering, stored


async def test_a_broker_away_for_long_gets_every_event_once_in_order_when_it_is_back(
    log, database, tail, own_nats, broker_prefix, monkeypatch
):
    """Long in tries, not in seconds: the pauses grow from their least to their most and stay there for a while."""
    monkeypatch.setattr(relaying, "_SHORTEST_PAUSE", 0.005)
    monkeypatch.setattr(relaying, "_LONGEST_PAUSE", 0.1)
    pauses: list[float] = []

    class Watched(Relay):
        async def _session(self) -> None:
            pauses.append(self._pause)
            await super()._session()

    settings = BrokerSettings(own_nats.url, broker_prefix)
    relay = Watched(database, tail, settings)
    await relay.open()
    await append(log, 20)
    await relay.reached(20)
    own_nats.kill()
    pauses.clear()
    written = 20
    while pauses.count(0.1) < 8:
        written, tries = await append(log, 3), len(pauses)
        await eventually(lambda: len(pauses) > tries, "it tries again")  # noqa: B023 - awaited here
    assert [a <= b for a, b in itertools.pairwise(pauses)].count(False) == 0
    assert await relay.lag() == written - 20 and relay.problem
    own_nats.start()
    async with asyncio.timeout(20):
        await relay.reached(written)
    client = await connected(settings)
    found = [int(message.headers["Nats-Msg-Id"]) for message in await stored(client, settings)]
    await client.close()
    assert found == list(range(1, written + 1))
    assert relay.problem is None
    await append(log, 1)
    await relay.reached(written + 1)
    assert relay._pause == 0.005, "the next outage would begin with long pauses"
    await relay.close()


class Wire:
    """A wire to PostgreSQL that can go silent in the direction of the client, and be cut."""

    def __init__(self) -> None:
        self.deaf = False
        self.swallowed = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def to(self, database_url: str) -> AsyncGenerator[str]:
        parts = psycopg.conninfo.conninfo_to_dict(database_url)
        host, port = str(parts["host"]), str(parts["port"])

        async def carry(near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
            if host.startswith("/"):
                far, far_out = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
            else:
                far, far_out = await asyncio.open_connection(host, int(port))
            self._writers += [near_out, far_out]
            await asyncio.gather(self._pump(near, far_out, answers=False), self._pump(far, near_out, answers=True))

        server = await asyncio.start_server(carry, "127.0.0.1", 0)
        there = server.sockets[0].getsockname()
        try:
            yield str(
                psycopg.conninfo.make_conninfo(database_url, host=there[0], port=there[1], sslmode="disable")
            )
        finally:
            self.cut()
            server.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if answers and self.deaf:
                    self.swallowed.set()
                    continue
                writer.write(data)
                await writer.drain()
            writer.close()

    def cut(self) -> None:
        self.deaf = False
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()


async def test_a_commit_whose_answer_is_cut_off_on_the_wire_is_recognised_as_success(database_url, vault):
    """COMMIT is done on the server, no byte of its answer arrives, and the connection is gone."""
    wire = Wire()
    async with wire.to(database_url) as url:
        database = Database(url)
        await database.open()
        log = Log(database, vault)
        await log.open()
        await log.append(remembering())
        stream = uuid4()
        unit = remembering(stream)
        wire.deaf = True
        appending = asyncio.ensure_future(log.append(unit))
        with psycopg.connect(database_url, autocommit=True) as watcher:

            async def committed() -> bool:
                row = watcher.execute("select 1 from lethelog.events where stream = %s", (stream,)).fetchone()
                return row is not None

            await eventually(committed, "the event is committed")
        await asyncio.wait_for(wire.swallowed.wait(), 5)
        assert not appending.done()
        wire.cut()
        outcome = await asyncio.wait_for(appending, 20)
        assert isinstance(outcome, Appended) and outcome.position == 2
        assert len(await log.read_stream(unit.tenant, stream)) == 1
        await log.close()
        await database.close()
