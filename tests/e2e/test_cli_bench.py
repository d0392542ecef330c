"""The benchmark as a command: the figures it promises, and nothing left behind. Never how fast anything is."""

import json
import signal
import time
from pathlib import Path
from xml.etree import ElementTree

import psycopg
from lethelog.ops import embedded

from .conftest import Cli

PROMISED = {"name", "figure", "unit", "baseline", "ratio", "target", "met", "flush_ms"}


def scratch_databases(cli: Cli) -> list[str]:
    with psycopg.connect(embedded.superuser_url(cli.data_dir)) as connection:
        rows = connection.execute("select datname from pg_database where datname like 'lethelog_bench_%'")
        return [name for (name,) in rows.fetchall()]


def test_a_measure_writes_its_figures_as_table_json_chart_and_page(cli: Cli, tmp_path: Path):
    figures, picture, report = (tmp_path / name for name in ("b.json", "b.svg", "b.md"))
    ran = cli(
        *("bench", "--here", "--quick", "--only", "append-one"),
        *("--json", str(figures), "--chart", str(picture), "--report", str(report)),
    )
    assert (ran.status, "append.one" in ran.out) == (0, True), ran.err
    [row] = json.loads(figures.read_text())
    assert row.keys() >= PROMISED
    assert (row["name"], row["unit"], row["target"]) == ("append.one", "events/s", "ratio at least 1.1")
    assert row["figure"] > 0 and row["baseline"] > 0 and row["flush_ms"] > 0
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert "b.svg" in report.read_text() and "`append.one`" in report.read_text()
    assert scratch_databases(cli) == []


def test_searches_of_the_past_are_held_against_those_of_the_present_and_against_exact_ones(
    cli: Cli, tmp_path: Path
):
    figures = tmp_path / "b.json"
    ran = cli("bench", "--here", "--quick", "--only", "as-of", "--json", str(figures))
    assert ran.status == 0, ran.err
    rows = {row["name"]: row for row in json.loads(figures.read_text())}
    assert set(rows) == {"as_of.recent", "as_of.half", "as_of.early", "as_of.recall"}
    assert all(row["figure"] > 0 and row["baseline"] > 0 for row in rows.values())
    assert (rows["as_of.half"]["target"], rows["as_of.half"]["unit"]) == ("ratio at most 3", "ms")
    assert rows["as_of.recall"]["figure"] == 1.0, "so few are compared one by one"
    assert scratch_databases(cli) == []


def test_an_unknown_measure_is_refused_and_the_list_says_which_there_are(cli: Cli):
    refused = cli("bench", "--only", "nonsense")
    assert refused.status == 2 and "nonsense" in refused.err
    assert "append-one" in refused.err and "append-one" in cli("bench", "--list").out


def test_ctrl_c_takes_away_what_the_run_made(cli: Cli):
    running = cli.spawn("bench", "--here", "--only", "append-64")
    deadline = time.monotonic() + 60
    while not scratch_databases(cli):
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said.decode()
    assert scratch_databases(cli) == []
