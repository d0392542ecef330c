"""The review desk from the command line: many decisions at once, explaining, undoing, and the sessions they name."""

from uuid import UUID, uuid4

import pytest
from lethelog.domain.events import EdgeStaged
from lethelog.handlers.reviewing.staging import stage
from lethelog.streams.payloads import Actor, Envelope


@pytest.fixture
def proposals(cli, operator) -> list[str]:
    """Three proposals that one fact supersedes another."""
    tenant = operator.tenants.show(cli.tenant).id
    envelope = Envelope(Actor("worker", uuid4()), cause=uuid4(), correlation=uuid4())
    made: list[str] = []
    for place in ("Fly.io", "Hetzner", "the cellar"):
        older, newer = (UUID(cli.remember(f"{when} deploys go to {place}", "--type", "fact")) for when in "12")
        edge = EdgeStaged(
            memory_id=newer, related_id=older, seen={newer: 1, older: 1}, source=uuid4(), edge="supersedes",
            similarity=0.95, embedding_model="m", floor=0.9,
        )  # fmt: skip
        made.append(str(operator.run(stage(operator.asyncio.engine.log, tenant, edge, envelope)).proposal))
    return made


def statuses(cli) -> dict[str, int]:
    """How many memories there are of each status."""
    counts: dict[str, int] = {}
    for one in cli.json("list", "--status", "all")["memories"]:
        counts[one["status"]] = counts.get(one["status"], 0) + 1
    return counts


def events(cli, run: str) -> list[str]:
    return [one["event"] for one in cli.json("log", "show", "--session-run", run)["events"]]


def test_many_are_previewed_decided_explained_and_taken_back_in_the_session_that_is_named(cli, proposals):
    run = cli.json("session", "open", "review", "--user", "ada", "--agent", "desk")["id"]
    preview = cli.json("proposals", "decide", "accept", "--kind", "consolidation", "--preview")
    assert preview["total"] == 3 and {one["id"] for one in preview["proposals"]} == set(proposals)
    readable = cli("proposals", "decide", "accept", "--preview")
    assert "3 found; decide them with --expected 3" in readable.err and proposals[0] in readable.out
    many = ("proposals", "decide", "accept", "--comment", "newer ones hold", "--session-run", run)
    surprised = cli(*many, "--expected", "2", "--json")
    assert surprised.status == 1 and surprised.error["code"] == "conflict"
    assert statuses(cli) == {"active": 6}
    done = cli.json(*many, "--expected", "3", "--together")
    assert done["counts"] == {"applied": 3} and statuses(cli) == {"active": 3, "superseded": 3}
    assert sorted(events(cli, run)) == ["memory.superseded"] * 3 + ["proposal.accepted"] * 3

    chain = cli.json("explain", proposals[0])
    assert [link["event"] for link in chain["links"]][-2:] == ["proposal.accepted", "memory.superseded"]
    effect = chain["links"][-1]["event_id"]
    said = cli("explain", effect).out
    assert "a reviewer accepted" in said and "person:ada" in said

    look = ("undo", "preview", "--effect", effect)
    assert cli.json(*look)["possible"] == 1 and "1 of 1 shown would be taken back" in cli(*look).err
    assert statuses(cli) == {"active": 3, "superseded": 3}, "a preview changes nothing"
    undone = cli.json("undo", "perform", "--session", run, "--session-run", run, "--key", "once")
    assert (undone["undone"], undone["refused"], undone["complete"]) == (3, 0, True)
    assert statuses(cli) == {"active": 6}
    assert (
        cli.json("undo", "perform", "--session", run, "--session-run", run, "--key", "once")["id"] == undone["id"]
    )
    assert set(events(cli, run)[6:]) == {"undo.requested", "memory.effect_undone", "undo.performed"}
    resumed = cli.json("undo", "resume", undone["id"], "--session-run", run)
    assert resumed["undone"] == cli.json("undo", "show", undone["id"])["undone"] == 3
    again = cli("undo", "perform", "--undo", undone["id"])
    assert "3 undone, 0 refused" in again.out and statuses(cli) == {"active": 3, "superseded": 3}
    assert "the effect holds again" in cli("explain", effect).out


def test_what_later_history_stands_on_is_refused_with_its_reason_and_the_exit_says_so(cli, proposals):
    accepted = cli.json("proposals", "accept", proposals[0])
    older = cli.json("show", accepted["changed"][0])
    cli.remember(older["content"], "--type", "fact")  # honest re-learning: the text has another holder now
    refused = cli("undo", "perform", "--proposal", proposals[0], "--json")
    assert refused.status == 1 and '"later_history"' in refused.out
    readable = cli("undo", "preview", "--proposal", proposals[0])
    assert "stays: " in readable.out and "0 of 1 shown would be taken back" in readable.err
    for wrong in (("--proposal", proposals[0], "--policy", "1"), ()):
        assert cli("undo", "perform", *wrong, "--json").error["code"] == "invalid_input"
    assert cli("undo", "show", proposals[0], "--json").error["code"] == "wrong_kind"


def test_a_rejection_of_many_changes_nothing_and_one_that_moved_on_is_named(cli, proposals):
    moved = cli.json("show", proposals[1])["proposal"]["memory_id"]
    cli.json("pin", moved)
    mixed = cli("proposals", "decide", "accept", "--memory", moved, "--expected", "1")
    assert mixed.status == 1 and "1 refused" in mixed.out and proposals[1] in mixed.out
    done = cli.json("proposals", "decide", "reject", "--expected", "3")
    assert done["counts"] == {"rejected": 3} and statuses(cli) == {"active": 6}
    assert cli("proposals", "decide", "reject", "--expected", "0").out.strip() == "nothing found"


def test_a_session_is_opened_taken_up_kept_closed_and_listed(cli, other_tenant):
    run = cli.json("session", "open", "standup", "--user", "ada", "--agent", "planner", "--project", "site")
    assert (
        run["running"]
        and cli.json("session", "open", "standup", "--user", "ada", "--agent", "planner")["epoch"] == 2
    )
    memory = cli.remember("Uses Vim", "--session-run", run["id"])
    assert cli.json("session", "heartbeat", run["id"])["running"]
    assert not cli.json("session", "close", run["id"])["running"]
    cli.remember("Uses Emacs", "--session-run", run["id"])
    assert [one["id"] for one in cli.json("list", "--session-run", run["id"])["memories"]] == [memory]
    assert cli("session", "show", run["id"]).out.startswith("closed")
    assert cli.json("session", "resume", run["id"])["epoch"] == 3
    other = cli.json("session", "open", "retro", "--agent", "planner")["id"]
    page = cli.json("session", "list", "--agent", "planner", "--limit", "1")
    assert ([one["id"] for one in page["sessions"]], page["total"]) == ([other], 2)
    readable = cli("session", "list")
    assert "ada planner standup" in readable.out and run["id"] in readable.out
    assert "no sessions" in other_tenant("session", "list").err
    for foreign in (("session", "show", run["id"]), ("remember", "Lunch is at noon", "--session-run", run["id"])):
        refused = other_tenant(*foreign, "--json")
        assert refused.status == 2 and refused.error["code"] == "not_found", refused
