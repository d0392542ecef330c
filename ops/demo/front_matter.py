"""Reads the YAML block at the head of a Markdown file."""

import re
from typing import Any, cast

import yaml

from .file_memory import Refused

FRONT_MATTER_LIMIT = 65_536
Field = str | list[str] | dict[str, str]

_BLOCK = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_BLANK = frozenset({"", "~", "null"})


def front_matter(text: str) -> tuple[dict[str, Field], str]:
    """The block's fields and the text after it, or all of the text where no block with fields stands at its head.

    Names come lower-case with underscores. Values stay text, as written: "0010" is not 8 and "no" is not false.
    A list keeps its plain entries, a mapping its plain values; what is nested deeper is left out, and so are
    blanks.
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
    for name, value in cast("dict[Any, Any]", loaded).items():
        plain = _plain(value)
        if isinstance(name, str) and plain:
            fields.setdefault(re.sub(r"[\s-]+", "_", name.strip().lower()), plain)
    return fields, text[block.end() :]


def _loaded(block: str) -> Any:
    """The YAML as text, lists and mappings: the base loader makes nothing else, whatever a tag asks for."""
    try:
        return yaml.load(block, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 2}" if error.problem_mark else ""
        raise Refused(f"is no valid YAML{line}", "front matter") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        raise Refused("is no valid YAML", "front matter") from None


def _plain(value: Any) -> Field | None:
    """Never looks deeper than one level: a few aliases of aliases would stand for more than any memory holds."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        entries = [_text(entry) for entry in cast("list[Any]", value)]
        return [entry for entry in entries if entry]
    if isinstance(value, dict):
        pairs = {name: _text(entry) for name, entry in cast("dict[Any, Any]", value).items()}
        return {name: entry for name, entry in pairs.items() if isinstance(name, str) and entry}
    return None


def _text(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    return "" if text.lower() in _BLANK else text
