"""One memory read from a user's file, and the rules its fields keep (the limits are those of ``remember``)."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, cast, get_args

from .splitting import split

MemoryType = Literal["decision", "commitment", "blocker", "fact", "preference", "pattern", "note", "event"]
Scalar = str | int | float | bool
MEMORY_TYPES: tuple[str, ...] = get_args(MemoryType)

TOPIC_LIMIT = 256
CONTENT_LIMIT = 2_000
PROJECT_LIMIT = 256
TAGS_LIMIT = 32
TAG_LIMIT = 64
METADATA_KEYS_LIMIT = 16
METADATA_BYTES_LIMIT = 4_096

_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")


@dataclass(frozen=True, slots=True)
class FileMemory:
    """A memory to be. ``occurred_at`` None means now; ``key`` is "file#n", unique within one load."""

    topic: str
    content: str
    memory_type: MemoryType
    occurred_at: datetime | None
    tags: tuple[str, ...]
    project: str | None
    key: str
    metadata: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])


class Refused(Exception):
    """A file, or a line of one, cannot become a memory. Says which field and why, and nothing of the content."""

    def __init__(self, reason: str, field: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field


@dataclass(frozen=True, slots=True)
class Filing:
    """What all memories of one file, or of one line, share."""

    memory_type: MemoryType
    occurred_at: datetime | None
    tags: tuple[str, ...]
    project: str | None
    metadata: Mapping[str, Scalar]


def parts(topic: str, content: str, filing: Filing, name: str, first: int = 1) -> list[FileMemory]:
    """The content as one memory, or as several whose topics say "(2 of 3)" where it is too long for one.

    Their keys are ``name#first`` and on.
    """
    pieces = split(whole("content", content), CONTENT_LIMIT)
    if not pieces:
        raise Refused("is empty", "content")
    memories: list[FileMemory] = []
    for position, piece in enumerate(pieces):
        mark = f" ({position + 1} of {len(pieces)})" if len(pieces) > 1 else ""
        memories.append(
            FileMemory(
                topic=shortened(whole("topic", topic), TOPIC_LIMIT - len(mark)) + mark,
                content=piece,
                memory_type=filing.memory_type,
                occurred_at=filing.occurred_at,
                tags=filing.tags,
                project=filing.project,
                key=f"{name}#{first + position}",
                metadata=filing.metadata,
            )
        )
    return memories


def shortened(text: str, limit: int) -> str:
    """A title cut for use as a topic, with a mark where it was cut. The whole title belongs into the content."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def whole(name: str, text: str) -> str:
    """The text, trimmed, if it can be stored: no NUL and no lone surrogate."""
    if "\0" in text:
        raise Refused("holds a NUL character", name)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused("holds half of a surrogate pair", name) from None
    return text.strip()


def as_type(name: str, value: str) -> MemoryType:
    """A memory type by its name, in any case."""
    lowered = value.strip().lower()
    if lowered not in MEMORY_TYPES:
        raise Refused(f"is none of {', '.join(MEMORY_TYPES)}", name)
    return cast("MemoryType", lowered)


def as_moment(name: str, value: str) -> datetime:
    """A date, taken as midnight UTC, or a date and time that names its offset. A time without one is refused."""
    text = value.strip()
    day = _DAY.fullmatch(text)
    try:
        if day:
            return datetime(int(day[1]), int(day[2]), int(day[3]), tzinfo=UTC)
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise Refused("has a time without an offset: write Z or +02:00 after it, or the date alone", name)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Refused("is no date such as 2026-05-03 or 2026-05-03T10:00:00Z", name) from None


def as_tags(name: str, values: Sequence[str]) -> tuple[str, ...]:
    """Tags, trimmed, without blanks and repeats."""
    tags = tuple(dict.fromkeys(tag for tag in (whole(name, value) for value in values) if tag))
    if len(tags) > TAGS_LIMIT:
        raise Refused(f"holds {len(tags)} tags; at most {TAGS_LIMIT} fit", name)
    if any(len(tag) > TAG_LIMIT for tag in tags):
        raise Refused(f"holds a tag of more than {TAG_LIMIT} characters", name)
    return tags


def as_project(name: str, value: str) -> str | None:
    """A project's name, or None where it is blank."""
    project = whole(name, value)
    if len(project) > PROJECT_LIMIT:
        raise Refused(f"has {len(project)} characters; at most {PROJECT_LIMIT} fit", name)
    return project or None


def as_metadata(name: str, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Metadata within the limits of ``remember``."""
    if len(values) > METADATA_KEYS_LIMIT:
        raise Refused(f"holds {len(values)} keys; at most {METADATA_KEYS_LIMIT} fit", name)
    checked: dict[str, Scalar] = {}
    for key, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise Refused("holds a number that is not finite", name)
        checked[whole(name, key)] = whole(name, value) if isinstance(value, str) else value
    if size_of(checked) > METADATA_BYTES_LIMIT:
        raise Refused(f"takes more than {METADATA_BYTES_LIMIT} bytes", name)
    return checked


def size_of(metadata: Mapping[str, Scalar]) -> int:
    """Bytes of the metadata as it is stored."""
    return len(json.dumps(metadata, ensure_ascii=False).encode("utf-8", "surrogatepass"))
