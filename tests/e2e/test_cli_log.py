"""`lethelog tail`, `log show`, `log export`."""

import json
import signal
import stat

import psycopg
from lethelog.handlers.blocking import BlockingMemory
from lethelog.ops import embedded
from lethelog.ops.cli.event_log import writing


def test_the_log_is_shown_in_order_and_a_page_says_where_the_next_begins(cli):
    memory = cli.remember("Deploys go to Hetzner")
    cli.json("archive", memory, "--reason", "moved to Fly")
    shown = cli.json("log", "show", "--type", "memory.*")
    assert [one["event"] for one in shown["events"]] == ["memory.remembered", "memory.archived"]
    assert shown["next_position"] is None
    first = cli.json("log", "show", "--type", "memory.*", "--limit", "1")
    assert len(first["events"]) == 1
    assert first["next_position"] == shown["events"][1]["position"]
    text = cli("log", "show", "--stream", memory)
    assert text.status == 0 and "Deploys go to Hetzner" in text.out and "moved to Fly" in text.out
    more = cli("log", "show", "--limit", "1")
    assert "--from" in more.err


def test_the_log_is_shown_up_to_an_instant(cli):
    memory = cli.remember("Deploys go to Hetzner")
    at = cli.json("log", "show", "--stream", memory)["events"][0]["recorded_at"]
    cli.json("archive", memory)
    shown = cli.json("log", "show", "--stream", memory, "--to", at)
    assert [one["event"] for one in shown["events"]] == ["memory.remembered"]
    assert len(cli.json("log", "show", "--stream", memory)["events"]) == 2


def test_a_printed_time_can_be_typed_back_and_means_the_event_it_stands_beside(cli):
    memory = cli.remember("Deploys go to Hetzner")
    cli.json("archive", memory)
    first = cli("log", "show", "--stream", memory).out.splitlines()[0]
    at = first.split()[1]
    assert at.endswith("Z") and first.split()[2] == "memory.remembered"
    shown = cli.json("log", "show", "--stream", memory, "--to", at)["events"]
    assert [one["event"] for one in shown] == ["memory.remembered"]
    assert cli.json("show", memory, "--known-at", at)["status"] == "active"
    assert cli("history", memory).out.split()[1] == at


def test_outside_names_stand_beside_the_opaque_ids_of_events(cli, other_tenant):
    memory = cli.remember("Deploys go to Hetzner", "--project", "billing", "--user", "ada", "--agent", "planner")
    [event] = cli.json("log", "show", "--stream", memory)["events"]
    said = {field: event["names"][event["data"][field]] for field in ("project", "user", "agent", "subject")}
    assert said == {"project": "billing", "user": "ada", "agent": "planner", "subject": "ada"}
    readable = cli("log", "show", "--stream", memory).out
    assert "project billing" in readable and event["data"]["project"] not in readable
    assert "names" in json.loads(cli("log", "export", "-", "--stream", memory).out)
    other_tenant.remember("Logs go to Loki", "--project", "billing")
    [foreign] = other_tenant.json("log", "show", "--type", "memory.*")["events"]
    assert foreign["data"]["project"] != event["data"]["project"]
    assert list(foreign["names"].values()) == ["billing"]


def test_what_a_killed_export_left_is_replaced_and_that_is_said(cli, tmp_path):
    cli.remember("Deploys go to Hetzner")
    file, draft = tmp_path / "log.jsonl", tmp_path / "log.jsonl.partial"
    draft.write_text("left by one that was killed\n" * 1000)
    ran = cli("log", "export", str(file))
    assert ran.status == 0 and "log.jsonl.partial" in ran.err and "killed" in ran.err
    assert all(json.loads(line) for line in file.read_text().splitlines()) and not draft.exists()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "partial" not in cli("log", "export", str(file), "--overwrite").err


def test_a_file_that_another_export_is_writing_is_left_to_it(cli, tmp_path):
    cli.remember("Deploys go to Hetzner")
    with writing(tmp_path / "log.jsonl", overwrite=False, note=print) as out:
        out.write("the other one\n")
        assert cli("log", "export", str(tmp_path / "log.jsonl"), "--json").error["field"] == "file"
    assert (tmp_path / "log.jsonl").read_text() == "the other one\n"


def test_what_cannot_be_meant_is_refused_by_name(cli):
    assert cli("log", "show", "--to", "yesterday", "--json").error["field"] == "to"
    assert cli("log", "show", "--to", "2026-03-01T09:00:00", "--json").error["field"] == "to"
    assert cli("log", "show", "--type", "memory.forgotten", "--json").error["field"] == "names"
    assert cli("tail", "--type", "nothing.*", "--json").error["field"] == "names"


