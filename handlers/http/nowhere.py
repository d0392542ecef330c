"""What an address answers that takes no such request: nothing stands there, or it takes other methods."""

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from ..page.mounting import no_page, wants_page
from .endpoint import as_problem
from .problems import described


async def no_route(request: Request, error: Exception) -> Response:
    """The answer for an address or a method that has no route; every address answers OPTIONS."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = {"Allow": ", ".join(sorted({*_taken(request), "OPTIONS"}))}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=allowed)
        if wants_page(request):
            response = no_page(405)
        else:
            response = as_problem(described("method_not_allowed", 405, "this address takes no such method"))
        response.headers.update(allowed)
        return response
    if wants_page(request):
        return no_page(error.status_code)
    response = as_problem(described("no_route", error.status_code, "nothing stands at this address"))
    response.headers.update(dict(error.headers or {}))
    return response


def _taken(request: Request) -> set[str]:
    """The methods of all routes of this address: the framework names those of the first alone."""
    found: set[str] = set()
    for route in request.app.router.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return found
