"""Passes and the review queue from the command line: progress, decisions, single keys, watching."""

import json
import os
import re
import select
import signal
import subprocess
import time
from datetime import time as dt_time
from uuid import UUID, uuid4

import pytest
from lethelog.domain.events import EdgeStaged
from lethelog.handlers.reviewing.staging import stage
from lethelog.streams.payloads import Actor, Envelope

SUBJECTS = (
    "metadata of packages",
    "hosting of the shop",
    "the colour of the logo",
    "lunch on Fridays",
    "log rotation",
)


def fill(cli, count: int) -> list[str]:
    """Pairs of which the newer says that it replaces the older; answers the older ones, oldest first."""
    older: list[str] = []
    for n, subject in enumerate(SUBJECTS[:count]):
        at = f"20{10 + n}-01-01T00:00:00Z"
        first = f"PEP {100 + n}: How {subject} is decided, the first rule about {subject}."
        second = f"PEP {200 + n}: How {subject} is decided. This replaces PEP {100 + n}."
        older.append(cli.remember(first, "--type", "decision", "--occurred-at", at))
        cli.remember(second, "--type", "decision", "--occurred-at", at.replace("201", "202"))
    return older


def staged(cli, count: int) -> list[dict]:
    """A queue of that many proposals."""
    fill(cli, count)
    cli.json("settings", "judgment", "on")
    done = cli.json("pass", "run", "--wait", "60")
    assert done["phase"] == "completed" and done["proposed"] == {"supersede": count}, done
    return cli.json("proposals", "list")["proposals"]


def test_a_pass_is_refused_until_judging_is_allowed_and_then_fills_the_queue(cli):
    refused = cli("pass", "run", "--json")
    assert refused.status == 1 and refused.error["code"] == "conflict"
    assert "lethelog settings judgment on" in refused.error["message"]
    proposals = staged(cli, 2)
    assert [one["action"] for one in proposals] == ["supersede"] * 2
    one = proposals[0]
    assert one["quote"].startswith("This replaces PEP") and not one["stale"] and not one["unselected"]
    detail = cli.json("proposals", "show", one["id"])
    assert detail == cli.json("show", one["id"]) and detail["memory"]["id"] == one["memory_id"]
    readable = cli("show", one["id"])
    for part in (one["id"], one["memory_id"], one["related_id"], "This replaces PEP", "threshold", "stated"):
        assert part in readable.out
    about = cli.json("proposals", "list", "--memory", one["memory_id"], "--action", "supersede", "--status", "all")
    assert [found["id"] for found in about["proposals"]] == [one["id"]]
    first = cli.json("proposals", "list", "--limit", "1")
    rest = cli.json("proposals", "list", "--limit", "1", "--cursor", first["next_cursor"])
    assert (first["total"], [rest["proposals"][0]["id"]]) == (2, [proposals[1]["id"]])

    shown = cli("pass", "show", one["pass_id"])
    assert "completed" in shown.out and "2 supersede" in shown.out
    assert cli.json("show", one["pass_id"]) == cli.json("pass", "show", one["pass_id"])

    decided = cli.json("proposals", "accept", one["id"], "--comment", "agreed on Monday", "--key", "k")
    assert decided["changed"] == [one["memory_id"]] and decided["proposal"]["status"] == "applied"
    assert cli.json("proposals", "accept", one["id"], "--comment", "agreed on Monday", "--key", "k")
    assert cli.json("show", one["memory_id"])["status"] == "superseded"
    again = cli("proposals", "reject", one["id"], "--json")
    assert again.status == 1 and again.error["code"] == "conflict"
    rejected = cli("proposals", "reject", proposals[1]["id"])
    assert rejected.out.startswith(f"rejected {proposals[1]['id']}")
    assert cli.json("status")["queue"] == {"proposed": 0, "applied": 1, "rejected": 1, "withdrawn": 0}

    chain = cli.json("explain", one["id"])
    events = [link["event"] for link in chain["links"]]
    for event in (
        "pass.requested",
        "verdict.recorded",
        "proposal.staged",
        "proposal.accepted",
        "memory.superseded",
    ):
        assert event in events
    assert "a reviewer accepted" in cli("explain", one["id"]).out


