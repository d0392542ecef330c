"""The server: REST under ``/api/v1``, what says how it does, and whatever else is mounted beside it."""

import json
import logging
import time
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...domain.errors import LethelogError
from ..page.mounting import failed_page, mount_page, no_page, wants_page
from .archives import Archives
from .bounds import BodyBound, RateBound
from .endpoint import JSON, NotJson, as_problem, endpoint, problem_response
from .health import Figures, add_health
from .openapi import document
from .problems import described
from .routes import PREFIX, ROUTES
from .serving import Serving
from .settings import HttpSettings
from .streaming import Streams

_LOG = logging.getLogger(__name__)


def create_app(serving: Serving, settings: HttpSettings | None = None) -> FastAPI:
    """The application over open parts, for any ASGI server."""
    bounds = settings or HttpSettings()
    app = FastAPI(title="Lethelog", openapi_url=None, docs_url=None, redoc_url=None)
    figures = Figures()
    for route in ROUTES:
        app.add_api_route(
            PREFIX + route.path,
            endpoint(serving, route),
            methods=[route.method],
            name=route.verb,
            include_in_schema=False,
            response_model=None,
        )
    streams, archives = Streams(serving, bounds, figures), Archives(serving)
    for path, method, answer in (
        ("/events/stream", "GET", streams.events),
        ("/replay", "GET", streams.replay),
        ("/archive", "GET", archives.export),
        ("/archive", "POST", archives.take_in),
        ("/archive/{source}", "POST", archives.take_over),
        ("/openapi.json", "GET", _openapi()),
    ):
        app.add_api_route(PREFIX + path, answer, methods=[method], include_in_schema=False, response_model=None)
    mount_page(app, serving, bounds, streams)
    add_health(app, serving, figures)
    app.add_exception_handler(LethelogError, _lethelog_error)
    app.add_exception_handler(NotJson, _not_json)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_middleware(BodyBound, settings=bounds)
    app.add_middleware(RateBound, settings=bounds)
    app.add_middleware(Watched, figures=figures)
    return app


class _BrokenOff(Exception):
    """An answer ended before its end."""


class Watched:
    """Counts requests and their times by route, and turns what nobody expected into an answer without content."""

    def __init__(self, app: ASGIApp, figures: Figures) -> None:
        self._app = app
        self._figures = figures

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
        except Exception as error:
            # The message of an unknown error may hold anything; its class says where to look.
            _LOG.error("%s on %s", type(error).__name__, _template(scope))
            if status:
                # Ends the connection; the error itself would be printed with its message.
                raise _BrokenOff(type(error).__name__) from None
            status = 500
            await _failed(Request(scope))(scope, receive, send)
        finally:
            self._figures.count(str(scope["method"]), _template(scope), status, time.perf_counter() - began)


def _failed(request: Request) -> Response:
    said = "something failed here that is not the request's fault"
    return failed_page(said) if wants_page(request) else as_problem(described("error", 500, said))


def _template(scope: Scope) -> str:
    route = scope.get("route")
    return str(getattr(route, "path", "none"))


def _openapi() -> Callable[[Request], Awaitable[Response]]:
    made: list[str] = []

    async def openapi(_request: Request) -> Response:
        if not made:
            made.append(json.dumps(document()))
        return Response(made[0], media_type=JSON)

    return openapi


async def _lethelog_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, LethelogError)
    return problem_response(request, error)


async def _not_json(_request: Request, _error: Exception) -> Response:
    return as_problem(described("unsupported_media_type", 415, "send the body as application/json"))


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if wants_page(request):
        return no_page(error.status_code)
    detail = "nothing stands at this address" if error.status_code == 404 else "this address takes no such method"
    response = as_problem(described("no_route", error.status_code, detail))
    response.headers.update(dict(error.headers or {}))
    return response
