"""``lethelog tenant``, ``token`` and ``policy``: who may do what, where a token's text goes, what is kept how long."""

import re
from dataclasses import dataclass
from pathlib import Path
from stat import S_IMODE
from uuid import uuid4

import pytest

from .conftest import Cli

TOKEN = re.compile("lth_[a-z2-7]{20,}")


@dataclass
class Bearer(Cli):
    """The command line of whoever holds a token, in a file or, without one, in a variable."""

    token_file: Path | None = None

    def options(self) -> list[str]:
        shown = [] if self.token_file is None else ["--token-file", str(self.token_file)]
        return ["--data-dir", str(self.data_dir), *shown]


@dataclass(frozen=True)
class Issued:
    """A token that was issued into a file."""

    id: str
    file: Path

    @property
    def text(self) -> str:
        return self.file.read_text().strip()

    def bearer(self, cli: Cli) -> Bearer:
        return Bearer(cli.data_dir, token_file=self.file)


def issue(cli: Cli, folder: Path, *options: str, actor: str = "agent:planner") -> Issued:
    file = folder / f"{uuid4().hex}.token"
    said = cli("token", "issue", actor, "--out", str(file), *options, "--json")
    assert not TOKEN.search(said.out + said.err)
    return Issued(said.json["token"]["id"], file)


def test_a_tenant_is_made_once_listed_and_shown_with_what_its_policy_owes(cli, tmp_path: Path):
    policy = tmp_path / "acme.toml"
    policy.write_text('owner = "ada"\nstale_window_days = 60\n')
    name = f"acme-{uuid4().hex[:8]}"
    made = cli("tenant", "create", name, "--policy", str(policy), "--json")
    assert made.json["name"] == name and "erasure_rehearsal" in made.json["unanswered"]
    assert cli("tenant", "create", name, "--json").error["code"] == "conflict"
    assert cli.json("tenant", "show", name) == made.json
    listed = cli.json("tenant", "list", "--limit", "500")
    assert {"name": name, "id": made.json["id"]}.items() <= next(
        one for one in listed["tenants"] if one["name"] == name
    ).items()
    first = cli.json("tenant", "list", "--limit", "1")
    assert len(first["tenants"]) == 1 and first["next_cursor"]
    assert "--cursor" in cli("tenant", "list", "--limit", "1").err
    of_acme = Cli(cli.data_dir, name)
    assert of_acme.json("policy", "show")["policy"]["stale_window_days"] == 60
    for readable in (cli("tenant", "show", name), cli("tenant", "list", "--limit", "500")):
        assert name in readable.out and made.json["id"] in readable.out


def test_a_policy_that_cannot_be_makes_no_tenant(cli, tmp_path: Path):
    name, file = f"acme-{uuid4().hex[:8]}", tmp_path / "policy.toml"
    for text, field in (("stale_window_days = -1", "stale_window_days"), ("broken", "policy")):
        file.write_text(text)
        assert cli("tenant", "create", name, "--policy", str(file), "--json").error["field"] == field
    assert str(tmp_path / "none") in cli("tenant", "create", name, "--policy", str(tmp_path / "none")).err
    assert cli("tenant", "show", name, "--json").error["code"] == "not_found"


def test_a_misspelt_tenant_is_not_there_and_is_not_made(cli):
    kept = cli.remember("Deploys go to Hetzner")
    misspelt = Cli(cli.data_dir, cli.tenant.replace("t-", "t_"))
    for verb in (("remember", "x"), ("list",), ("policy", "show"), ("token", "list")):
        refused = misspelt(*verb, "--json")
        assert (refused.status, refused.error["code"]) == (2, "not_found"), verb
    assert cli("tenant", "show", misspelt.tenant, "--json").error["code"] == "not_found"
    assert [one["id"] for one in cli.json("list")["memories"]] == [kept]


def test_a_name_that_looks_like_another_tenants_is_made_on_demand_only(cli):
    lookalike = cli.tenant.upper()
    refused = cli("tenant", "create", lookalike, "--json")
    assert refused.error["field"] == "name" and "--allow-lookalike" in refused.err
    assert cli.json("tenant", "create", lookalike, "--allow-lookalike")["name"] == lookalike


