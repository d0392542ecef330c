"""Writes ``docs/reference/rest.md`` and ``openapi.json`` from the table of routes.

``python -m lethelog.handlers.http.reference``. A test compares the files with what this gives.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from ...streams.schema_words import form_of
from .openapi import document
from .routes import PREFIX

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
_HEAD = f"""# REST

Every route under `{PREFIX}`. [The OpenAPI document](openapi.json) has all of it for machines, answers included;
how to call them, errors, positions and streams: [Serve memories to other programs](../how-to/rest.md). Written
by `python -m lethelog.handlers.http.reference`.
"""


def pages() -> dict[str, str]:
    """The files and what they hold."""
    described = document()
    return {
        "openapi.json": json.dumps(described, indent=1, ensure_ascii=False) + "\n",
        "rest.md": "".join(_lines(described)),
    }


def _lines(described: dict[str, Any]) -> Iterator[str]:
    yield _HEAD
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in cast("dict[str, dict[str, Any]]", described["paths"]).items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    for group, operations in sorted(groups.items()):
        yield f"\n## {group}\n"
        for method, path, operation in operations:
            yield f"\n### {method} {path}\n\n{operation['summary'].replace('``', '`')}\n"
            yield from _fields(operation)


def _fields(operation: dict[str, Any]) -> Iterator[str]:
    rows = [
        (one["name"], one["in"], one.get("required", False), one["schema"])
        for one in cast("list[dict[str, Any]]", operation["parameters"])
    ]
    content = operation.get("requestBody", {}).get("content", {})
    body = content.get("application/json", {}).get("schema", {})
    needed = body.get("required", ())
    rows += [(name, "body", name in needed, schema) for name, schema in body.get("properties", {}).items()]
    if rows:
        yield "\n| field | in | form | |\n|---|---|---|---|\n"
    for name, where, required, schema in rows:
        said = " ".join(str(schema.get("description", "")).split()).replace("``", "`").replace("|", "\\|")
        must = "required. " if required else ""
        yield f"| `{name}` | {where} | {form_of(schema)} | {must}{said} |\n"


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
