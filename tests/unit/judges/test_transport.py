"""Deadlines, retries and bounds of the HTTP client (judges.md 4.4), without a socket and without waiting."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from lethelog.domain.judging import JudgeRejected, JudgeUnavailable
from lethelog.handlers.judges.transport import Transport, is_retryable, retry_after

from .wire import KEY, settings

NOW = datetime(2026, 10, 26, 12, tzinfo=UTC)


class World:
    """A clock that moves when someone sleeps, and a server that replays a script."""

    def __init__(self, *script: httpx2.Response | Exception, **changes: Any) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self.requests: list[httpx2.Request] = []
        self._script = list(script)
        self.transport = Transport(
            settings(**changes),
            transport=httpx2.MockTransport(self._reply),
            sleep=self._sleep,
            clock=lambda: self.now,
            chance=lambda: 0.0,
            now=lambda: NOW,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def _reply(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(step, Exception):
            raise step
        return httpx2.Response(step.status_code, headers=step.headers, content=step.content)


def status(code: int, content: bytes = b"{}", **headers: str) -> httpx2.Response:
    return httpx2.Response(code, content=content, headers={k.replace("_", "-"): v for k, v in headers.items()})


async def test_one_post_with_key_and_json_body() -> None:
    world = World(status(200, b'{"a":1}', x_typesafe_request_id="req_1"), extra_headers={"X-Title": "lethelog"})
    reply = await world.transport.post(b'{"q":1}')
    assert (reply.body, reply.attempts, reply.request_id, reply.too_large) == (b'{"a":1}', 1, "req_1", False)
    (request,) = world.requests
    assert (request.method, str(request.url)) == ("POST", "http://127.0.0.1:9/v1/systemone")
    assert request.content == b'{"q":1}'
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-title"] == "lethelog"


async def test_without_a_key_no_authorization_is_sent() -> None:
    world = World(status(200), api_key=None)
    await world.transport.post(b"{}")
    assert "authorization" not in world.requests[0].headers


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504, 524, 529])
async def test_what_may_pass_is_tried_again(code: int) -> None:
    world = World(status(code), status(code), status(200))
    assert (await world.transport.post(b"{}")).attempts == 3
    assert world.slept == [0.5, 1.0]


@pytest.mark.parametrize(
    "fault", [httpx2.ConnectError("refused"), httpx2.ReadError("reset"), httpx2.RemoteProtocolError("cut")]
)
async def test_a_broken_connection_is_tried_again(fault: Exception) -> None:
    world = World(fault, status(200))
    assert (await world.transport.post(b"{}")).attempts == 2


@pytest.mark.parametrize("code", [201, 204, 301, 302, 307, 400, 401, 402, 403, 404, 405, 413, 422, 451, 501, 505])
async def test_what_will_not_pass_is_rejected_at_once(code: int) -> None:
    world = World(status(code, b'{"detail":{"error_type":"some_error","message":"the safe is 1234"}}'))
    with pytest.raises(JudgeRejected) as caught:
        await world.transport.post(b"{}")
    assert len(world.requests) == 1
    assert caught.value.details["status"] == code
    assert caught.value.details["error_type"] == "some_error"
    assert str(code) in caught.value.message
    assert "1234" not in repr(caught.value.as_dict())


async def test_a_redirect_takes_neither_key_nor_state_elsewhere() -> None:
    world = World(status(307, location="https://elsewhere.example.com/"))
    with pytest.raises(JudgeRejected, match="Redirects are not followed"):
        await world.transport.post(b"{}")
    assert [request.url.host for request in world.requests] == ["127.0.0.1"]


async def test_attempts_are_bounded() -> None:
    world = World(status(503), max_attempts=4)
    with pytest.raises(JudgeUnavailable) as caught:
        await world.transport.post(b"{}")
    assert len(world.requests) == 4
    assert caught.value.details == {"status": 503, "fault": "status 503", "attempts": 4, "retry_after": None}


async def test_the_deadline_counts_the_pauses() -> None:
    world = World(status(503), max_attempts=10, deadline=2.0)
    with pytest.raises(JudgeUnavailable):
        await world.transport.post(b"{}")
    assert world.slept == [0.5, 1.0]
    assert world.now < 102.0


async def test_pauses_double_up_to_a_bound() -> None:
    world = World(status(503), max_attempts=7, deadline=60)
    with pytest.raises(JudgeUnavailable):
        await world.transport.post(b"{}")
    assert world.slept == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


async def test_the_server_s_wish_is_honoured() -> None:
    world = World(status(429, retry_after="3"), status(429, retry_after="9", retry_after_ms="1500"), status(200))
    await world.transport.post(b"{}")
    assert world.slept == [3.0, 1.5]


async def test_a_server_that_asks_for_too_long_is_left_alone() -> None:
    world = World(status(429, retry_after="3600"))
    with pytest.raises(JudgeUnavailable) as caught:
        await world.transport.post(b"{}")
    assert len(world.requests) == 1
    assert world.slept == []
    assert caught.value.details["retry_after"] == 3600


async def test_jitter_only_lengthens_a_pause() -> None:
    world = World(status(429, retry_after="2"), status(200))
    world.transport._chance = lambda: 1.0  # pyright: ignore[reportPrivateUsage]
    await world.transport.post(b"{}")
    assert world.slept == [2.5]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Mon, 26 Oct 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Mon, 26 Oct 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": "Mon, 26 Oct 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 99 Oct 2026 11:00:00 GMT"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
    ],
)
def test_reading_the_server_s_wish(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_which_statuses_may_pass() -> None:
    assert [code for code in range(200, 600) if is_retryable(code)] == [408, 429] + [
        code for code in range(500, 600) if code not in (501, 505)
    ]


async def test_a_reply_is_read_up_to_its_bound() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b" " * 1_000

    chosen = settings(max_reply_bytes=10_000)
    handle: Callable[[httpx2.Request], httpx2.Response] = lambda _: httpx2.Response(200, content=endless())  # noqa: E731
    reply = await Transport(chosen, transport=httpx2.MockTransport(handle)).post(b"{}")
    assert reply.too_large
    assert len(reply.body) == 10_000
    assert sent <= 12


@pytest.mark.parametrize(("size", "too_large"), [(10, False), (11, True)])
async def test_the_bound_is_the_last_size_allowed(size: int, too_large: bool) -> None:
    world = World(status(200, b"x" * size), max_reply_bytes=10)
    assert (await world.transport.post(b"{}")).too_large is too_large


async def test_a_packed_reply_that_cannot_be_unpacked_is_a_fault_of_the_connection() -> None:
    class Packed(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"not gzip"

    def handle(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=Packed())

    async def no_sleep(_: float) -> None: ...

    transport = Transport(settings(), transport=httpx2.MockTransport(handle), sleep=no_sleep)
    with pytest.raises(JudgeUnavailable) as caught:
        await transport.post(b"{}")
    assert caught.value.details["fault"] == "DecodingError"


async def test_the_client_s_errors_do_not_travel_with_ours() -> None:
    """An HTTP client's exception holds its request: key, state and all."""
    world = World(httpx2.ConnectError("refused"), max_attempts=1)
    with pytest.raises(JudgeUnavailable) as caught:
        await world.transport.post(b"{}")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
