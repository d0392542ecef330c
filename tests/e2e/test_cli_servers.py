"""up, down, status, worker, doctor, rebuild and compare: what runs, what is wrong, and how it is mended."""

import json
import os
import signal
import time
from pathlib import Path

import psycopg
import pytest
from lethelog.ops import embedded
from lethelog.ops.cli import background


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that name this folder."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def levels(doctor: dict) -> dict[str, str]:
    return {check["name"]: check["level"] for check in doctor["checks"]}


def test_where_nothing_was_ever_started_status_and_doctor_say_so_and_start_nothing(own):
    status = own.json("status")
    assert not status["servers"]["running"] and status["worker"] is None and status["queue"] is None
    assert "start when a command needs them" in own("status").out
    doctor = own.json("doctor")
    assert doctor["ok"] and "fault" not in levels(doctor).values()
    assert levels(doctor)["servers"] == levels(doctor)["master key"] == levels(doctor)["data directory"] == "idle"
    readable = own("doctor")
    assert readable.status == 0 and "✓" in readable.out and "start on demand" in readable.out
    assert own.json("down") == {"stopped": {"worker": False, "servers": False}, "data_dir": str(own.data_dir)}
    assert not own.data_dir.exists()


def test_up_keeps_servers_and_worker_up_twice_is_once_and_down_really_stops_everything(own):
    up = own.json("up")
    assert up["servers"]["running"] and up["servers"]["held"]
    assert set(up["worker"]["roles"]) == {
        "views",
        "relay",
        "passes",
        "judge",
        "schedule",
        "erasures",
        "webhooks",
        "commitments",
        "sessions",
        "consolidation",
        "dependencies",
        "extraction",
    }
    assert own.json("up")["worker"]["pid"] == up["worker"]["pid"]

    one = own.remember("Deploys go to Hetzner")
    assert own.json("list")["memories"][0]["id"] == one  # read by the worker's views
    status = own.json("status")
    read_models = {
        "live_memory",
        "review_queue",
        "memory_history",
        "facts",
        "commitments",
        "effects",
        "sessions",
        "contradictions",
    }
    assert {model["name"] for model in status["read_models"]} == read_models
    assert all(not model["stalled"] for model in status["read_models"])
    readable = own("status")
    assert str(up["worker"]["pid"]) in readable.out and "live_memory" in readable.out

    doctor = own("doctor", "--json")
    assert doctor.status == 0, doctor.out
    found = levels(doctor.json)
    assert set(found.values()) <= {"ok", "idle"}, doctor.out
    for name in ("python", "postgresql", "pgvector", "schema", "master key", "live_memory", "broker", "streams"):
        assert found[name] == "ok", doctor.out
    assert found["tenant"] == "idle" and found["judge"] == "ok" and found["embedder"] == "ok"
    secrets = [path.read_text().strip() for path in (own.data_dir / "secrets").iterdir()]
    said = doctor.out + own("doctor").out + readable.out + json.dumps(status) + own("settings", "show").out
    assert not [secret for secret in secrets if secret in said]
    assert "Hetzner" not in said

    # A worker that was killed is noticed, and started again.
    os.kill(up["worker"]["pid"], signal.SIGKILL)
    _until(lambda: own.json("status")["worker"] is None)
    assert own.json("status")["killed_worker"]["pid"] == up["worker"]["pid"]
    assert f"process {up['worker']['pid']} is gone" in own("status").out
    [check] = [one for one in own.json("doctor")["checks"] if one["name"] == "worker"]
    assert check["level"] == "warning" and str(up["worker"]["pid"]) in check["says"]
    assert check["fix"].startswith("Start it again: lethelog up; its log: ")
    again = own.json("up")["worker"]
    assert own.json("status")["killed_worker"] is None
    assert again["pid"] != up["worker"]["pid"]

    assert own.json("down")["stopped"] == {"worker": True, "servers": True}
    assert processes_of(own.data_dir) == []
    assert own.json("down")["stopped"] == {"worker": False, "servers": False}
    assert own.json("status")["killed_worker"] is None  # it was stopped, and is not missing
    assert own.json("list")["memories"][0]["id"] == one  # on demand


