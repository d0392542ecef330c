"""`lethelog export`, `lethelog import`, and a long text that was written elsewhere."""

import asyncio
import contextlib
import json
import signal
import threading


def test_a_tenant_moves_by_two_commands_and_a_dry_run_says_so_before(cli, other_tenant, tmp_path):
    memory = cli.remember("Deploys go to Hetzner", "--project", "site")
    file = tmp_path / "a.jsonl.gz"
    written = cli.json("export", str(file))
    assert (written["memories"], written["file"]) == (1, str(file))
    foreseen = other_tenant.json("import", str(file), "--dry-run")
    assert foreseen["dry_run"] and foreseen["counts"]["memory"] == {"imported": 1}
    assert other_tenant.json("list")["memories"] == []
    result = other_tenant.json("import", str(file))
    assert result["counts"] == foreseen["counts"] and not result["dry_run"]
    assert other_tenant.json("show", memory)["content"] == "Deploys go to Hetzner"
    refused = cli("export", str(file), "--json").error
    assert refused["field"] == "file" and "--overwrite" in refused["message"]
    assert cli.json("export", str(file), "--overwrite")["memories"] == 1


def test_a_part_of_a_tenant_goes_with_or_without_its_text(cli, other_tenant, tmp_path):
    cli.remember("Likes tea", "--user", "ada")
    cli.remember("Likes coffee", "--user", "bob")
    part, shape = tmp_path / "ada.jsonl", tmp_path / "shape.jsonl"
    ran = cli.process("export", str(part), "--user", "ada")
    assert ran.status == 0 and "written 1 memory," in ran.out and part.exists()
    assert "Likes tea" in part.read_text() and "coffee" not in part.read_text()
    assert other_tenant("import", str(part)).out.splitlines() == ["read", "  memory: 1 imported"]
    assert cli.json("export", str(shape), "--no-content")["memories"] == 2
    assert "Likes" not in shape.read_text()
    assert "skeleton" in other_tenant("import", str(shape), "--json").error["message"]


def test_long_work_shows_how_far_it_is(cli, tmp_path, monkeypatch):
    cli.remember("Likes tea")
    told: list[tuple[int, int]] = []

    @contextlib.contextmanager
    def progress(_printer, _text, *, left):
        yield lambda done, of: told.append((done, of))

    monkeypatch.setattr("lethelog.ops.cli.output.Printer.progress", progress)
    file = tmp_path / "a.jsonl"
    for command in (["export", str(file)], ["import", str(file), "--dry-run"]):
        told.clear()
        assert cli(*command).status == 0
        assert told == sorted(told) and told[-1][0] == told[-1][1] > 0, command


def test_a_file_of_another_system_is_pointed_to_the_way_in(cli, tmp_path):
    file = tmp_path / "mem0.json"
    file.write_text(
        json.dumps([{"id": "m1", "memory": "Likes tea", "created_at": "2024-07-01T10:00:00"}], indent=1)
    )
    refused = cli("import", str(file), "--json").error
    assert "--from mem0" in refused["message"]
    ran = cli("import", "--from", "mem0", str(file))
    assert (
        ran.out.splitlines()[:2] == ["read", "  1 imported"] and "note: mem0 m1: its date has no zone" in ran.out
    )


def test_a_long_text_written_elsewhere_is_remembered_at_its_own_date(cli):
    text = "A line of the minutes of 2024.\n" * 3_000
    assert cli("remember", "--json", "-", stdin=text).error["field"] == "content"
    written = cli.json(
        "remember", "--imported", "--occurred-at", "2024-05-01T09:00:00Z", "--trust", "imported", "-", stdin=text
    )
    assert written["memory"]["trust"] == "imported" and written["memory"]["occurred_at"].startswith("2024-05-01")


def test_ctrl_c_leaves_no_file(cli, tmp_path, monkeypatch):
    cli.remember("Deploys go to Hetzner")

    async def interrupted(*_):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr("lethelog.handlers.archive.exporting.Exports.finish", interrupted)
        ran = cli("export", str(tmp_path / "a.jsonl"))
    assert ran.status == 130 and "stopped at" in ran.err and "no file was written" in ran.err
    assert list(tmp_path.iterdir()) == []
    assert json.loads(cli("export", str(tmp_path / "a.jsonl"), "--json").out)["memories"] == 1
