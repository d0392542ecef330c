"""The MCP door over streamable HTTP: a real server, the official client, a token with each request."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from lethelog.domain.errors import InvalidCredential, Unavailable
from lethelog.handlers.access import credentials as access
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.access.credentials import Credentials
from lethelog.handlers.access.tokens import Tokens
from lethelog.handlers.http.settings import HttpSettings
from lethelog.handlers.mcp.http import BODY_LIMIT
from lethelog.handlers.mcp.protected import Protected
from lethelog.handlers.sessions.sessions import Sessions
from mcp.client.auth.utils import extract_resource_metadata_from_www_auth
from mcp.shared.auth import ProtectedResourceMetadata

from .mcp_clients import Talk, calling, door_of, serving
from .passes import ToldJudge, pass_settings, working

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}
JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
MODES = ["legacy", "auto"]
"""With a session that is opened first, and as of the protocol of 2026-07-28, which has none."""


@pytest.fixture
async def living(world, broker) -> AsyncGenerator[Any]:
    """A world whose read models are kept up to date."""
    async with working(world, broker, pass_settings(ToldJudge()), roles=("views",)):
        yield world


async def token_of(world, caller: Caller | None = None, *, actor: str = "agent:planner", **fields: Any) -> str:
    allowed = fields.get("permissions", ["memory:read", "memory:write", "memory:review"])
    issued = await Tokens(world.engine).issue(caller or world.caller, {"actor": actor, "permissions": allowed})
    return issued.text


@pytest.mark.parametrize("mode", MODES)
async def test_the_tools_work_and_a_write_is_read_back_by_the_next_session(living, mode):
    token = await token_of(living)
    async with serving(living) as url:
        async with calling(url, token, mode=mode) as talk:
            assert len((await talk.client.list_tools()).tools) == 12
            one = await talk("remember", content="Deploys go to Hetzner")
            assert [hit["id"] for hit in (await talk("search", query="deploys"))["hits"]] == [one["memory"]["id"]]
            assert (await talk("status"))["actor"] == "agent:planner"
            refused = await talk.refused("search", query="x", limit=99)
            assert refused["field"] == "limit"
            await talk("revise", memory_id=one["memory"]["id"], content="Deploys go to Nomad")
        async with calling(url, token, mode=mode) as talk:
            assert (await talk("search"))["total"] == 2
            [message] = (await talk.client.get_prompt("briefing")).messages
            assert message.content.text
            uri = f"lethelog://memory/{one['memory']['id']}"
            assert (await talk.client.read_resource(uri)).contents[0].uri == uri


@pytest.mark.parametrize("mode", MODES)
async def test_a_token_opens_its_own_tenant_and_nothing_of_another(living, mode):
    other = await living.another_caller()
    mine, theirs = await token_of(living), await token_of(living, other)
    async with (
        serving(living) as url,
        calling(url, mine, mode=mode) as me,
        calling(url, theirs, mode=mode) as them,
    ):
        one = (await me("remember", content="zqcanary of mine"))["memory"]["id"]
        assert (await them("search", query="zqcanary"))["hits"] == []
        assert (await them("search"))["total"] == 0
        unknown = "0190a3b4-7c11-7a3e-9d55-2f8a0c1f7d11"
        for tool in ("history", "forget", "restore"):
            foreign = await them.refused(tool, memory_id=one)
            missing = await them.refused(tool, memory_id=unknown)
            assert str(foreign).replace(one, "ID") == str(missing).replace(unknown, "ID")
        assert (await me("get_memories", ids=[one]))["memories"][0]["status"] == "active"
        assert (await them.refused("get_memories", ids=[one]))["code"] == "not_found"


async def opened(http: httpx2.AsyncClient, url: str) -> str:
    answer = await http.post(url, json=HELLO, headers=JSON)
    assert answer.status_code == 200
    return answer.headers["mcp-session-id"]


async def test_a_session_is_not_there_for_another_credential(living):
    """Neither for one of another tenant nor for one of the same actor."""
    mine, again = await token_of(living), await token_of(living)
    theirs = await token_of(living, await living.another_caller())
    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    async with serving(living) as url, httpx2.AsyncClient() as http:

        def shown(token: str, session: str) -> dict[str, str]:
            return {**JSON, "Authorization": f"Bearer {token}", "Mcp-Session-Id": session}

        http.headers["Authorization"] = f"Bearer {mine}"
        session = await opened(http, url)
        unknown = await http.post(url, json=ask, headers=shown(mine, "0" * 32))
        for token in (again, theirs):
            answer = await http.post(url, json=ask, headers=shown(token, session))
            assert (answer.status_code, answer.text) == (404, unknown.text)
            assert (await http.delete(url, headers=shown(token, session))).status_code == 404
        assert (await http.post(url, json=ask, headers=shown(mine, session))).status_code == 200
        assert (await http.delete(url, headers=shown(mine, session))).status_code == 200
        assert (await http.post(url, json=ask, headers=shown(mine, session))).status_code == 404


async def test_without_a_valid_token_nobody_is_let_in_and_is_told_how(living, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(access, "KNOWN_SECONDS", 0.0)
    token = await token_of(living)
    async with serving(living) as url, httpx2.AsyncClient() as http:

        async def shown(header: str | None) -> httpx2.Response:
            headers = JSON if header is None else {**JSON, "Authorization": header}
            return await http.post(url, json=HELLO, headers=headers)

        assert (await shown(f"Bearer {token}")).status_code == 200
        assert (await shown(f"bearer  {token}")).status_code == 200, "as RFC 9110 has it"
        for header in (None, "Bearer", f"Basic {token}", token):
            answer = await shown(header)
            assert (answer.status_code, answer.json()["code"]) == (401, "invalid_credential"), header
            assert answer.headers["www-authenticate"] == 'Bearer realm="lethelog"'
        for header in (f"Bearer {token}x", f"Bearer {token[:-4]}AAAA", "Bearer nonsense"):
            answer = await shown(header)
            assert (answer.status_code, answer.json()["code"]) == (401, "invalid_credential"), header
            assert answer.headers["www-authenticate"] == 'Bearer realm="lethelog", error="invalid_token"'
            assert "nonsense" not in answer.text and token[-8:] not in answer.text
        [known] = (await Tokens(living.engine).list(living.caller, {})).tokens
        await Tokens(living.engine).revoke(living.caller, {"token_id": known.id})
        assert (await shown(f"Bearer {token}")).status_code == 401


class OfAnIssuer:
    """Checks what is no token: one word is a person's, another one cannot be checked now."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def caller(self, credential: str) -> Caller:
        if credential == "down":
            raise Unavailable("the issuer does not answer")
        if credential != "eyJ.good.one":
            raise InvalidCredential("the JWT is not valid")
        return self._caller


