"""Every verb of the command line on a real server: answers for people and for programs, errors, exit statuses."""

import json
from typing import get_args
from uuid import UUID, uuid4

import pytest
from lethelog.domain.fields import MemoryType
from lethelog.ops.cli import options, parked
from lethelog.ops.cli.running import run
from lethelog.streams.parking_place import DropReason

ALL_FIELDS = (
    *("--type", "decision", "--topic", "Hosting", "--tag", "ops", "--tag", "money", "--project", "site"),
    *("--scope", "team-a", "--metadata", '{"source": "chat", "n": 1}', "--metadata", "ticket=42"),
    *("--producer", "agent", "--trust", "agent", "--core", "--pinned", "--user", "ada", "--agent", "planner"),
    *("--run", "r1", "--session", "s1", "--subject", "ada", "--occurred-at", "2026-03-01T10:00:00+01:00"),
    *("--valid-from", "2026-03-01T00:00:00Z", "--valid-to", "2036-03-01T00:00:00Z"),
    *("--expires-at", "2037-01-01T00:00:00Z"),
)


def test_a_memory_is_remembered_with_every_field_and_shown_with_all_of_them(cli):
    source = cli.remember("Prices of hosting")
    written = cli.json("remember", "Deploys go to Hetzner", *ALL_FIELDS, "--derived-from", source)
    assert written["changed"] and not written["deduplicated"]
    memory = cli.json("show", written["memory"]["id"])
    expected = {
        "memory_type": "decision",
        "topic": "Hosting",
        "content": "Deploys go to Hetzner",
        "status": "active",
        "tags": ["ops", "money"],
        "project": "site",
        "scope": "team-a",
        "metadata": {"source": "chat", "n": 1, "ticket": "42"},
        "producer": "agent",
        "trust": "agent",
        "core": True,
        "pinned": True,
        "user_id": "ada",
        "agent_id": "planner",
        "run_id": "r1",
        "session_id": "s1",
        "subject": "ada",
        "occurred_at": "2026-03-01T09:00:00Z",
        "valid_from": "2026-03-01T00:00:00Z",
        "valid_to": "2036-03-01T00:00:00Z",
        "expires_at": "2037-01-01T00:00:00Z",
        "derived_from": [source],
    }
    assert {name: memory[name] for name in expected} == expected
    readable = cli("show", memory["id"])
    assert readable.status == 0
    assert all(
        word in readable.out for word in (memory["id"], "Hosting", "Deploys go to Hetzner", "ticket", "ada")
    )


def test_the_same_text_is_remembered_once_and_a_key_makes_a_retry_safe(cli):
    first = cli.json("remember", "Prefers tea", "--key", "k1")
    assert cli.json("remember", "Prefers tea", "--key", "k1")["memory"]["id"] == first["memory"]["id"]
    again = cli.json("remember", "prefers  TEA")
    assert again["deduplicated"] and again["memory"]["id"] == first["memory"]["id"]
    assert "already remembered" in cli("remember", "Prefers tea").out
    assert cli("remember", "something else", "--key", "k1", "--json").error["code"] == "key_reused"


def test_search_finds_by_meaning_narrows_by_every_filter_and_says_when_nothing_is_there(cli):
    found = cli.json("remember", "Deploys go to Hetzner", *ALL_FIELDS)["memory"]["id"]
    cli.remember("Lunch is at noon", "--type", "note")
    result = cli.json("search", "where do we deploy", "--limit", "3")
    assert result["hits"][0]["memory"]["id"] == found and result["count"] == len(result["hits"])
    narrowed = (
        *("--type", "decision", "--type", "fact", "--scope", "team-a", "--project", "site", "--user", "ada"),
        *("--agent", "planner", "--run", "r1", "--session", "s1", "--subject", "ada", "--tag", "ops", "--current"),
        *("--status", "active", "--recorded-after", "2020-01-01T00:00:00Z"),
    )
    assert [hit["memory"]["id"] for hit in cli.json("search", "deploy", *narrowed)["hits"]] == [found]
    assert [one["id"] for one in cli.json("list", *narrowed)["memories"]] == [found]
    assert cli.json("search", "deploy", "--recorded-before", "2020-01-01T00:00:00Z")["hits"] == []
    nothing = cli("search", "deploy", "--project", "none such")
    assert (nothing.status, nothing.out, nothing.err) == (0, "", "nothing found\n")
    readable = cli("search", "where do we deploy")
    assert found in readable.out and "Deploys go to Hetzner" in readable.out


