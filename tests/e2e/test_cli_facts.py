"""Facts, briefings and scopes at the command line."""

import json
from collections.abc import Generator
from contextlib import AsyncExitStack

import pytest
from lethelog.handlers.operating.background_loop import BackgroundLoop

from ..chat_server import ChatServer, answer, chatting, fact, facts

PORTO = {"subject": "Ada", "predicate": "lives in", "value": "Porto"}
WAS = PORTO | {"value": "Lisbon", "valid_from": "2026-01-01T00:00:00Z", "valid_to": "2026-03-01T00:00:00Z"}


def test_facts_are_given_with_a_memory_and_told_for_an_instant(cli):
    facts = [argument for one in (PORTO, WAS) for argument in ("--fact", json.dumps(one))]
    written = cli.json("remember", "Ada moved from Lisbon to Porto", *facts)
    assert len(written["fact_ids"]) == 2
    page = cli.json("facts", "--subject", "ada")
    assert [one["value"] for one in page["facts"]] == ["Porto"] and page["total"] == 1
    then = ("--valid-at", "2026-02-01T00:00:00Z")
    assert [one["value"] for one in cli.json("facts", *then)["facts"]] == ["Lisbon"]
    before = str(written["position"] - 3)
    assert cli.json("facts", *then, "--known-at", before)["facts"] == []
    shown = cli("facts", *then)
    assert "Lisbon" in shown.out and "what held at 2026-02-01T00:00:00Z" in shown.out and "1 of 1" in shown.err
    first = cli.json("facts", "--memory", written["memory"]["id"], "--limit", "1")
    assert first["next_cursor"] is None and first["facts"][0]["id"] == written["fact_ids"][0]
    assert cli("remember", "x", "--fact", "no json", "--json").error["field"] == "facts"
    assert cli("remember", "x", "--fact", "7", "--json").error["field"] == "facts.0"
    assert cli("facts", "--limit", "201", "--json").error["field"] == "limit"


def test_a_briefing_says_what_it_is_about_and_a_scope_may_be_required(cli):
    one = cli.remember("Deploys go to Hetzner", "--type", "decision", "--scope", "work", "--project", "site")
    cli.remember("Likes green tea", "--type", "preference")
    for verb in ("briefing", "handoff"):
        assert cli(verb).status == 2 and cli(verb, "--all", "--scope", "work").status == 2
    both = cli.json("briefing", "--scope", "work", "--project", "site", "--include-unscoped")
    assert both["selector"]["kind"] == "scope_project"
    assert [item["id"] for item in both["sections"]["recent_decisions"]["items"]] == [one]
    assert both["sections"]["preferences"] == {"count": 0, "items": [], "has_more": False}
    handed = cli.json("handoff", "--all", "--for", "grace", "--section", "preferences")
    assert handed["generated_for"] == "grace" and set(handed["sections"]) == {"preferences"}
    assert handed["sections"]["preferences"]["items"][0]["excerpt"] == "Likes green tea"
    assert "Deploys go to Hetzner" in cli("briefing", "--all", "--full").out

    assert cli.json("scope", "create", "garden")["changed"]
    assert cli.json("scope", "default", "work")["retrieval"] == {"mode": "default", "scope": "work"}
    assert cli.json("briefing", "--all")["applied_scope"] == "work"
    assert "kept to the scope work" in cli("briefing", "--all").out
    assert cli.json("list")["total"] == 1
    assert cli.json("scope", "require")["retrieval"]["mode"] == "require"
    refused = cli("list", "--json").error
    assert refused["field"] == "scope" and "garden, personal, work" in refused["message"]
    listed = cli.json("scope", "list")
    assert {one["scope"]: one["memories"] for one in listed["scopes"]} == {"garden": 0, "personal": 1, "work": 1}
    assert "is refused" in cli("scope", "list").out
    assert cli.json("scope", "off")["changed"] and cli.json("list")["total"] == 2
    assert cli("scope", "default", "attic", "--json").error["code"] == "not_found"


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Generator[ChatServer]:
    """A model that reads one fact in every text and makes up another."""
    loop, stack = BackgroundLoop(), AsyncExitStack()
    read = fact("Ada", "lives in", "Porto", "Ada moved to Porto")
    says = answer(facts(read, read | {"value": "Lisbon"}))
    server = loop.run(stack.enter_async_context(chatting(says=lambda _text: says)))
    monkeypatch.setenv("LETHELOG_EXTRACTOR_URL", server.url)
    monkeypatch.setenv("LETHELOG_EXTRACTOR_MODEL", "told-1")
    yield server
    loop.run(stack.aclose())
    loop.close()


def test_a_memory_is_read_for_facts_at_the_command_line(cli, chat, monkeypatch: pytest.MonkeyPatch):
    one = cli.remember("Ada moved to Porto in January")
    refused = cli("extract", one, "--json").error
    assert refused["code"] == "judging_off" and "judgment on" in refused["message"] and chat.asked == []
    assert cli("settings", "judgment", "on").status == 0
    shown = cli("extract", one, "--key", "k1")
    assert "1 fact proposed; left out: 1 not in text" in shown.out and "review --kind fact" in shown.err
    again = cli.json("extract", one, "--key", "k1")
    assert (again["outcome"], len(again["proposals"]), again["dropped"]) == ("read", 1, {"not_in_text": 1})
    assert len(chat.asked) == 1
    [proposal] = cli.json("proposals", "list", "--kind", "fact")["proposals"]
    assert [proposal["id"]] == again["proposals"]
    assert cli("proposals", "accept", proposal["id"]).status == 0
    assert [said["value"] for said in cli.json("facts")["facts"]] == ["Porto"]
    assert "0 facts proposed, 1 known before" in cli("extract", one).out
    told = [entry["event"] for entry in cli.json("history", one)["entries"]]
    assert {"extraction.recorded", "proposal.fact_staged", "fact.asserted"} <= set(told)
    assert cli("history", one).status == 0
    assert cli("extract", "no id", "--json").error["field"] == "memory_id"

    monkeypatch.delenv("LETHELOG_EXTRACTOR_URL")
    missing = cli("extract", one, "--json").error
    assert missing["setting"] == "LETHELOG_EXTRACTOR_URL"


def test_doctor_says_whether_the_extractor_can_be_reached_and_sends_no_text(cli, chat, monkeypatch):
    def found() -> dict[str, str]:
        return next(one for one in cli.json("doctor")["checks"] if one["name"] == "extractor")

    assert found()["level"] == "ok" and "can be reached" in found()["says"] and chat.asked == []
    monkeypatch.setenv("LETHELOG_EXTRACTOR_URL", "http://127.0.0.1:1/v1")
    assert found()["level"] == "warning" and "cannot be reached" in found()["says"]
    monkeypatch.setenv("LETHELOG_EXTRACTOR_MODEL", "a b")
    fault = json.loads(cli("doctor", "--json").out)
    assert not fault["ok"] and "LETHELOG_EXTRACTOR_MODEL" in json.dumps(fault)
    for name in ("URL", "MODEL"):
        monkeypatch.delenv(f"LETHELOG_EXTRACTOR_{name}")
    assert found()["level"] == "idle"
