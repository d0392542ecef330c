"""REST: every verb, by its permission, with the same answers and errors as the Python door."""

import asyncio
import errno
import gzip
import hashlib
import inspect
import json
import logging
import os
import signal
import stat
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from lethelog.domain import errors
from lethelog.domain.errors import (
    AccessDenied,
    Conflict,
    InvalidCredential,
    InvalidInput,
    JudgingOff,
    KeyReused,
    LethelogError,
    Misconfigured,
    NotFound,
    TextTooLong,
    Unavailable,
    WrongKind,
)
from lethelog.handlers.access.caller import TOKEN_PERMISSIONS, Caller
from lethelog.handlers.access.credentials import Credentials
from lethelog.handlers.access.tokens import Tokens
from lethelog.handlers.client.client import AsyncClient
from lethelog.handlers.http import archives
from lethelog.handlers.http.bounds import shown_by
from lethelog.handlers.http.problems import STATUS, TITLES, error_of, problem_of
from lethelog.handlers.http.routes import BY_VERB, KEY_HEADER, POSITION_HEADER, PREFIX, ROUTES, STREAMED
from lethelog.handlers.http.settings import HttpSettings
from lethelog.handlers.memories import MemoryCommands
from lethelog.handlers.memory import AsyncMemory
from lethelog.streams.payloads import UnreadableEvent, WrittenByNewer
from sse_starlette.sse import AppStatus

from .held import Held
from .rest_server import Served, serving_world
from .test_permissions import ANYBODY, NEEDS, call, verbs


@pytest.fixture
async def served(world) -> AsyncGenerator[Served]:
    async with serving_world(world) as opened:
        yield opened


# --- the table ---------------------------------------------------------------------------------------------------------


def test_every_verb_that_a_credential_may_allow_stands_somewhere_in_rest():
    of_installation = {verb for verb, (needs, _) in NEEDS.items() if needs == "installation:admin"}
    assert set(verbs()) - {"close", "caller"} == set(BY_VERB) | set(STREAMED) | of_installation
    assert set(BY_VERB) & of_installation == set()


def test_routes_differ_and_name_fields_of_what_they_take():
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    for route in ROUTES:
        assert set(route.in_path) <= set(route.takes.model_fields), route.verb
        door = AsyncMemory if "." not in route.verb else None
        if door is not None:
            takes_key = "key" in inspect.signature(getattr(door, route.verb)).parameters
            assert route.keyed == takes_key, route.verb


def kinds_of_errors() -> list[type[LethelogError]]:
    """Every class of this package, all of whose modules a server loads that these tests import."""
    found, waiting = list[type[LethelogError]](), [LethelogError]
    while waiting:
        kind = waiting.pop()
        # A private one, or a facade's, is its door's own, which tells it as the class it is one of.
        own = kind.__name__.startswith("_") or kind.__module__.startswith("lethelog.handlers.facades.")
        if kind.__module__.startswith("lethelog.") and not own:
            found.append(kind)
        waiting += kind.__subclasses__()
    return found


def test_every_code_of_an_error_has_a_status_and_a_title():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, LethelogError)]
    assert len(kinds) > 15 and {kind.code for kind in kinds} <= set(STATUS) <= set(TITLES)

    class Particular(Conflict):
        code = "particular"

    document = problem_of(Particular("says"))
    assert (document["status"], document["code"]) == (409, "particular")


def test_each_error_has_a_code_of_its_own_and_comes_over_the_wire_as_the_class_that_it_is():
    kinds = kinds_of_errors()
    assert {InvalidInput, JudgingOff, TextTooLong, UnreadableEvent, WrittenByNewer} < set(kinds) and len(
        kinds
    ) > 30
    assert sorted({kind.code for kind in kinds}) == sorted(kind.code for kind in kinds)
    for kind in kinds:
        error = kind.__new__(kind)
        LethelogError.__init__(error, "says", version=3)
        told = error_of(problem_of(error))
        assert (type(told), told.message, told.details) == (kind, "says", {"version": 3}), kind
    invalid = error_of(problem_of(InvalidInput("content", "is empty", "Say something")))
    assert isinstance(invalid, InvalidInput) and (invalid.field, invalid.problem) == ("content", "is empty")
    assert str(invalid) == "content: is empty. Say something"
    assert type(error_of({**problem_of(Conflict("moved")), "code": "precondition_failed"})) is Conflict


def test_the_client_has_every_verb_with_the_signature_of_the_memory():
    for verb in set(verbs()) - ANYBODY:
        name, _, member = verb.partition(".")
        if verb in BY_VERB or verb in STREAMED:
            if not member:
                mine, theirs = (inspect.signature(getattr(kind, name)) for kind in (AsyncClient, AsyncMemory))
                assert list(mine.parameters) == list(theirs.parameters), verb
        elif not member:
            with pytest.raises(AccessDenied, match="installation"):
                getattr(AsyncClient("http://localhost", "x"), name)()


