"""Streamable HTTP: one ASGI endpoint, a bearer credential with each request."""

import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ...domain.errors import InvalidCredential, LethelogError, Unavailable
from ..http.serving import Serving
from .doors import OfBearers
from .provenance import SessionRuns
from .server import make_server

PATH = "/mcp"
BODY_LIMIT = 1_048_576
"""Bytes of one request."""
_RETRY_SECONDS = "5"


class McpEndpoint:
    """An ASGI application, to be mounted by its `route` or on its own. It serves while `running` is entered, once.

    Whose memory a request is about, and what it may do, says the credential that this very request shows. A
    session belongs to the credential that opened it, and is as if it were not there for any other one.
    """

    def __init__(
        self, serving: Serving, *, sessions: bool = True, security: TransportSecuritySettings | None = None
    ) -> None:
        """``sessions``: whether writes name a session run. ``security``: hosts and origins that are let in."""
        self._credentials = serving.credentials
        self._manager = StreamableHTTPSessionManager(
            make_server(OfBearers(serving), SessionRuns() if sessions else None),
            security_settings=security,
            max_request_body_size=BODY_LIMIT,
        )

    @property
    def route(self) -> Route:
        """Where it stands in an application of Starlette's kind."""
        return Route(PATH, endpoint=self)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve while the block runs; sessions that are open then end with it."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        credential = _bearer(Headers(scope=scope).get("authorization", ""))
        if credential is None:
            challenge = InvalidCredential("show a token: Authorization: Bearer …; see: lethelog token issue")
            await _refused(challenge, 401, 'Bearer realm="lethelog"')(scope, receive, send)
            return
        try:
            caller = await self._credentials.caller(credential)
        except InvalidCredential as error:
            challenge = 'Bearer realm="lethelog", error="invalid_token"'
            await _refused(error, 401, challenge)(scope, receive, send)
            return
        except Unavailable as error:
            await _refused(error, 503)(scope, receive, send)
            return
        owner = hashlib.sha256(credential.encode()).hexdigest()
        token = AccessToken(token=credential, client_id=owner, scopes=sorted(caller.permissions))
        await self._manager.handle_request({**scope, "user": AuthenticatedUser(token)}, receive, send)


def _bearer(header: str) -> str | None:
    kind, _, credential = header.partition(" ")
    return (credential.strip() or None) if kind.lower() == "bearer" else None


def _refused(error: LethelogError, status: int, challenge: str | None = None) -> Response:
    headers = {"Retry-After": _RETRY_SECONDS} if challenge is None else {"WWW-Authenticate": challenge}
    said = {name: str(value) for name, value in error.as_dict().items()}
    return Response(json.dumps(said), status, headers, "application/json")
