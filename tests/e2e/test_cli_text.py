"""Text of every kind goes through the command line unharmed, and harms no terminal; pipes may break at any time."""

import contextlib
import io
import json
import os
import re
import subprocess

import pytest
from lethelog.ops.cli.output import counted
from lethelog.ops.cli.running import run
from lethelog.ops.cli.speed import SpeedColumn
from rich.cells import cell_len
from rich.progress import Progress

ODD = [
    "日本語のテキスト",
    "العربية من اليمين إلى اليسار",
    "עברית",
    "हिन्दी क्षत्रिय",
    "ไทย",
    "Ελληνικά και кириллица",
    "emoji 👩‍👩‍👧‍👦 🏳️‍🌈 e\u0301",
    "[bold]x[/bold] [/] [link=http://x]y[/link] :smile:",
    "back\\slash and \\[bold]",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J",
    "bell \x07 backspace \x08 delete \x7f",
    "reversed \u202e txt.exe \u2066 x \u2069",
    "zero\u200bwidth\ufeff",
    "carriage\rreturn",
    "line one\nline two\n\n\tindented",
    "-starts with a dash",
    "--json",
    "\"quoted\" 'single' `tick` $HOME %s {} \\n",
    "'; drop table events; --",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U0010ffff",
]
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_odd_text_comes_back_as_it_was_and_is_shown_harmless(cli):
    ids = {cli.remember(text, "--tag", text.split()[0][:60], "--type", "fact"): text for text in ODD}
    listed = cli("list", "--limit", "100", "--json")
    assert {one["id"]: one["content"] for one in listed.json["memories"]} == {
        one: text.strip() for one, text in ids.items()
    }
    shown = [listed, cli("list", "--limit", "100"), cli("search", "[bold]\x1b[31m \u202e", "--limit", "25")]
    for one, text in ids.items():
        if _HARMFUL.search(text) or "[bold]" in text:
            shown += [cli("show", one), cli("history", one)]
        if "[bold]" in text:
            assert text in cli("show", one).out
    for ran in shown:
        assert ran.status == 0, ran.err
        assert not _HARMFUL.search(ran.out + ran.err)


def test_what_cannot_be_stored_is_refused_by_name(cli):
    for refused in (
        cli("remember", "-", "--json", stdin=b"a\x00b"),
        cli("remember", "a\ud800b", "--json"),
        cli("remember", "-", "--json", stdin=b"\xff\xfe not text"),
    ):
        assert refused.status == 2 and refused.error["field"] in ("content", "topic")
    assert cli("remember", "x", "--metadata", "a=b\x00", "--json").error["field"] == "metadata"
    assert cli("remember", "x", "--project", "a\x00", "--json").error["field"] == "project"
    assert cli("search", "a\x00", "--json").error["field"] == "query"


def test_an_argument_that_is_no_text_is_refused_and_not_echoed_raw(cli):
    command = [*(one.encode() for one in cli.command("remember")), b"caf\xe9 \x1b[31m"]
    ran = subprocess.run(command, capture_output=True, timeout=60)
    assert ran.returncode == 2 and b"surrogate" in ran.stderr and b"\x1b" not in ran.stderr
    wrong = cli("remember", "x", "--tyype\x1b[31m")
    assert wrong.status == 2 and "\x1b" not in wrong.err


def test_text_is_read_from_a_pipe_whole_and_without_its_last_newline(cli):
    ran = cli.process("remember", "-", "--json", stdin="über\r\nzwei Zeilen\n".encode())
    assert ran.json["memory"]["content"] == "über\r\nzwei Zeilen"
    assert (
        cli.json("remember", "-", stdin=b"\xef\xbb\xbfwith a byte order mark")["memory"]["content"][:4] == "with"
    )
    assert cli("remember", "-", "--json", stdin=b"x" * 3_000_000).error["field"] == "content"


def test_after_two_dashes_every_text_is_a_text(cli):
    assert cli("remember", "--", "--json").out.startswith("remembered")
    assert cli("search", "--json", "--", "-json").json["count"] == 1


def test_a_wide_text_never_breaks_the_width_of_the_terminal(cli, monkeypatch: pytest.MonkeyPatch):
    cli.remember("漢字" * 400)
    cli.remember("👩‍👩‍👧‍👦" * 100)
    cli.remember("word " * 200)
    monkeypatch.setenv("COLUMNS", "60")
    ids = re.compile("[0-9a-f-]{36}")
    for line in cli("list").out.splitlines():
        assert ids.search(line) or cell_len(line) <= 60, line


