"""Answers that do not end with one value: events as they are committed, and memories folded from the log."""

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from fastapi import Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import StreamingResponse

from ...domain.errors import InvalidInput, LethelogError
from ...domain.fields import parse
from ..memory import AsyncMemory
from ..operating.event_log import EventLog, TailQuery
from ..operating.views import EventView
from . import wire
from .endpoint import bearer
from .inputs import ReplayBody
from .places import InPlace, Places
from .problems import problem_of
from .routes import LAST_EVENT_HEADER, POSITION_HEADER, Route
from .serving import Serving

PING_SECONDS = 15
TAIL = Route("tail", "GET", "/events/stream", TailQuery, EventView)
REPLAY = Route("replay", "GET", "/replay", ReplayBody, EventView)


class Streams:
    """Answers with streams, each in its place."""

    def __init__(self, serving: Serving, places: Places) -> None:
        self._serving = serving
        self._places = places

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
        caller = await memory.caller()
        caller.require("stream:read")
        place = self._places.take(caller)
        try:
            # Where it begins, so that a client that is cut off at once goes on there.
            behind = await EventLog(self._serving.engine).beginning(query.get("from_position"))
            headers = {"Cache-Control": "no-store", POSITION_HEADER: str(behind)}
            query = {**query, "from_position": behind + 1}
            coming = _messages(memory.tail(**query))
            answer = EventSourceResponse(coming, ping=PING_SECONDS, headers=headers, sep="\n")
            return InPlace(answer, place, coming)
        except BaseException:
            place.leave()
            raise

    async def replay(self, request: Request) -> Response:
        """Memories as the log up to ``to`` makes them: JSON lines, and a last line that says that it is whole."""
        memory = self._serving.memory(bearer(request))
        given = parse(ReplayBody, wire.from_query(REPLAY, request.query_params.multi_items()))
        caller = await memory.caller()
        caller.require("memory:read")
        place = self._places.take(caller)
        try:
            coming = memory.replay(given.to)
            # What is wrong with the moment is told before the answer begins.
            lines = _lines(await anext(coming, None), coming)
            return InPlace(StreamingResponse(lines, media_type="application/x-ndjson"), place, lines)
        except BaseException:
            place.leave()
            raise


async def _messages(coming: AsyncGenerator[EventView]) -> AsyncGenerator[ServerSentEvent]:
    try:
        async with contextlib.aclosing(coming):
            async for event in coming:
                yield ServerSentEvent(event.model_dump_json(), event=event.event, id=str(event.position))
    except LethelogError:
        # Revoked meanwhile, or the database does not answer. The client comes back, and is told so.
        return


def resumed(request: Request, query: dict[str, Any]) -> dict[str, Any]:
    """The query, from behind the last event that the client says it has."""
    last = request.headers.get("last-event-id")
    if last is None:
        return query
    if not (last.isascii() and last.isdigit() and len(last) < 19):
        raise InvalidInput(LAST_EVENT_HEADER, "must be the id of an event of this stream: its position")
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
        yield json.dumps({"problem": problem_of(error)}) + "\n"
        return
    yield f'{{"memories":{count}}}\n'
