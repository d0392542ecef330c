"""No caller, and no stranger, takes the server from others."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from itertools import count
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from lethelog.domain.errors import TooManyStreams
from lethelog.handlers.access.tokens import Tokens
from lethelog.handlers.http import bounds, connections
from lethelog.handlers.http.running import server_of
from lethelog.handlers.http.settings import HttpSettings
from lethelog.handlers.memory import AsyncMemory
from starlette.types import Receive, Scope, Send

from .rest_server import Served, serving_world

BEHIND_A_PROXY = ("127.0.0.1",)
NO_RATES = HttpSettings(requests_per_second=0)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


# --- rates ---------------------------------------------------------------------------------------------------------------


async def asked(served: Served, token: str | None, *, of: str = "192.0.2.1", path: str = "/api/v1/whoami") -> int:
    headers = {"X-Forwarded-For": of} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    async with httpx2.AsyncClient() as http:
        answer = await http.get(f"{served.url}{path}", headers=headers)
    if answer.status_code == 429:
        assert answer.json()["code"] == "rate_limited" and int(answer.headers["retry-after"]) >= 1
    return answer.status_code


async def taken_of(ask: Callable[[], Awaitable[int]]) -> list[int]:
    """What was answered before the first that came too fast."""
    told: list[int] = []
    while len(told) < 200:
        status = await ask()
        if status == 429:
            return told
        told.append(status)
    raise AssertionError(told)


async def test_another_made_up_token_for_each_request_is_one_stranger_who_is_slowed(world):
    settings = HttpSettings(strangers_per_second=1, proxies=BEHIND_A_PROXY)
    async with serving_world(world, settings) as served:
        known = await served.token()
        assert await asked(served, known) == 200
        assert await taken_of(lambda: asked(served, f"lethe_made-up-{uuid4()}")) == [401]
        assert await asked(served, known) == 200, "who is known goes on, also from there"
        assert await asked(served, None, path="/login") == 200, "and so does who shows nothing"
        assert await asked(served, "lethe_made-up", of="192.0.2.2") == 401, "and so does everybody elsewhere"


async def test_who_shows_nothing_is_counted_by_the_address(world):
    settings = HttpSettings(strangers_per_second=1, proxies=BEHIND_A_PROXY)
    async with serving_world(world, settings) as served:
        told = await taken_of(lambda: asked(served, None))
        assert set(told) == {401} and len(told) >= 10
        assert [await asked(served, None, path=path) for path in ("/healthz", "/version")] == [200, 200]
        assert await asked(served, None, of="192.0.2.2") == 401


@pytest.mark.parametrize("path", ["/readyz", "/metrics"])
async def test_what_says_how_the_server_does_is_bounded_and_not_for_what_others_ask_from_there(world, path):
    await world.catch_up()
    settings = HttpSettings(strangers_per_second=1, proxies=BEHIND_A_PROXY)
    async with serving_world(world, settings) as served:
        assert len(await taken_of(lambda: asked(served, None))) >= 10
        told = await taken_of(lambda: asked(served, None, path=path))
        assert set(told) == {200} and len(told) >= 10
        assert await asked(served, None, path=path, of="192.0.2.2") == 200


async def test_a_forwarded_address_is_believed_of_nobody_but_a_proxy_that_is_named(world):
    addresses = (f"192.0.2.{number}" for number in count(1))
    for proxies in (("192.0.2.9",), ()):
        settings = HttpSettings(strangers_per_second=1, proxies=proxies)
        async with serving_world(world, settings) as served:
            assert set(await taken_of(lambda server=served: asked(server, None, of=next(addresses)))) == {401}


async def test_a_token_that_was_revoked_is_a_strangers_again(world, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lethelog.handlers.access.credentials.KNOWN_SECONDS", 0.0)
    settings = HttpSettings(strangers_per_second=1, proxies=BEHIND_A_PROXY)
    async with serving_world(world, settings) as served:
        token = await served.token()
        assert [await asked(served, token) for _ in range(12)] == [200] * 12
        tokens = Tokens(world.engine)
        for one in (await tokens.list(world.caller, {})).tokens:
            await tokens.revoke(world.caller, {"token_id": one.id})
        assert await taken_of(lambda: asked(served, token)) == [401]


# --- streams and archives ------------------------------------------------------------------------------------------------

STREAM = "/events/stream?from_position=1"


async def statuses_of(http: httpx2.AsyncClient, path: str, number: int) -> list[int]:
    """What so many who ask at once are answered; those that get a stream keep it until all are answered."""
    told: list[int] = []

    async def one() -> None:
        async with http.stream("GET", path) as answer:
            told.append(answer.status_code)
            if answer.status_code != 200:
                await answer.aread()
                assert answer.json()["code"] in ("too_many_streams", "unavailable")
                assert int(answer.headers["retry-after"]) >= 1
            await until(lambda: len(told) == number)

    await asyncio.gather(*(one() for _ in range(number)))
    return sorted(told)


async def test_one_caller_has_so_many_streams_however_fast_they_are_asked_for_and_others_still_have_theirs(world):
    settings = HttpSettings(requests_per_second=0, streams_per_caller=2)
    other = await world.another_caller()
    async with serving_world(world, settings) as served, served.plain() as http:
        assert await statuses_of(http, STREAM, 6) == [200, 200, 429, 429, 429, 429]
        await until(lambda: served.places.taken == 0)
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(http.stream("GET", STREAM))
            async with served.plain(caller=other) as theirs:
                assert await statuses_of(theirs, STREAM, 1) == [200]
            async with served.client() as client:
                with pytest.raises(TooManyStreams):
                    await anext(client.tail(from_position=1))
        await until(lambda: served.places.taken == 0)
        assert await statuses_of(http, STREAM, 1) == [200], "what was closed has made room"
        figures = (await http.get(f"{served.url}/metrics")).text
        assert "lethelog_http_streams 1.0" in figures or "lethelog_http_streams 0.0" in figures


async def test_all_have_so_many_streams_and_one_tenant_half_of_them(world):
    settings = HttpSettings(requests_per_second=0, streams=4)
    others = [await world.another_caller() for _ in range(2)]
    async with serving_world(world, settings) as served, contextlib.AsyncExitStack() as stack:
        mine, theirs, third = [
            await stack.enter_async_context(served.plain(caller=one)) for one in (world.caller, *others)
        ]
        for http in (mine, mine):
            assert (await stack.enter_async_context(http.stream("GET", STREAM))).status_code == 200
        full = await mine.get(STREAM)
        assert (full.status_code, full.json()["code"]) == (429, "too_many_streams")
        for http in (theirs, third):
            assert (await stack.enter_async_context(http.stream("GET", STREAM))).status_code == 200
        full = await third.get(STREAM)
        assert (full.status_code, full.json()["code"]) == (503, "unavailable")


async def test_replays_and_archives_are_counted_and_make_room_in_every_ending(
    world, monkeypatch: pytest.MonkeyPatch
):
    """Also where one fails, and where whoever asked has gone."""
    go_on, under_way = asyncio.Event(), list[str]()

    async def held(self: Any, *args: Any, **kwargs: Any) -> Any:
        under_way.append("archive")
        await go_on.wait()
        raise RuntimeError("nobody expected this")

    async def replayed(self: Any, to: Any, **kwargs: Any) -> AsyncGenerator[Any]:
        under_way.append("replay")
        await go_on.wait()
        raise RuntimeError("nobody expected this")
        yield

    monkeypatch.setattr(AsyncMemory, "export_archive", held)
    monkeypatch.setattr(AsyncMemory, "import_archive", held)
    monkeypatch.setattr(AsyncMemory, "replay", replayed)
    settings = HttpSettings(requests_per_second=0, streams_per_caller=3)
    async with serving_world(world, settings) as served, served.plain() as http:
        asking = [
            asyncio.create_task(http.get("/archive")),
            asyncio.create_task(http.post("/archive", content=b"an archive")),
            asyncio.create_task(http.get("/replay?to=1")),
        ]
        await until(lambda: len(under_way) == 3)
        for path in ("/archive", "/replay?to=1", STREAM):
            assert (await http.get(path)).status_code == 429, path
        assert (await http.post("/archive", content=b"an archive")).status_code == 429
        go_on.set()
        assert [(await one).status_code for one in asking] == [500] * 3
        assert served.places.taken == 0


# --- who does not go on --------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def running(app: Any, settings: HttpSettings = NO_RATES, keep_alive: int = 5) -> AsyncGenerator[int]:
    listening = socket.create_server(("127.0.0.1", 0))
    started = asyncio.Event()
    server = server_of(app, started.set, settings, grace_seconds=1)
    server.config.timeout_keep_alive = keep_alive
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await asyncio.wait_for(started.wait(), 20)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await serving
        listening.close()


async def connected(port: int, said: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    await writer.drain()
    return reader, writer


async def test_who_reads_nothing_of_an_answer_holds_it_for_so_long_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.1)
    ended: list[str] = []
    whole = 400

    async def left(receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        leaving, sent = asyncio.create_task(left(receive)), 0
        while not leaving.done() and (scope["path"] == "/endless" or sent < whole):
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
            await asyncio.sleep(0)
            sent += 1
        await send({"type": "http.response.body", "body": b""})
        leaving.cancel()
        ended.append(scope["path"])

    async with running(endless) as port:
        async with httpx2.AsyncClient() as http:
            answer = await http.get(f"http://127.0.0.1:{port}/read")
        assert len(answer.content) == whole * 65_536 and ended == ["/read"], (
            "the control: who reads gets all of it"
        )
        _, writer = await connected(port, b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: "/endless" in ended)
        writer.close()


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHo", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
async def test_who_does_not_say_what_is_asked_for_is_hung_up_on(monkeypatch: pytest.MonkeyPatch, said: bytes):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    async with running(nothing, keep_alive=60) as port:
        reader, writer = await connected(port, said)
        if said.endswith(b"\r\n\r\n"):
            assert await reader.readuntil(b"\r\n\r\n")
            writer.write(b"GET / HT")
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()


async def test_so_many_connections_are_open_and_the_next_is_told_so():
    async with running(nothing, HttpSettings(connections=3)) as port, httpx2.AsyncClient() as http:
        url = f"http://127.0.0.1:{port}/"
        assert (await http.get(url, headers={"connection": "close"})).status_code == 204
        opened = [await connected(port, b"GET / HT") for _ in range(2)]
        assert (await http.get(url, headers={"connection": "close"})).status_code == 503
        for _, writer in opened:
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(20):
            while (await http.get(url, headers={"connection": "close"})).status_code != 204:
                pass


async def test_a_body_that_stops_coming_is_given_up(world, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounds, "BODY_SECONDS", 0.2)
    async with serving_world(world, NO_RATES) as served:
        port = int(served.url.rpartition(":")[2])
        head = f"POST /api/v1/memories HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {await served.token()}\r\n"
        reader, writer = await connected(port, f'{head}Content-Length: 100\r\n\r\n{{"content"'.encode())
        assert await asyncio.wait_for(reader.readexactly(12), 20) == b"HTTP/1.1 408"
        writer.close()


@pytest.mark.parametrize("path", ["/api/v1/archive", "/api/v1/memories"])
async def test_a_client_that_leaves_while_it_sends_is_no_error_of_the_server(
    world, caplog: pytest.LogCaptureFixture, path: str
):
    async with serving_world(world, NO_RATES) as served, served.plain() as http:
        port = int(served.url.rpartition(":")[2])
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {await served.token()}\r\n"
        for _ in range(2):
            _, writer = await connected(port, f"{head}Content-Length: 100\r\n\r\n{{".encode())
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(20):
            while True:
                figures = (await http.get(f"{served.url}/metrics")).text
                if f'method="POST",route="{path}",status="499"}} 2.0' in figures:
                    break
        assert 'status="500"' not in figures and served.places.taken == 0
    ours = [one for one in caplog.records if one.name.startswith(("lethelog", "uvicorn"))]
    assert [one.getMessage() for one in ours if one.levelno >= logging.WARNING] == []