# --- permissions -------------------------------------------------------------------------------------------------------


async def test_over_rest_each_verb_is_denied_without_its_permission_and_by_name(served):
    await served.world.catch_up()
    for verb, (needs, arguments) in NEEDS.items():
        for needed in (needs,) if isinstance(needs, str) else needs:
            if needed == "installation:admin" or verb in ("import_archive", "import_foreign"):
                continue
            async with served.client(TOKEN_PERMISSIONS - {needed}) as client:
                await served.world.catch_up()
                head = await served.world.engine.log.head()
                with pytest.raises(AccessDenied) as denied:
                    await call(client, verb, arguments)
                assert denied.value.details["permission"] == needed, verb
                assert await served.world.engine.log.head() == head, verb


async def test_over_rest_no_verb_is_denied_with_its_permission_alone(served, monkeypatch, tmp_path):
    monkeypatch.setattr("lethelog.handlers.erasure.rehearsal.WAIT_SECONDS", 0.1)
    await served.world.engine.tenants.set_judgment(served.world.caller.tenant, True, served.world.caller.actor)
    await served.world.catch_up()
    empty = tmp_path / "empty.jsonl"
    empty.write_text("{}\n")
    for verb, (needs, arguments) in NEEDS.items():
        if verb not in BY_VERB and verb not in STREAMED:
            continue
        given = {**arguments, "path": str(empty)} if "path" in arguments and "import" in verb else arguments
        if verb == "export_archive":
            given = {"path": str(tmp_path / "archive.jsonl")}
        async with served.client((needs,) if isinstance(needs, str) else needs) as client:
            await served.world.catch_up()
            try:
                await asyncio.wait_for(call(client, verb, given), 20)
            except AccessDenied as denied:
                raise AssertionError(verb) from denied
            except LethelogError:
                pass


async def test_without_a_valid_credential_nothing_is_answered(served):
    async with served.plain() as http:
        for shown in (None, "Bearer", "Bearer nonsense", "Basic YTpi", "Bearer lethe_x"):
            headers = {"Authorization": shown} if shown else {}
            http.headers.pop("Authorization", None)
            answer = await http.get("/memories", headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), shown
            assert answer.json()["code"] == "invalid_credential"


async def test_a_revoked_token_is_refused(served):
    admin = Tokens(served.world.engine)
    issued = await admin.issue(served.world.caller, {"actor": "agent:a", "permissions": ["memory:read"]})
    await admin.revoke(served.world.caller, {"token_id": issued.token.id})
    async with AsyncClient(served.url, issued.text) as client:
        with pytest.raises(InvalidCredential):
            await client.list()


# --- writing and reading ------------------------------------------------------------------------------------------------


async def test_what_was_written_is_read_back_with_its_version_and_position(served):
    async with served.plain() as http:
        made = await http.post("/memories", json={"content": "Deploys go to Hetzner", "memory_type": "decision"})
        assert made.status_code == 201 and made.headers["etag"] == '"1"'
        memory, position = made.json()["memory"], made.headers[POSITION_HEADER]
        assert memory["topic"] == "Deploys go to Hetzner" and int(position) == made.json()["position"]
        await served.world.catch_up()
        got = await http.get(f"/memories/{memory['id']}", params={"after": position})
        assert got.status_code == 200 and got.json()["content"] == "Deploys go to Hetzner"
        assert got.headers["etag"] == '"1"'
        assert made.headers["location"] == f"/api/v1/memories/{memory['id']}"
        again = await http.post("/memories", json={"content": "deploys  go to HETZNER", "memory_type": "decision"})
        assert again.status_code == 200 and again.json()["deduplicated"] is True
        assert again.json()["position"] >= int(position)
        token = await http.post("/tokens", json={"actor": "agent:a"})
        found = await http.get(served.url + token.headers["location"])
        assert found.status_code == 200 and found.json()["id"] == token.json()["token"]["id"]