def test_a_worker_in_the_foreground_runs_until_it_is_told_to_stop(own, monkeypatch: pytest.MonkeyPatch):
    stop = background.stop

    def stop_and_be_slow(data_dir: Path) -> bool:
        """As on a busy machine: the servers that the worker left end by themselves before anybody looks again."""
        stopped = stop(data_dir)
        deadline = time.monotonic() + 60
        while embedded.are_up(data_dir):
            assert time.monotonic() < deadline, "the servers stay though nobody uses them"
            time.sleep(0.02)
        return stopped

    up = own.spawn("up", "--foreground", "--json")
    assert up.stdout is not None
    running = b"".join(up.stdout.readline() for _ in range(10))
    assert b"judge" in running
    assert own.json("status")["worker"]["pid"] == up.pid
    second = own("up", "--foreground", "--json")
    assert second.status == 2 and "runs already" in second.error["message"]
    views = own.spawn("worker", "--roles", "views,relay")
    assert views.stdout is not None
    assert b"running relay, views" in views.stdout.readline()
    views.send_signal(signal.SIGINT)
    _, said = views.communicate(timeout=30)
    assert views.returncode == 0 and b"Traceback" not in said, said
    monkeypatch.setattr(background, "stop", stop_and_be_slow)
    assert own.json("down")["stopped"] == {"worker": True, "servers": True}
    assert own.json("down")["stopped"] == {"worker": False, "servers": False}
    _, said = up.communicate(timeout=30)
    assert up.returncode == 0 and b"Traceback" not in said, said


