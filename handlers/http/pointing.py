"""Where in a request the field of an error stands: in its body, its address or its headers."""

from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import UUID

from fastapi import Request

from .problems import Where, parameter, pointer
from .routes import KEY_HEADER, LAST_EVENT_HEADER, VERSION_HEADER, Route

WHOLE = "body"
"""What the body as a whole is called."""
_HEADERS = (KEY_HEADER, VERSION_HEADER, LAST_EVENT_HEADER)
_WITH_BODY = ("POST", "PUT", "PATCH")


def places_of(request: Request) -> Where:
    """Where fields stand that were refused as they were given."""

    def where(field: str) -> Mapping[str, str]:
        if field in _HEADERS:
            return {"header": field}
        name = field.partition(".")[0]
        in_address = name in request.path_params or name in request.query_params
        return parameter(field) if in_address or request.method not in _WITH_BODY else {"pointer": pointer(field)}

    return where


def places_by_verb(request: Request, route: Route) -> Where:
    """Where fields stand that a verb refused, which may name what is inside of one, or all together."""
    given = places_of(request)

    def where(field: str) -> Mapping[str, str]:
        if field.partition(".")[0] in (*route.fields, *route.in_path):
            return given(field)
        if route.inside:
            return {"pointer": pointer(f"{route.inside}.{field}")}
        return {"pointer": pointer(WHOLE)} if route.has_body else {}

    return where


def field_of(arguments: Mapping[str, Any], wanted: object) -> str | None:
    """The argument that an id was given by; None where none was."""
    for name, value in arguments.items():
        if _same(value, wanted):
            return name
        if isinstance(value, Sequence) and not isinstance(value, str):
            among = enumerate(cast("Sequence[Any]", value))
            found = next((number for number, one in among if _same(one, wanted)), None)
            if found is not None:
                return f"{name}.{found}"
    return None


def _same(given: object, wanted: object) -> bool:
    if not isinstance(given, str):
        return False
    try:
        return UUID(given) == wanted
    except ValueError:
        return False
