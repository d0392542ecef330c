"""Makes memories of a Markdown file: decision records, notes, and instruction files for agents."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from .file_memory import (
    MEMORY_TYPES,
    METADATA_BYTES_LIMIT,
    METADATA_KEYS_LIMIT,
    TOPIC_LIMIT,
    FileMemory,
    MemoryType,
    Refused,
    Scalar,
    as_metadata,
    as_moment,
    as_project,
    as_tags,
    as_type,
    parts,
    size_of,
    whole,
)
from .front_matter import Field, front_matter
from .instructions import blocks

INSTRUCTION_FILES = frozenset({"agents.md", "claude.md", "gemini.md", "copilot-instructions.md"})
DECISION_FOLDERS = frozenset({"adr", "adrs", "decisions", "decision-records"})
RELATIONS = ("status", "supersedes", "replaces", "obsoletes", "amends", "updates", "superseded_by")
"""Front matter that says how a document stands to others: a judge must see it, so it is put above the text."""

_DATES = ("occurred_at", "date", "created")
_TITLES = ("topic", "title")
_TYPES = ("memory_type", "type")
_TAKEN = frozenset({*RELATIONS, *_DATES, *_TITLES, *_TYPES, "tags", "project", "metadata", "number"})

_HEADING = re.compile(r"^(?:#[ \t]+(?P<hash>\S.*?)[ \t]*#*|(?P<under>\S.*)\n=+)[ \t]*$", re.MULTILINE)
_NUMBERED = re.compile(r"(?:ADR[-\s#]*)?(\d{1,5})(?:[.:)]|\s*[-–—:])\s+(\S.*)", re.IGNORECASE)
_NUMBERED_STEM = re.compile(r"(?:adr[-_]?)?(\d{1,5})[-_ ]+(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"(?:[A-Za-z]+[-\s#]?)?(\d{1,5})")
_DATE_LINE = re.compile(
    r"^[ \t]*(?:[*+-][ \t]+)?\**_*date\**_*[ \t]*:[ \t]*\**[ \t]*(?P<line>\S.*)$"
    r"|^#{2,6}[ \t]+date[ \t]*\n\s*(?P<section>\S.*)$",
    re.MULTILINE | re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\S+)?")
_STATUS = re.compile(
    r"^(?:#{2,6}[ \t]+status\b|[ \t]*(?:[*+-][ \t]+)?\**_*status\**_*[ \t]*:)", re.MULTILINE | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Head:
    """What front matter gives to every memory of a file."""

    occurred_at: datetime | None
    tags: tuple[str, ...]
    project: str | None
    metadata: dict[str, Scalar]


def markdown_memories(text: str, name: str) -> tuple[list[FileMemory], list[Refused]]:
    """The memories of one file, and what could not be used without stopping the rest. ``name`` is its path.

    - An instruction file (AGENTS.md and the like) gives one memory of type preference for each paragraph and each
      list item, under the headings it stands under.
    - A decision record (a status in its front matter or text, or a number in a folder such as ``docs/adr``) gives
      one of type decision, whose topic starts "ADR-0005".
    - Any other gives one of type note. Text too long for one memory becomes several.

    The date is that of the front matter (``occurred_at``, ``date``, ``created``), else of a line "Date: …" in a
    decision record. A day alone is midnight UTC; a time without an offset is refused.
    """
    fields, body = front_matter(text)
    notices: list[Refused] = []
    head = _head(fields, notices)
    path = PurePosixPath(name)
    if path.name.lower() in INSTRUCTION_FILES:
        return _instructions(fields, body, head, name), notices
    return _document(fields, body, head, path, notices), notices


def _instructions(fields: Mapping[str, Field], body: str, head: Head, name: str) -> list[FileMemory]:
    memory_type = _memory_type(fields) or "preference"
    memories: list[FileMemory] = []
    for heading, block in blocks(body):
        topic = heading or _text(fields, *_TITLES) or PurePosixPath(name).name
        memories += parts(
            *(topic, block, memory_type, head.occurred_at, head.tags, head.project, head.metadata),
            name,
            len(memories) + 1,
        )
    return memories


def _document(
    fields: Mapping[str, Field], body: str, head: Head, path: PurePosixPath, notices: list[Refused]
) -> list[FileMemory]:
    heading = _HEADING.search(body)
    stated = _text(fields, *_TITLES)
    title = stated or (heading["hash"] or heading["under"] if heading else None) or path.stem
    number, title = _numbered(title, fields, path)
    decision = _is_decision(fields, body, number, path)
    occurred_at = head.occurred_at or (_date_line(body, notices) if decision else None)
    lines = [
        f"{name.replace('_', ' ').capitalize()}: {_joined(fields[name])}" for name in RELATIONS if name in fields
    ]
    if stated and len(stated) > TOPIC_LIMIT // 2 and stated not in body:
        lines.insert(0, stated)
    memory_type: MemoryType = _memory_type(fields) or ("decision" if decision else "note")
    topic = f"ADR-{number:04d} {title}" if decision and number is not None else title
    content = "\n\n".join(part for part in ("\n".join(lines), body.strip()) if part)
    return parts(
        *(topic, content, memory_type, head.occurred_at or occurred_at, head.tags, head.project, head.metadata),
        str(path),
        1,
    )


def _head(fields: Mapping[str, Field], notices: list[Refused]) -> Head:
    dated = next((name for name in _DATES if name in fields), None)
    moment = as_moment(dated, _joined(fields[dated])) if dated else None
    project = fields.get("project", "")
    return Head(
        occurred_at=moment,
        tags=as_tags("tags", _entries(fields.get("tags", []))),
        project=as_project("project", _joined(project)),
        metadata=_metadata(fields, dated, notices),
    )


def _metadata(fields: Mapping[str, Field], dated: str | None, notices: list[Refused]) -> dict[str, Scalar]:
    """The mapping ``metadata``, the relations, and every other field, as far as the limits allow: the rest is told."""
    given = fields.get("metadata", {})
    kept: dict[str, Scalar] = as_metadata("metadata", given) if isinstance(given, dict) else {}
    others = [name for name in fields if name in RELATIONS]
    others += [name for name in fields if name not in _TAKEN]
    others += [name for name in _DATES if name in fields and name != dated]
    others += [name for name in _TYPES if _named_otherwise(fields, name)]
    for name in others:
        value = whole(name, _joined(fields[name]))
        if len(kept) >= METADATA_KEYS_LIMIT or size_of(kept | {name: value}) > METADATA_BYTES_LIMIT:
            notices.append(Refused("does not fit into the metadata and was left out", name))
        elif value:
            kept.setdefault(whole("front matter", name), value)
    return kept


def _memory_type(fields: Mapping[str, Field]) -> MemoryType | None:
    """``memory_type`` must be one. ``type`` may mean something else in a note: then it goes to the metadata."""
    if "memory_type" in fields:
        return as_type("memory_type", _joined(fields["memory_type"]))
    given = _text(fields, "type")
    return as_type("type", given) if given and given.lower() in MEMORY_TYPES else None


def _named_otherwise(fields: Mapping[str, Field], name: str) -> bool:
    return name == "type" and name in fields and _joined(fields[name]).lower() not in MEMORY_TYPES


def _numbered(title: str, fields: Mapping[str, Field], path: PurePosixPath) -> tuple[int | None, str]:
    """The record's number and its title without it: from the title, the front matter, or the file's name."""
    in_title = _NUMBERED.fullmatch(title)
    if in_title:
        return int(in_title[1]), in_title[2]
    for name in ("number", "id"):
        given = _NUMBER.fullmatch(_text(fields, name) or "")
        if given:
            return int(given[1]), title
    in_stem = _NUMBERED_STEM.match(path.stem)
    return (int(in_stem[1]) if in_stem else None), title


def _is_decision(fields: Mapping[str, Field], body: str, number: int | None, path: PurePosixPath) -> bool:
    filed = any(folder.lower() in DECISION_FOLDERS for folder in path.parts[:-1])
    return "status" in fields or (number is not None and (filed or _STATUS.search(body) is not None))


def _date_line(body: str, notices: list[Refused]) -> datetime | None:
    line = _DATE_LINE.search(body)
    if line is None:
        return None
    found = _DATE.match(line["line"] or line["section"])
    if found is None:
        notices.append(Refused("is no date such as 2026-05-03, so the memory is dated now", "Date"))
        return None
    return as_moment("Date", found[0].replace(" ", "T"))


def _text(fields: Mapping[str, Field], *names: str) -> str | None:
    """The first of the fields that holds plain text."""
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str)), None)


def _entries(value: Field) -> Sequence[str]:
    return re.split(r"\s*,\s*", value) if isinstance(value, str) else list(value)


def _joined(value: Field) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {entry}" for name, entry in value.items())
    return value if isinstance(value, str) else ", ".join(value)
