"""Writes ``docs/reference/events.md`` from the events themselves.

``python -m lethelog.streams.event_reference``. A test compares the file with what this gives.
"""

import inspect
from pathlib import Path
from typing import Any, cast

from ..domain import events as _registered  # noqa: F401  # pyright: ignore[reportUnusedImport] - it fills the registry
from ..domain.event import Event, event_class, event_names
from .schema_words import form_of

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "events.md"
_HEAD = """# Events

Every event there is, by its stored name. Names never change; the number is that of the payload's newest schema,
and older ones are read, too. *Sealed* fields are ciphertext under the key of the memory they are about, and
read as nothing once that key is destroyed; *named* ones hold an opaque id that the directory leads back to a
name. The form on the broker is a CloudEvent, described by [the AsyncAPI document](asyncapi.json); every event
carries its id, position, instant, actor, cause and correlation besides, and policy, judge and session where
there was one. Written by `python -m lethelog.streams.event_reference`.
"""


def reference() -> str:
    """The page."""
    families: dict[str, list[str]] = {}
    for name in event_names():
        families.setdefault(name.partition(".")[0], []).append(name)
    parts = [_HEAD]
    for family, names in families.items():
        parts.append(f"\n## {family}\n")
        parts += [_described(name) for name in names]
    return "".join(parts)


def _described(name: str) -> str:
    kind = event_class(name)
    assert kind is not None
    meaning = " ".join((inspect.cleandoc(kind.__doc__ or "")).partition("\n\n")[0].split()).replace("``", "`")
    rows = [_row(kind, field, schema) for field, schema in _fields(kind)]
    table = "\n| field | form | kept |\n|---|---|---|\n" + "".join(rows) if rows else ""
    return f"\n### {name}\n\nSchema {kind.SCHEMA}. {meaning}\n{table}"


def _fields(kind: type[Event]) -> list[tuple[str, dict[str, Any]]]:
    described = kind.model_json_schema(mode="validation")
    return list(cast("dict[str, dict[str, Any]]", described.get("properties", {})).items())


def _row(kind: type[Event], field: str, schema: dict[str, Any]) -> str:
    kept = "clear"
    if field in kind.SEALED or field in kind.SEALED_FOR:
        kept = "sealed"
    elif field in kind.NAMED:
        kept = f"named ({kind.NAMED[field]})"
    return f"| `{field}` | {form_of(schema, absent='nothing')} | {kept} |\n"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
