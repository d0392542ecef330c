"""The page's addresses, beside those of REST."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response

from ...domain.errors import NotFound
from ..http.serving import Serving
from ..http.settings import HttpSettings
from ..http.streaming import Streams, resumed
from .dashboard import certificate, dashboard
from .deciding import decide, preview, shown_undo, undo
from .desk import Desk, Visit, problem
from .login import Login
from .memories import memories, memory, search
from .proposals import accept, proposal, reject
from .queue import queue
from .rendering import NEWS, render, static_file
from .sessions import Sessions


def mount_page(app: FastAPI, serving: Serving, settings: HttpSettings, streams: Streams) -> None:
    """Add the page at `/`."""
    desk = Desk(serving, settings, Sessions(serving.engine.clock))
    login = Login(desk)

    async def news(visit: Visit) -> Response:
        query: dict[str, Any] = {"names": NEWS}
        position = visit.query.get("from_position", "")
        if position.isascii() and position.isdigit() and len(position) < 19:
            query["from_position"] = int(position)
        return await streams.told(visit.memory, resumed(visit.request, query))

    async def static(request: Request) -> Response:
        return static_file(request.path_params["name"]) or problem(NotFound("nothing stands at this address"))

    for path, answer in (
        ("/", desk.shown(queue)),
        ("/proposals/{proposal_id}", desk.shown(proposal)),
        ("/bulk", desk.shown(preview)),
        ("/undos/{undo_id}", desk.shown(shown_undo)),
        ("/memories", desk.shown(memories)),
        ("/memories/{memory_id}", desk.shown(memory)),
        ("/dashboard", desk.shown(dashboard(desk))),
        ("/erasures/{erasure_id}/certificate", desk.shown(certificate)),
        ("/news", desk.shown(news)),
        ("/login", login.form),
        ("/static/{name}", static),
    ):
        app.add_api_route(path, answer, methods=["GET"], include_in_schema=False, response_model=None)
    for path, answer in (
        ("/proposals/{proposal_id}/accept", desk.posted(accept)),
        ("/proposals/{proposal_id}/reject", desk.posted(reject)),
        ("/bulk", desk.posted(decide)),
        ("/undos", desk.posted(undo)),
        ("/memories", desk.posted(search)),
        ("/login", login.begin),
        ("/logout", desk.posted(login.end)),
    ):
        app.add_api_route(path, answer, methods=["POST"], include_in_schema=False, response_model=None)


def wants_page(request: Request) -> bool:
    """Whether a person's browser asks, and not for REST."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")


def refused_page(document: Mapping[str, Any]) -> Response:
    """What a problem document says, as a page."""
    words = {"code": document["code"], "title": document["title"], "message": document["detail"]}
    return render("problem.html", words, int(document["status"]))


def no_page(status: int) -> Response:
    """Nothing stands at this address."""
    return problem(NotFound("nothing stands at this address"), status)
