"""``lethelog webhook`` and ``lethelog review digest``: what a person types, what a program reads."""

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest

from ..webhook_receiver import Receiver, receiving

URL = "https://example.org/hooks/lethelog"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """One on this machine, which webhooks may lead to here."""
    monkeypatch.setenv("LETHELOG_WEBHOOK_ALLOW_PRIVATE", "true")
    ready, found = threading.Event(), list[Receiver]()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with receiving() as one:
            found.append(one)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    yield found[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def test_a_secret_is_shown_when_it_is_made_and_by_nothing_afterwards(cli):
    made = cli.json("webhook", "add", URL, "--type", "pass.completed", "--type", "proposal.*")
    webhook, secret = made["webhook"]["id"], made["secret"]
    assert secret.startswith("whsec_") and made["webhook"]["names"] == ["pass.completed", "proposal.*"]
    rotated = cli.json("webhook", "rotate", webhook, "--overlap", "60")
    assert rotated["secret"] != secret and rotated["webhook"]["signs_twice_until"]
    changed = cli.json("webhook", "change", webhook, "--url", URL + "?key=zqword")
    assert changed["url"].endswith("zqword")
    shown = [
        cli(*verb, *form)
        for verb in (("webhook", "list"), ("webhook", "show", webhook), ("log", "show", "--type", "webhook.*"))
        for form in ((), ("--json",))
    ]
    assert all(one.status == 0 for one in shown)
    for hidden in (secret, rotated["secret"]):
        assert all(hidden.removeprefix("whsec_") not in one.out + one.err for one in shown)
    assert all("zqword" not in one.out for one in shown[4:]) and "zqword" in shown[0].out
    removed = cli.json("webhook", "remove", webhook)
    assert removed["status"] == "removed" and cli.json("webhook", "list")["webhooks"] == []


def test_what_is_wrong_is_said_by_its_name(cli):
    for wrong in ("http://example.org/", "https://127.0.0.1/", "example.org"):
        assert cli("webhook", "add", wrong, "--json").error["field"] == "url"
    assert cli("webhook", "add", URL, "--type", "memory.*", "--json").error["field"] == "names"
    assert cli("webhook", "show", "x", "--json").error["field"] == "webhook_id"
    assert cli("webhook", "replay", "--json").status == 2


def test_a_test_message_arrives_and_is_sent_again(cli, receiver):
    webhook = cli.json("webhook", "add", receiver.url)["webhook"]["id"]
    tried = cli.json("webhook", "test", webhook)
    assert tried["status"] == "delivered" and [one["outcome"] for one in tried["attempts"]] == ["204"]
    assert json.loads(receiver.received[0].body)["type"] == "webhook.test"
    receiver.statuses = [500]
    failed = cli("webhook", "test", webhook)
    assert failed.status == 1 and "pending  1 attempt: 500 in" in failed.out
    [second, first] = cli.json("webhook", "deliveries", webhook)["deliveries"]
    assert {first["status"], second["status"]} == {"delivered", "pending"}
    again = cli.json("webhook", "replay", "--delivery", tried["id"])
    assert again["status"] == "pending"
    replayed = cli.json("webhook", "replay", webhook, "--from", "1")
    assert replayed["queued"] == 0 and replayed["upto"] > 0
    assert "failing" in cli("webhook", "list").out


def test_an_empty_digest_says_so_and_exits_with_zero(cli):
    said = cli("review", "digest")
    assert said.status == 0 and said.out.startswith("Nothing waits for review at ")
    found = cli.json("review", "digest", "--since", "2026-03-01T09:00:00Z")
    assert (found["total"], found["waiting"], found["since"]) == (0, [], "2026-03-01T09:00:00Z")
    assert cli("review", "digest", "--since", "yesterday", "--json").error["field"] == "since"


def test_a_change_that_says_nothing_is_refused(cli):
    webhook = cli.json("webhook", "add", "https://example.org/hook")["webhook"]["id"]
    refused = cli("webhook", "change", webhook)
    assert refused.status == 2 and "nothing to change: give url, names or both" in refused.err
