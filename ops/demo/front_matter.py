"""Reads the YAML block at the head of a Markdown file."""

import re
from typing import Any

import yaml

from .file_memory import Refused

FRONT_MATTER_LIMIT = 65_536
Field = str | list[str] | dict[str, str]

_BLOCK = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_BLANK = frozenset({"", "~", "null"})


def front_matter(text: str) -> tuple[dict[str, Field], str]:
    """The block's fields and the text after it. Without a block, or with one that holds no fields: all of the text.

    Names come lower-case with underscores. Values stay text, as written: "0010" is not 8 and "no" is not false.
    A list keeps its plain entries, a mapping its plain values; what is nested deeper is left out, and so are blanks.
    """
    block = _BLOCK.match(text)
    if block is None:
        return {}, text
    if len(block[1]) > FRONT_MATTER_LIMIT:
        raise Refused(f"has more than {FRONT_MATTER_LIMIT} characters", "front matter")
    loaded = _loaded(block[1])
    if not isinstance(loaded, dict):
        return {}, text
    fields: dict[str, Field] = {}
    for name, value in loaded.items():
        plain = _plain(value)
        if isinstance(name, str) and plain:
            fields.setdefault(re.sub(r"[\s-]+", "_", name.strip().lower()), plain)
    return fields, text[block.end() :]


def _loaded(block: str) -> Any:
    """The YAML as text, lists and mappings only: the base loader makes no other object, whatever a tag asks for."""
    try:
        return yaml.load(block, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 2}" if error.problem_mark else ""
        raise Refused(f"is no valid YAML{line}", "front matter") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        raise Refused("is no valid YAML", "front matter") from None


def _plain(value: Any) -> Field | None:
    if isinstance(value, str):
        text = value.strip()
        return None if text.lower() in _BLANK else text
    if isinstance(value, list):
        entries = [_plain(entry) for entry in value]
        return [entry for entry in entries if isinstance(entry, str)]
    if isinstance(value, dict):
        pairs = ((name, _plain(entry)) for name, entry in value.items())
        return {name: entry for name, entry in pairs if isinstance(name, str) and isinstance(entry, str)}
    return None
