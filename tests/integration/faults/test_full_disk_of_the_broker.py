"""A broker whose disk fills up: writes go on, the relay says what is wrong, and the stream is whole afterwards."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.relay import Relay

from ..broker_fixtures import OwnNats, append, connected, eventually, stored


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 megabytes."""
    point = tmp_path / "disk"
    point.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", point], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    yield point
    subprocess.run(["umount", point], check=True)


async def test_events_that_found_no_room_are_carried_once_the_broker_has_some_and_was_restarted(
    full_disk, log, database, tail, broker_prefix
):
    nats = OwnNats(full_disk / "nats").start()
    try:
        settings = BrokerSettings(nats.url, broker_prefix, answer_timeout=0.5)
        relay = Relay(database, tail, settings)
        await relay.open()
        await append(log, 10)
        await relay.reached(10)
        filler = full_disk / "filler"
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(b"x" * 4096)
        written = await append(log, 60)
        assert written == 70
        await eventually(lambda: "does not store events" in (relay.problem or ""), "the relay says so")
        filler.unlink()
        nats.kill()
        nats.start()
        await eventually(lambda: relay.position == 70, "the rest is carried")
        client = await connected(settings)
        found = [int(message.headers["Nats-Msg-Id"]) for message in await stored(client, settings)]
        await client.close()
        assert found == list(range(1, 71))
        assert relay.problem is None
        await relay.close()
    finally:
        nats.stop()
