"""``lethelog erase``: looked at first, done by that, proved by a file, refused by name."""

import json
import stat
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from .conftest import Cli, Ran

TEXT = "Ada likes green tea"
REASON = ("--reason", "data_subject_request")


@dataclass
class Bearer(Cli):
    """Commands by whoever a token says."""

    token: Path = Path()

    def options(self) -> list[str]:
        return ["--data-dir", str(self.data_dir), "--token-file", str(self.token)]


def test_a_person_is_erased_by_what_was_previewed_and_the_certificate_proves_it_without_a_server(cli, tmp_path):
    erased = cli.remember(TEXT, "--user", "ada")
    kept = cli.remember("Deploys go to Hetzner", "--user", "grace")
    assert [hit["memory"]["id"] for hit in cli.json("search", "green tea", "--user", "ada")["hits"]] == [erased]
    looked = cli("erase", "preview", "--subject", "ada")
    assert looked.status == 0 and "subject: 1 memory" in looked.out and "erase perform" in looked.out
    preview = cli.json("erase", "preview", "--subject", "ada")
    assert (preview["kind"], preview["memories"], preview["places"]["live_memory"]) == ("subject", 1, 1)
    assert cli.json("show", erased)["content"] == TEXT, "a preview erases nothing"
    refused = cli("erase", "show", preview["id"], "--certificate", str(tmp_path / "x.json"), "--json")
    assert refused.error["field"] == "certificate" and list(tmp_path.iterdir()) == []

    file = tmp_path / "ada.json"
    done = cli.json("erase", "perform", preview["id"], *REASON, "--certificate", str(file))
    assert (done["phase"], done["memories"], done["remaining"], done["reason"]) == (
        "verified",
        1,
        {},
        "data_subject_request",
    )
    assert cli("show", erased, "--json").error["code"] == "erased"
    assert cli.json("show", kept)["content"] == "Deploys go to Hetzner"
    assert [one["id"] for one in cli.json("list", "--status", "all")["memories"]] == [kept]
    assert cli("erase", "preview", "--subject", "ada", "--json").error["code"] == "not_found"
    assert TEXT not in cli("log", "export", "-").out

    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and TEXT not in file.read_text()
    checked = cli.json("erase", "verify", str(file))
    assert checked["signature"] == "valid" and checked["statement"]["erasure"] == preview["id"]
    assert "live" not in checked and checked["key_checked"] is False
    assert "whose key this is was not checked" in cli("erase", "verify", str(file)).out
    key = checked["public_key"]
    assert cli.json("erase", "verify", str(file), "--public-key", key)["key_checked"] is True
    live = cli.json("erase", "verify", str(file), "--live")["live"]
    assert (live["holds"], live["own_key"], live["on_record"], live["remaining"]) == (True, True, True, {})
    assert "holds" in cli("erase", "verify", str(file), "--live").out

    again = cli.json("erase", "perform", preview["id"], *REASON)
    assert (again["verified_at"], again["times_performed"]) == (done["verified_at"], 1)
    assert cli("erase", "perform", preview["id"], "--reason", "other", "--json").error["code"] == "conflict"
    assert cli.json("erase", "retry", preview["id"])["phase"] == "verified"
    shown = cli.json("erase", "show", preview["id"])
    assert shown["certificate"] == json.loads(file.read_text())
    readable = cli("erase", "show", preview["id"]).out
    assert "verified" in readable and "live_memory: 1 before, 0 after" in readable and TEXT not in readable


def test_a_changed_certificate_or_another_key_is_refused(cli, tmp_path):
    preview = cli.json("erase", "preview", "--memory", cli.remember(TEXT))
    file = tmp_path / "one.json"
    document = cli.json("erase", "perform", preview["id"], *REASON, "--certificate", str(file))["certificate"]
    assert cli("erase", "verify", str(file), "--public-key", document["public_key"]).status == 0
    other = cli("erase", "verify", str(file), "--public-key", "AAAA", "--json").error
    assert other["code"] == "invalid_input" and "another key" in other["message"]
    taken = cli("erase", "show", preview["id"], "--certificate", str(file), "--json")
    assert taken.error["field"] == "file"
    file.write_text(json.dumps(document | {"statement": document["statement"] | {"reason": "never_true"}}))
    for more in ((), ("--live",)):
        assert cli("erase", "verify", str(file), *more, "--json").error["field"] == "certificate"
    for damaged in ("", "[]", "{"):
        file.write_text(damaged)
        assert cli("erase", "verify", str(file), "--json").error["field"] == "file"
    file.write_text("{}")
    assert cli("erase", "verify", str(file), "--json").error["field"] == "certificate"


