"""Makes memories of a Markdown file: decision records, notes, and instruction files for agents."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from .file_memory import (
    MEMORY_TYPES,
    METADATA_BYTES_LIMIT,
    METADATA_KEYS_LIMIT,
    FileMemory,
    Filing,
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
from .instructions import blocks, heading_text

INSTRUCTION_FILES = frozenset({"agents.md", "claude.md", "gemini.md", "copilot-instructions.md"})
DECISION_FOLDERS = frozenset({"adr", "adrs", "decisions", "decision-records"})
LONG_TITLE = 100
"""A title of the front matter longer than this may be cut in the topic, so it is also put above the text."""
RELATIONS = ("status", "supersedes", "replaces", "obsoletes", "amends", "updates", "superseded_by")
"""Front matter that says how a document stands to others: a judge must see it, so it is put above the text."""

_DATES = ("occurred_at", "date", "created")
_TITLES = ("topic", "title")
_TYPES = ("memory_type", "type")
_DECISION_FIELDS = ("deciders", "decision_makers", "supersedes", "superseded_by")
_DECISION_STATUSES = (
    *("proposed", "accepted", "approved", "decided", "rejected"),
    *("deprecated", "superseded", "replaced", "amended"),
)
_TAKEN = frozenset({*RELATIONS, *_DATES, *_TITLES, *_TYPES, "tags", "project", "metadata", "number"})

# Every pattern that meets a whole text takes time in proportion to it, however odd the text.
_CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(?:#[ \t]+(?P<hash>\S.*)|(?P<under>\S.*)\n=+[ \t]*)$", re.MULTILINE)
_NUMBERED = re.compile(r"(?:ADR[-\s#]*)?(\d{1,5})(?:[.:)]|\s*[-–—:])\s+(\S.*)", re.IGNORECASE)
_NUMBERED_STEM = re.compile(r"(?:adr[-_]?)?(\d{1,5})[-_ ]+(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"(?:[A-Za-z]+[-\s#]?)?(\d{1,5})")
_DATE_LINE = re.compile(
    r"^[ \t]*(?:[*+-][ \t]+)?\**_*date\**_*[ \t]*:(?P<line>.*)$|^#{2,6}[ \t]+date[ \t]*\n\s*(?P<section>\S.*)$",
    re.MULTILINE | re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\S+)?")
_DATED_STATUS = re.compile(
    r"^[ \t]*(?:[*+-][ \t]+)?\**_*status\**_*[ \t]*:[ \t*_]*(?:accepted|approved|decided|proposed)\W{1,9}"
    r"(?P<day>\d{4}-\d{1,2}-\d{1,2})\b",
    re.MULTILINE | re.IGNORECASE,
)
_STATUS = re.compile(
    r"^(?:#{2,6}[ \t]+status\b|[ \t]*(?:[*+-][ \t]+)?\**_*status\**_*[ \t]*:)", re.MULTILINE | re.IGNORECASE
)


def markdown_memories(text: str, name: str, within: str = "") -> tuple[list[FileMemory], list[Refused]]:
    """The memories of one file, and what could not be used without stopping the rest.

    ``name`` is its path below the folder that was asked for, ``within`` that folder's own name.

    - An instruction file (AGENTS.md and the like) gives one memory of type preference for each paragraph and each
      list item, under the headings it stands under.
    - A decision record (a status in its front matter or text, or a number in a folder such as ``docs/adr``) gives
      one of type decision, whose topic starts "ADR-0005".
    - Any other gives one of type note. Text too long for one memory becomes several.

    The date is that of the front matter (``occurred_at``, ``date``, ``created``), else of a line "Date: …" in a
    decision record, or of its status ("Status: accepted, 2026-05-03"). A day alone is midnight UTC; a time without
    an offset is refused.
    """
    fields, body = front_matter(text)
    notices: list[Refused] = []
    path = PurePosixPath(name)
    if path.name.lower() in INSTRUCTION_FILES:
        return _instructions(fields, body, path, notices), notices
    return _document(fields, body, path, within, notices), notices


def _instructions(
    fields: Mapping[str, Field], body: str, path: PurePosixPath, notices: list[Refused]
) -> list[FileMemory]:
    filing = _filing(fields, "preference", None, notices)
    memories: list[FileMemory] = []
    for heading, block in blocks(body):
        memories += parts(_one_line(heading) or path.name, block, filing, str(path), len(memories) + 1)
    if not memories:
        raise Refused("is empty", "content")
    return memories


def _document(
    fields: Mapping[str, Field], body: str, path: PurePosixPath, within: str, notices: list[Refused]
) -> list[FileMemory]:
    stated = _text(fields, *_TITLES)
    title = _one_line(stated or _heading(body) or path.stem) or path.name
    number, unnumbered = _numbered(title, fields, path)
    decision = _is_decision(fields, body, number, (within, *path.parts[:-1]))
    dated = _date_line(body, notices) if decision and not any(name in fields for name in _DATES) else None
    filing = _filing(fields, "decision" if decision else "note", dated, notices)
    above = [
        f"{name.replace('_', ' ').capitalize()}: {_joined(fields[name])}" for name in RELATIONS if name in fields
    ]
    if stated and len(stated) > LONG_TITLE:
        above.insert(0, stated)
    content = "\n\n".join(part for part in ("\n".join(above), body.strip()) if part)
    topic = f"ADR-{number:04d} {unnumbered}" if decision and number is not None else title
    return parts(topic, content, filing, str(path))


def _filing(
    fields: Mapping[str, Field], default: MemoryType, dated: datetime | None, notices: list[Refused]
) -> Filing:
    moment = next((name for name in _DATES if name in fields), None)
    return Filing(
        memory_type=_memory_type(fields) or default,
        occurred_at=as_moment(moment, _joined(fields[moment])) if moment else dated,
        tags=as_tags("tags", _entries(fields.get("tags", []))),
        project=as_project("project", _joined(fields.get("project", ""))),
        metadata=_metadata(fields, moment, notices),
    )


def _metadata(fields: Mapping[str, Field], dated: str | None, notices: list[Refused]) -> dict[str, Scalar]:
    """The mapping ``metadata``, the relations and all other fields, as far as limits allow: the rest is told."""
    given = fields.get("metadata", {})
    if not isinstance(given, dict):
        raise Refused("is no mapping", "metadata")
    kept: dict[str, Scalar] = as_metadata("metadata", given)
    others = [name for name in fields if name in RELATIONS]
    others += [name for name in fields if name not in _TAKEN]
    others += [name for name in _DATES if name in fields and name != dated]
    others += [name for name in _TYPES if _named_otherwise(fields, name)]
    for name in others:
        value = whole(name, _joined(fields[name]))
        more = kept | {whole("front matter", name): value}
        if name in kept or len(more) > METADATA_KEYS_LIMIT or size_of(more) > METADATA_BYTES_LIMIT:
            notices.append(Refused("does not fit into the metadata and was left out", _shown(name)))
        else:
            kept = more
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


def _is_decision(fields: Mapping[str, Field], body: str, number: int | None, folders: Sequence[str]) -> bool:
    """A note may have a status, too ("draft"): only that of a decision, or its other fields, make it one."""
    status = _joined(fields.get("status", "")).lower()
    if status.startswith(_DECISION_STATUSES) or any(name in fields for name in _DECISION_FIELDS):
        return True
    filed = any(folder.lower() in DECISION_FOLDERS for folder in folders)
    marks = (filed, number is not None, _STATUS.search(body) is not None)
    return sum(marks) >= 2


def _heading(body: str) -> str | None:
    """The first heading of the first level outside of code."""
    found = _HEADING.search(_CODE.sub("", body))
    return (found["under"] or heading_text(found["hash"])) if found else None


def _date_line(body: str, notices: list[Refused]) -> datetime | None:
    line = _DATE_LINE.search(body)
    stated = (line["line"] or line["section"] or "").strip(" \t*_") if line else ""
    if not stated:
        decided = _DATED_STATUS.search(body)
        return as_moment("Status", decided["day"]) if decided else None
    found = _DATE.match(stated)
    if found is None:
        notices.append(Refused("is no date such as 2026-05-03, so the memory is dated now", "Date"))
        return None
    return as_moment("Date", found[0].replace(" ", "T"))


def _text(fields: Mapping[str, Field], *names: str) -> str | None:
    """The first of the fields that holds plain text."""
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str)), None)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _shown(name: str) -> str:
    """A field's name for a message; one that could be a sentence is not repeated there."""
    return name if len(name) <= 40 and name.isprintable() else "front matter"


def _entries(value: Field) -> Sequence[str]:
    return value.split(",") if isinstance(value, str) else list(value)


def _joined(value: Field) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {entry}" for name, entry in value.items())
    return value if isinstance(value, str) else ", ".join(value)
