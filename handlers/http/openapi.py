"""The OpenAPI 3.1 document, made of the table of routes and the models that they name."""

import inspect
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from ...domain.fields import COMMAND_KEY_LIMIT
from ..memory import AsyncMemory
from . import archives
from .problems import MEDIA_TYPE, TITLES
from .routes import (
    ARCHIVE_HEADER,
    KEY_HEADER,
    LAST_EVENT_HEADER,
    POSITION_HEADER,
    PREFIX,
    ROUTES,
    VERSION_HEADER,
    Route,
)
from .streaming import REPLAY, TAIL

_REF = "#/components/schemas/{model}"
_SAID_HERE = {
    "export_archive": {
        "summary": "The archive of this tenant, or of the memories that a filter keeps, as JSON lines.",
        "description": "It holds them in clear, by outside names, with their history, proposals and decisions. "
        f"That it was sent is on record; {ARCHIVE_HEADER} says what it holds.",
    }
}
"""Of verbs that the Python door describes by a file of its own machine."""
_PROBLEM = {"$ref": "#/components/schemas/Problem"}


class _Schema(GenerateJsonSchema):
    """Titles say what names say already."""

    def get_title_from_name(self, name: str) -> str:
        return ""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def document() -> dict[str, Any]:
    """The whole document; the same for every installation of a version."""
    streamed = (TAIL, REPLAY, archives.EXPORT, archives.IMPORT, archives.FOREIGN)
    taken = {route.takes for route in (*ROUTES, *streamed)}
    given = {route.answers for route in (*ROUTES, TAIL, archives.IMPORT, archives.FOREIGN)}
    inputs = [(one, "validation") for one in sorted(taken, key=lambda model: model.__name__)]
    outputs = [(one, "serialization") for one in sorted(given, key=lambda model: model.__name__)]
    refs, defined = models_json_schema(
        cast("list[tuple[type[BaseModel], Any]]", inputs + outputs), ref_template=_REF, schema_generator=_Schema
    )
    schemas: dict[str, Any] = {**cast("dict[str, Any]", defined.get("$defs", {})), "Problem": _problem()}
    _in_common_syntax(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        answer = {"application/json": {"schema": refs[(route.answers, "serialization")]}}
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas, answer)
    lines = {"application/x-ndjson": {"schema": {"type": "string"}}}
    sse = {"text/event-stream": {"schema": {"type": "string"}}}
    for route, answer in ((TAIL, sse), (REPLAY, lines), (archives.EXPORT, lines)):
        paths.setdefault(route.path, {})["get"] = _operation(route, schemas, answer)
    paths["/events/stream"]["get"]["parameters"].append(
        {"name": LAST_EVENT_HEADER, "in": "header", "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"}}
    )
    for route in (archives.IMPORT, archives.FOREIGN):
        answer = {"application/json": {"schema": refs[(route.answers, "serialization")]}}
        operation = _operation(route, schemas, answer, query=True)
        operation["requestBody"] = {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
        paths.setdefault(route.path, {})["post"] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lethelog",
            "version": version("lethelog"),
            "description": "Long-term memory for AI agents that forgets on the record.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": PREFIX}],
        "security": [{"bearer": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A token of Lethelog or a JWT."}
            },
        },
    }


def _in_common_syntax(schema: Any) -> None:
    """Patterns end as JSON Schema writes it; Python's own mark for the end is stricter about a last line break."""
    if isinstance(schema, dict):
        described = cast("dict[str, Any]", schema)
        pattern = described.get("pattern")
        if isinstance(pattern, str):
            described["pattern"] = pattern.replace("\\z", "$")
        for inner in described.values():
            _in_common_syntax(inner)
    elif isinstance(schema, list):
        for inner in cast("list[Any]", schema):
            _in_common_syntax(inner)


def _operation(
    route: Route, schemas: Mapping[str, Any], answer: Mapping[str, Any], *, query: bool = False
) -> dict[str, Any]:
    parameters = [_in_path(route, name) for name in route.in_path]
    operation: dict[str, Any] = {
        "operationId": route.verb.replace(".", "_"),
        "tags": [route.path.split("/")[1]],
        **_said(route.verb),
        "parameters": parameters,
        "responses": {
            str(route.status): {
                "description": "Done.",
                "headers": {POSITION_HEADER: {"schema": {"type": "integer"}}},
                "content": dict(answer),
            },
            "default": {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": _PROBLEM}}},
        },
    }
    if route.made is not None:
        operation["responses"]["201"]["headers"]["Location"] = {"schema": {"type": "string"}}
    if route.status == 201:
        operation["responses"]["200"] = {
            **operation["responses"]["201"],
            "description": "It was there already.",
        }
    described = schemas[route.takes.__name__]
    required = [name for name in described.get("required", ()) if name in route.fields]
    fields = {name: described["properties"][name] for name in route.fields}
    if route.has_body and not query:
        schema: dict[str, Any] = {"type": "object", "properties": fields, "additionalProperties": False}
        if required:
            schema["required"] = required
        if "description" in described:
            schema["description"] = described["description"]
        operation["requestBody"] = {
            "required": bool(required),
            "content": {"application/json": {"schema": schema}},
        }
    else:
        parameters += [_in_query(name, fields[name], name in required) for name in fields]
    if route.keyed:
        parameters.append(_header(KEY_HEADER, {"type": "string", "minLength": 1, "maxLength": COMMAND_KEY_LIMIT}))
    if route.versioned:
        parameters.append(_header(VERSION_HEADER, {"type": "string", "pattern": '^"[1-9][0-9]{0,17}"$'}))
    return operation


def _said(verb: str) -> dict[str, str]:
    if verb in _SAID_HERE:
        return _SAID_HERE[verb]
    where: Any = AsyncMemory
    head, _, tail = verb.partition(".")
    if tail:
        from ..sessions.doors import AsyncSessions
        from ..tenancy.doors import AsyncTokens
        from ..webhooks.doors import AsyncWebhooks

        where = {"sessions": AsyncSessions, "tokens": AsyncTokens, "webhooks": AsyncWebhooks}[head]
    text = inspect.getdoc(getattr(where, tail or head)) or ""
    summary, _, rest = text.partition("\n\n")
    return {"summary": " ".join(summary.split()), **({"description": rest} if rest else {})}


def _in_path(route: Route, name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if name != "source":
        schema["format"] = "uuid"
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(name: str, schema: Mapping[str, Any], required: bool) -> dict[str, Any]:
    parts = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
    plain = {key: value for key, value in schema.items() if key not in ("anyOf", "description", "default")}
    one = {**plain, **(parts[0] if len(parts) == 1 else {"anyOf": parts})}
    said = {"description": schema["description"]} if "description" in schema else {}
    return {"name": name, "in": "query", "required": required, "schema": one, **said}


def _header(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "schema": dict(schema)}


def _problem() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "What was wrong (RFC 9457). `code` is stable.",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"type": "string", "enum": sorted(TITLES)},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "pointer": {
                            "type": "string",
                            "description": "Of a field of the body (RFC 6901); `#` is all of it.",
                        },
                        "parameter": {"type": "string", "description": "Of the path or the query."},
                        "header": {"type": "string", "description": "A header of the request."},
                        "detail": {"type": "string"},
                    },
                },
            },
        },
    }
