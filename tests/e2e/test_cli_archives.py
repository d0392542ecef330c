"""`lethelog export`, `lethelog import`, and a long text that was written elsewhere."""

import asyncio
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
    assert cli("export", str(file), "--json").error["field"] == "file"


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
        assert cli("export", str(tmp_path / "a.jsonl")).status == 130
    assert list(tmp_path.iterdir()) == []
    assert json.loads(cli("export", str(tmp_path / "a.jsonl"), "--json").out)["memories"] == 1