def test_an_error_names_the_option_that_was_typed(cli):
    """Whatever the field is called inside; ``field`` and ``option`` have both for programs."""
    memory = cli.remember("Deploys go to Hetzner")
    for typed, option, field in (
        (("log", "show", "--type", "nope"), "--type", "names"),
        (("tail", "--type", "nope"), "--type", "names"),
        (("log", "export", "-", "--type", "nope"), "--type", "names"),
        (("log", "show", "--stream", "x"), "--stream", "stream"),
        (("log", "show", "--to", "yesterday"), "--to", "to"),
        (("list", "--type", "nope"), "--type", "memory_types.0"),
        (("list", "--user", "x" * 300), "--user", "user_id"),
        (("search", "deploys", "--known-at", "yesterday"), "--known-at", "known_at"),
        (("search", "deploys", "--limit", "0"), "--limit", "limit"),
        (("show", memory, "--known-at", "yesterday"), "--known-at", "known_at"),
        (("remember", "x", "--valid-from", "yesterday"), "--valid-from", "valid_from"),
        (("proposals", "list", "--memory", "x"), "--memory", "memory_id"),
        (("remember", "x", "--fact", '{"subject": "Ada", "value": "vim"}'), "--fact", "facts.0.predicate"),
    ):
        told = cli(*typed)
        assert (told.status, told.err.partition(": ")[2].partition(":")[0]) == (2, option)
        said = cli(*typed, "--json").error
        assert (said["option"], said["field"]) == (option, field) and said["message"].startswith(f"{option}: ")


def test_an_export_holds_every_event_and_is_readable_by_its_owner_only(cli, tmp_path):
    written = [cli.remember(f"Number {number}") for number in range(3)]
    file = tmp_path / "log.jsonl"
    summary = cli.json("log", "export", str(file))
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert summary["events"] == len(events)
    assert [one["stream"] for one in events if one["event"] == "memory.remembered"] == written
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
    again = cli("log", "export", str(file), "--json")
    assert again.error["field"] == "file"
    cli.remember("One more")
    assert cli.json("log", "export", str(file), "--overwrite")["events"] == len(events) + 1
    piped = cli("log", "export", "-", "--type", "memory.*")
    assert [json.loads(line)["event"] for line in piped.out.splitlines()] == ["memory.remembered"] * 4


def test_an_export_that_cannot_be_written_says_so_and_leaves_nothing(cli, tmp_path):
    cli.remember("Deploys go to Hetzner")
    refused = cli("log", "export", str(tmp_path / "no" / "log.jsonl"), "--json")
    assert refused.error["code"] == "misconfigured"
    assert list(tmp_path.iterdir()) == []


