"""A disk that fills up under a memory in use: a clear error, nothing half-done, and all goes on once there is room."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from lethelog.domain.errors import Unavailable
from lethelog.handlers.memories import MemoryCommands, Retry
from lethelog.ops import embedded
from lethelog.ops.cli.serving import broker_settings
from lethelog.ops.local import open_memory
from lethelog.ops.settings import Settings
from lethelog.streams import audit

from ..broker_fixtures import connected, eventually, stored

MOST = 1_000
"""Writes of 160 kB after which the disk is full for certain."""


async def test_a_disk_full_under_a_writer_is_a_clear_error_and_costs_nothing_that_was_acknowledged(
    small_disk: Callable[[int], Path],
) -> None:
    disk = small_disk(150)
    acknowledged: dict[int, str] = {}
    settings = Settings.load(data_dir=disk / "data")
    async with await open_memory(settings, ("relay",)) as memory:
        commands = MemoryCommands(memory.engine)

        async def write(number: int) -> None:
            text = f"This is write number {number}. " + "filling " * 20_000
            given = {"topic": f"write {number}", "content": text}
            written = await commands.import_memory(await memory.caller(), given, Retry(f"key {number}"))
            acknowledged[number] = str(written.memory.id)

        async def goes_on(number: int) -> bool:
            with contextlib.suppress(Unavailable):
                await write(number)
            return number in acknowledged

        await asyncio.gather(*(write(number) for number in range(3)))
        with (disk / "filler").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(b"x" * 65536)
        with pytest.raises(Unavailable) as said:
            for number in range(3, MOST):
                await write(number)
        assert "filling" not in str(said.value) and "nothing was half-done" in str(said.value)
        (disk / "filler").unlink()
        last = len(acknowledged)
        await eventually(lambda: goes_on(last), "writes go on", 40)
        first = dict(acknowledged)
        await asyncio.gather(*(write(number) for number in range(last + 1)))
        assert acknowledged == first, "a retry made another memory"
        head = await memory.engine.log.head()
        events = [
            one for at in range(0, head, 100) for one in await memory.engine.log.read_page(at, 100, at + 100)
        ]
        remembered = Counter(str(one.stream) for one in events if one.name == "memory.remembered")
        assert remembered == Counter(acknowledged.values())
        assert (await audit.verify(memory.engine.database)).intact
        broker = await asyncio.to_thread(broker_settings, settings)
        client = await connected(broker)

        async def carried() -> bool:
            info = await client.jetstream().stream_info(broker.stream("events"))
            return info.state.messages >= head

        await eventually(carried, "every event is on the broker", 40)
        found = [int(message.headers["Nats-Msg-Id"]) for message in await stored(client, broker)]
        assert found == list(range(1, head + 1))
        await client.close()
    embedded.stop(disk / "data")