def test_a_list_goes_on_at_its_cursor_until_everything_was_there_once(cli):
    ids = {cli.remember(f"note {n}") for n in range(5)}
    seen: list[str] = []
    page = cli.json("list", "--limit", "2")
    while True:
        seen += [one["id"] for one in page["memories"]]
        assert page["total"] == 5
        if page["next_cursor"] is None:
            break
        page = cli.json("list", "--limit", "2", "--cursor", page["next_cursor"])
    assert len(seen) == 5 and set(seen) == ids
    readable = cli("list", "--limit", "2")
    assert "2 of 5" in readable.err and "--cursor" in readable.err
    assert cli("list", "--cursor", "nonsense", "--json").error["field"] == "cursor"


def test_every_read_takes_the_times_of_the_past_and_says_of_which_it_is(cli):
    """F17, F20: as it was on record, by instant and by position, and as it held."""
    written = cli.json("remember", "The office is in Porto", "--occurred-at", "2026-02-01T09:00:00Z")
    old, then = written["memory"]["id"], written["position"]
    moved = ("revise", old, "The office is in Turin", "--occurred-at", "2026-02-05T09:00:00Z")
    new = cli.json(*moved)["memory"]["id"]
    instant = written["memory"]["recorded_at"]

    def ids(page: dict) -> list[str]:
        return [one["id"] for one in page.get("memories", [hit["memory"] for hit in page.get("hits", [])])]

    known = {"known_at": instant, "position": then, "valid_at": None}
    for known_at in (str(then), instant):
        for verb in (("list",), ("search", "office")):
            page = cli.json(*verb, "--known-at", known_at)
            assert (ids(page), page["as_of"]) == ([old], known)
        shown = cli.json("show", old, "--known-at", known_at)
        assert (shown["status"], shown["superseded_by"], shown["as_of"]) == ("active", None, known)
        told = cli.json("history", old, "--known-at", known_at)
        assert ([entry["event"] for entry in told["entries"]], told["as_of"]) == (["memory.remembered"], known)
        assert cli("show", new, "--known-at", known_at, "--json").error["code"] == "not_found"
    for day, expected in (("04", old), ("05", new)):
        held = f"2026-02-{day}T09:00:00Z"
        for verb in (("list",), ("search", "office")):
            page = cli.json(*verb, "--valid-at", held)
            assert (ids(page), page["as_of"]) == (
                [expected],
                {"known_at": None, "position": None, "valid_at": held},
            )
        assert cli.json("show", expected, "--valid-at", held)["as_of"]["valid_at"] == held
    assert ids(cli.json("list", "--known-at", str(then), "--valid-at", "2026-02-20T00:00:00Z")) == [old]
    assert cli.json("show", old)["as_of"] is None and cli.json("list")["as_of"] is None
    assert cli.json("show", old)["held_until"] == "2026-02-05T09:00:00Z"

    for verb in (("list",), ("search", "office"), ("show", old), ("history", old)):
        readable = cli(*verb, "--known-at", str(then))
        assert readable.status == 0 and f"position {then}" in readable.out.splitlines()[0]
        assert "as on record" not in cli(*verb).out
    assert "what held at 2026-02-04T09:00:00Z" in cli("list", "--valid-at", "2026-02-04T09:00:00Z").out
    assert "held until 2026-02-05T09:00:00Z" in cli("history", old).out


