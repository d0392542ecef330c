"""How each request ended: counted, and told without content where nobody expected it."""

import logging
import time
from collections.abc import Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CLIENT_LEFT = 499
"""The status under which a request is counted whose client went away first; nobody is told it."""
_LOG = logging.getLogger(__name__)


class Watched:
    """Counts requests and their times by route, and turns what nobody expected into an answer without content."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        failed: Callable[[Request], Response],
        count: Callable[[str, str, int, float], None] | None = None,
    ) -> None:
        """``failed`` makes the answer of what failed here; ``count`` is told method, route, status and seconds."""
        self._app = app
        self._count = count
        self._answer_of_failure = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            status = CLIENT_LEFT
        except Exception as error:
            # The message of an unknown error may hold anything; its class says where to look.
            _LOG.error("%s on %s", type(error).__name__, _template(scope))
            if status:
                # Ends the connection; the error itself would be printed with its message.
                raise _BrokenOff(type(error).__name__) from None
            status = 500
            await self._answer_of_failure(Request(scope))(scope, receive, send)
        finally:
            if self._count is not None:
                self._count(str(scope["method"]), _template(scope), status, time.perf_counter() - began)


class _BrokenOff(Exception):
    """An answer ended before its end."""


def _template(scope: Scope) -> str:
    route = scope.get("route")
    return str(getattr(route, "path", "none"))
