"""Everything that can be killed is killed while memories are written; in the end `doctor` says that all is there once."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lethelog.domain.errors import Unavailable
from lethelog.ops import embedded
from lethelog.ops.cli.serving import broker_settings
from lethelog.ops.local import open_memory
from lethelog.ops.settings import Settings

from ..integration.broker_fixtures import connected, stored
from .conftest import Cli


@pytest.fixture
def own(cli: Cli, tmp_path: Path) -> Iterator[Cli]:
    cli.data_dir = tmp_path / "killed"
    yield cli
    cli("down")
    embedded.discard(cli.data_dir)


def kill(pid: int | None) -> None:
    assert pid
    os.kill(pid, signal.SIGKILL)


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


async def write_through_everything(own: Cli, worker: int) -> dict[int, str]:
    """Write, and kill a server or the worker between; every write is tried again under its key until it is told."""
    told: dict[int, str] = {}
    settings = Settings.load(data_dir=own.data_dir, tenant=own.tenant, actor=own.actor)
    async with await open_memory(settings, ()) as memory:

        async def write(number: int) -> None:
            while number not in told:
                try:
                    written = await memory.remember(
                        f"This is write number {number}", topic=f"write {number}", key=f"key {number}"
                    )
                    told[number] = str(written.memory.id)
                except Unavailable:
                    await asyncio.sleep(0.1)

        async def writes(first: int, last: int) -> None:
            await asyncio.gather(*(write(number) for number in range(first, last)))

        def status() -> embedded.ServerStatus:
            return embedded.status(own.data_dir)

        await writes(0, 20)
        for number, victim in enumerate(
            (lambda: worker, lambda: status().postgres.pid, lambda: status().broker.pid), start=1
        ):
            writing = asyncio.ensure_future(writes(20 * number, 20 * number + 20))
            await asyncio.sleep(0)
            kill(await asyncio.to_thread(victim))
            await writing
    return told


async def on_the_stream(own: Cli) -> list[int]:
    settings = Settings.load(data_dir=own.data_dir)
    broker = await asyncio.to_thread(broker_settings, settings)
    client = await connected(broker)
    found = [int(message.headers["Nats-Msg-Id"]) for message in await stored(client, broker)]
    await client.close()
    return found


def test_after_worker_database_and_broker_were_killed_everything_is_there_once_and_doctor_says_so(own: Cli):
    up = own.json("up")
    own.made()
    told = asyncio.run(write_through_everything(own, up["worker"]["pid"]))
    until(lambda: own.json("status")["worker"] is None, "the dead worker is noticed")
    own.json("up")

    def caught_up() -> bool:
        status = own.json("status")
        return status["relay"]["lag"] == 0 and all(model["lag"] == 0 for model in status["read_models"])

    until(caught_up, "relay and read models have caught up")
    doctor = own("doctor", "--json").json
    found = {check["name"]: check for check in doctor["checks"]}
    assert doctor["ok"], doctor
    assert found["restarts"]["level"] == "warning" and found["restarts"]["says"].startswith("2 ")
    for name in (
        "log",
        "live_memory",
        "review_queue",
        "memory_history",
        "facts",
        "relay",
        "streams",
        "durables",
        "parked",
    ):
        assert found[name]["level"] == "ok", found[name]
    head = own.json("status")["head"]
    assert found["log"]["says"].startswith(f"at {head},") and found["relay"]["says"] == f"at {head}"

    listed = Counter[str]()
    page = own.json("list", "--limit", "100")
    listed.update(memory["id"] for memory in page["memories"])
    assert listed == Counter(told.values()) and len(told) == 80
    assert own.json("audit", "verify")["intact"]
    assert own.json("compare", "all")["equal"]
    assert asyncio.run(on_the_stream(own)) == list(range(1, head + 1))
