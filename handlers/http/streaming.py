"""Answers that do not end with one value: events as they are committed, and memories folded from the log."""

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from fastapi import Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import StreamingResponse

from ...domain.errors import InvalidInput, LethelogError, Unavailable
from ...domain.fields import parse
from ..memory import AsyncMemory
from ..operating.event_log import TailQuery
from ..operating.views import EventView
from . import wire
from .endpoint import bearer
from .health import Figures
from .inputs import ReplayBody
from .problems import problem_of
from .routes import POSITION_HEADER, Route
from .serving import Serving
from .settings import HttpSettings

PING_SECONDS = 15
TAIL = Route("tail", "GET", "/events/stream", TailQuery, EventView)
REPLAY = Route("replay", "GET", "/replay", ReplayBody, EventView)


class Streams:
    """Answers with streams, so many at a time."""

    def __init__(self, serving: Serving, settings: HttpSettings, figures: Figures) -> None:
        self._serving = serving
        self._most = settings.streams
        self._figures = figures
        self._open = 0

    async def events(self, request: Request) -> Response:
        """Server-sent events: ``id`` is the position, ``event`` the name, ``data`` the event as `events` gives it.

        A client that was cut off goes on by ``Last-Event-ID``, which browsers send by themselves.
        """
        memory = self._serving.memory(bearer(request))
        query = resumed(request, wire.from_query(TAIL, request.query_params.multi_items()))
        parse(TailQuery, query)
        return await self.told(memory, query)

    async def told(self, memory: AsyncMemory, query: Mapping[str, Any]) -> Response:
        """A stream of the events that a query asks for."""
        (await memory.caller()).require("stream:read")
        if self._open >= self._most:
            raise Unavailable(f"{self._most} streams are open already; close one, or try again later")
        headers = {"Cache-Control": "no-store"}
        if query.get("from_position") is None:
            # Where "from now on" begins, so that a client that is cut off at once goes on there.
            head = await self._serving.engine.log.head()
            headers[POSITION_HEADER] = str(head)
            query = {**query, "from_position": head + 1}
        coming = memory.tail(**query)
        return EventSourceResponse(self._counted(coming), ping=PING_SECONDS, headers=headers, sep="\n")

    async def replay(self, request: Request) -> Response:
        """Memories as the log up to ``to`` makes them: JSON lines, and a last line that says that it is whole."""
        memory = self._serving.memory(bearer(request))
        given = parse(ReplayBody, wire.from_query(REPLAY, request.query_params.multi_items()))
        (await memory.caller()).require("memory:read")
        coming = memory.replay(given.to)
        # What is wrong with the moment is told before the answer begins.
        first = await anext(coming, None)
        return StreamingResponse(_lines(first, coming), media_type="application/x-ndjson")

    async def _counted(self, coming: AsyncGenerator[EventView]) -> AsyncGenerator[ServerSentEvent]:
        self._open += 1
        self._figures.streams.set(self._open)
        try:
            async with contextlib.aclosing(coming):
                async for event in coming:
                    yield ServerSentEvent(event.model_dump_json(), event=event.event, id=str(event.position))
        except LethelogError:
            # Revoked meanwhile, or the database does not answer. The client comes back, and is told so.
            return
        finally:
            self._open -= 1
            self._figures.streams.set(self._open)


def resumed(request: Request, query: dict[str, Any]) -> dict[str, Any]:
    """The query, from behind the last event that the client says it has."""
    last = request.headers.get("last-event-id")
    if last is None:
        return query
    if not (last.isascii() and last.isdigit() and len(last) < 19):
        raise InvalidInput("Last-Event-ID", "must be the id of an event of this stream: its position")
    return {**query, "from_position": int(last) + 1}


async def _lines(first: Any, coming: AsyncGenerator[Any]) -> AsyncGenerator[str]:
    count = 0
    try:
        async with contextlib.aclosing(coming):
            if first is not None:
                count += 1
                yield first.model_dump_json() + "\n"
                async for memory in coming:
                    count += 1
                    yield memory.model_dump_json() + "\n"
    except LethelogError as error:
        yield json.dumps({"problem": problem_of(error, in_body=False)}) + "\n"
        return
    yield f'{{"memories":{count}}}\n'