def test_without_waiting_a_pass_is_only_asked_for_and_a_key_asks_for_it_once(cli):
    cli.json("settings", "judgment", "on")
    asked = cli.json("pass", "run", "--no-wait", "--key", "once")
    assert asked["phase"] == "requested"
    assert cli.json("pass", "run", "--no-wait", "--key", "once")["id"] == asked["id"]
    second = cli("pass", "run", "--no-wait", "--json")
    assert second.status == 1 and asked["id"] in second.error["message"]
    # The next command with workers finishes it.
    deadline = time.monotonic() + 60
    while cli.json("pass", "show", asked["id"])["phase"] != "completed" and time.monotonic() < deadline:
        cli("pass", "run", "--wait", "20")
    assert cli.json("pass", "show", asked["id"])["phase"] == "completed"


def test_the_scheduled_one_shot_reads_nothing_while_passes_are_off(cli, tmp_path, monkeypatch: pytest.MonkeyPatch):
    nothing = tmp_path / "never made"
    cli.data_dir = nothing
    assert cli.json("pass", "run", "--scheduled") == {"scheduled": "off"}
    assert "off" in cli("pass", "run", "--scheduled").out
    assert not nothing.exists()


def test_the_scheduled_one_shot_has_nothing_to_do_where_judging_is_off(cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LETHELOG_FORGETTING_PASS_ENABLED", "true")
    assert cli.json("pass", "run", "--scheduled") == {"scheduled": "nothing_to_do"}


def test_the_scheduled_one_shot_runs_the_pass_of_the_day_once(cli, monkeypatch: pytest.MonkeyPatch):
    fill(cli, 1)
    cli.json("settings", "judgment", "on")
    monkeypatch.setenv("LETHELOG_FORGETTING_PASS_ENABLED", "true")
    monkeypatch.setattr("lethelog.handlers.forgetting.requesting.SCHEDULE", dt_time(0, 0))
    done = cli.json("pass", "run", "--scheduled")
    assert (done["trigger"], done["phase"], done["proposed"]) == ("schedule", "completed", {"supersede": 1})
    assert cli.json("pass", "run", "--scheduled") == {"scheduled": "nothing_to_do"}


def test_without_a_judge_a_pass_says_so(cli, monkeypatch: pytest.MonkeyPatch):
    cli.json("settings", "judgment", "on")
    monkeypatch.setenv("LETHELOG_JUDGE", "none")
    refused = cli("pass", "run", "--json")
    assert refused.status == 2 and "No judge" in refused.error["message"]


def test_the_queue_is_walked_by_lines_and_every_key_does_what_it_says(cli):
    proposals = staged(cli, 4)
    keys = "e\no\nc\nagreed at lunch\na\n" + "r\n" + "x\ns\n" + "q\n"
    walked = cli("review", stdin=keys)
    assert walked.status == 0, walked.err
    assert "1 accepted, 1 rejected, 1 skipped" in walked.out
    assert "1 of 4" in walked.out and "a pass was requested" in walked.out and "x is no key here" in walked.out
    statuses = [cli.json("proposals", "show", one["id"])["proposal"] for one in proposals]
    assert [one["status"] for one in statuses] == ["applied", "rejected", "proposed", "proposed"]
    assert statuses[0]["comment"] == "agreed at lunch" and statuses[0]["decided_by"] == "person:ada"

    # A memory moved on: accepting is refused and the reviewer may choose again; the end of input quits.
    cli.json("verify", proposals[2]["memory_id"])
    walked = cli("review", "--json", stdin="a\nr\n")
    assert json.loads(walked.out) == {"accepted": [], "rejected": [proposals[2]["id"]], "skipped": [], "left": 1}
    assert "stale" in walked.err and "is at version" in walked.err
    assert cli("review", "--action", "archive").out.startswith("nothing to review")


def test_another_tenant_has_no_part_in_the_queue(cli, other_tenant):
    [proposal] = staged(cli, 1)
    assert other_tenant.json("proposals", "list", "--status", "all")["total"] == 0
    for verb in (("show",), ("proposals", "show"), ("proposals", "accept"), ("explain",), ("pass", "show")):
        foreign = proposal["pass_id"] if verb[0] == "pass" else proposal["id"]
        assert other_tenant(*verb, foreign, "--json").error["code"] == "not_found"
        assert other_tenant(*verb, str(uuid4()), "--json").error["code"] == "not_found"
    assert other_tenant("review").out.startswith("nothing to review")
    assert cli.json("proposals", "show", proposal["id"])["proposal"]["status"] == "proposed"


def test_on_a_terminal_single_keys_decide_and_the_terminal_is_put_back(cli):
    import termios

    first, second, third = staged(cli, 3)
    with _Terminal(cli.command("review")) as terminal:
        before = termios.tcgetattr(terminal.slave)
        terminal.until("q quit")
        # An arrow key ends in A and a paste holds one: neither is a decision.
        terminal.press(b"\x1b[A")
        terminal.until("q quit")
        terminal.press(b"aaaa")
        terminal.until("q quit")
        terminal.press(b"a")
        terminal.until("accepted")
        terminal.until("q quit")
        terminal.press(b"c")
        terminal.until("comment: ")
        terminal.type("nicht so é\n".encode())
        terminal.until("q quit")
        terminal.press(b"R")
        terminal.until("rejected")
        terminal.until("q quit")
        terminal.press(b"\x04")
        assert terminal.ends() == 0
        assert termios.tcgetattr(terminal.slave) == before
    decided = [cli.json("proposals", "show", one["id"])["proposal"] for one in (first, second, third)]
    assert [one["status"] for one in decided] == ["applied", "rejected", "proposed"]
    assert decided[1]["comment"] == "nicht so é"

    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with _Terminal(cli.command("review")) as terminal:
            terminal.until("q quit")
            terminal.process.send_signal(number)
            assert terminal.ends() == status
            assert termios.tcgetattr(terminal.slave) == before


def test_watching_prints_each_proposal_as_the_broker_brings_it_and_a_digest_counts_them(
    cli, other_tenant, operator
):
    fill(cli, 2)
    cli.json("settings", "judgment", "on")
    watching = cli.spawn("review", "--watch", "--from", "1", "--json")
    assert watching.stdout is not None and watching.stderr is not None
    elsewhere = other_tenant.spawn("review", "--watch")
    assert elsewhere.stderr is not None
    assert b"watching" in elsewhere.stderr.readline()
    done = cli.json("pass", "run", "--wait", "60")
    assert done["proposed"] == {"supersede": 2}
    seen = {json.loads(watching.stdout.readline())["proposal"]["id"] for _ in range(2)}
    assert seen == {one["id"] for one in cli.json("proposals", "list")["proposals"]}
    newer, older = (UUID(one["memory_id"]) for one in cli.json("proposals", "list")["proposals"])
    edge = EdgeStaged(
        memory_id=newer, related_id=older, seen={newer: 1, older: 1}, source=uuid4(), edge="extends", similarity=0.9,
        embedding_model="m", floor=0.5,
    )  # fmt: skip
    envelope = Envelope(Actor("worker", uuid4()), cause=uuid4(), correlation=uuid4())
    tenant = operator.tenants.show(cli.tenant).id
    operator.run(stage(operator.asyncio.engine.log, tenant, edge, envelope))
    told = json.loads(watching.stdout.readline())["proposal"]
    assert (told["kind"], told["action"]) == ("consolidation", "extends"), "every kind is told"
    digest = cli("review", "digest", "--json")
    assert digest.status == 3 and json.loads(digest.out)["total"] == 3
    lines = cli("review", "digest").out.splitlines()
    assert lines[0].startswith("3 proposals waiting for review at ")
    assert [line.split("; ")[0].split() for line in lines[1:3]] == [
        ["2", "retention:", "supersede"],
        ["1", "consolidation:", "extends"],
    ]
    for process in (watching, elsewhere):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0 and out == b"" and b"Traceback" not in err, (out, err)


def test_a_what_if_and_the_figures_of_reviewing_are_told_for_readers_programs_and_prometheus(cli, tmp_path):
    [one, other] = staged(cli, 2)
    cli.json("proposals", "accept", one["id"])
    cli.json("proposals", "reject", other["id"])
    stricter = cli.json("whatif", "--threshold", "supersede=0.999")
    assert (stricter["disappeared"], stricter["appeared"], stricter["id"]) == (2, 0, None)
    [supersede] = [row for row in stricter["recorded"] if row["action"] == "supersede"]
    assert (supersede["proposed"], supersede["precision"]["hits"], supersede["precision"]["of"]) == (2, 1, 2)
    policy = tmp_path / "policy.toml"
    policy.write_text("pairs_cap = 0\nsingles_cap = 0\n")
    assert cli.json("whatif", "--policy", str(policy))["unchanged"] == 0
    readable = cli("whatif", "--threshold", "supersede=0.999").out
    assert "1 of 2 (50%, 95 % interval 9% to 91%)" in readable and "too few to tell" in readable
    # The judge that judged them said it all in the pass.
    asked = cli.json("whatif", "--judge", "stated")
    assert (asked["asking"]["reused"], asked["asking"]["asked"], asked["unchanged"]) == (2, 0, 2)
    for wrong in ("supersede", "keep=0.5", "archive=x", "archive=2"):
        refused = cli("whatif", "--threshold", wrong, "--json")
        assert refused.status != 0 and refused.error["code"] == "invalid_input", wrong
    stats = cli.json("review", "stats")
    [kind] = [group for group in stats["groups"] if group["by"] == "kind"]
    assert (kind["value"], kind["accepted"], kind["rejected"], kind["open"]) == ("retention", 1, 1, 0)
    text = cli("review", "stats", "--prometheus").out
    assert 'lethelog_review_proposals{by="kind",value="retention",status="accepted"} 1.0' in text
    assert "1 of 2 (50%" in cli("review", "stats").out


class _Terminal:
    """A command on a terminal of its own."""

    def __init__(self, command: list[str]) -> None:
        self.master, self.slave = os.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={**os.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        self._said = ""

    def __enter__(self) -> "_Terminal":
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def until(self, words: str) -> None:
        """Read until these words were said since the last call."""
        deadline = time.monotonic() + 60
        while words not in (plain := re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._said)):
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, self._said
            self._said += os.read(self.master, 65_536).decode("utf-8", "replace")
        self._said = plain.partition(words)[2]

    def press(self, keys: bytes) -> None:
        """Type once single keys are read: what is typed before is dropped, as it should be."""
        import termios

        deadline = time.monotonic() + 60
        while termios.tcgetattr(self.slave)[3] & termios.ICANON:
            assert time.monotonic() < deadline, "no key is asked for"
            time.sleep(0.01)
        self.type(keys)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def ends(self) -> int:
        deadline = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.05)[0]:
                self._said += os.read(self.master, 65_536).decode("utf-8", "replace")
        return self.process.wait(timeout=10)


def test_an_undo_of_nothing_is_said_by_the_options_there_are(cli):
    options = "--effect, --proposal, --undo, --pass, --judge, --policy, --reviewer, --session"
    for typed in ((), ("--judge", "stated:1", "--policy", "1")):
        for verb in ("preview", "perform"):
            refused = cli("undo", verb, *typed)
            assert refused.status == 2 and f"give exactly one of {options}" in refused.err
    memory = cli.remember("Deploys go to Hetzner")
    wrong = cli("undo", "perform", "--proposal", memory)
    assert wrong.err == f"error: proposal_id: {memory} is the id of a memory, not of a proposal\n"