def test_a_time_that_cannot_be_is_refused_by_name(cli):
    one = cli.remember("Deploys go to Hetzner")
    for verb in (("list",), ("search", "deploys"), ("show", one), ("history", one)):
        for known_at in ("0", "999999", "2026-03-01", "9999-01-01T00:00:00Z", "soon"):
            refused = cli(*verb, "--known-at", known_at, "--json")
            assert (refused.status, refused.error["field"]) == (2, "known_at")
    for verb in (("list",), ("search", "deploys"), ("show", one)):
        assert cli(*verb, "--valid-at", "2026-03-01", "--json").error["field"] == "valid_at"
    assert cli("history", one, "--valid-at", "2026-03-01T00:00:00Z").status == 2
    assert cli("list", "--current", "--valid-at", "2026-03-01T00:00:00Z", "--json").error["field"] == "current"


def test_revise_move_and_the_endings_change_what_they_say_and_history_tells_it(cli):
    old = cli.remember("Deploys go to Fly", "--type", "decision", "--project", "site")
    new = cli.json("revise", old, "Deploys go to Hetzner", "--expected-version", "1")["memory"]
    assert (new["predecessor"], new["project"], new["memory_type"]) == (old, "site", "decision")
    assert cli.json("show", old)["status"] == "superseded"
    moved = cli.json("move", new["id"], "--no-project", "--tag", "a", "--scope", "ops")["memory"]
    assert (moved["project"], moved["tags"], moved["scope"]) == (None, ["a"], "ops")
    assert cli.json("move", new["id"], "--no-tags")["memory"]["tags"] == []
    assert cli.json("reaffirm", new["id"])["memory"]["fresh_at"] > moved["fresh_at"]
    assert cli.json("verify", new["id"])["memory"]["verified"]
    assert cli.json("pin", new["id"])["memory"]["pinned"]
    assert not cli.json("pin", new["id"], "--off")["memory"]["pinned"]
    assert cli.json("archive", new["id"], "--reason", "moved again")["memory"]["status"] == "archived"
    again = cli("archive", new["id"])
    assert again.status in (0, 1) and new["id"] in again.out + again.err
    assert cli.json("restore", new["id"], "--reason", "after all")["memory"]["status"] == "active"
    assert cli.json("refute", new["id"], "--reason", "never so")["memory"]["status"] == "refuted"
    back = cli.json("remember", "Deploys go to Hetzner", "--scope", "ops")["memory"]
    assert back["status"] == "quarantined"
    assert cli.json("release", back["id"], "--reason", "checked")["memory"]["status"] == "active"
    events = [entry["event"] for entry in cli.json("history", new["id"])["entries"]]
    assert events[0] == "memory.remembered"
    assert {"memory.moved", "memory.archived", "memory.restored", "memory.refuted"} <= set(events)
    readable = cli("history", new["id"])
    assert "person:ada" in readable.out and "moved again" in readable.out


def test_a_stale_version_is_a_conflict_and_changes_nothing(cli):
    one = cli.remember("Deploys go to Fly")
    cli("pin", one)
    refused = cli("archive", one, "--expected-version", "1", "--json")
    assert refused.status == 1 and refused.error["code"] == "conflict"
    assert cli.json("show", one)["status"] == "active"


def test_another_tenant_sees_nothing_and_gets_the_same_answer_as_for_an_unknown_id(cli, other_tenant):
    one = cli.remember("the secret", "--project", "p")
    assert other_tenant.json("list", "--status", "all")["total"] == 0
    assert other_tenant.json("search", "the secret")["hits"] == []
    for verb in ("show", "history", "archive", "verify"):
        foreign, unknown = (other_tenant(verb, asked, "--json") for asked in (one, str(uuid4())))
        assert foreign.status == unknown.status == 2
        assert foreign.error["code"] == unknown.error["code"] == "not_found"
        assert foreign.err.replace(one, "") == unknown.err.replace(unknown.error["memory_id"], "")


