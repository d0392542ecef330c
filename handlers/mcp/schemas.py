"""JSON schemas as short as they can be: every word of them is read by a model again and again."""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

_UNTOLD = ("title", "description", "minimum", "minItems")
"""What pydantic adds for people, and bounds that nobody meets by mistake; they hold all the same."""


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a tool's arguments: no unknown key, nothing about null."""
    whole = model.model_json_schema()
    schema = _short(whole, whole.get("$defs", {}))
    fields, required = schema.get("properties", {}), schema.get("required", [])
    schema["properties"] = {name: fields[name] for name in sorted(fields, key=lambda name: name not in required)}
    return schema


def gives(**required: str) -> dict[str, Any]:
    """The schema of a tool's structured output: an object with at least these fields, by their JSON types."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in required.items()},
        "required": list(required),
    }


def _short(node: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        return _short(parts[str(node["$ref"]).rpartition("/")[2]], parts)
    choices = cast("list[dict[str, Any]]", node.get("anyOf", []))
    given = [_short(one, parts) for one in choices if one != {"type": "null"}]
    if len(given) == 1:
        return given[0]
    short = {
        name: value
        for name, value in node.items()
        if name not in (*_UNTOLD, "$defs") and not (name == "default" and value is None)
    }
    if "properties" in short:
        short["properties"] = {name: _short(one, parts) for name, one in node["properties"].items()}
    if "items" in short:
        short["items"] = _short(node["items"], parts)
    return short
