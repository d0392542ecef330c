"""The Python door as a stranger uses it: one directory, several threads and processes, servers of one's own."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from lethelog import AsyncMemory, LethelogError, Memory
from lethelog.domain.errors import InvalidInput, Misconfigured
from lethelog.ops import embedded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    """A data directory whose servers stay up for all tests of this module."""
    data = tmp_path_factory.mktemp("memory é with spaces")
    with embedded.join(data):
        with Memory.local(data) as memory:
            for name in "abcdefgh":
                memory.tenants.create(name)
            memory.tenants.create("C", allow_lookalike=True)
        yield data
    embedded.discard(data)


def test_a_write_is_read_back_at_once_and_by_the_next_process(folder: Path):
    with Memory.local(folder, tenant="a") as memory:
        written = memory.remember("Deploys go to Hetzner", memory_type="decision")
        assert [hit.memory.id for hit in memory.search("deploys").hits] == [written.memory.id]
    program = f"from lethelog import Memory\nwith Memory.local({str(folder)!r}, tenant='a') as m: print(m.list().memories[0].id)"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert other.stdout.strip() == str(written.memory.id), other.stderr


async def test_the_asyncio_door_is_the_same(folder: Path):
    async with await AsyncMemory.local(folder, tenant="b") as memory:
        written = await memory.remember("Deploys go to Hetzner")
        assert (await memory.get(str(written.memory.id))).topic == "Deploys go to Hetzner"
        assert (await memory.list()).total == 1


def test_a_tenant_sees_nothing_of_another(folder: Path):
    with Memory.local(folder, tenant="c") as mine, Memory.local(folder, tenant="C") as other:
        secret = mine.remember("the secret").memory
        assert other.search("the secret").hits == () and other.list(status="all").total == 0
        with pytest.raises(LethelogError):
            other.get(secret.id)
        assert mine.get(secret.id).content == "the secret"


def test_many_threads_share_one_memory_and_lose_nothing(folder: Path):
    with Memory.local(folder, tenant="d") as memory:
        threads = [
            threading.Thread(target=lambda n=n: [memory.remember(f"thread {n} note {i}") for i in range(10)])
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert memory.list().total == 80
        assert all(memory.compare(name).equal for name in ("live_memory", "memory_history"))


def test_an_unknown_argument_and_a_wrong_setting_are_named(folder: Path):
    with Memory.local(folder, tenant="e") as memory:
        with pytest.raises(InvalidInput) as refused:
            memory.remember("x", vaild_to="2026-01-01T00:00:00Z")
        assert refused.value.field == "vaild_to"
        for wrong in (7, None, b"bytes", ["x"]):
            with pytest.raises(InvalidInput) as refused:
                memory.remember(wrong)
            assert refused.value.field == "content"
        assert memory.list().total == 0
    for settings in ({"judge": "guess"}, {"nonsense": 1}, {"embedder": "nonsense"}, {"judge": "systemone"}):
        with pytest.raises(Misconfigured):
            Memory.local(folder, **settings)
    with pytest.raises(InvalidInput, match="person:NAME"):
        Memory.local(folder, actor="ada")


def test_the_master_key_is_private_and_a_lost_one_is_never_replaced(folder: Path, tmp_path: Path):
    with Memory.local(folder, tenant="f") as memory:
        memory.remember("sealed")
    key = folder / "secrets" / "master.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    kept = key.rename(tmp_path / "kept.key")
    with pytest.raises(Misconfigured, match="master key"):
        Memory.local(folder, tenant="f")
    with pytest.raises(Misconfigured, match="another data directory"):
        other = tmp_path / "other.key"
        other.write_text("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
        other.chmod(0o600)
        Memory.local(folder, tenant="f", master_key_file=other)
    kept.chmod(0o644)
    with pytest.raises(Misconfigured, match="chmod 600"):
        Memory.local(folder, tenant="f", master_key_file=kept)
    kept.chmod(0o600)
    kept.rename(key)
    with Memory.local(folder, tenant="f") as memory:
        assert memory.list().memories[0].content == "sealed"


def test_servers_of_ones_own_are_used_by_the_same_code_and_nothing_else_is_started(folder: Path, tmp_path: Path):
    with embedded.join(folder) as servers:
        elsewhere = tmp_path / "elsewhere"
        settings = {
            "LETHELOG_DATABASE_URL": servers.owner_url,
            "LETHELOG_BROKER_URL": servers.broker_url,
            "LETHELOG_MASTER_KEY_FILE": str(folder / "secrets" / "master.key"),
            "LETHELOG_DATA_DIR": str(elsewhere),
        }
        program = (
            "from lethelog import Memory\n"
            "with Memory.local() as memory:\n"
            "    memory.remember('Deploys go to Hetzner. This replaces nothing.', memory_type='decision')\n"
            "    memory.set_judgment(True)\n"
            "    print(memory.search('deploys').count, memory.run_pass(wait_seconds=60).phase)\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True, timeout=120
        )
        assert ran.stdout.split() == ["1", "completed"], ran.stderr
        assert [one.name for one in elsewhere.iterdir()] == ["secrets"], "no servers, only what signs"


def test_a_killed_postgres_and_a_killed_broker_come_back_and_nothing_acknowledged_is_missing(folder: Path):
    import signal

    with Memory.local(folder, tenant="h") as memory:
        before = memory.remember("before the fault").memory.id
        state = embedded.status(folder)
        for pid in (state.postgres.pid, state.broker.pid):
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        after = None
        for _ in range(60):
            try:
                after = memory.remember("after the fault", key="once").memory.id
                break
            except LethelogError:
                continue
        assert after is not None
        assert {m.id for m in memory.list().memories} == {before, after}