def test_servers_of_ones_own_are_used_and_left_alone(
    own, servers, database_url: str, broker_prefix: str, monkeypatch: pytest.MonkeyPatch
):
    if not servers.broker_url:
        pytest.skip("the broker of this run is not known")
    monkeypatch.setenv("LETHELOG_DATABASE_URL", database_url)
    monkeypatch.setenv("LETHELOG_BROKER_URL", servers.broker_url)
    monkeypatch.setenv("LETHELOG_BROKER_PREFIX", broker_prefix)
    one = own.remember("on servers of one's own")
    up = own.json("up")
    assert up["servers"] is None and not up["embedded"] and not up["worker"]["embedded"]
    assert own.json("list")["memories"][0]["id"] == one
    assert "of one's own" in own("status").out
    doctor = own("doctor", "--json")
    assert doctor.status == 0, doctor.out
    password = psycopg.conninfo.conninfo_to_dict(database_url)["password"]
    assert str(password) not in doctor.out + own("status").out
    assert own.json("down")["stopped"] == {"worker": True, "servers": False}

    monkeypatch.setenv("LETHELOG_BROKER_URL", "nats://127.0.0.1:1")
    assert own.remember("a broker that is down holds up no write")
    broken = own("doctor", "--json")
    assert broken.status == 1 and levels(json.loads(broken.out))["broker"] == "fault"
    monkeypatch.setenv("LETHELOG_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    down = own("list", "--json")
    assert down.status == 1 and down.error["code"] == "unavailable"
    assert levels(json.loads(own("doctor", "--json").out))["database"] == "fault"


def test_read_models_are_compared_and_rebuilt(cli):
    one = cli.remember("Deploys go to Hetzner")
    names = [
        "live_memory",
        "review_queue",
        "memory_history",
        "facts",
        "commitments",
        "contradictions",
        "effects",
        "sessions",
    ]
    compared = cli.json("compare", "all")
    assert compared["equal"] and {found["name"] for found in compared["compared"]} == set(names)
    live = _current(cli.data_dir, "live_memory")
    _sql(cli.data_dir, f"update {live}.live_memory set content = 'tampered' where memory_id = %s", one)
    different = cli("compare", "live_memory", "--json")
    assert different.status == 1 and not json.loads(different.out)["equal"]
    assert "1 row only live, 1 only rebuilt" in cli("compare", "live_memory").out
    rebuilt = cli.json("rebuild", "all")["rebuilt"]
    assert [found["name"] for found in rebuilt] == names
    assert cli.json("show", one)["content"] == "Deploys go to Hetzner"
    assert cli.json("compare", "live_memory")["equal"]


def test_ctrl_c_during_a_rebuild_leaves_the_live_view_and_what_was_built_for_the_next_one(cli):
    one = cli.remember("still there")
    cli.json("list")
    with psycopg.connect(_database(cli.data_dir)) as holder:
        # The switch at its end waits for this row, so the rebuild cannot end by itself.
        holder.execute("select 1 from lethelog_views.tracking where name = 'memory_history' for update")
        before = _schemas(cli.data_dir)
        rebuild = cli.spawn("rebuild", "memory_history")
        _until(lambda: _schemas(cli.data_dir) != before)
        second = cli("rebuild", "memory_history", "--json")
        assert second.status == 1 and second.error["code"] == "conflict"
        rebuild.send_signal(signal.SIGINT)
        _, said = rebuild.communicate(timeout=60)
    assert rebuild.returncode == 130 and b"Traceback" not in said, said
    assert b"is kept" in said
    [kept] = _schemas(cli.data_dir) - before
    [left] = cli.json("status")["rebuilds"]
    assert (left["name"], left["schema"], left["running"]) == ("memory_history", kept, False)
    [check] = [one for one in cli.json("doctor")["checks"] if one["name"] == "rebuild of memory_history"]
    assert check["level"] == "warning" and "--cancel" in check["fix"]
    assert cli.json("history", one)["entries"]
    assert cli("rebuild", "memory_history").status == 0
    assert _current(cli.data_dir, "memory_history") == kept
    assert cli.json("rebuild", "memory_history", "--cancel") == {"dropped": []}
    assert cli("rebuild", "memory_history", "--cancel", "--fresh", "--json").error["field"] == "cancel"
    assert cli("rebuild", "memory_history", "--fresh").status == 0


def test_a_read_model_of_another_version_is_refused_diagnosed_and_mended(own):
    one = own.remember("Deploys go to Hetzner")
    with embedded.join(own.data_dir):
        _sql(
            own.data_dir, "update lethelog_views.tracking set version = '1/old-model/7' where name = 'live_memory'"
        )
        refused = own("list", "--json")
        assert refused.status == 2 and "lethelog rebuild live_memory" in refused.error["message"]
        doctor = own("doctor", "--json")
        assert doctor.status == 1
        [embedder] = [check for check in json.loads(doctor.out)["checks"] if check["name"] == "embedder"]
        assert embedder["level"] == "fault" and embedder["fix"] == "Run: lethelog rebuild live_memory"
        assert own("rebuild", "live_memory").status == 0
        assert own.json("list")["memories"][0]["id"] == one

        _sql(own.data_dir, "update lethelog_views.tracking set stalled_at = 2, error = 'memory.moved: KeyError'")
        stalled = own("doctor")
        assert stalled.status == 1 and "stalled at position 2" in stalled.out and "✗" in stalled.out
        assert "stalled at 2" in own("status").out

        key = own.data_dir / "secrets" / "master.key"
        key.chmod(0o644)
        assert "chmod 600" in own("doctor").out and own("list").status == 2
        key.rename(key.with_suffix(".away"))
        missing = own("doctor", "--json")
        assert levels(json.loads(missing.out))["master key"] == "fault"
        assert "LETHELOG_MASTER_KEY_FILE" in own("list", "--json").error["message"]


def test_doctor_says_what_to_install_and_which_setting_is_wrong(own, monkeypatch: pytest.MonkeyPatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name.startswith("pixeltable") else found(name, *more),
    )
    ran = own("doctor")
    assert ran.status == 0 and 'pip install "lethelog[local]"' in ran.out
    monkeypatch.setenv("LETHELOG_JUDGE", "none")
    judge = next(check for check in own.json("doctor")["checks"] if check["name"] == "judge")
    assert judge["level"] == "warning" and "none" in judge["says"]
    monkeypatch.setenv("LETHELOG_JUDGE", "oracle")
    wrong = own("doctor", "--json")
    assert wrong.status == 1 and "LETHELOG_JUDGE" in json.loads(wrong.out)["checks"][-1]["says"]


def test_a_data_directory_that_is_a_file_is_named(cli, tmp_path: Path):
    cli.data_dir = tmp_path / "file"
    cli.data_dir.write_text("")
    for verb in ("list", "up"):
        assert str(cli.data_dir) in cli(verb, "--json").error["message"]
    assert cli("doctor").status == 1


def _database(folder: Path) -> str:
    return psycopg.conninfo.make_conninfo(embedded.superuser_url(folder), dbname="lethelog")


def _sql(folder: Path, statement: str, *values: object) -> None:
    with psycopg.connect(_database(folder), autocommit=True) as connection:
        connection.execute(statement.encode(), values)


def _schemas(folder: Path) -> set[str]:
    with psycopg.connect(_database(folder), autocommit=True) as connection:
        return {
            row[0] for row in connection.execute("select nspname from pg_namespace where nspname ~ '^lethelog'")
        }


def _current(folder: Path, name: str) -> str:
    with psycopg.connect(_database(folder), autocommit=True) as connection:
        [[schema]] = connection.execute(
            "select schema from lethelog_views.tracking where name = %s and state = 'current'", (name,)
        ).fetchall()
    return schema


def _until(reached, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def test_the_reference_page_says_what_the_command_line_does():
    from lethelog.ops.cli.reference import PAGE, reference

    assert PAGE.read_text(encoding="utf-8") == reference(), "run: python -m lethelog.ops.cli.reference"
