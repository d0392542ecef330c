"""What keeps one client from taking the server from others: bodies of bounded size, requests at a bounded rate.

Both are ASGI layers in front of everything else, so that nothing is read or parsed of what is refused.
"""

import hashlib
import json
import time

from limits import RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .problems import MEDIA_TYPE, described
from .settings import HttpSettings

_WINDOW_SECONDS = 10
_UNMETERED = ("/healthz", "/readyz", "/version", "/metrics")
_COOKIES = ("__Host-lethelog", "lethelog")
_ARCHIVES = "/api/v1/archive"


class BodyBound:
    """Refuses bodies that are too large, by what they say of themselves or by what comes."""

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        archive = str(scope["path"]).startswith(_ARCHIVES)
        most = self._settings.upload_limit if archive else self._settings.body_limit
        said = Headers(scope=scope).get("content-length", "")
        if said.isdigit() and int(said) > most:
            await _refuse(send, "too_large", 413, f"the body has {said} bytes; at most {most} are taken")
            return
        seen = 0
        started = False

        async def bounded() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise _TooLarge
            return message

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, bounded, sending)
        except _TooLarge:
            if not started:
                await _refuse(send, "too_large", 413, f"the body is larger than {most} bytes")


class RateBound:
    """Refuses requests that come too fast from one credential, or from one address that shows none."""

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        allowed = settings.requests_per_second * _WINDOW_SECONDS
        self._rate = RateLimitItemPerSecond(allowed, _WINDOW_SECONDS) if allowed else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._rate is None or scope["path"] in _UNMETERED:
            await self._app(scope, receive, send)
            return
        if await self._limiter.hit(self._rate, _who(scope)):
            await self._app(scope, receive, send)
            return
        window = await self._limiter.get_window_stats(self._rate, _who(scope))
        await _refuse(
            send,
            "rate_limited",
            429,
            f"more than {self._rate.amount} requests in {_WINDOW_SECONDS} seconds; try again in a moment",
            retry_after=max(1, round(window.reset_time - time.time())),
        )


class _TooLarge(Exception):
    pass


def _who(scope: Scope) -> str:
    headers = Headers(scope=scope)
    _, _, shown = headers.get("authorization", "").partition(" ")
    shown = shown.strip() or _session_cookie(headers.get("cookie", ""))
    if shown:
        # Never the credential itself: what is kept here might be dumped.
        return hashlib.sha256(shown.encode()).hexdigest()
    client = scope.get("client")
    return client[0] if client else "unknown"


def _session_cookie(header: str) -> str:
    """The page's own cookie, and none that somebody puts beside it."""
    pairs = (one.strip().partition("=") for one in header.split(";"))
    return next((value for name, _, value in pairs if name in _COOKIES), "")


async def _refuse(send: Send, code: str, status: int, detail: str, retry_after: int | None = None) -> None:
    body = json.dumps(described(code, status, detail)).encode()
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    if retry_after is not None:
        headers.append((b"retry-after", str(retry_after).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