def test_colour_is_for_terminals_only_and_never_with_no_color(cli):
    cli.remember("coloured")
    assert "\x1b" not in cli("list").out
    assert "\x1b[" in _on_a_terminal(cli.command("list"))
    assert "\x1b[3" not in _on_a_terminal(cli.command("--help"), NO_COLOR="1")


def test_output_that_nobody_reads_ends_a_command_quietly(cli):
    for n in range(3):
        cli.remember(f"text {n} " + "x" * 1_900)
    for arguments in (("list",), ("list", "--json")):
        reader, writer = os.pipe()
        os.close(reader)
        ran = subprocess.Popen(cli.command(*arguments), stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        _, said = ran.communicate(timeout=60)
        assert ran.returncode == 1 and said == b"", (arguments, said)


def test_a_closed_or_full_output_is_no_traceback_and_what_was_written_stays(cli):
    for text, redirection in (("first", ">&-"), ("second", ">/dev/full")):
        line = subprocess.list2cmdline(["exec", *cli.command("remember", text)]) + " " + redirection
        ran = subprocess.run(["bash", "-c", line], capture_output=True, timeout=60)
        assert b"Traceback" not in ran.stderr and b"Exception ignored" not in ran.stderr, ran.stderr
        assert ran.returncode == (0 if redirection == ">&-" else 1), ran.stderr
    assert cli.json("list")["total"] == 2


def test_a_terminal_that_speaks_no_unicode_still_gets_an_answer(cli):
    one = cli.remember("日本語 ✓")
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    for options, says in ((["--json"], "日本語 ✓"), ([], "")):
        with contextlib.redirect_stdout(out):
            assert run([*cli.options(), "show", one, *options]) == 0
        out.flush()
        said = out.buffer.getvalue()
        assert says in (json.loads(said)["content"] if options else said.decode("ascii"))


def _on_a_terminal(command: list[str], **environment: str) -> str:
    master, slave = os.openpty()
    ran = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", **environment},
        close_fds=True,
    )
    os.close(slave)
    said = b""
    try:
        while chunk := os.read(master, 65_536):
            said += chunk
    except OSError:  # the other side is closed
        pass
    os.close(master)
    assert ran.wait(timeout=60) == 0, said
    return said.decode()


def test_json_is_one_document_also_where_there_is_nothing(cli):
    for arguments in (
        ("list",),
        ("search", "x"),
        ("proposals", "list"),
        ("status",),
        ("settings", "show"),
        ("review",),
    ):
        document = cli(*arguments, "--json")
        assert document.status == 0, (arguments, document.err)
        assert isinstance(json.loads(document.out), dict)
        assert document.err == "" or arguments == ("review",)


@pytest.mark.parametrize("option", [("--tenant", "a"), ("--data-dir", "x"), ("--actor", "person:ada")])
def test_an_option_that_stands_before_the_verb_is_told_so_behind_it(cli, option):
    ran = cli("list", *option)
    assert ran.status == 2 and f"before the verb: lethelog {option[0]}" in ran.err
    assert "before the verb" not in cli("list", "--nonsense").err


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [
        (0, "event", "0 events"),
        (1, "event", "1 event"),
        (2, "event", "2 events"),
        (1, "memory", "1 memory"),
        (3, "memory", "3 memories"),
    ],
)
def test_one_is_not_many(count, noun, said):
    assert counted(count, noun) == said


def test_a_moment_of_the_record_may_be_an_instant_or_a_position_and_the_error_says_both(cli):
    for wrong in ("yesterday", "2026-03-01T09:00:00"):
        said = cli("list", "--known-at", wrong).err
        assert "2026-03-01T09:00:00Z" in said and "a position of the log" in said


def test_the_speed_of_a_long_command_is_shown_once_it_is_known():
    clock = [0.0]
    progress = Progress(get_time=lambda: clock[0])
    task = progress.add_task("rebuilding", total=10_000)
    column = SpeedColumn()
    assert column.render(progress.tasks[0]).plain == ""
    for step in range(1, 4):
        clock[0] = float(step)
        progress.update(task, completed=2_000 * step)
    assert column.render(progress.tasks[0]).plain == "2,000/s"