async def test_a_jwt_is_as_good_as_a_token_and_trouble_in_checking_one_is_no_refusal(living):
    credentials = Credentials(living.engine, OfAnIssuer(living.caller))
    async with serving(living, credentials) as url:
        async with calling(url, "eyJ.good.one") as talk:
            assert (await talk("remember", content="Prefers tea"))["changed"]
        async with httpx2.AsyncClient(headers=JSON) as http:
            answer = await http.post(url, json=HELLO, headers={"Authorization": "Bearer down"})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "www-authenticate" not in answer.headers and answer.json()["code"] == "unavailable"
            answer = await http.post(url, json=HELLO, headers={"Authorization": "Bearer eyJ.bad.one"})
            assert answer.status_code == 401


async def test_the_page_of_another_site_may_not_ask(living):
    headers = {**JSON, "Authorization": f"Bearer {await token_of(living)}"}
    async with serving(living) as url, httpx2.AsyncClient(headers=headers) as http:
        for origin, status in (("https://evil.example", 403), ("null", 403), (url.removesuffix("/mcp"), 200)):
            assert (await http.post(url, json=HELLO, headers={"Origin": origin})).status_code == status, origin
        assert (await http.post(url, json=HELLO)).status_code == 200


async def test_a_body_that_is_too_long_is_refused_unread(living):
    token = await token_of(living)
    async with serving(living) as url, httpx2.AsyncClient(headers=JSON) as http:
        answer = await http.post(
            url, content=b"x" * (BODY_LIMIT + 1), headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 413


async def test_each_session_has_a_run_of_its_own(living):
    token = await token_of(living)
    async with serving(living) as url:
        runs: list[str | None] = []
        for _ in range(2):
            async with calling(url, token) as talk:
                one = await talk("remember", content=f"note {len(runs)}")
                await talk("revise", memory_id=one["memory"]["id"], content=f"note {len(runs)}, revised")
                past = await talk("history", memory_id=one["memory"]["id"])
                [run] = {entry.get("session") for entry in past["entries"]}
                runs.append(run)
    assert len(set(runs)) == 2 and None not in runs
    async with serving(living, sessions=False) as url, calling(url, token) as talk:
        one = await talk("remember", content="without")
        assert "session" not in (await talk("history", memory_id=one["memory"]["id"]))["entries"][0]


async def test_where_the_protocol_has_no_sessions_a_client_has_one_until_it_pauses_for_a_lease(
    living, monkeypatch: pytest.MonkeyPatch
):
    mine, again = await token_of(living), await token_of(living)
    async with serving(living) as url:
        runs: list[str | None] = []

        async def write(token: str, name: str) -> None:
            async with calling(url, token, mode="auto", name=name) as talk:
                runs.append(await run_of_a_write(talk))

        for token, name in ((mine, "Claude"), (mine, "Claude"), (again, "Claude"), (mine, "Cursor")):
            await write(token, name)
        assert None not in runs and runs[0] == runs[1] and len(set(runs)) == 3
        monkeypatch.setattr("lethelog.handlers.mcp.provenance.LEASE", timedelta(0))
        await write(mine, "Claude")
        assert runs[-1] not in (None, *runs[:-1])
    agents = [one.agent for one in (await door_of(living).sessions.list()).sessions]
    assert sorted(map(str, agents)) == ["Claude", "Claude", "Claude", "Cursor"]


async def test_requests_are_bounded_as_at_every_other_door(living):
    bounds = HttpSettings(requests_per_second=1, strangers_per_second=1)
    async with serving(living, bounds=bounds) as url, httpx2.AsyncClient(headers=JSON) as http:

        async def asked(token: str) -> httpx2.Response:
            return await http.post(url, json=HELLO, headers={"Authorization": f"Bearer {token}"})

        token = await token_of(living)
        answers = [await asked(token)]
        while answers[-1].status_code != 429:
            answers.append(await asked(token))
        assert len(answers) > 10 and {one.status_code for one in answers[:-1]} == {200}
        assert answers[-1].json()["code"] == "rate_limited" and int(answers[-1].headers["retry-after"]) >= 1
        assert [(await asked(f"lethe_made-up-{number}")).status_code for number in range(3)] == [401, 429, 429]


async def test_a_client_that_leaves_while_it_sends_is_no_error_of_the_server(living, caplog):
    token = await token_of(living)
    async with serving(living) as url, httpx2.AsyncClient(headers=JSON) as http:
        host, _, port = url.removeprefix("http://").removesuffix("/mcp").partition(":")
        head = f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        for version in ("", "MCP-Protocol-Version: 2026-07-28\r\n"):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                f"{head}{version}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode()
            )
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        answer = await http.post(url, json=HELLO, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 200
    ours = [one for one in caplog.records if one.name.startswith(("lethelog", "uvicorn"))]
    assert [one.getMessage() for one in ours if one.levelno >= logging.WARNING] == []


async def test_streams_of_sessions_take_the_places_of_their_caller(living):
    bounds = HttpSettings(requests_per_second=0, streams_per_caller=1)
    async with serving(living, bounds=bounds) as url, httpx2.AsyncClient(headers=JSON) as http:
        http.headers["Authorization"] = f"Bearer {await token_of(living)}"
        sessions = [await opened(http, url) for _ in range(2)]
        async with http.stream("GET", url, headers={"Mcp-Session-Id": sessions[0]}) as stream:
            assert stream.status_code == 200
            full = await http.get(url, headers={"Mcp-Session-Id": sessions[1]})
            assert (full.status_code, full.json()["code"]) == (429, "too_many_streams")
            assert int(full.headers["retry-after"]) >= 1


async def test_a_client_without_a_credential_is_told_who_issues_them(living):
    told = Protected.model_validate(
        {"resource": "https://memory.example.com/mcp", "issuer": "https://issuer.example.com"}
    )
    async with serving(living, protected=told) as url, httpx2.AsyncClient(headers=JSON) as http:
        for headers in ({}, {"Authorization": "Bearer lethe_made-up"}):
            answer = await http.post(url, json=HELLO, headers=headers)
            where = extract_resource_metadata_from_www_auth(answer)
            assert answer.status_code == 401
            assert where == "https://memory.example.com/.well-known/oauth-protected-resource/mcp"
        metadata = await http.get(url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource/mcp")
    said = ProtectedResourceMetadata.model_validate_json(metadata.content)
    assert str(said.resource) == "https://memory.example.com/mcp"
    assert metadata.json()["authorization_servers"] == ["https://issuer.example.com"]
    assert "memory:read" in (said.scopes_supported or [])


async def run_of_a_write(talk: Talk) -> str | None:
    """The session run that a new memory names."""
    one = await talk("remember", content=f"a note, {uuid4()}")
    [entry] = (await talk("history", memory_id=one["memory"]["id"]))["entries"]
    return entry.get("session")


async def test_the_same_name_of_a_session_is_another_run_for_each_credential(living):
    """Where the protocol has no sessions, the name is whatever a client sends."""
    mine, again = await token_of(living), await token_of(living)
    theirs = await token_of(living, await living.another_caller())
    async with serving(living) as url:
        runs: list[str | None] = []
        for token in (mine, again, theirs, mine):
            async with calling(url, token, mode="auto", **{"Mcp-Session-Id": "standup"}) as talk:
                runs.append(await run_of_a_write(talk))
    assert None not in runs and len(set(runs)) == 3
    assert runs[0] == runs[3], "the control: the name does say which one"


async def test_a_session_whose_run_could_not_be_opened_has_one_with_its_next_write(
    living, monkeypatch: pytest.MonkeyPatch
):
    opening = Sessions.open
    failed: list[object] = []

    async def once_not(*args: Any, **kwargs: Any) -> Any:
        if not failed:
            failed.append(args)
            raise RuntimeError("nobody expected this")
        return await opening(*args, **kwargs)

    monkeypatch.setattr(Sessions, "open", once_not)
    async with serving(living) as url, calling(url, await token_of(living)) as talk:
        refused = await talk.refused("remember", content="before")
        assert refused["code"] == "internal" and failed
        assert await run_of_a_write(talk) is not None
        assert (await talk("search"))["total"] == 1