def test_erasures_are_listed_newest_first_and_the_unfinished_ones_by_themselves(cli):
    memory = cli.remember(TEXT)
    first, second = (cli.json("erase", "preview", "--memory", memory)["id"] for _ in range(2))
    page = cli.json("erase", "list", "--limit", "1")
    assert [one["id"] for one in page["erasures"]] == [second]
    [rest] = cli.json("erase", "list", "--cursor", page["next_cursor"])["erasures"]
    assert (rest["id"], rest["phase"]) == (first, "previewed")
    assert cli.json("erase", "list", "--unfinished")["erasures"] == [], "nobody asked for them"
    assert "no erasure" in cli("erase", "list", "--unfinished").out
    assert cli("erase", "list", "--cursor", "x", "--json").error["field"] == "cursor"


def test_what_cannot_be_erased_is_refused_by_name_and_nothing_is_erased(cli, other_tenant):
    memory = cli.remember(TEXT)
    preview = cli.json("erase", "preview", "--memory", memory)["id"]
    missing = cli("erase", "perform", preview)
    assert missing.status == 2 and "--reason" in missing.err
    assert cli("erase", "perform", preview, "--reason", "Ada asked", "--json").error["field"] == "reason"
    assert cli("erase", "perform", "x", *REASON, "--json").error["field"] == "erasure_id"
    assert cli("erase", "retry", preview, "--json").error["code"] == "conflict"
    for verb in (("show",), ("retry",), ("perform", *REASON)):
        assert cli("erase", verb[0], str(uuid4()), *verb[1:], "--json").error["code"] == "not_found"
        assert cli("erase", verb[0], memory, *verb[1:], "--json").error["code"] == "wrong_kind"
        foreign = other_tenant("erase", verb[0], preview, *verb[1:], "--json")
        assert foreign.error["code"] == "not_found", "another tenant's erasure is none"
    assert cli("erase", "preview", "--memory", str(uuid4()), "--json").error["code"] == "not_found"
    assert other_tenant("erase", "preview", "--memory", memory, "--json").error["code"] == "not_found"
    assert cli("erase", "preview", "--json").error["code"] == "invalid_input"
    assert cli("erase", "preview", "--memory", memory, "--scope", "personal", "--json").status == 2
    whole = cli.json("erase", "preview", "--whole-tenant")["id"]
    blocked = cli("erase", "perform", whole, *REASON, "--re-entry", "block", "--json")
    assert blocked.error["field"] == "re_entry"
    assert cli.json("show", memory)["content"] == TEXT


def test_a_token_without_the_permission_sees_and_does_nothing_of_it(cli, tmp_path):
    memory = cli.remember(TEXT)
    preview = cli.json("erase", "preview", "--memory", memory)["id"]
    may, may_not = tmp_path / "may", tmp_path / "may not"
    cli.json("token", "issue", "agent:planner", "--out", str(may_not))
    cli.json("token", "issue", "agent:officer", "--allow", "memory:erase", "--out", str(may))

    def by(token: Path, *arguments: str) -> Ran:
        return Bearer(cli.data_dir, token=token)("erase", *arguments, "--json")

    for arguments in (
        ("preview", "--memory", memory),
        ("perform", preview, *REASON),
        ("show", preview),
        ("list",),
        ("retry", preview),
        ("rehearse",),
    ):
        assert by(may_not, *arguments).error["code"] == "access_denied"
    assert by(may, "preview", "--whole-tenant").error["code"] == "access_denied", "that is the administrator's"
    assert cli.json("show", memory)["content"] == TEXT
    assert by(may, "perform", preview, *REASON).json["phase"] == "verified"


def test_a_rehearsal_finds_something_everywhere_first_and_nothing_afterwards(cli):
    done = cli.json("erase", "rehearse")
    assert (done["status"], done["found_after"], done["remaining"], done["memories"]) == ("passed", 0, [], 4)
    assert done["found_before"] > 0 and done["not_rehearsed"] == []
    report = cli.json("policy", "report")
    assert report["policy"]["rehearsed_on"] is not None and "erasure_rehearsal" not in report["unanswered"]
    by_hand = cli("policy", "set", "rehearsed_on=2026-01-01", "--json")
    assert (by_hand.status, by_hand.error["field"]) == (2, "rehearsed_on")
    must = (
        "data keys",
        "sealed events",
        "claims",
        "live_memory",
        "memory_history",
        "facts",
        "review_queue",
        "replays",
        "export",
        "parked message",
        "vectors",
    )
    assert all(done["places"][place]["before"] > 0 and done["places"][place]["after"] == 0 for place in must)
    assert [one["phase"] for one in cli.json("erase", "list")["erasures"]] == ["verified"]
    assert cli.json("list", "--status", "all")["memories"] == []


