"""What is killed, taken away or left behind: the servers come back, and nothing is lost."""

import asyncio
import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import psycopg
from lethelog.ops import embedded
from lethelog.ops.embedded.folder import DataFolder
from lethelog.ops.embedded.placement import recorded_cluster

Poll = Callable[..., None]
Pids = Callable[[Path], list[int]]


def one(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


def answers(url: str) -> bool:
    try:
        return one(url, "SELECT 1") == 1
    except psycopg.OperationalError:
        return False


def stored_messages(url: str) -> int:
    async def ask() -> int:
        connection = await nats.connect(url)
        info = await connection.jetstream().stream_info("kept")
        await connection.close()
        return info.state.messages

    return asyncio.run(ask())


def store_message(url: str) -> None:
    async def tell() -> None:
        connection = await nats.connect(url)
        stream = connection.jetstream()
        await stream.add_stream(name="kept", subjects=["kept.>"])
        await stream.purge_stream("kept")
        await stream.publish("kept.one", b"content")
        await connection.close()

    asyncio.run(tell())


def keep_answer(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def kill(pid: int | None) -> None:
    """Kill for certain, and return when it is dead, not merely when it has been sent the signal."""
    assert pid
    handle = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([handle], [], [], 10)
    os.close(handle)


def test_a_killed_database_server_is_started_again_with_its_data(data: Path, poll: Poll) -> None:
    with embedded.join(data) as servers:
        url = servers.owner_url
        keep_answer(url)
        killed = embedded.status(data).postgres.pid
        kill(killed)
        poll(lambda: embedded.status(data).postgres.restarts == 1 and embedded.status(data).running, "it is back")
        assert servers.owner_url == url
        assert one(url, "SELECT answer FROM kept") == 42
        status = embedded.status(data)
        assert status.postgres.pid != killed
        assert (status.restarts, status.last_error) == (1, "postgres ended with status -9.")


def test_a_killed_broker_is_started_again_on_its_port_with_its_messages(data: Path, poll: Poll) -> None:
    with embedded.join(data) as servers:
        url = servers.broker_url
        store_message(url)
        killed = embedded.status(data).broker.pid
        kill(killed)
        poll(lambda: embedded.status(data).broker.restarts == 1 and embedded.status(data).running, "it is back")
        assert servers.broker_url == url
        assert stored_messages(url) == 1


def test_a_server_that_is_killed_again_and_again_comes_back_each_time(data: Path, poll: Poll) -> None:
    with embedded.join(data) as servers:
        for round_ in range(1, 4):
            killed = embedded.status(data).postgres.pid
            kill(killed)
            poll(lambda wanted=round_: embedded.status(data).postgres.restarts == wanted, "the end was noticed")
            poll(lambda: embedded.status(data).running, "it is back")
            assert answers(servers.owner_url)


def test_a_join_during_a_recovery_waits_for_its_end(data: Path) -> None:
    with embedded.join(data):
        killed = embedded.status(data).postgres.pid
        kill(killed)
        while embedded.status(data).running:
            time.sleep(0.001)
        with embedded.join(data) as second:
            assert answers(second.owner_url)


def test_a_killed_supervisor_takes_its_servers_along_and_the_next_join_starts_new_ones(
    data: Path, poll: Poll, server_pids: Pids
) -> None:
    with embedded.join(data) as servers:
        store_message(servers.broker_url)
        keep_answer(servers.owner_url)
        before = embedded.status(data)
        kill(before.supervisor_pid)
        poll(lambda: not server_pids(data), "the servers ended with it")
        assert embedded.status(data).running is False
        with embedded.join(data) as again:
            assert one(again.owner_url, "SELECT answer FROM kept") == 42
            assert stored_messages(again.broker_url) == 1
            assert again.broker_url == servers.broker_url
            assert embedded.status(data).supervisor_pid != before.supervisor_pid


def test_a_join_right_after_a_killed_supervisor_waits_for_the_old_servers_to_go(data: Path) -> None:
    with embedded.join(data) as servers:
        supervisor = embedded.status(data).supervisor_pid
        kill(supervisor)
        with embedded.join(data) as again:
            assert answers(again.owner_url)
            assert again.broker_url == servers.broker_url


def test_everything_killed_at_once_is_recovered(data: Path) -> None:
    with embedded.join(data) as servers:
        keep_answer(servers.owner_url)
        status = embedded.status(data)
        for pid in (status.supervisor_pid, status.postgres.pid, status.broker.pid):
            kill(pid)
        with embedded.join(data) as again:
            assert one(again.owner_url, "SELECT answer FROM kept") == 42


def test_a_killed_client_gives_its_lease_back(data: Path, client: Callable[..., Any], poll: Poll) -> None:
    running = client(data, "servers = embedded.join(data, linger=0.1)\ntell()\nwait()")
    assert embedded.status(data).running
    running.process.kill()
    poll(lambda: embedded.status(data).supervisor_pid is None, "the servers ended")


def test_a_start_cut_short_while_the_database_files_are_made_is_finished_by_the_next(
    new_folder: Callable[..., Path], poll: Poll
) -> None:
    data = new_folder()
    joined: list[embedded.EmbeddedServers] = []
    thread = threading.Thread(target=lambda: joined.append(embedded.join(data)))
    thread.start()
    poll(lambda: list(data.glob("pg.partial-*/base")), "initdb is at work")
    supervisor = embedded.status(data).supervisor_pid
    kill(supervisor)
    assert not (data / "pg").exists()
    thread.join(40)  # the client notices that its supervisor is gone and starts another
    assert len(joined) == 1
    assert answers(joined[0].owner_url)
    assert list(data.glob("pg.partial-*")) == []
    joined[0].leave()


def test_a_set_up_cut_short_is_finished_by_the_next_start(copied: Path) -> None:
    with embedded.join(copied):
        url = embedded.superuser_url(copied)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP DATABASE lethelog")
        with psycopg.connect(url.replace("/postgres?", "/template1?"), autocommit=True) as connection:
            connection.execute("DROP EXTENSION vector")
    embedded.stop(copied)
    (copied / "pg" / "lethelog-provisioned").unlink()
    with embedded.join(copied) as servers:
        assert one(servers.owner_url, "SELECT extname FROM pg_extension WHERE extname = 'vector'") == "vector"
        template = embedded.superuser_url(copied).replace("/postgres?", "/template1?")
        assert one(template, "SELECT extname FROM pg_extension WHERE extname = 'vector'") == "vector"


def test_a_lost_owner_password_is_replaced(data: Path) -> None:
    lost = data / "secrets" / "owner"
    before = lost.read_text()
    lost.unlink()
    with embedded.join(data) as servers:
        assert answers(servers.owner_url)
        assert lost.read_text() != before


def test_a_pid_file_whose_number_another_process_has_got_does_not_stop_the_start(data: Path) -> None:
    cluster = recorded_cluster(DataFolder.at(data))
    owner = cluster.stat()
    stranger = subprocess.Popen(["sleep", "60"], user=owner.st_uid, group=owner.st_gid)
    try:
        lines = [str(stranger.pid), str(cluster), "1", "5432", str(data / "run"), "", "1 1", "ready"]
        for path in (cluster / "postmaster.pid", data / "run" / ".s.PGSQL.5432.lock"):
            path.write_text("\n".join(lines) + "\n")
            os.chown(path, owner.st_uid, owner.st_gid)
        with embedded.join(data) as servers:
            assert answers(servers.owner_url)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_state_file_left_from_before_a_reboot_is_not_believed(data: Path) -> None:
    with embedded.join(data):
        state = (data / "state.json").read_text()
    embedded.stop(data)
    # The number of its supervisor now belongs to a living process: this one.
    pid = embedded.status(data).supervisor_pid
    assert pid is None
    (data / "state.json").write_text(
        state.replace('"supervisor_pid": ', f'"supervisor_pid": {os.getpid()}, "was": ')
    )
    status = embedded.status(data)
    assert (status.running, status.supervisor_pid) == (False, None)
    assert embedded.stop(data) is False
    with embedded.join(data) as servers:
        assert answers(servers.owner_url)


def test_a_damaged_state_file_is_not_believed(data: Path) -> None:
    for content in ("", "{", "[]", '{"instance": 3}'):
        (data / "state.json").write_text(content)
        assert embedded.status(data).running is False
        assert embedded.stop(data) is False


def test_a_port_taken_by_another_program_is_replaced(data: Path) -> None:
    with embedded.join(data) as servers:
        first = servers.broker_url
    embedded.stop(data)
    port = int(first.rsplit(":", 1)[1])
    with socket.create_server(("127.0.0.1", port)), embedded.join(data) as servers:
        assert servers.broker_url != first
        assert embedded.status(data).broker_port != port
        store_message(servers.broker_url)


def test_a_socket_folder_swept_away_is_restored(data: Path, poll: Poll) -> None:
    with embedded.join(data) as servers:
        (data / "run" / ".s.PGSQL.5432").unlink()
        poll(lambda: embedded.status(data).postgres.restarts == 1 and embedded.status(data).running, "it is back")
        assert answers(servers.owner_url)


def test_servers_whose_directory_was_deleted_end(copied: Path, poll: Poll) -> None:
    with embedded.join(copied):
        status = embedded.status(copied)
        shutil.rmtree(copied)
        for pid in (status.supervisor_pid, status.postgres.pid, status.broker.pid):
            poll(lambda pid=pid: not Path(f"/proc/{pid}").exists(), "it ended")


def test_a_large_log_is_started_afresh_and_its_last_part_kept(data: Path) -> None:
    log = data / "logs" / "supervisor.log"
    log.write_text("old\n" * 2_000_000)
    with embedded.join(data):
        assert log.stat().st_size < 10_000
        assert log.with_name("supervisor.log.1").stat().st_size == 8_000_000


def test_a_broker_that_stores_nothing_since_a_full_disk_is_restarted_once_there_is_room(
    small_disk: Callable[[int], Path], poll: Poll
) -> None:
    """nats-server refuses every message of a stream that met a full disk, until it is restarted."""
    disk = small_disk(150)
    data = disk / "data"
    with embedded.join(data) as servers:
        store_message(servers.broker_url)
        filler = disk / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 65536)
        assert not stores_more(servers.broker_url)
        assert embedded.status(data).broker.restarts == 0
        filler.unlink()
        # On the full disk it could not even log it; it does for the next message.
        assert not stores_more(servers.broker_url)
        poll(
            lambda: embedded.status(data).broker.restarts == 1 and embedded.status(data).running, "it is restarted"
        )
        assert stores_more(servers.broker_url)
        assert stored_messages(servers.broker_url) == 2
    embedded.stop(data)


def stores_more(url: str) -> bool:
    async def tell() -> bool:
        connection = await nats.connect(url)
        try:
            await connection.jetstream().publish("kept.more", b"x" * 500_000, timeout=1)
        except nats.errors.Error:
            return False
        finally:
            await connection.close()
        return True

    return asyncio.run(tell())
