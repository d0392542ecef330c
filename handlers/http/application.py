"""The server: REST under ``/api/v1``, what says how it does, and whatever else is mounted beside it."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from ...domain.errors import LethelogError
from ..page.mounting import mount_page, refused_page, wants_page
from .archives import Archives
from .bounds import BodyBound, RateBound
from .endpoint import JSON, NotJson, as_problem, endpoint, problem_response
from .health import Figures, add_health
from .nowhere import no_route
from .openapi import document
from .places import Places
from .problems import described
from .routes import PREFIX, ROUTES, methods_of
from .serving import Serving
from .settings import HttpSettings
from .streaming import Streams
from .watched import Watched


def create_app(serving: Serving, settings: HttpSettings | None = None, places: Places | None = None) -> FastAPI:
    """The application over open parts, for any ASGI server; ``places`` are shared with what stands beside it."""
    bounds = settings or HttpSettings()
    places = places or Places(bounds)
    app = FastAPI(title="Lethelog", openapi_url=None, docs_url=None, redoc_url=None)
    figures = Figures(lambda: places.taken)
    for route in ROUTES:
        app.add_api_route(
            PREFIX + route.path,
            endpoint(serving, route),
            methods=methods_of(route.method),
            name=route.verb,
            include_in_schema=False,
            response_model=None,
        )
    streams, archives = Streams(serving, places), Archives(serving, places)
    for path, method, answer in (
        ("/events/stream", "GET", streams.events),
        ("/replay", "GET", streams.replay),
        ("/archive", "GET", archives.export),
        ("/archive", "POST", archives.take_in),
        ("/archive/{source}", "POST", archives.take_over),
    ):
        # Without HEAD: what they send is not known before it is made, and an export is put on record.
        app.add_api_route(PREFIX + path, answer, methods=[method], include_in_schema=False, response_model=None)
    app.add_api_route(PREFIX + "/openapi.json", _openapi(), methods=methods_of("GET"), include_in_schema=False)
    mount_page(app, serving, bounds, streams)
    add_health(app, serving, figures)
    app.add_exception_handler(LethelogError, _lethelog_error)
    app.add_exception_handler(NotJson, _not_json)
    app.add_exception_handler(HTTPException, no_route)
    app.add_middleware(BodyBound, settings=bounds, told=_told)
    app.add_middleware(RateBound, settings=bounds, told=_told)
    app.add_middleware(Watched, count=figures.count, failed=_failed)
    return app


def _failed(request: Request) -> Response:
    return _told(request, described("error", 500, "something failed here that is not the request's fault"))


def _told(request: Request, document: Mapping[str, Any]) -> Response:
    return refused_page(document) if wants_page(request) else as_problem(document)


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
