"""A nats-server that a test may kill, and events to carry."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import nats
from lethelog.domain import events as e
from lethelog.ops.embedded.binaries import find_nats_server
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.log import Appended, Log, NewEvent, Unit
from lethelog.streams.payloads import Actor, Envelope
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

TENANT = uuid4()
SECRET = "the deploy password is hunter2"
_AT_ONCE = 100


class OwnNats:
    """One server process on a port and store that stay the same over restarts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._port = -1

    @property
    def url(self) -> str:
        return f"nats://token@127.0.0.1:{self._port}"

    def start(self) -> "OwnNats":
        ports = self._folder / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir(parents=True)
        self._process = subprocess.Popen(
            [
                find_nats_server(),
                "-js",
                "-sd",
                self._folder / "store",
                "-a",
                "127.0.0.1",
                "-p",
                str(self._port),
                "--auth",
                "token",
                "--ports_file_dir",
                ports,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while not (found := [f for f in ports.iterdir() if f.stat().st_size]):
            assert time.monotonic() < deadline and self._process.poll() is None, "nats-server does not start"
            time.sleep(0.01)
        self._port = int(json.loads(found[0].read_text())["nats"][0].rsplit(":", 1)[1])
        return self

    def kill(self) -> None:
        """As a machine does it: SIGKILL, no goodbye."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def empty(self) -> None:
        shutil.rmtree(self._folder / "store")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()


async def eventually(
    condition: Callable[[], Awaitable[object] | object], what: str, seconds: float = 20.0
) -> None:
    """Wait until a condition holds; fail with its name after a deadline."""
    deadline = time.monotonic() + seconds
    while True:
        held = condition()
        if await held if isinstance(held, Awaitable) else held:
            return
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.02)


def envelope() -> Envelope:
    return Envelope(Actor("agent", uuid4()), cause=uuid4(), correlation=uuid4(), policy=1)


def remembering(stream: UUID | None = None, content: str = SECRET) -> Unit:
    stream = stream or uuid4()
    event = e.MemoryRemembered(
        memory_type="fact",
        scope="personal",
        topic="deploys",
        content=content,
        producer="user",
        trust="user",
        occurred_at=datetime(2026, 3, 1, 9, tzinfo=UTC),
    )
    return Unit(
        tenant=TENANT,
        subject=stream,
        events=[NewEvent(stream, 1, event)],
        envelope=envelope(),
        new_keys=frozenset({stream}),
    )


async def append(log: Log, count: int) -> int:
    """Append so many memories; gives the last position."""
    units = [remembering() for _ in range(count)]
    last = 0
    # Not all at once: a log that nobody tells of erasures reads its keys for each, and who waits for a connection
    # longer than the pool lets him is turned away.
    for first in range(0, count, _AT_ONCE):
        outcomes = await asyncio.gather(*(log.append(unit) for unit in units[first : first + _AT_ONCE]))
        last = max(last, *(outcome.position for outcome in outcomes if isinstance(outcome, Appended)))
    return last


async def connected(settings: BrokerSettings) -> Client:
    async def quiet(error: Exception) -> None:
        return None

    return await nats.connect(settings.url, error_cb=quiet, reconnect_time_wait=0.1, max_reconnect_attempts=-1)


async def stored(client: Client, settings: BrokerSettings, kind: str = "events") -> list[Msg]:
    """Every message a stream holds, in order."""
    js = client.jetstream()
    stream = settings.stream(kind)
    count = (await js.stream_info(stream)).state.messages
    sub = await js.pull_subscribe(
        f"{settings.prefix}.{kind}.>", stream=stream, config=ConsumerConfig(ack_policy=AckPolicy.NONE)
    )
    found: list[Msg] = []
    while len(found) < count:
        found += await sub.fetch(min(500, count - len(found)), timeout=5)
    await sub.unsubscribe()
    return found
