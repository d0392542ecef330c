"""The relay: carries the log to the broker. The event table is the outbox.

One relay leads, others stand by. It reads only complete pages — everything after a position, in order — and
publishes them with many in flight. Each message demands that it follows the one before it (expected last
sequence), so the stream holds every event once and in order: after a crash, a lost connection or two leaders at
once the first message that does not fit ends the session, and the next one starts after the stream's last event.
The stored checkpoint says where to go on when the stream's own events have aged out, and how far behind it is.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nats.aio.client import Client

from ..domain.errors import LethelogError, Misconfigured
from .broker import BrokerSettings, close, connect, jetstream, translated
from .database import Database
from .ending import end
from .event_publisher import IN_FLIGHT, PAGE, EventPublisher, Trouble
from .leadership import Leadership
from .pages import read_rows
from .reader import LogTail
from .stored_messages import created_at, last_position
from .topology import Topology

CHECK_SECONDS = 2.0
"""How often an idle relay looks whether the stream is still the one it filled."""
_SHORTEST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RelayState:
    """How the relay of one stream stands, as the database knows it."""

    position: int
    """Everything up to here is on the broker."""
    lag: int
    """Events of the log that are not."""


async def relay_state(database: Database, settings: BrokerSettings) -> RelayState:
    """How far the broker is behind the log; any process may ask. Raises `Unavailable`."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select coalesce((select r.position from lethelog.relay r where r.name = %s), 0), h.position "
            "from lethelog.head h",
            (settings.stream("events"),),
        )
        row = await cursor.fetchone()
    assert row is not None
    return RelayState(row[0], max(0, row[1] - row[0]))


class Relay:
    """Carries events while open and leading. Belongs to the event loop that opened it."""

    def __init__(self, database: Database, tail: LogTail, settings: BrokerSettings) -> None:
        self._database = database
        self._tail = tail
        self._settings = settings
        self._name = settings.stream("events")
        self._leadership = Leadership(database, f"relay:{self._name}")
        self._task: asyncio.Task[None] | None = None
        self._pause = _SHORTEST_PAUSE
        self._moved = asyncio.Condition()
        self.position = 0
        """Everything up to here is acknowledged by the broker, as far as this process knows."""
        self.leading = False
        self.problem: str | None = None
        """Why nothing is carried at the moment; None when all is well or another process leads."""

    async def open(self) -> None:
        """Start; a broker that is down is waited for."""
        self._task = asyncio.create_task(self._run(), name="lethelog-relay")

    async def close(self) -> None:
        if self._task is not None:
            await end(self._task)
            self._task = None

    async def lag(self) -> int:
        """Events of the log that are not on the broker yet."""
        return (await relay_state(self._database, self._settings)).lag

    async def reached(self, position: int) -> None:
        """Wait until the leader has carried everything up to a position; bound it with a timeout of your own."""
        while (await relay_state(self._database, self._settings)).position < position:
            async with self._moved:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._moved.wait(), 0.1)

    async def _run(self) -> None:
        while True:
            try:
                await self._leadership.lead(self._lead)
            except Exception as error:
                # A relay that ends by an unforeseen error would leave the broker behind in silence.
                self.problem = type(error).__name__
                _LOG.exception("the relay starts over")
                await asyncio.sleep(_LONGEST_PAUSE)

    async def _lead(self) -> None:
        self.leading = True
        try:
            while await self._leadership.still_held():
                try:
                    await self._session()
                except LethelogError as error:
                    if self.problem != error.message:
                        _LOG.warning("the relay waits: %s", error.message)
                    self.problem = error.message
                await asyncio.sleep(self._pause)
                self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        finally:
            self.leading = False
            self.problem = None

    async def _session(self) -> None:
        """Carry events over one connection until something is wrong with it. Raises `Unavailable` then."""
        trouble = Trouble()
        # A connection that came back would not say which of its messages arrived; a new session finds out.
        client = await connect(
            self._settings, name="relay", reconnect=False, on_lost=trouble.on_lost, on_error=trouble.on_error
        )
        try:
            await Topology(self._settings).ensure(client)
            publisher = await self._resume(client)
            self.problem = None
            try:
                await self._carry(publisher, trouble)
            finally:
                publisher.abandon()
        finally:
            await close(client)

    async def _resume(self, client: Client) -> EventPublisher:
        """Where the stream stands: after its own last event, or after the checkpoint where that has aged out."""
        js = jetstream(client, self._settings)
        with translated():
            info = await js.stream_info(self._name)
            last = await last_position(js, info)
        created = created_at(info)
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "select coalesce((select r.position from lethelog.relay r "
                "where r.name = %s and r.stream_created = %s), 0), h.position from lethelog.head h",
                (self._name, created),
            )
            row = await cursor.fetchone()
            assert row is not None
            checkpoint, head = row
            position = checkpoint if last is None else last
            if position > head:
                raise Misconfigured(
                    f"stream {self._name} is at position {position}, ahead of the log at {head}: was the database "
                    "restored from a backup? Delete the stream; it is filled again from the log"
                )
            await connection.execute(
                "insert into lethelog.relay (name, position, stream_created) values (%s, %s, %s) "
                "on conflict (name) do update set position = excluded.position, "
                "stream_created = excluded.stream_created",
                (self._name, position, created),
            )
        if position < self.position:
            _LOG.warning("stream %s is filled again from position %d", self._name, position)
        self.position = position
        return EventPublisher(js, self._settings, created, position, info.state.last_seq, client.max_payload)

    async def _carry(self, publisher: EventPublisher, trouble: Trouble) -> None:
        checked = time.monotonic()
        while True:
            ticks = self._tail.ticks
            trouble.raise_if_any()
            rows = await self._read(publisher.published)
            await publisher.publish(rows)
            # While the next page is read and published, this one is being acknowledged.
            failure = await publisher.acknowledged(0 if not rows else IN_FLIGHT - PAGE, trouble)
            await self._keep(publisher)
            if failure is not None:
                raise failure
            if rows:
                continue
            if time.monotonic() - checked > CHECK_SECONDS:
                checked = time.monotonic()
                if not await self._leadership.still_held():
                    return
                await publisher.demand_same_stream()
            await self._tail.wait(ticks)

    async def _read(self, after: int) -> Sequence[tuple[Any, ...]]:
        async with self._database.connection() as connection:
            return await read_rows(connection, after, PAGE)

    async def _keep(self, publisher: EventPublisher) -> None:
        """Store the contiguous acknowledged prefix, unless another leader made the stream's row its own."""
        if publisher.position == self.position:
            return
        async with self._database.connection() as connection:
            await connection.execute(
                # Not worth a flush of its own: a checkpoint that is lost is behind the stream, never ahead.
                "with unflushed as (select set_config('synchronous_commit', 'off', true)) "
                "update lethelog.relay set position = %s from unflushed "
                "where name = %s and stream_created = %s and position < %s",
                (publisher.position, self._name, publisher.created, publisher.position),
            )
        self.position = publisher.position
        self._pause = _SHORTEST_PAUSE
        async with self._moved:
            self._moved.notify_all()
