"""What keeps one client from taking the server from others: bodies of bounded size, requests at a bounded rate.

Both are ASGI layers in front of everything else, so that nothing is read or parsed of what is refused.
"""

import asyncio
import hashlib
import ipaddress
import json
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..access.credentials import Shown, noting
from .problems import MEDIA_TYPE, described
from .rates import KEYS_KEPT, WINDOW_SECONDS, Rates
from .settings import HttpSettings

BODY_SECONDS = 60.0
"""How long a body may take to come, and an archive, which may be long, each of its pieces."""
_FREE = ("/healthz", "/version")
"""What costs no more than a refusal."""
_OF_OPERATORS = ("/readyz", "/metrics")
"""Counted apart, so that whoever watches the server is not refused for what others ask from its address."""
_COOKIES = ("__Host-lethelog", "lethelog")
_ARCHIVES = "/api/v1/archive"
_REFUSED_PART = 10
"""Of how many requests of strangers one may show what is refused."""
Told = Callable[[Request, Mapping[str, Any]], Response]
"""How a refusal is told to whoever asked: a problem document, or a page with it."""
_IPV6_PREFIX = 64
"""Bits of an address that are one subscriber's; the others are anybody's choice."""


class BodyBound:
    """Refuses bodies that are too large, by what they say of themselves or by what comes, and those that stop."""

    def __init__(self, app: ASGIApp, settings: HttpSettings, told: Told | None = None) -> None:
        self._app = app
        self._settings = settings
        self._told = told or _as_problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        archive = str(scope["path"]).startswith(_ARCHIVES)
        most = self._settings.upload_limit if archive else self._settings.body_limit
        said = Headers(scope=scope).get("content-length", "")
        if said.isdigit() and int(said) > most:
            document = described("too_large", 413, f"the body has {said} bytes; at most {most} are taken")
            await self._told(Request(scope), document)(scope, receive, send)
            return
        seen, began = 0, asyncio.get_running_loop().time()
        started = whole = False

        async def bounded() -> Message:
            nonlocal seen, whole
            counted_from = asyncio.get_running_loop().time() if archive else began
            try:
                async with asyncio.timeout_at(None if whole else counted_from + BODY_SECONDS):
                    message = await receive()
            except TimeoutError:
                raise _TooSlow from None
            seen += len(message.get("body", b""))
            whole = not message.get("more_body", False)
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
            document = described("too_large", 413, f"the body is larger than {most} bytes")
        except _TooSlow:
            document = described("too_slow", 408, f"the body did not come within {BODY_SECONDS:g} seconds")
        else:
            return
        if not started:
            await self._told(Request(scope), document)(scope, receive, send)


class RateBound:
    """Refuses requests that come too fast: of one credential that was let in, or of one address that shows none.

    A credential is known once it was let in, and counted by itself from then on. Until then the address it comes
    from is: whoever makes up another one for each request is one stranger. What is refused counts there again.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings, told: Told | None = None) -> None:
        self._app = app
        self._told = told or _as_problem
        self._bounded = bool(settings.requests_per_second)
        self._callers = Rates(settings.requests_per_second or 1)
        self._strangers = Rates(settings.strangers_per_second)
        self._refused = Rates(settings.strangers_per_second / _REFUSED_PART)
        self._known: OrderedDict[str, str] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._bounded or scope["path"] in _FREE:
            await self._app(scope, receive, send)
            return
        text, address = shown_by(scope), address_of(scope)
        seconds = self._wait(scope, text, address)
        if seconds:
            said = f"more requests than are taken in {WINDOW_SECONDS} seconds; try again in a moment"
            response = self._told(Request(scope), described("rate_limited", 429, said))
            response.headers["Retry-After"] = str(math.ceil(seconds))
            await response(scope, receive, send)
            return
        with noting() as shown:

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self._learn(text, address, shown)
                await send(message)

            await self._app(scope, receive, sending)

    def _wait(self, scope: Scope, text: str | None, address: str) -> float:
        """Seconds to wait before this request; 0 where it is taken, and counted."""
        owner = None if text is None else self._known.get(text)
        if owner is not None:
            return self._callers.take(owner)
        if scope["path"] in _OF_OPERATORS:
            return self._strangers.take(f"watching {address}")
        # A form may show a credential, too.
        guessing = text is not None or scope["method"] == "POST"
        return (guessing and self._refused.wait(address)) or self._strangers.take(address)

    def _learn(self, text: str | None, address: str, shown: Shown) -> None:
        if shown.refused:
            self._refused.take(address)
            self._known.pop(text or "", None)
        elif text is not None and shown.let_in is not None:
            # Of the credential itself, whichever cookie stands for it.
            self._known[text] = shown.let_in
            self._known.move_to_end(text)
            if len(self._known) > KEYS_KEPT:
                self._known.popitem(last=False)


class _TooLarge(Exception):
    pass


class _TooSlow(Exception):
    pass


def shown_by(scope: Scope) -> str | None:
    """What a request shows of a credential: a digest, since what is kept might be dumped."""
    headers = Headers(scope=scope)
    _, _, text = headers.get("authorization", "").partition(" ")
    text = text.strip() or _session_cookie(headers.get("cookie", ""))
    return hashlib.sha256(text.encode()).hexdigest() if text else None


def address_of(scope: Scope) -> str:
    """Where a request comes from: an IPv4 address, or the network of an IPv6 one, which has 2⁶⁴ for itself."""
    client = scope.get("client")
    try:
        address = ipaddress.ip_address(str(client[0]).partition("%")[0]) if client else None
    except ValueError:
        address = None
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
        address = address.ipv4_mapped
    return "unknown" if address is None else str(address)


def _session_cookie(header: str) -> str:
    """The page's own cookie, and none that somebody puts beside it."""
    pairs = (one.strip().partition("=") for one in header.split(";"))
    return next((value for name, _, value in pairs if name in _COOKIES), "")


def _as_problem(_request: Request, document: Mapping[str, Any]) -> Response:
    return Response(json.dumps(document), media_type=MEDIA_TYPE, status_code=int(document["status"]))
