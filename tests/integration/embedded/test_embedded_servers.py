"""Joining, sharing, leaving, holding and stopping the embedded servers."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats
import psycopg
import pytest
from lethelog.ops import embedded
from lethelog.ops.embedded import EmbeddedServers


def one(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


@pytest.fixture(scope="module")
def shared(base: Path) -> Iterator[EmbeddedServers]:
    """Servers that run through this module, on a directory made from nothing."""
    folder = base / "shared"
    with embedded.join(folder) as servers:
        yield servers
    embedded.discard(folder)


def test_the_owner_url_opens_the_database_as_its_owner_who_is_no_superuser(shared: EmbeddedServers) -> None:
    with psycopg.connect(shared.owner_url) as connection:
        row = connection.execute(
            "SELECT current_user, current_database(), pg_get_userbyid(datdba), rolsuper, rolcreatedb, rolcreaterole,"
            " pg_encoding_to_char(encoding), datlocale FROM pg_database, pg_roles"
            " WHERE datname = current_database() AND rolname = current_user"
        ).fetchone()
        assert row == ("lethelog", "lethelog", "lethelog", False, False, False, "UTF8", "C.UTF-8")
        connection.execute("CREATE TABLE owned (embedding vector(3))")
        connection.execute("INSERT INTO owned VALUES ('[1,2,3]')")
        found = connection.execute("SELECT embedding <-> '[1,2,5]' FROM owned").fetchone()
        assert found == (2.0,)


def test_the_server_keeps_what_was_committed_and_listens_on_no_network(shared: EmbeddedServers) -> None:
    settings = (
        "fsync",
        "synchronous_commit",
        "full_page_writes",
        "listen_addresses",
        "wal_level",
        "max_connections",
    )
    url = embedded.superuser_url(shared.data_dir)
    assert [one(url, f"SHOW {name}") for name in settings] == ["on", "on", "on", "", "replica", "200"]
    methods = one(url, "SELECT array_agg(DISTINCT auth_method) FROM pg_hba_file_rules")
    assert methods == ["scram-sha-256"]


def test_a_database_made_by_the_superuser_has_pgvector(shared: EmbeddedServers) -> None:
    url = embedded.superuser_url(shared.data_dir)
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute("SHOW is_superuser").fetchone() == ("on",)
        connection.execute("CREATE DATABASE another OWNER lethelog")
    other = shared.owner_url.replace("/lethelog?", "/another?")
    assert one(other, "SELECT extname FROM pg_extension WHERE extname = 'vector'") == "vector"


async def kept(url: str, name: str) -> tuple[int, bytes]:
    """Keep a megabyte in a stream of this name; (the largest message allowed, what was kept)."""
    connection = await nats.connect(url)
    stream = connection.jetstream()
    await stream.add_stream(name=name, subjects=[f"{name}.>"])
    await stream.publish(f"{name}.one", b"x" * 1_000_000)
    message = await stream.get_msg(name, 1)
    await connection.close()
    return connection.max_payload, message.data or b""


def test_the_broker_url_opens_jetstream_with_large_messages(shared: EmbeddedServers) -> None:
    largest, content = asyncio.run(kept(shared.broker_url, "large"))
    assert largest == 8 * 1024 * 1024
    assert content == b"x" * 1_000_000


def test_the_database_url_opens_the_database_with_a_login_that_has_the_roles_and_owns_nothing_in_it(
    shared: EmbeddedServers,
) -> None:
    with psycopg.connect(shared.database_url) as connection:
        row = connection.execute(
            "SELECT current_user, pg_has_role('lethelog_door', 'set'), pg_has_role('lethelog_appender', 'set'), "
            "pg_has_role('lethelog_worker', 'set'), pg_has_role('lethelog_functions', 'member'), "
            "pg_has_role('lethelog_backup', 'member'), pg_has_role('lethelog', 'member'), "
            "rolsuper, rolcreatedb, rolcreaterole, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        assert row == ("lethelog_local", True, True, True, False, False, False, False, False, False, False)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE owned_too (one int)")


def test_neither_server_lets_in_whoever_lacks_the_password(shared: EmbeddedServers) -> None:
    owner = urlsplit(shared.owner_url).password
    assert owner
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(shared.owner_url.replace(owner, "guess"))

    async def intrude() -> None:
        address = shared.broker_url.split("@")[1]
        await nats.connect(f"nats://guess@{address}", allow_reconnect=False, connect_timeout=2)

    with pytest.raises(Exception, match=r"(?i)authorization"):
        asyncio.run(intrude())


def test_secrets_are_private_files_and_appear_nowhere_else(shared: EmbeddedServers) -> None:
    folder = shared.data_dir
    secrets = {path.name: path.read_text() for path in (folder / "secrets").iterdir()}
    assert sorted(secrets) == ["application", "broker", "owner", "superuser"]
    assert len(set(secrets.values())) == 4
    assert all(len(secret) >= 32 for secret in secrets.values())
    assert stat.S_IMODE((folder / "secrets").stat().st_mode) == 0o700
    for name in ("secrets/broker", "secrets/owner", "secrets/superuser", "state.json", "nats.conf"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name

    status = embedded.status(folder)
    shown = [json.dumps(status.as_dict()), (folder / "state.json").read_text(), repr(shared)]
    shown += [log.read_text() for log in (folder / "logs").glob("*.log*")]
    for pid in (status.supervisor_pid, status.postgres.pid, status.broker.pid):
        shown += [Path(f"/proc/{pid}/{name}").read_bytes().decode() for name in ("cmdline", "environ")]
    for text in shown:
        assert not [name for name, secret in secrets.items() if secret in text]


def test_the_servers_inherit_no_variable_of_the_client_that_might_be_a_secret(
    data: Path, client: Callable[..., Any]
) -> None:
    client(data, "servers = embedded.join(data)\ntell()\nwait()", SOME_API_KEY="hush", PGPASSWORD="hush")
    status = embedded.status(data)
    for pid in (status.supervisor_pid, status.postgres.pid, status.broker.pid):
        assert b"hush" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_the_logs_hold_no_statement_and_no_content(shared: EmbeddedServers) -> None:
    with psycopg.connect(shared.owner_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE noted (content text PRIMARY KEY)")
        connection.execute("INSERT INTO noted VALUES ('a very private remark')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO noted VALUES ('a very private remark')")
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            connection.execute("SELECT 'another private remark'::int")
    assert "private remark" not in (shared.data_dir / "logs" / "postgres.log").read_text()


def test_joining_running_servers_shares_them_at_once(shared: EmbeddedServers) -> None:
    before = embedded.status(shared.data_dir)
    with embedded.join(shared.data_dir, timeout=0) as second:
        assert (second.owner_url, second.broker_url) == (shared.owner_url, shared.broker_url)
    assert embedded.status(shared.data_dir).supervisor_pid == before.supervisor_pid


def test_status_tells_versions_sizes_and_places(shared: EmbeddedServers) -> None:
    asyncio.run(kept(shared.broker_url, "sized"))
    status = embedded.status(shared.data_dir)
    assert (status.running, status.phase, status.held, status.restarts) == (True, "running", False, 0)
    assert (status.postgres.version, status.broker.version) == ("18.4", "2.15.1")
    assert status.pgvector_version == "0.8.5"
    assert status.cluster_dir == str(shared.data_dir / "pg")
    assert status.socket_dir == str(shared.data_dir / "run")
    assert status.broker_port == urlsplit(shared.broker_url).port
    assert status.database_bytes is not None and status.database_bytes > 20_000_000
    assert status.broker_bytes is not None and status.broker_bytes > 1_000_000
    assert status.last_error is None
    assert json.loads(json.dumps(status.as_dict()))["restarts"] == 0


def slowdown() -> float:
    """How many times longer than alone work takes here at the moment, with what else the machine does."""
    began, worked = time.monotonic(), time.process_time()
    while time.process_time() - worked < 0.05:
        pass
    return max(1.0, (time.monotonic() - began) / 0.05)


def test_a_warm_start_takes_less_than_a_second_and_finds_data_port_and_socket_again(data: Path) -> None:
    with embedded.join(data) as servers:
        urls = (servers.owner_url, servers.broker_url)
        with psycopg.connect(servers.owner_url) as connection:
            connection.execute("CREATE TABLE survives_a_stop AS SELECT 42 AS answer")
    took: list[float] = []
    while not took or (min(took) >= 1.0 and len(took) < 5):
        assert embedded.stop(data)
        started = time.monotonic()
        with embedded.join(data) as servers:
            took.append((time.monotonic() - started) / slowdown())
            assert (servers.owner_url, servers.broker_url) == urls
            assert one(servers.owner_url, "SELECT answer FROM survives_a_stop") == 42
    assert min(took) < 1.0


def test_the_servers_end_some_time_after_the_last_client_has_left(
    data: Path, poll: Callable[..., None], server_pids: Callable[[Path], list[int]]
) -> None:
    first = embedded.join(data, linger=0.5)
    second = embedded.join(data)
    first.leave()
    first.leave()
    time.sleep(1.2)  # longer than they linger: the second client must keep them
    assert embedded.status(data).running
    left = time.monotonic()
    second.leave()
    poll(lambda: embedded.status(data).supervisor_pid is None, "the supervisor ended")
    assert time.monotonic() - left > 0.5
    assert server_pids(data) == []
    assert embedded.status(data).phase == "stopped"


def test_a_context_leaves_also_when_an_error_ends_it(data: Path, poll: Callable[..., None]) -> None:
    with pytest.raises(ZeroDivisionError), embedded.join(data, linger=0.1):
        raise ZeroDivisionError
    poll(lambda: embedded.status(data).supervisor_pid is None, "the supervisor ended")


def test_a_held_directory_stays_up_without_clients_until_it_is_stopped(
    data: Path, poll: Callable[..., None]
) -> None:
    with embedded.join(data, linger=0.05):
        embedded.hold(data)
    time.sleep(1.0)
    status = embedded.status(data)
    assert (status.running, status.held) == (True, True)
    assert embedded.stop(data) is True
    status = embedded.status(data)
    assert (status.running, status.held) == (False, False)
    with embedded.join(data, linger=0.05):
        pass
    poll(lambda: embedded.status(data).supervisor_pid is None, "nothing holds it any more")


def test_stopping_what_does_not_run_answers_false(data: Path, base: Path) -> None:
    assert embedded.stop(data) is False
    assert embedded.stop(base / "never-made") is False
    assert not (base / "never-made").exists()
    assert embedded.status(base / "never-made").phase == "stopped"
    assert not (base / "never-made").exists()


def test_stopping_breaks_the_connections_of_clients_and_the_next_join_starts_again(
    data: Path, server_pids: Callable[[Path], list[int]]
) -> None:
    servers = embedded.join(data)
    with psycopg.connect(servers.owner_url) as connection:
        assert embedded.stop(data) is True
        assert server_pids(data) == []
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(servers.owner_url)
    with embedded.join(data):
        assert one(servers.owner_url, "SELECT 1") == 1
    servers.leave()


def test_a_client_that_joins_during_a_slow_stop_waits_for_it_and_gets_new_servers(
    data: Path, poll: Callable[..., None]
) -> None:
    first = embedded.join(data, linger=0.05)
    before = embedded.status(data)
    assert before.broker.pid
    os.kill(before.broker.pid, signal.SIGSTOP)  # it cannot end, so the stop takes as long as we like
    first.leave()
    poll(lambda: embedded.status(data).phase == "stopping", "the stop began")
    joined: list[EmbeddedServers] = []
    thread = threading.Thread(target=lambda: joined.append(embedded.join(data)))
    thread.start()
    thread.join(0.4)
    assert joined == []
    assert embedded.status(data).supervisor_pid == before.supervisor_pid
    os.kill(before.broker.pid, signal.SIGCONT)
    thread.join(20)
    assert one(joined[0].owner_url, "SELECT 1") == 1
    assert embedded.status(data).supervisor_pid != before.supervisor_pid
    joined[0].leave()


def test_a_client_that_joins_while_the_servers_are_stopping_gets_working_ones(
    data: Path, poll: Callable[..., None]
) -> None:
    supervisors: set[object] = set()
    for attempt in range(10):
        # Leave, then join at a moment that sweeps over the end of the lingering and the stop after it.
        embedded.join(data, linger=0.05).leave()
        time.sleep(0.15 + attempt * 0.04)
        with embedded.join(data, linger=0.05) as servers:
            assert one(servers.owner_url, "SELECT 1") == 1
            supervisors.add(embedded.status(data).supervisor_pid)
    assert len(supervisors) > 1, "no join met a stop: the test does not test what it should"
    poll(lambda: embedded.status(data).supervisor_pid is None, "the supervisor ended")


def test_ten_processes_that_join_at_once_share_one_supervisor(data: Path, client: Callable[..., Any]) -> None:
    lines = "servers = embedded.join(data)\ntell(pid=embedded.status(data).supervisor_pid)\nwait()"
    log = data / "logs" / "supervisor.log"
    before = log.read_text().count("starting in")
    clients = [client(data, lines, listen=False) for _ in range(10)]
    told = {json.loads(one_client.process.stdout.readline())["pid"] for one_client in clients}
    assert len(told) == 1
    assert log.read_text().count("starting in") == before + 1


def test_threads_of_one_process_join_and_leave_independently(data: Path) -> None:
    answers: list[object] = []

    def work() -> None:
        with embedded.join(data) as servers:
            answers.append(one(servers.owner_url, "SELECT 1"))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == [1] * 6


def test_no_child_process_inherits_the_lease(data: Path, poll: Callable[..., None]) -> None:
    servers = embedded.join(data, linger=0.1)
    program = subprocess.Popen(["sleep", "60"], close_fds=False)
    fork = os.fork()
    if fork == 0:
        try:
            time.sleep(60)
        finally:
            os._exit(0)
    try:
        servers.leave()
        poll(lambda: embedded.status(data).supervisor_pid is None, "the servers ended in spite of child processes")
    finally:
        for pid in (program.pid, fork):
            os.kill(pid, 9)
        program.wait()
        os.waitpid(fork, 0)


def test_a_fork_that_leaves_does_not_take_the_parents_lease_away(data: Path) -> None:
    with embedded.join(data, linger=0.05) as servers:
        fork = os.fork()
        if fork == 0:
            try:
                servers.leave()
            finally:
                os._exit(0)
        os.waitpid(fork, 0)
        time.sleep(0.8)
        assert embedded.status(data).running


def test_the_supervisor_is_no_child_of_the_client_and_keeps_nothing_of_it_open(
    data: Path, client: Callable[..., Any], poll: Callable[..., None]
) -> None:
    lines = "servers = embedded.join(data)\ntell()"
    process = subprocess.run(
        [sys.executable, "-c", f"from lethelog.ops import embedded\nembedded.join({str(data)!r}, linger=5)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=20,  # would be reached if the supervisor kept the pipe
        check=True,
    )
    assert process.stdout == b""
    pid = embedded.status(data).supervisor_pid
    links = {str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in (0, 1, 2)}
    assert links == {"/dev/null", str(data / "logs" / "supervisor.log")}
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert client(data, lines).told == {}


def test_the_default_directory_is_the_configured_one_or_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LETHELOG_DATA_DIR", "/srv/memory")
    assert embedded.default_data_dir() == Path("/srv/memory")
    monkeypatch.delenv("LETHELOG_DATA_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", "/home/ada/.data")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert embedded.default_data_dir() == Path("/home/ada/.data/lethelog")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert embedded.default_data_dir() == Path("/var/lib/lethelog")