def test_tail_prints_what_comes_and_ends_with_ctrl_c(cli):
    before = cli.remember("Before")
    process = cli.spawn("tail", "--from", "1", "--type", "memory.*", "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["stream"] == before
    after = cli.remember("After")
    assert json.loads(process.stdout.readline())["stream"] == after
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0


def test_the_blocking_door_follows_too(cli, tmp_path):
    from lethelog.ops.local import Memory
    from lethelog.ops.settings import Settings

    settings = Settings.load(data_dir=cli.data_dir, tenant=cli.tenant, actor=cli.actor)
    with Memory.open(settings, ()) as memory:
        assert isinstance(memory, BlockingMemory)
        written = memory.remember("Deploys go to Hetzner").memory.id
        seen = []
        for event in memory.tail(from_position=1, names=["memory.*"]):
            seen.append(event.stream)
            if len(seen) == 2:
                break
            more = memory.remember("Logs go to Loki").memory.id
        assert seen == [written, more]
        assert [one.stream for one in memory.events(names=["memory.*"]).events] == seen


def test_a_past_state_is_written_to_a_file_and_to_a_schema(cli, tmp_path):
    memory = cli.remember("Deploys go to Fly")
    before = cli.json("log", "show", "--stream", memory)["events"][-1]["position"]
    cli.json("archive", memory)
    file = tmp_path / "past.jsonl"
    summary = cli.json("replay", "--to", str(before), str(file))
    assert summary["memories"] == 1
    [then] = [json.loads(line) for line in file.read_text().splitlines()]
    assert (then["id"], then["status"]) == (memory, "active")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert cli("replay", "--to", str(before), str(file), "--json").error["field"] == "file"

    name = f"r{cli.tenant.replace('-', '')[:12]}"
    made = cli.json("replay", "--to", str(before), "--schema", name)
    assert made["schema_name"] == f"lethelog_replay_{name}" and made["position"] == before
    assert name in cli.json("replay", "--list")["replays"]
    assert cli.json("replay", "--drop", name) == {"dropped": name}
    assert name not in cli.json("replay", "--list")["replays"]


def test_a_schema_left_by_a_killed_copy_is_listed_and_dropped_by_its_name_and_no_other_is(cli):
    cli.remember("Deploys go to Fly")
    left = "lethelog_compare_memory_history"
    url = psycopg.conninfo.make_conninfo(embedded.superuser_url(cli.data_dir), dbname="lethelog")
    with psycopg.connect(url, autocommit=True) as connection:
        owner = "select nspowner::regrole::text from pg_namespace where nspname = 'lethelog_views'"
        [(role,)] = connection.execute(owner.encode()).fetchall()
        connection.execute(f'create schema {left} authorization "{role}"'.encode())
        assert cli.json("replay", "--list")["leftovers"] == [left]
        assert left in cli("replay", "--list").out
        for other in ("lethelog_views", "lethelog", "public"):
            assert cli("replay", "--drop", other, "--json").error["code"] in ("not_found", "invalid_input")
        assert cli.json("replay", "--drop", left) == {"dropped": left}
        assert cli.json("replay", "--list")["leftovers"] == []
        names = [name for (name,) in connection.execute("select nspname from pg_namespace").fetchall()]
    assert left not in names and {"lethelog_views", "lethelog", "public"} <= set(names)


def test_a_replay_needs_one_target_and_a_point(cli, tmp_path):
    cli.remember("Deploys go to Fly")
    for arguments in (
        ("replay",),
        ("replay", "--to", "1"),
        ("replay", str(tmp_path / "x"), "--schema", "x", "--to", "1"),
    ):
        assert cli(*arguments, "--json").error["field"] == "file"
    assert cli("replay", str(tmp_path / "x"), "--json").error["field"] == "to"
    assert cli("replay", "--list", "--to", "1", "--json").error["field"] == "to"
    assert cli("replay", "--to", "yesterday", "--schema", "x", "--json").error["field"] == "to"
    assert list(tmp_path.iterdir()) == []


def test_every_read_takes_the_position_that_it_must_include(cli):
    memory = cli.remember("Deploys go to Hetzner")
    at = str(cli.json("log", "show", "--stream", memory)["events"][-1]["position"])
    assert cli.json("search", "deploys", "--after", at)["count"] == 1
    assert cli.json("list", "--after", at)["total"] == 1
    assert cli.json("show", memory, "--after", at)["id"] == memory
    assert len(cli.json("history", memory, "--after", at)["entries"]) == 1
    assert cli.json("proposals", "list", "--after", at)["total"] == 0
    assert cli("list", "--after", "-1", "--json").error["field"] == "after"


def test_an_export_of_the_time_before_the_first_event_is_an_empty_file(cli, tmp_path):
    cli.remember("Deploys go to Hetzner")
    file = tmp_path / "log.jsonl"
    summary = cli.json("log", "export", str(file), "--to", "2000-01-01T00:00:00Z")
    assert (summary["events"], summary["upto"], file.read_text()) == (0, 0, "")
    assert cli("log", "export", "-", "--to", "2000-01-01T00:00:00Z").out == ""
    assert cli.json("log", "export", str(file), "--overwrite")["events"] > 0


def test_an_export_in_several_pages_ends_where_the_log_stood_when_it_began(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("lethelog.ops.cli.event_log._PAGE", 1)
    written = [cli.remember(f"Number {number}") for number in range(3)]
    reading = BlockingMemory.events

    def meanwhile(self, **query):
        page = reading(self, **query)
        self.remember(f"Written while position {page.upto} was exported, {query.get('from_position')}")
        return page

    monkeypatch.setattr(BlockingMemory, "events", meanwhile)
    file = tmp_path / "log.jsonl"
    assert cli.json("log", "export", str(file), "--type", "memory.remembered")["events"] == 3
    assert [json.loads(line)["stream"] for line in file.read_text().splitlines()] == written


def test_what_is_missing_inside_of_an_option_is_named_too(cli):
    fact = '{"subject": "Ada", "value": "vim"}'
    assert cli("remember", "x", "--fact", fact).err == "error: --fact: 0.predicate: is required\n"
    told = cli("scope", "create", "Bad Name").err
    assert told == "error: scope: should be of a-z, 0-9 and -, and begin with a letter or a digit\n"