def test_a_whole_tenant_is_warned_of_and_its_certificate_is_shown_without_its_name(cli, other_tenant, tmp_path):
    memory = other_tenant.remember(TEXT)
    looked = other_tenant("erase", "preview", "--whole-tenant")
    assert "Beware: this is everything there is of the tenant" in looked.out and memory in looked.out
    preview = other_tenant.json("erase", "preview", "--whole-tenant")
    assert preview["ids"] == [memory] and "nobody can read or write there again" in preview["warning"]
    assert cli("erase", "show", preview["id"], "--json").error["code"] == "not_found", "while its tenant is there"
    done = other_tenant.json("erase", "perform", preview["id"], *REASON)
    assert done["phase"] == "verified"
    assert other_tenant("erase", "show", preview["id"], "--json").error["code"] == "not_found", "no such tenant"
    file = tmp_path / "tenant.json"
    shown = cli.json("erase", "show", preview["id"], "--certificate", str(file))
    assert (shown["phase"], shown["certificate"]) == ("verified", done["certificate"])
    assert cli.json("erase", "verify", str(file), "--live")["live"]["holds"] is True


def test_a_repeat_says_where_the_certificate_is_and_what_came_since_the_preview(cli, tmp_path):
    first = cli.remember(TEXT, "--scope", "late")
    preview = cli.json("erase", "preview", "--scope", "late")
    assert preview["ids"] == [first] and preview["warning"] is None
    cli.remember("written since", "--scope", "late")
    done = cli("erase", "perform", preview["id"], *REASON)
    assert "1 memory came since the preview, and went too" in done.out and "scope, 2 memories" in done.out
    again = cli("erase", "perform", preview["id"], *REASON)
    assert f"lethelog erase show {preview['id']} --certificate FILE" in again.err
    other = cli("erase", "perform", preview["id"], "--reason", "other", "--json").error
    assert f"lethelog erase show {preview['id']}" in other["message"]
    listed = cli("erase", "list").out
    assert listed.splitlines()[0].split() == ["erasure", "phase", "kind", "memories", "reason", "at"]
    assert "data_subject_request" in listed and preview["id"] in listed

    key = cli.json("erase", "key")
    file = tmp_path / "late.json"
    cli.json("erase", "show", preview["id"], "--certificate", str(file))
    checked = cli.json("erase", "verify", str(file), "--public-key", key["public_key"])
    assert (checked["key_checked"], checked["signed_by"]) == (True, key["fingerprint"])
    assert f"--public-key {key['public_key']}" in cli("erase", "key").out
    absent = cli("erase", "verify", str(tmp_path / "nofile"), "--json")
    assert (absent.status, absent.error["message"]) == (2, "file: is not there")
    assert cli("erase", "retry", first, "--json").error["message"].endswith("id of a memory, not of an erasure")
    assert cli("show", preview["id"], "--json").error["message"].endswith("id of an erasure, not of a memory")


def test_a_certificate_that_cannot_be_written_is_refused_before_anything_is_erased(cli, tmp_path):
    """Afterwards nothing could be taken back, and the error would read as if nothing had been done."""
    memory = cli.remember(TEXT)
    preview = cli.json("erase", "preview", "--memory", memory)["id"]
    there = tmp_path / "there.json"
    there.write_text("something else")
    for file in (there, tmp_path / "no folder" / "ada.json", tmp_path):
        refused = cli("erase", "perform", preview, *REASON, "--certificate", str(file))
        assert refused.status == 2 and refused.out == ""
        assert cli.json("erase", "show", preview)["phase"] == "previewed"
    assert cli.json("show", memory)["content"] == TEXT and there.read_text() == "something else"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["there.json"]
    done = cli.json("erase", "perform", preview, *REASON, "--certificate", str(there), "--overwrite")
    assert done["phase"] == "verified" and json.loads(there.read_text()) == done["certificate"]


def test_a_lost_ledger_is_completed_from_the_log(cli):
    preview = cli.json("erase", "preview", "--memory", cli.remember(TEXT))
    cli.json("erase", "perform", preview["id"], *REASON)
    whole = cli.json("erase", "ledger")
    assert whole["entries"] > 0 and whole["missing"] == []
    kept = Path(whole["file"]).read_bytes()
    try:
        Path(whole["file"]).unlink()
        lacking = cli("erase", "ledger", "--json")
        said = json.loads(lacking.out)
        assert lacking.status == 1 and preview["id"] in said["missing"]
        completed = cli.json("erase", "ledger", "--complete")
        assert (completed["entries"], completed["missing_count"]) == (said["missing_count"], 0)
    finally:
        Path(whole["file"]).write_bytes(kept)
