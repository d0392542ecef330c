"""JSON schemas in words, for the reference pages that are generated from models."""

from typing import Any, cast

_BOUNDS = {"minimum": "from", "maximum": "to", "maxLength": "at most"}


def form_of(schema: dict[str, Any], *, absent: str | None = None) -> str:
    """What a value of this schema is; ``absent`` is the word for null, which is passed over where it is None."""
    parts = cast("list[dict[str, Any]]", schema.get("anyOf", [schema]))
    forms = [absent if part.get("type") == "null" else _one(part, absent) for part in parts]
    return " or ".join(form for form in forms if form is not None)


def _one(schema: dict[str, Any], absent: str | None) -> str:
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array":
        inner = schema.get("items")
        return "list" + (
            f" of {form_of(cast('dict[str, Any]', inner), absent=absent)}" if isinstance(inner, dict) else ""
        )
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    return ", ".join([str(schema.get("format", schema.get("type", "any"))), *bounds])