def test_settings_are_shown_and_changed_on_the_record(cli):
    shown = cli.json("settings", "show")
    assert shown["judgment"] is False and shown["policy"]["pairs_cap"] == 40
    assert shown["process"]["tenant"] == cli.tenant and "key" not in json.dumps(shown["process"])
    assert cli.json("settings", "judgment", "on")["judgment"] is True
    assert "on" in cli("settings", "show").out
    changed = cli.json("policy", "set", "pairs_cap=7", "floor=0.5")
    assert changed["policy"]["pairs_cap"] == 7 and changed["policy_version"] == 2
    assert cli.json("policy", "set", "floor=null")["policy"]["floor"] is None
    assert cli("policy", "set", "pears_cap=7", "--json").error["field"] == "pears_cap"
    assert cli("policy", "set", "pairs_cap=many", "--json").error["field"] == "pairs_cap"
    assert cli.json("settings", "judgment", "off")["judgment"] is False


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("remember", "  "), "content"),
        (("remember", "x" * 2_001), "content"),
        (("remember", "x", "--occurred-at", "2026-03-01"), "occurred_at"),
        (("remember", "x", "--occurred-at", "2026-03-01T09:00:00"), "occurred_at"),
        (("remember", "x", "--scope", "Not A Scope"), "scope"),
        (("remember", "x", "--tag", "y" * 65), "tags.0"),
        (("remember", "x", "--metadata", "{broken"), "metadata"),
        (("remember", "x", "--metadata", "no equals sign"), "metadata"),
        (("remember", "x", "--metadata", "a=1", "--metadata", "a=2"), "metadata"),
        (("remember", "x", "--derived-from", "not-an-id"), "derived_from.0"),
        (("remember", "x", "--trust", "host"), "trust"),
        (("search", " "), "query"),
        (("search", "x", "--limit", "26"), "limit"),
        (("list", "--limit", "0"), "limit"),
        (("list", "--type", "dicision"), "memory_types.0"),
        (("list", "--project", "p", "--no-project"), "no_project"),
        (("show", "not-an-id"), "id"),
        (("archive", "not-an-id"), "memory_id"),
        (("move", str(uuid4())), "input"),
        (("proposals", "list", "--status", "open"), "status"),
        (("rebuild", "live_memories"), "name"),
        (("worker", "--roles", "views,cooks"), "roles"),
    ],
)
def test_wrong_input_names_the_field_exits_with_2_and_never_repeats_what_was_given(cli, arguments, field):
    refused = cli(*arguments, "--json")
    assert refused.status == 2
    assert refused.error["code"] == "invalid_input" and refused.error["field"] == field
    readable = cli(*arguments)
    assert readable.status == 2 and readable.out == ""
    option = refused.error.get("option")
    assert option in (*arguments, None)
    assert readable.err.startswith(f"error: {option or field}: ") and readable.err.count("\n") == 1
    assert "x" * 100 not in readable.err and "y" * 60 not in readable.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("remembr", "x"), "No such command"),
        (("remember",), "TEXT"),
        (("remember", "x", "--tyype", "note"), "No such option"),
        (("remember", "x", "--type", "dicision"), "--type"),
        (("remember", "-starts with a dash"), "put --"),
        (("list", "--limit", "many"), "--limit"),
        (("settings", "judgment", "perhaps"), "perhaps"),
        (("policy", "set", "pairs_cap"), "KEY=VALUE"),
        (("move", str(uuid4()), "--tag", "a", "--no-tags"), "--no-tags"),
    ],
)
def test_a_command_line_that_cannot_be_understood_exits_with_2_and_says_what_to_look_at(cli, arguments, says):
    refused = cli(*arguments)
    assert refused.status == 2 and refused.out == ""
    assert refused.err.startswith("error: ") and refused.err.count("\n") == 1 and says in refused.err
    assert "lethelog" in refused.err and "--help" in refused.err
    as_json = cli(*arguments, "--json")
    assert as_json.status == 2 and as_json.error["code"] == "invalid_input"


