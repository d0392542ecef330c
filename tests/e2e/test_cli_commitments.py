"""What was promised, from the command line."""


def test_a_commitment_is_made_listed_moved_and_revived(cli):
    due = ("--due-at", "2026-03-06T17:00:00Z")
    memory = cli.remember("Send the report", "--type", "commitment", "--owner", "ada", *due)
    [told] = cli.json("commitments", "--owner", "ada", "--overdue")["commitments"]
    assert (told["memory_id"], told["status"], told["due_at"]) == (memory, "open", "2026-03-06T17:00:00Z")
    done = cli.json("resolve", memory, "--key", "k1")
    assert (done["status"], done["changed"]) == ("resolved", True)
    assert not cli.json("resolve", memory, "--key", "k1")["changed"]
    refused = cli("resolve", memory, "--status", "waiting", "--json")
    assert refused.status == 1 and '"invalid_transition"' in refused.err
    later = cli.json("resolve", memory, "--status", "open", "--due-at", "2036-03-06T17:00:00Z")
    assert later["commitment"]["due_at"] == "2036-03-06T17:00:00Z"
    readable = cli("commitments")
    assert all(word in readable.out for word in ("open", memory, "ada", "due 2036", "Send the report"))
    assert "commitment.transitioned" in [one["event"] for one in cli.json("history", memory)["entries"]]


def test_a_blocker_is_put_away_and_a_note_cannot_be_resolved(cli):
    blocker = cli.remember("CI is red", "--type", "blocker")
    assert "archived" in cli("resolve", blocker).out
    refused = cli("resolve", cli.remember("Uses Vim"))
    assert refused.status == 2 and "carries no commitment" in " ".join(refused.err.split())
    assert cli("commitments").status == 0 and cli.json("commitments")["total"] == 0


def test_an_owner_s_name_does_nothing_to_the_terminal_it_is_shown_on(cli):
    cli.remember("Send the report", "--type", "commitment", "--owner", "ada\x1b]0;title\x07\n[bold]")
    shown = cli("commitments").out
    assert "ada␛]0;title␇ [bold]" in shown and "\x1b" not in shown


def test_a_session_that_is_over_says_that_nobody_looked_at_it_yet(cli):
    run = cli.json("session", "open", "standup", "--agent", "planner")
    assert (run["running"], run["needs_look"], run["closer"]["looked_at"]) == (True, False, None)
    assert cli.json("session", "close", run["id"])["needs_look"]
    assert "the closer has not looked at it" in cli("session", "show", run["id"]).out
    [check] = [one for one in cli.json("doctor")["checks"] if one["name"] == "session closer"]
    assert check["level"] == "idle" and "LETHELOG_SESSION_CLOSER_ENABLED" in check["says"]


def test_the_history_says_how_a_commitment_stands_and_whose_it_is(cli):
    memory = cli.remember("Send it", "--type", "commitment", "--owner", "ada", "--due-at", "2026-03-06T17:00:00Z")
    cli.json("resolve", memory, "--status", "waiting")
    told = cli("history", memory).out
    assert "owner ada, due at 2026-03-06T17:00:00Z" in told
    assert "status before open, status waiting" in told
    assert "owner ada, due at" in cli("log", "show", "--type", "commitment.opened").out
