"""Archives on their way through a server: in a folder of its own, which outlives nobody."""

import atexit
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from lethelog.domain.errors import Misconfigured, Unavailable
from lethelog.handlers.http.transfers import Transfers, room_to_write


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"lethelog-transfers-{os.getuid()}"


def killed(transfers: Transfers) -> None:
    """What the system does with a process that is killed: its locks go, its files stay, and nothing is said to it."""
    os.close(transfers._lock)
    atexit.unregister(transfers.close)


def test_what_a_killed_process_left_is_taken_away_by_the_next_and_what_is_alive_stays(base: Path):
    dead, alive = Transfers(), Transfers()
    left, kept = dead.begin() / "archive.jsonl", alive.begin() / "archive.jsonl"
    for file in (left, kept):
        file.write_text("in clear")
    killed(dead)
    next_one = Transfers()
    assert next_one.begin().is_dir()
    assert not left.exists() and kept.read_text() == "in clear"
    assert base.stat().st_mode & 0o777 == 0o700 and kept.parent.stat().st_mode & 0o777 == 0o700
    for one in (alive, next_one):
        one.close()
    assert list(base.iterdir()) == []


def test_one_that_ended_leaves_nothing(base: Path):
    transfers = Transfers()
    folder = transfers.begin()
    (folder / "archive.jsonl").write_text("in clear")
    transfers.end(folder)
    assert not folder.exists() and transfers.begin() != folder
    transfers.close()
    assert list(base.iterdir()) == []


def test_a_folder_that_others_can_look_into_or_that_leads_elsewhere_is_refused(base: Path, tmp_path: Path):
    base.mkdir(mode=0o755)
    base.chmod(0o755)
    with pytest.raises(Misconfigured, match="not a folder of this user alone"):
        Transfers().begin()
    base.rmdir()
    base.symlink_to(tmp_path)
    with pytest.raises(Misconfigured, match="not a folder of this user alone"):
        Transfers().begin()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_disk_is_said_to_be_one(number: int):
    with pytest.raises(Unavailable, match="no room"), room_to_write():
        raise OSError(number, "full")
    with pytest.raises(PermissionError), room_to_write():
        raise PermissionError(errno.EACCES, "not mine")


def test_a_folder_that_was_cleared_away_meanwhile_is_made_anew(base: Path):
    transfers = Transfers()
    transfers.begin()
    shutil.rmtree(base)
    folder = transfers.begin()
    assert folder.is_dir() and base.stat().st_mode & 0o777 == 0o700
    transfers.close()
    assert list(base.iterdir()) == []


def test_where_not_even_a_folder_has_room_that_is_said(base: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(Unavailable, match="no room"):
        Transfers().begin()


def test_a_process_that_ends_takes_its_folder_along(base: Path):
    code = "from lethelog.handlers.http.transfers import Transfers; print(Transfers().begin())"
    env = {**os.environ, "TMPDIR": str(base.parent)}
    made = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert Path(made.stdout.strip()).parent.parent == base and list(base.iterdir()) == []