async def test_a_position_is_one_of_the_log_or_none(served, tmp_path):
    world, file = served.world, tmp_path / "archive.jsonl"
    async with served.plain() as http, served.client() as client:
        begun = (await http.get("/settings")).json()["position"]
        await client.remember("Deploys go to Hetzner")
        assert (await http.get("/settings")).json()["position"] == begun > 0
        changed = (await http.put("/settings/judgment", json={"enabled": True})).json()["position"]
        assert changed == (await http.get("/settings")).json()["position"] == await world.engine.log.head()
        again = (await http.put("/settings/judgment", json={"enabled": True})).json()["position"]
        scope = (await http.post("/scopes", json={"scope": "personal"})).json()
        assert again == changed == scope["position"] and scope["changed"] is False
        many = await http.post("/memories/batch", json={"items": [{"content": "deploys go to hetzner"}]})
        assert many.json()["counts"] == {"deduplicated": 1}
        assert many.json()["position"] == many.json()["items"][0]["position"] > 0
        refused = await http.post("/memories/batch", json={"items": [{"content": ""}]})
        assert refused.json()["position"] is refused.json()["items"][0]["position"] is None
        await world.catch_up()
        decision = {"verdict": "accept", "proposal_ids": [str(uuid4())]}
        decided = (await http.post("/proposals/decide", json=decision)).json()
        assert decided["position"] is decided["items"][0]["position"] is None
        session = (await http.post("/sessions", json={"session": "s"})).json()
        assert (await http.get(f"/sessions/{session['id']}")).json()["position"] == session["position"]
        await client.export_archive(file)
        # All of it is there already; whoever reads it next waits for that.
        assert (await client.import_archive(file)).position == await world.engine.log.head()
        assert client.position == await world.engine.log.head()


async def test_a_position_beyond_the_log_is_refused_at_once_by_reads_and_by_the_stream(served):
    await served.world.remember("one")
    async with served.plain() as http:
        head = await served.world.catch_up()
        asked = {
            "/memories": "after",
            "/proposals": "after",
            "/commitments": "after",
            "/contradictions": "after",
            "/sessions": "after",
            "/scopes": "after",
            "/facts": "after",
            "/review/stats": "after",
            "/events/stream": "from_position",
        }
        for path, name in asked.items():
            refused = await http.get(path, params={name: head + 2})
            assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (422, name), path
            assert f"position {head}" in refused.json()["detail"], path
        assert (await http.get("/memories", params={"after": head})).status_code == 200
        async with http.stream("GET", "/events/stream", params={"from_position": head + 1}) as stream:
            assert (stream.status_code, stream.headers[POSITION_HEADER]) == (200, str(head))


async def test_if_match_is_the_version_that_was_seen(served):
    async with served.plain() as http:
        memory = (await http.post("/memories", json={"content": "first"})).json()["memory"]["id"]
        newer = await http.post(f"/memories/{memory}/move", json={"scope": "work"}, headers={"If-Match": '"1"'})
        assert newer.status_code == 200 and newer.headers["etag"] == '"2"'
        head = await served.world.engine.log.head()
        stale = await http.post(f"/memories/{memory}/archive", json={}, headers={"If-Match": '"1"'})
        assert stale.status_code == 412 and stale.json()["code"] == "precondition_failed"
        assert stale.json()["current_version"] == 2
        in_body = await http.post(f"/memories/{memory}/archive", json={"expected_version": 1})
        assert in_body.status_code == 409 and in_body.json()["code"] == "conflict"
        odd = await http.post(f"/memories/{memory}/archive", json={}, headers={"If-Match": "2"})
        assert odd.status_code == 422 and odd.json()["field"] == "If-Match"
        assert await served.world.engine.log.head() == head


async def test_a_key_gives_the_first_answer_again_and_is_refused_for_another_command(served):
    async with served.plain() as http:
        sent = {"url": "/memories", "json": {"content": "once"}, "headers": {KEY_HEADER: "k-1"}}
        first, second = await http.post(**sent), await http.post(**sent)
        assert first.json()["memory"]["id"] == second.json()["memory"]["id"]
        assert first.json()["position"] == second.json()["position"]
        other = await http.post("/memories", json={"content": "twice"}, headers={KEY_HEADER: "k-1"})
        assert other.status_code == 422 and other.json()["code"] == "key_reused"
        unkeyed = await http.post("/sessions", json={"session": "s"}, headers={KEY_HEADER: "k-2"})
        assert unkeyed.status_code == 422 and unkeyed.json()["field"] == KEY_HEADER


async def test_many_are_written_each_with_its_own_result_and_once_by_their_key(served):
    items = [{"content": "one", "tags": ["a"]}, {"content": ""}, {"content": "two"}, {"content": "one"}, {"x": 1}]
    async with served.client() as client:
        done = await client.remember_many(items, key="batch")
        assert [item.status for item in done.items][1:3] == ["refused", "written"]
        assert done.counts == {"written": 2, "refused": 2, "deduplicated": 1}
        assert done.items[1].error["field"] == "content" and done.items[0].memory_id == done.items[3].memory_id
        head = await served.world.engine.log.head()
        again = await client.remember_many(items, key="batch")
        assert [item.memory_id for item in again.items] == [item.memory_id for item in done.items]
        assert await served.world.engine.log.head() == head
        put_away = await client.archive_many([done.items[0].memory_id, uuid4(), done.items[2].memory_id])
        assert [item.status for item in put_away.items] == ["written", "refused", "written"]
        assert put_away.items[1].error["code"] == "not_found"
        for wrong in ([], [{}] * 101, "text"):
            with pytest.raises(InvalidInput, match="items"):
                await client.remember_many(wrong)


