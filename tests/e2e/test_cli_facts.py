"""Facts, briefings and scopes at the command line."""

import json

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