def test_a_token_is_written_to_a_file_of_its_owner_alone_and_works_by_file_and_by_variable(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    kept = cli.remember("Deploys go to Hetzner")
    issued = issue(cli, tmp_path)
    assert S_IMODE(issued.file.stat().st_mode) == 0o600 and TOKEN.fullmatch(issued.text)
    by_file = issued.bearer(cli)
    who = by_file.json("token", "check")
    assert who["tenant"] == cli.json("tenant", "show", cli.tenant)["id"]
    assert (who["actor"], who["permissions"]) == ("agent:planner", ["memory:read", "memory:write"])
    assert [one["id"] for one in by_file.json("list")["memories"]] == [kept]
    written = by_file.remember("Lunch is at noon")
    assert "agent:planner" in cli("history", written).out
    with monkeypatch.context() as told:
        told.setenv("LETHELOG_TOKEN", issued.text)
        assert Bearer(cli.data_dir).json("token", "check") == who
        both = by_file("list", "--json")
        assert both.status == 2 and "LETHELOG_TOKEN" in both.err and issued.text not in both.err
    beside = cli("--token-file", str(issued.file), "list", "--json")
    assert (beside.status, beside.error["setting"]) == (2, "LETHELOG_TENANT")


def test_a_file_that_is_there_is_kept_and_no_token_is_issued(cli, tmp_path: Path):
    file = tmp_path / "mine"
    file.write_text("mine")
    for refused in (
        cli("token", "issue", "agent:planner", "--out", str(file)),
        cli("token", "issue", "agent:planner", "--out", str(tmp_path / "none" / "file")),
        cli("token", "issue", "planner", "--out", str(tmp_path / "new")),
        cli("token", "issue", "agent:planner", "--allow", "memory:red", "--out", str(tmp_path / "new")),
        cli("token", "issue", "agent:planner", "--allow", "installation:admin", "--out", str(tmp_path / "new")),
        cli("token", "issue", "agent:planner", "--expires-at", "2020-01-01T00:00:00Z"),
    ):
        assert refused.status != 0 and refused.out == "", refused
    assert file.read_text() == "mine" and list(tmp_path.iterdir()) == [file]
    assert cli.json("token", "list")["tokens"] == []


def test_a_token_is_shown_once_and_by_nothing_afterwards(cli):
    """Neither by what lists it, nor by an error, nor on a command line, where everybody sees it."""
    shown = cli("token", "issue", "agent:planner")
    [text] = TOKEN.findall(shown.out)
    assert "not shown again" in shown.err and text not in shown.err
    token_id = cli.json("token", "list")["tokens"][0]["id"]
    for ran in (
        cli("token", "list"),
        cli("token", "list", "--json"),
        cli("log", "read", "--json"),
        cli("--token", text, "list"),
        cli("--token", text, "list", "--json"),
        cli("token", "revoke", text, "--json"),
        cli("token", "revoke", token_id),
    ):
        assert ran.out + ran.err != "" and text not in ran.out + ran.err
        assert text.removeprefix("lth_")[:30] not in ran.out + ran.err
    assert "No such option" in cli("--token", text, "list").err


LIST, REMEMBER, ACCEPT = ("list",), ("remember", "x"), ("proposals", "accept", str(uuid4()))
TOKENS, POLICY, TENANTS = ("token", "list"), ("policy", "set", "pairs_cap=7"), ("tenant", "create", "no-such")


@pytest.mark.parametrize(
    ("allowed", "may", "may_not"),
    [
        ("memory:read", [LIST], [REMEMBER, ACCEPT, TOKENS, POLICY]),
        ("memory:write", [REMEMBER], [LIST, ACCEPT]),
        ("memory:review", [ACCEPT], [LIST, REMEMBER]),
        ("tenant:admin", [TOKENS, POLICY], [LIST, REMEMBER, TENANTS, ("tenant", "list")]),
    ],
)
def test_a_token_does_what_it_allows_and_nothing_else(cli, tmp_path: Path, allowed: str, may: list, may_not: list):
    bearer = issue(cli, tmp_path, "--allow", allowed).bearer(cli)
    for verb in may:
        ran = bearer(*verb, "--json")
        assert ran.status == 0 or ran.error["code"] == "not_found", (verb, ran)
    for verb in may_not:
        refused = bearer(*verb, "--json").error
        assert refused["code"] == "access_denied" and refused["permission"] in refused["message"], verb


def test_a_rotated_token_is_succeeded_and_a_revoked_one_is_nothing(cli, tmp_path: Path):
    first, second, third = issue(cli, tmp_path, "--allow", "memory:read"), tmp_path / "second", tmp_path / "third"
    rotated = cli.json("token", "rotate", first.id, "--grace", "3600", "--out", str(second))
    assert rotated["text"] is None and S_IMODE(second.stat().st_mode) == 0o600
    successor = Issued(rotated["token"]["id"], second)
    assert successor.bearer(cli).json("token", "check")["permissions"] == ["memory:read"]
    assert first.bearer(cli)("token", "check").status == 0, "it has its time of grace"
    ended = cli.json("token", "rotate", successor.id, "--grace", "0", "--out", str(third))
    refused = successor.bearer(cli)("token", "check", "--json")
    assert refused.error["code"] == "invalid_credential" and successor.text not in refused.err
    last = Issued(ended["token"]["id"], third)
    assert cli.json("token", "revoke", last.id)["status"] == "revoked"
    for verb in (("token", "check"), ("remember", "x"), ("tenant", "list")):
        refused = last.bearer(cli)(*verb, "--json")
        assert refused.error["code"] == "invalid_credential" and last.text not in refused.err
    assert {one["id"]: one["status"] for one in cli.json("token", "list")["tokens"]} == {
        first.id: "rotated",
        successor.id: "expired",
        last.id: "revoked",
    }
    assert cli("token", "revoke", str(uuid4()), "--json").error["code"] == "not_found"


def test_another_tenants_token_can_be_neither_seen_nor_ended(cli, other_tenant, tmp_path: Path):
    issued = issue(cli, tmp_path)
    assert other_tenant.json("token", "list")["tokens"] == []
    for verb in (("revoke",), ("rotate",)):
        foreign, unknown = (other_tenant("token", *verb, one, "--json") for one in (issued.id, str(uuid4())))
        assert foreign.error["code"] == unknown.error["code"] == "not_found"
    assert issued.bearer(cli)("token", "check").status == 0


def test_a_token_that_others_may_read_or_that_is_damaged_is_refused_without_repeating_it(cli, tmp_path: Path):
    issued = issue(cli, tmp_path)
    issued.file.chmod(0o644)
    assert "chmod 600" in issued.bearer(cli)("list").err
    issued.file.chmod(0o600)
    whole = issued.text
    issued.file.write_text(whole[:-4])
    cut = issued.bearer(cli)("list", "--json")
    assert cut.error["code"] == "invalid_credential" and whole[:-4] not in cut.err
    issued.file.unlink()
    assert issued.bearer(cli)("list", "--json").error["setting"] == "LETHELOG_TOKEN_FILE"


def test_doctor_and_status_work_beside_a_token_and_do_not_show_it(cli, tmp_path: Path):
    issued = issue(cli, tmp_path)
    bearer = issued.bearer(cli)
    bearer.remember("Deploys go to Hetzner")
    for verb in ("doctor", "status"):
        readable, document = bearer(verb), bearer(verb, "--json")
        assert readable.status == document.status == 0, (verb, readable, document)
        for ran in (readable, document):
            assert issued.text not in ran.out + ran.err and "Hetzner" not in ran.out + ran.err
    assert bearer.json("doctor")["ok"] and bearer.json("status")["head"] > 0


def test_a_policy_is_set_by_name_and_by_file_and_reports_where_it_leads(cli, tmp_path: Path):
    assert cli.json("policy", "show")["policy_version"] == 1
    file = tmp_path / "policy.toml"
    file.write_text('live_memories = 2\nat_cap = "reject"\nstale_window_days = 60\n')
    changed = cli.json("policy", "set", "--file", str(file), "stale_window_days=30", "owner=ada")
    assert changed["policy_version"] == 2 and changed == cli.json("policy", "show")
    wanted = {"live_memories": 2, "at_cap": "reject", "stale_window_days": 30, "owner": "ada"}
    assert wanted.items() <= changed["policy"].items()
    assert cli("policy", "set", "live_memories=0", "owner=eve", "--json").error["field"] == "live_memories"
    assert cli("policy", "set").status == 2 and "twice" in cli("policy", "set", "owner=a", "owner=b").err
    assert cli.json("policy", "show") == changed, "what is refused changes nothing"
    cli.remember("one"), cli.remember("two")
    full = cli("remember", "the third text", "--json")
    assert (full.error["code"], full.error["cap"]) == ("quota_exceeded", 2) and "third" not in full.err
    report = cli.json("policy", "report")
    assert (report["live_memories"], report["figures"], report["policy_version"]) == (2, "measured", 2)
    assert [cap["items"] for cap in report["caps"].values()] == [2]
    stated = cli.json("policy", "set", "expected_writes_per_day=10", "expected_average_kb=2")
    told = cli.json("policy", "report")
    assert (told["figures"], told["writes_per_day"]) == ("stated", 10) and stated["policy_version"] == 3
    readable = cli("policy", "report").out
    assert "written a day (stated): 10, of 2 KB each" in readable and "live now: 2" in readable
