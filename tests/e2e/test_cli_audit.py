"""``lethelog audit``: verify, checkpoint, and what they say about a log that was tampered with."""

import json
from pathlib import Path

import psycopg
import pytest
from lethelog.ops import embedded
from lethelog.ops.cli import running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    data = tmp_path_factory.mktemp("audited")
    with embedded.join(data):
        yield data
    embedded.discard(data)


def lethelog(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:
    status = running.run(["--data-dir", str(folder), *arguments, "--json"])
    said = capsys.readouterr()
    return status, json.loads(said.out or said.err)


def test_a_log_is_verified_and_a_checkpoint_of_it_shows_tampering_later(folder: Path, tmp_path: Path, capsys):
    for n in range(3):
        assert lethelog(folder, capsys, "remember", f"memory number {n}")[0] == 0
    status, found = lethelog(folder, capsys, "audit", "verify")
    assert (status, found["intact"], found["finding"]) == (0, True, None) and found["events"] == found["upto"] > 3
    file = tmp_path / "checkpoint.json"
    assert lethelog(folder, capsys, "audit", "checkpoint", str(file))[0] == 0
    assert lethelog(folder, capsys, "audit", "verify", "--checkpoint", str(file))[0] == 0
    url = psycopg.conninfo.make_conninfo(embedded.superuser_url(folder), dbname="lethelog")
    with psycopg.connect(url) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute("update lethelog.events set body = body || 'x' where position = 3")
    status, found = lethelog(folder, capsys, "audit", "verify", "--checkpoint", str(file))
    assert (status, found["intact"]) == (1, False)
    assert (found["finding"]["problem"], found["finding"]["position"]) == ("row_altered", 3)


def test_a_file_that_is_no_checkpoint_is_refused(folder: Path, tmp_path: Path, capsys):
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    for file in (wrong, tmp_path / "missing.json"):
        status, said = lethelog(folder, capsys, "audit", "verify", "--checkpoint", str(file))
        assert (status, said["error"]["field"]) == (2, "checkpoint")
