"""Streamable HTTP: one ASGI endpoint, a bearer credential with each request."""

import contextlib
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ...domain.errors import AccessDenied, InvalidCredential, LethelogError, Unavailable
from ..access.caller import TOKEN_PERMISSIONS
from ..http.bounds import BodyBound, RateBound
from ..http.places import Places
from ..http.problems import RETRY_SECONDS, STATUS
from ..http.serving import Serving
from ..http.settings import HttpSettings
from ..http.watched import Watched
from .doors import OfBearers
from .protected import Protected
from .provenance import SessionRuns
from .server import make_server

PATH = "/mcp"
BODY_LIMIT = 1_048_576
"""Bytes of one request."""
_REALM = 'Bearer realm="lethelog"'


class McpEndpoint:
    """An ASGI application, to be mounted by its `routes`. It serves while `running` is entered, once.

    Whose memory a request is about, and what it may do, says the credential that this very request shows. A
    session belongs to the credential that opened it, and is as if it were not there for any other one.
    """

    def __init__(
        self,
        serving: Serving,
        places: Places | None = None,
        *,
        sessions: bool = True,
        protected: Protected | None = None,
        security: TransportSecuritySettings | None = None,
    ) -> None:
        """``places`` are those of the whole server; a stream of a session takes one. ``sessions``: whether writes
        name a session run. ``protected``: who issues credentials, where that is told. ``security``: hosts and
        origins that are let in."""
        self._credentials = serving.credentials
        self._places = places or Places(HttpSettings())
        self._protected = protected
        self._manager = StreamableHTTPSessionManager(
            make_server(OfBearers(serving), SessionRuns() if sessions else None),
            security_settings=security,
            max_request_body_size=BODY_LIMIT,
        )

    @property
    def routes(self) -> list[Route]:
        """Where it stands in an application of Starlette's kind, and beside it whom it trusts."""
        told = self._protected
        if told is None:
            return [Route(PATH, endpoint=self)]
        metadata = create_protected_resource_routes(
            told.resource, [told.issuer], sorted(TOKEN_PERMISSIONS), resource_name="Lethelog"
        )
        return [Route(PATH, endpoint=self), *metadata]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve while the block runs; sessions that are open then end with it."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with contextlib.ExitStack() as stack:
                known = await self._known(scope, stack)
                await self._manager.handle_request(known, receive, send)
        except (AccessDenied, InvalidCredential, Unavailable) as error:
            await self._refused(error)(scope, receive, send)

    async def _known(self, scope: Scope, stack: contextlib.ExitStack) -> Scope:
        """The request with who asks; a stream has its place until the stack ends."""
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            raise AccessDenied("this was sent by the page of another site, which may not ask here")
        credential = _bearer(headers.get("authorization", ""))
        if credential is None:
            raise _NothingShown("show a token: Authorization: Bearer …; see: lethelog token issue")
        caller = await self._credentials.caller(credential)
        if scope["method"] == "GET":
            stack.enter_context(self._places.take(caller))
        owner = hashlib.sha256(credential.encode()).hexdigest()
        token = AccessToken(token=credential, client_id=owner, scopes=sorted(caller.permissions))
        return {**scope, "user": AuthenticatedUser(token)}

    def _refused(self, error: LethelogError) -> Response:
        if isinstance(error, InvalidCredential):
            parts = [_REALM] if isinstance(error, _NothingShown) else [_REALM, 'error="invalid_token"']
            if self._protected is not None:
                parts.append(f'resource_metadata="{build_resource_metadata_url(self._protected.resource)}"')
            return _told(error, {"WWW-Authenticate": ", ".join(parts)})
        wait = {} if isinstance(error, AccessDenied) else {"Retry-After": str(RETRY_SECONDS.get(error.code, 1))}
        return _told(error, wait)


def create_app(endpoint: McpEndpoint, bounds: HttpSettings) -> Starlette:
    """The endpoint as an application of its own, behind the bounds that every door has."""
    return Starlette(
        routes=endpoint.routes,
        middleware=[
            Middleware(Watched, failed=_failed),
            Middleware(RateBound, settings=bounds),
            Middleware(BodyBound, settings=bounds),
        ],
    )


class _NothingShown(InvalidCredential):
    """There is no credential to be wrong."""


def _failed(_request: Request) -> Response:
    return _told(LethelogError("something failed here that is not the request's fault"), {})


def _bearer(header: str) -> str | None:
    kind, _, credential = header.partition(" ")
    return (credential.strip() or None) if kind.lower() == "bearer" else None


def _told(error: LethelogError, headers: dict[str, str]) -> Response:
    said = {name: str(value) for name, value in error.as_dict().items()}
    return Response(json.dumps(said), STATUS[error.code], headers, "application/json")