@pytest.mark.parametrize("length", [253, 254, 256])
async def test_a_key_of_any_length_that_is_taken_is_one_for_all_of_many(served, length):
    items, key = [{"content": f"number {n}"} for n in range(12)], "k" * length
    async with served.client() as client:
        done = await client.remember_many(items, key=key)
        assert done.counts == {"written": 12}
        again = await client.remember_many(items, key=key)
        assert [item.memory_id for item in again.items] == [item.memory_id for item in done.items]
        ids = [item.memory_id for item in done.items]
        assert (await client.archive_many(ids, key=f"a{key[1:]}")).counts == {"written": 12}
        head = await served.world.engine.log.head()
        for write, given in ((client.remember_many, items), (client.archive_many, ids)):
            for wrong in ("k" * 257, ""):
                with pytest.raises(InvalidInput, match=r"^key"):
                    await write(given, key=wrong)
        assert await served.world.engine.log.head() == head


async def test_what_nobody_expected_of_one_item_loses_the_answer_of_no_other(
    served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    writing = MemoryCommands.remember

    async def once_not(self: Any, caller: Caller, arguments: Any, *args: Any) -> Any:
        if "canary" in arguments["content"]:
            raise RuntimeError(arguments["content"])
        return await writing(self, caller, arguments, *args)

    monkeypatch.setattr(MemoryCommands, "remember", once_not)
    async with served.client() as client:
        done = await client.remember_many([{"content": "one"}, {"content": "canary"}, {"content": "two"}])
        assert [item.status for item in done.items] == ["written", "failed", "written"]
        assert done.items[1].error["code"] == "error" and done.counts == {"written": 2, "failed": 1}
        await served.world.catch_up()
        assert (await client.list()).total == 2
    assert "canary" not in done.model_dump_json() and "canary" not in caplog.text and "RuntimeError" in caplog.text


async def test_the_client_raises_what_the_memory_raises(served):
    other = await served.world.another_caller()
    async with served.client() as client, served.client(caller=other) as stranger:
        written = await client.remember("Sessions live in PostgreSQL", key="a")
        await served.world.catch_up()
        answers = set()
        for unknown in (written.memory.id, uuid4()):
            with pytest.raises(NotFound) as missing:
                await stranger.get(unknown)
            answers.add(str(missing.value).replace(str(unknown), "ID"))
        assert len(answers) == 1
        with pytest.raises(InvalidInput) as invalid:
            await client.revise(written.memory.id, "x" * 2_001)
        assert invalid.value.field == "content"
        with pytest.raises(Conflict) as conflict:
            await client.archive(written.memory.id, expected_version=7)
        assert type(conflict.value) is Conflict and conflict.value.details["current_version"] == 1
        with pytest.raises(KeyReused):
            await client.remember("Other text", key="a")
        session = await client.sessions.open("s")
        await served.world.catch_up()
        with pytest.raises(WrongKind):
            await client.get(session.id)
        assert session.id == (await client.sessions.show(session.id)).id


async def test_reads_of_the_client_wait_for_its_own_writes(served):
    live = served.world.runners
    async with served.client() as client:
        written = await client.remember("Written a moment ago")
        reading = asyncio.create_task(client.list())
        await asyncio.sleep(0)
        for runner in live:
            await runner.catch_up(written.position)
        assert [one.id for one in (await reading).memories] == [written.memory.id]


async def test_what_cannot_be_read_as_a_request_is_a_problem_and_changes_nothing(served):
    head = await served.world.engine.log.head()
    async with served.plain() as http:
        head = await served.world.engine.log.head()
        asked: list[tuple[int, str, Any]] = [
            (422, "body", await http.post("/memories", content=b"{", headers={"content-type": "application/json"})),
            (422, "body", await http.post("/memories", json=["content"])),
            (422, "body", await http.post("/memories", content=b'{"content": NaN}', headers={"content-type": "application/json"})),
            (422, "body", await http.post("/memories", content=b"[" * 100_000, headers={"content-type": "application/json"})),
            (422, "content", await http.post("/memories", json={})),
            (422, "colour", await http.post("/memories", json={"content": "c", "colour": "red"})),
            (422, "key", await http.post("/memories", json={"content": "c", "key": "k"})),
            (422, "memory_id", await http.post(f"/memories/{uuid4()}/archive", json={"memory_id": str(uuid4())})),
            (422, "memory_id", await http.get("/memories/nonsense")),
            (422, "limit", await http.get("/memories", params={"limit": "many"})),
            (422, "limit", await http.get("/memories?limit=1&limit=2")),
            (422, "colour", await http.get("/memories", params={"colour": "red"})),
            (422, "limit", await http.post("/memories?limit=1", json={"content": "c"})),
            (422, "facts.0.value", await http.post("/memories", json={"content": "c", "facts": [{"subject": "s", "predicate": "p"}]})),
        ]  # fmt: skip
        for status, field, answer in asked:
            said = answer.json()
            assert (answer.status_code, said["field"]) == (status, field), said
            assert answer.headers["content-type"] == "application/problem+json"
            [error] = said["errors"]
            if answer.request.method == "GET" or answer.request.url.query or field == "memory_id":
                assert error["parameter"] == field
            else:
                assert error["pointer"] == ("#" if field == "body" else "#/" + field.replace(".", "/"))
        text = await http.post("/memories", content=b"x", headers={"content-type": "text/plain"})
        assert (text.status_code, text.json()["code"]) == (415, "unsupported_media_type")
    assert await served.world.engine.log.head() == head


async def test_an_error_says_whether_its_field_stands_in_the_body_the_address_or_a_header(served):
    written = await served.world.remember("Deploys go to Hetzner")
    session = "/sessions"
    async with served.plain() as http:
        made = (await http.post("/sessions", json={"session": "s"})).json()["id"]
        await served.world.catch_up()
        key, path = "k" * 257, f"/memories/{written}"
        asked = [
            ({"header": "If-Match"}, await http.post(f"{path}/archive", json={}, headers={"If-Match": "banana"})),
            ({"header": KEY_HEADER}, await http.post("/memories", json={"content": "c"}, headers={KEY_HEADER: key})),
            ({"header": KEY_HEADER}, await http.post(session, json={"session": "t"}, headers={KEY_HEADER: "k"})),
            ({"header": "Last-Event-ID"}, await http.get("/events/stream", headers={"Last-Event-ID": "x"})),
            ({"pointer": "#/changes/live_memorie"}, await http.patch("/settings/policy", json={"changes": {"live_memorie": 1}})),
            ({"pointer": "#/colour"}, await http.patch("/settings/policy", json={"changes": {}, "colour": 1})),
            ({"pointer": "#"}, await http.post("/certificates/check", json={"document": {}})),
            ({"pointer": "#"}, await http.post("/archive", content=b"rubbish")),
            ({"pointer": "#"}, await http.post("/archive/mem0", content=b"rubbish")),
            ({"parameter": "dry_run"}, await http.post("/archive?dry_run=perhaps", content=b"rubbish")),
            ({"parameter": "memory_id"}, await http.get(f"/memories/{made}")),
            ({"parameter": "memory_id"}, await http.post(f"/memories/{made}/pin", json={})),
            ({"pointer": "#/ids/1"}, await http.post("/memories/get", json={"ids": [str(written), made]})),
        ]  # fmt: skip
        for place, answer in asked:
            [error] = answer.json()["errors"]
            assert answer.status_code == 422 and error == {**place, "detail": error["detail"]}, answer.json()
        longest = await http.post("/memories", json={"content": "c"}, headers={KEY_HEADER: key[:-1]})
        many = await http.post(
            "/memories/batch", json={"items": [{"content": "d"}]}, headers={KEY_HEADER: key[:-1]}
        )
    assert longest.status_code == 201 and many.json()["counts"] == {"written": 1}


async def test_an_address_says_which_methods_it_takes_and_answers_head_where_it_answers_get(served):
    async with served.plain() as http:
        nowhere, wrong = await http.get("/nowhere"), await http.delete("/memories")
        assert (nowhere.status_code, nowhere.json()["code"]) == (404, "no_route")
        assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
        asked = await http.request("OPTIONS", "/memories")
        assert (asked.status_code, asked.content) == (204, b"")
        for answer in (wrong, asked):
            assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"
        for path in ("/memories", "/openapi.json", f"{served.url}/healthz", f"{served.url}/metrics"):
            got, head = await http.get(path), await http.head(path)
            assert (head.status_code, head.content) == (200, b"") and got.content, path
            assert head.headers["content-type"] == got.headers["content-type"], path
        before = await served.world.engine.log.head()
        for path in ("/archive", "/events/stream", "/replay"):
            assert (await http.head(path)).status_code == 405, path
        assert await served.world.engine.log.head() == before


async def test_bodies_and_rates_are_bounded(world):
    async with serving_world(world, HttpSettings(requests_per_second=1, body_limit=2_048)) as served:
        async with served.plain() as http:
            large = await http.post("/memories", json={"content": "x" * 3_000})
            assert (large.status_code, large.json()["code"]) == (413, "too_large")

            async def pieces() -> AsyncGenerator[bytes]:
                for _ in range(30):
                    yield b" " * 100

            unsaid = await http.post("/memories", content=pieces(), headers={"content-type": "application/json"})
            assert unsaid.status_code == 413
            answers = [await http.get("/whoami") for _ in range(12)]
            assert [one.status_code for one in answers[:8]] == [200] * 8
            assert answers[-1].status_code == 429 and answers[-1].json()["code"] == "rate_limited"
            assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
        other = await world.another_caller()
        async with served.plain(caller=other) as http:
            assert (await http.get("/whoami")).status_code == 200


# --- streams -------------------------------------------------------------------------------------------------------------


async def test_events_come_as_they_are_committed_and_a_client_goes_on_where_it_was_cut_off(served):
    async with served.client() as client:
        first = await client.remember("one")
        events = client.tail(from_position=first.position, names=["memory.*"])
        assert (await anext(events)).position == first.position
        coming = asyncio.create_task(anext(events))
        second = await client.remember("two")
        assert (await asyncio.wait_for(coming, 10)).position == second.position
        await events.aclose()
    async with served.plain() as http:
        headers = {"Last-Event-ID": str(first.position)}
        async with http.stream("GET", "/events/stream?names=memory.*", headers=headers) as stream:
            lines = stream.aiter_lines()
            seen = [await anext(lines) for _ in range(3)]
        assert seen[:2] == [f"id: {second.position}", "event: memory.remembered"]
        assert json.loads(seen[2].removeprefix("data: "))["position"] == second.position
        odd = await http.get("/events/stream", headers={"Last-Event-ID": "x"})
        assert odd.status_code == 422


class CutOff(httpx2.AsyncByteStream):
    """An answer whose connection breaks behind the first event."""

    def __init__(self, whole: httpx2.AsyncByteStream) -> None:
        self._whole = whole

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        async for piece in self._whole:
            yield piece
            if b"data:" in piece:
                raise httpx2.ReadError("cut off")

    async def aclose(self) -> None:
        await self._whole.aclose()


class Unsteady(httpx2.AsyncHTTPTransport):
    """Cuts the first stream off, and gives the next request an answer of the test's."""

    def __init__(self, second: httpx2.Response) -> None:
        super().__init__()
        self._second = second
        self.seen: list[int] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = self._second if len(self.seen) == 1 else await super().handle_async_request(request)
        self.seen.append(answer.status_code)
        if len(self.seen) == 1:
            answer.stream = CutOff(answer.stream)
        return answer


async def test_a_client_that_asks_too_often_goes_on_behind_the_last_event_later(world, monkeypatch):
    monkeypatch.setattr("lethelog.handlers.client.client._RECONNECT_SECONDS", 0.0)
    async with serving_world(world, HttpSettings(requests_per_second=1)) as served:
        async with served.plain(caller=await world.another_caller()) as http:
            told = [await http.get("/whoami") for _ in range(12)][-1]
        assert told.status_code == 429
        refused = httpx2.Response(
            429, headers={"content-type": told.headers["content-type"]}, content=told.content
        )
        unsteady = Unsteady(refused)
        written = [await world.remember(f"memory {n}") for n in range(2)]
        async with AsyncClient(served.url, await served.token(), transport=unsteady) as client:
            events = client.tail(from_position=1, names=["memory.*"])
            found = [await asyncio.wait_for(anext(events), 20) for _ in written]
            await events.aclose()
    assert [one.stream for one in found] == written and unsteady.seen == [200, 429, 200]


async def test_a_stream_begins_behind_what_there_is_and_misses_nothing_after(served):
    async with served.client() as client, served.plain() as http:
        before = await client.remember("before")
        async with http.stream("GET", "/events/stream?names=memory.*") as stream:
            assert stream.headers[POSITION_HEADER] == str(before.position)
            after = await client.remember("after")
            assert await anext(stream.aiter_lines()) == f"id: {after.position}"


async def test_a_stream_that_cannot_go_on_for_a_moment_is_taken_up_where_it_ended(served, monkeypatch):
    checked, failures = Credentials.caller, [Unavailable("the database does not answer")]
    failing = asyncio.Event()

    async def checking(self: Credentials, credential: str) -> Caller:
        if failing.is_set() and failures:
            raise failures.pop()
        return await checked(self, credential)

    monkeypatch.setattr(Credentials, "caller", checking)
    async with served.client() as client:
        first = await client.remember("one")
        events = client.tail(from_position=first.position, names=["memory.*"])
        assert (await anext(events)).position == first.position
        failing.set()
        await served.world.remember("two")
        head = await served.world.engine.log.head()
        assert (await asyncio.wait_for(anext(events), 20)).position == head and not failures
        await events.aclose()


async def test_memories_are_replayed_from_the_log_over_the_wire(served):
    async with served.client() as client:
        written = [await client.remember(f"memory {n}") for n in range(3)]
        found = [one.id async for one in client.replay(written[1].position)]
        assert sorted(found) == sorted(one.memory.id for one in written[:2])
        with pytest.raises(InvalidInput, match="to"):
            _ = [one async for one in client.replay(10**9)]


async def test_an_archive_moves_from_one_server_to_another(world, elsewhere, tmp_path):
    async with serving_world(world) as here, serving_world(elsewhere) as there:
        async with here.client() as client:
            written = await client.remember("Moves with its history", memory_type="decision")
            await client.archive(written.memory.id)
            file = tmp_path / "archive.jsonl"
            said = await client.export_archive(file)
            assert (said.memories, said.file) == (1, str(file))
            with pytest.raises(InvalidInput, match="exists"):
                await client.export_archive(file)
        async with there.client() as client:
            preview = await client.import_archive(file, dry_run=True)
            assert preview.position is None and (await client.list()).total == 0
            taken = await client.import_archive(file)
            assert client.position == taken.position == await elsewhere.engine.log.head()
            await elsewhere.catch_up()
            moved = await client.get(written.memory.id)
            assert (moved.content, moved.status) == ("Moves with its history", "archived")


async def test_an_archive_for_which_there_is_no_room_is_said_to_have_none(served, monkeypatch, tmp_path):
    async def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(archives, "_received", full)
    (tmp_path / "archive.jsonl").write_text("{}")
    async with served.client() as client:
        with pytest.raises(Unavailable, match="no room"):
            await client.import_archive(tmp_path / "archive.jsonl")
    assert served.places.taken == 0


async def test_who_may_not_take_an_archive_in_is_told_before_it_is_sent(served):
    token = await served.token(TOKEN_PERMISSIONS - {"tenant:admin"})
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
    head = f"POST {PREFIX}/archive HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f"{head}Content-Length: 1000000000\r\n\r\n{{".encode())
    assert await asyncio.wait_for(reader.readexactly(12), 20) == b"HTTP/1.1 403"
    writer.close()


async def test_the_client_compresses_an_archive_whose_name_ends_so_as_the_memory_does(served, tmp_path):
    file, plain = tmp_path / "archive.jsonl.gz", tmp_path / "archive.jsonl"
    async with served.client() as client:
        await client.remember("Compressed on its way to the disk")
        said = await client.export_archive(file)
        await client.export_archive(plain)
        assert said.file == str(file) and said.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
        assert file.read_bytes()[:2] == b"\x1f\x8b"
        assert gzip.decompress(file.read_bytes()).count(b"\n") <= plain.read_bytes().count(b"\n")
        assert b"Compressed on its way" in gzip.decompress(file.read_bytes())
        assert stat.S_IMODE(file.stat().st_mode) == 0o600 and names_in(tmp_path) == [file.name, plain.name]
        again = await client.import_archive(file)
        assert again.counts["memory"] == {"present": 1}


async def test_an_archive_that_the_client_writes_is_for_its_owner_alone(served, tmp_path):
    file = tmp_path / "archive.jsonl"
    file.write_text("of an older time")
    file.chmod(0o644)
    before = os.umask(0o022)
    try:
        async with served.client() as client:
            await client.remember("In the archive")
            await client.export_archive(file, overwrite=True)
    finally:
        os.umask(before)
    assert "In the archive" in file.read_text() and stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_request_under_way_is_finished_when_the_server_is_told_to_end(world, monkeypatch):
    # A server that is told to end says so to every stream of its process, for good: later tests have some, too.
    monkeypatch.setattr(AppStatus, "should_exit", False)
    async with serving_world(world) as served:
        token = await served.token()
        held = Held(world.database_url)
        try:
            async with AsyncClient(served.url, token) as client:
                writing = asyncio.create_task(client.remember("Written while it ends"))
                await held.is_waited_for()
                served.server.handle_exit(signal.SIGTERM, None)
                held.release()
                written = await asyncio.wait_for(writing, 20)
        finally:
            held.close()
    await world.catch_up()
    assert (await world.reading.get(world.caller, {"ids": [written.memory.id]}))[
        0
    ].content == "Written while it ends"


# --- how it does -----------------------------------------------------------------------------------------------------------


async def test_health_tells_how_it_does_and_nothing_of_any_tenant(served, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "lethelog")
    caplog.set_level(logging.DEBUG, "uvicorn")
    await served.world.catch_up()
    async with served.plain() as http:
        await http.post("/memories", json={"content": "canary-content-93", "user_id": "canary-user-93"})
        await http.get("/memories", params={"user_id": "canary-user-93"})
        await http.get("/memories", params={"limit": "canary-limit-93"})
        root = served.url
        assert (await http.get(f"{root}/healthz")).json() == {"status": "alive"}
        ready = await http.get(f"{root}/readyz")
        assert ready.status_code == 200 and "live_memory" in ready.json()["read_models"]
        assert (await http.get(f"{root}/version")).json()["api"] == "v1"
        figures = (await http.get(f"{root}/metrics")).text
    assert 'lethelog_http_requests_total{method="POST",route="/api/v1/memories",status="201"} 1.0' in figures
    assert 'lethelog_read_model_lag_events{read_model="live_memory"}' in figures
    of_server = "\n".join(one.getMessage() for one in caplog.records if not one.name.startswith("http"))
    for place in (figures, of_server):
        assert "canary" not in place and str(served.world.caller.tenant) not in place


async def test_a_server_that_is_not_there_is_said_to_be_so_by_its_address():
    async with AsyncClient("http://127.0.0.1:9", "lethe_x") as client:
        with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:9 does not answer"):
            await client.remember("x")


async def test_a_server_is_not_ready_once_no_worker_applies_what_was_written(served, monkeypatch):
    await served.world.catch_up()
    async with served.plain() as http:
        await served.world.remember("nobody applies it")
        monkeypatch.setattr("lethelog.handlers.http.health.LEFT_SECONDS", 600.0)
        soon = await http.get(f"{served.url}/readyz")
        assert soon.json()["read_models"]["live_memory"] == "no worker" and soon.status_code == 200
        monkeypatch.setattr("lethelog.handlers.http.health.LEFT_SECONDS", 0.0)
        left = await http.get(f"{served.url}/readyz")
        assert (left.status_code, left.json()["status"]) == (503, "not ready")
        await served.world.catch_up()
        assert (await http.get(f"{served.url}/readyz")).status_code == 200


async def test_an_address_that_is_not_the_servers_is_told_with_the_one_that_would_be(served):
    with pytest.raises(Misconfigured, match="without /api/v1"):
        AsyncClient(f"{served.url}/api/v1/", "lethe_x")
    async with AsyncClient(f"{served.url}/elsewhere", await served.token()) as client:
        with pytest.raises(Misconfigured, match=f"{served.url}/elsewhere; give the server's address"):
            await client.list()


def names_in(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]


async def test_an_archive_is_sent_whole_and_leaves_no_copy_whatever_part_was_asked_for(
    served, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with served.plain() as http:
        await http.post("/memories", json={"content": "In the archive"})
        for part in ("bytes=abc", "bytes=999999999-", "bytes=0-10"):
            answer = await http.get("/archive", headers={"Range": part})
            assert answer.status_code == 200 and "In the archive" in answer.text, part
            assert list(tmp_path.rglob("archive*")) == [], part


async def test_a_version_is_refused_by_writes_that_heed_none_and_answers_are_kept_nowhere(served):
    """F17."""
    async with served.plain() as http:
        promise = {"content": "Send the report", "memory_type": "commitment"}
        memory = (await http.post("/memories", json=promise)).json()["memory"]["id"]
        waiting = {"json": {"status": "waiting"}, "headers": {"If-Match": '"999"'}}
        refused = await http.post(f"/memories/{memory}/resolve", **waiting)
        assert refused.status_code == 422 and refused.json()["errors"][0]["header"] == "If-Match"
        policy = await http.patch("/settings/policy", json={"changes": {}}, headers={"If-Match": '"1"'})
        assert policy.status_code == 422
        # The control: without it, it is done.
        done = await http.post(f"/memories/{memory}/resolve", json={"status": "waiting"})
        assert done.status_code == 200
        for answer in (refused, done, await http.get("/archive")):
            assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == (
                "no-store",
                "nosniff",
            )


async def test_what_a_client_calls_a_method_is_no_label(served):
    async with served.plain() as http:
        await http.request("CANARYMETHOD", "/memories")
        figures = (await http.get(f"{served.url}/metrics")).text
    assert 'method="other"' in figures and "CANARYMETHOD" not in figures


async def test_a_stranger_is_refused_before_what_was_sent_is_looked_at(served):
    async with served.plain() as http:
        http.headers["Authorization"] = "Bearer nonsense"
        answer = await http.post("/memories", content=b"{", headers={"content-type": "application/json"})
    assert answer.status_code == 401


def test_one_credential_is_one_however_it_is_spelt_and_cookies_beside_the_pages_do_not_count():
    def asked(**headers: str) -> str | None:
        named = [(name.encode(), value.encode()) for name, value in headers.items()]
        return shown_by({"type": "http", "headers": named, "client": ("192.0.2.1", 1)})

    assert len({asked(authorization=f"{kind} token") for kind in ("Bearer", "bearer", "BEARER  ")}) == 1
    assert asked(cookie="lethelog=a") == asked(cookie="x=1; lethelog=a") != asked(cookie="lethelog=b")
    assert asked(cookie="x=1") is None is asked()
