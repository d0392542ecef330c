"""One route, answered: arguments in, the verb of the caller's memory, its answer out."""

import json
from collections.abc import Awaitable, Callable, Mapping
from re import fullmatch
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from ...domain.errors import Conflict, InvalidCredential, InvalidInput, LethelogError, WrongKind
from ...domain.fields import parse
from ..command_keys import checked_key
from ..memory import AsyncMemory
from ..operating.views import MemoryView, Written
from . import wire
from .pointing import field_of, places_by_verb, places_of
from .problems import MEDIA_TYPE, RETRY_SECONDS, described, problem_of
from .routes import KEY_HEADER, POSITION_HEADER, PREFIX, VERSION_HEADER, Memories, Route
from .serving import Serving

JSON = "application/json"
UNKEPT: Mapping[str, str] = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""What is told to a caller is kept by nothing on the way, and is nothing else than it says."""


class NotJson(Exception):
    """The body is said to be of another type."""


def endpoint(serving: Serving, route: Route) -> Callable[[Request], Awaitable[Response]]:
    """The function that answers a route."""

    async def answer(request: Request) -> Response:
        memory = serving.memory(bearer(request))
        # Before anything is read from somebody whom nobody knows.
        await memory.caller()
        arguments = await arguments_of(route, request)
        # Refused here, as the document says: the Python door takes some of them as plain arguments.
        parse(route.takes, {name: value for name, value in arguments.items() if name != "key"})
        matched = VERSION_HEADER in request.headers and route.versioned
        try:
            found = await verb_of(memory, route.verb)(**arguments)
        except LethelogError as error:
            document = _refused(request, route, arguments, error)
            if matched and type(error) is Conflict:
                document |= described("precondition_failed", 412, error.message)
            return _told(document)
        return _answered(route, found, memory)

    return answer


def verb_of(memory: AsyncMemory, verb: str) -> Callable[..., Awaitable[Any]]:
    """The method of a verb such as ``sessions.open``."""
    where: Any = memory
    for part in verb.split("."):
        where = getattr(where, part)
    return where


def bearer(request: Request) -> str:
    """The credential of a request. Raises `InvalidCredential`."""
    kind, _, credential = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not credential.strip():
        raise InvalidCredential("show a token: Authorization: Bearer …; see: lethelog token issue")
    return credential


async def arguments_of(route: Route, request: Request) -> dict[str, Any]:
    """What a request asks for, by field."""
    if route.has_body:
        if request.query_params:
            raise InvalidInput(
                next(iter(request.query_params))[:64], "is no parameter here; fields go in the body"
            )
        body = await request.body()
        if body and request.headers.get("content-type", JSON).partition(";")[0].strip().lower() != JSON:
            raise NotJson
        given = wire.from_body(body)
    else:
        given = wire.from_query(route, request.query_params.multi_items())
    for name in (*route.in_path, "key"):
        if name in given:
            raise InvalidInput(name, "unknown field", f"It goes in the {'path' if name != 'key' else KEY_HEADER}")
    return {**given, **request.path_params, **_of_headers(route, request.headers)}


def _of_headers(route: Route, headers: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    key = headers.get(KEY_HEADER)
    if key is not None:
        if not route.keyed:
            raise InvalidInput(KEY_HEADER, "is not taken here; leave it out")
        found["key"] = _key(key)
    seen = headers.get(VERSION_HEADER)
    if seen is not None and not route.versioned and route.method != "GET":
        # A write that heeds no version must not look as if it did (F17).
        raise InvalidInput(VERSION_HEADER, "is not taken here; leave it out")
    if seen is not None and route.versioned:
        version = fullmatch(r'"([1-9][0-9]{0,17})"', seen.strip())
        if version is None:
            raise InvalidInput(VERSION_HEADER, 'must be the ETag of a memory, such as "3"')
        found["expected_version"] = int(version[1])
    return found


def _key(given: str) -> str | None:
    try:
        return checked_key(given)
    except InvalidInput as error:
        raise InvalidInput(KEY_HEADER, error.problem) from None


def _answered(route: Route, found: Any, memory: AsyncMemory) -> Response:
    view: BaseModel = Memories(memories=found) if route.answers is Memories else found
    # A plain dump, so that a field hidden from reprs is still told to whom it is for.
    response = Response(view.model_dump_json(), route.status, UNKEPT, JSON)
    if route.made is not None:
        response.headers["Location"] = PREFIX + route.made(view)
    if isinstance(view, Written):
        if view.deduplicated or not view.changed:
            response.status_code = 200
        response.headers["ETag"] = f'"{view.memory.version}"'
    elif isinstance(view, MemoryView) and view.as_of is None:
        response.headers["ETag"] = f'"{view.version}"'
    if memory.position:
        response.headers[POSITION_HEADER] = str(memory.position)
    return response


def problem_response(request: Request, error: LethelogError) -> Response:
    """The answer that tells of an error."""
    return _told(problem_of(error, places_of(request)))


def as_problem(document: Mapping[str, Any]) -> Response:
    """A problem document as an answer."""
    return Response(json.dumps(document), int(document["status"]), UNKEPT, MEDIA_TYPE)


def _refused(request: Request, route: Route, arguments: Mapping[str, Any], error: LethelogError) -> dict[str, Any]:
    """The document of an error of a verb."""
    where = places_by_verb(request, route)
    document = problem_of(error, where)
    if isinstance(error, WrongKind) and "errors" not in document:
        field = field_of(arguments, error.details.get("id"))
        document["errors"] = [{**where(field or ""), "detail": error.message}]
    return document


def _told(document: Mapping[str, Any]) -> Response:
    response = as_problem(document)
    if document["status"] == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    seconds = RETRY_SECONDS.get(str(document["code"]))
    if seconds is not None:
        response.headers["Retry-After"] = str(seconds)
    return response