def test_an_id_of_something_else_is_told_apart_from_an_unknown_one(cli):
    tenant = cli.json("settings", "show")["tenant"]
    refused = cli("show", tenant, "--json")
    assert refused.status == 2 and refused.error["code"] == "wrong_kind"
    assert cli("explain", tenant, "--json").error["code"] == "wrong_kind"
    assert cli("pass", "show", str(uuid4()), "--json").error["code"] == "not_found"
    assert cli("proposals", "accept", str(uuid4()), "--json").error["code"] == "not_found"


def test_a_wrong_setting_exits_with_2_and_names_it(cli, monkeypatch: pytest.MonkeyPatch):
    cli.actor = "ada"
    assert cli("list", "--json").error["field"] == "actor"
    cli.actor = "person:ada"
    monkeypatch.setenv("LETHELOG_JUDGE", "oracle")
    refused = cli("list", "--json")
    assert refused.status == 2 and refused.error["setting"] == "LETHELOG_JUDGE"
    monkeypatch.setenv("LETHELOG_JUDGE", "none")
    monkeypatch.setenv("LETHELOG_CONFIG", "/nowhere/lethelog.toml")
    assert "LETHELOG_CONFIG" in cli("list").err


def test_an_unforeseen_fault_is_one_line_without_content_and_a_trace_only_on_demand(
    cli, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("the secret text")

    monkeypatch.setattr("lethelog.ops.local.open_memory", broken)
    failed = cli("list")
    assert failed.status == 1 and failed.err.count("\n") == 1
    assert "RuntimeError" in failed.err and "secret" not in failed.err
    assert cli("list", "--json").error["code"] == "internal"
    monkeypatch.setenv("LETHELOG_DEBUG", "1")
    assert "Traceback" in cli("list").err


def test_every_command_has_help_with_real_examples(cli):
    from lethelog.ops.cli.app import app
    from typer.main import get_command

    def walk(command, path):
        yield path, command
        for name, member in getattr(command, "commands", {}).items():
            yield from walk(member, (*path, name))

    verbs = 0
    for path, command in walk(get_command(app), ()):
        shown = cli(*path, "--help")
        assert shown.status == 0 and "Usage: " in shown.out, path
        if not getattr(command, "commands", None):
            verbs += 1
            assert "Examples" in shown.out and f"lethelog {' '.join(path)}" in shown.out, path
            assert path == ("demo",) or "--json" in shown.out, path
    assert verbs >= 30


def test_the_version_is_printed_and_a_bare_call_shows_the_help(cli, capsys: pytest.CaptureFixture[str]):
    assert cli("--version").out.startswith("lethelog ")
    assert "Usage" in cli("settings").out and cli("settings").status == 2
    assert run([]) == 2 and "Usage" in capsys.readouterr().out
    assert "Missing command" in cli().err


def test_the_choices_of_the_options_are_those_of_the_engine():
    assert get_args(parked.DropReason) == get_args(DropReason)
    from lethelog.handlers.reviewing.queue import ProposalsQuery

    for name, choices in (
        ("status", options.ProposalStatus),
        ("kind", options.ProposalKind),
        ("action", options.ProposalAction),
    ):
        [allowed, _] = get_args(ProposalsQuery.model_fields[name].annotation)
        assert set(get_args(allowed)) == set(get_args(choices))
    assert set(get_args(MemoryType)) <= set(cli_help_types())


def cli_help_types() -> list[str]:
    return [name.strip("(),;") for name in options.Types.__metadata__[0].help.split()]


def test_ids_are_whole_however_narrow_the_terminal(cli, monkeypatch: pytest.MonkeyPatch):
    one = cli.remember("A long text " * 20)
    monkeypatch.setenv("COLUMNS", "20")
    for shown in (cli("list"), cli("search", "long text"), cli("remember", "another " * 10)):
        assert shown.status == 0
        assert any(_is_id(word) for word in shown.out.split())
    assert one in cli("list").out


def _is_id(word: str) -> bool:
    try:
        return str(UUID(word)) == word
    except ValueError:
        return False
