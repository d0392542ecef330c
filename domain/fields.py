"""The input boundary: what each field may hold (behaviour.md 1.3, settlement 3).

Every command is a frozen pydantic model that refuses unknown keys. `parse` turns pydantic's report into
`InvalidInput`, which names the field and the fix and never repeats what was given.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, TypeVar, cast
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from .errors import InvalidInput

MemoryType = Literal["decision", "commitment", "blocker", "fact", "preference", "pattern", "note", "event"]
Producer = Literal["user", "agent", "system"]
Trust = Literal["host", "user", "agent", "imported"]
Edge = Literal["supersedes", "updates"]
"""From a successor to the memory that it closes."""
LinkEdge = Literal["extends", "derives"]
"""From a newer memory to an older one that stays as it is."""
CommitmentStatus = Literal["open", "waiting", "resolved", "expired"]
Status = Literal["active", "superseded", "archived", "suppressed", "refuted", "quarantined", "expired", "erased"]

CONTENT_LIMIT = 2_000
COMMAND_KEY_LIMIT = 256
IMPORT_CONTENT_LIMIT = 262_144
METADATA_DEPTH = 32
TRUST_ORDER: tuple[Trust, ...] = ("imported", "agent", "user", "host")
"""From the least trusted to the most."""
_SCOPE = r"^[a-z0-9][a-z0-9-]*\z"
_DAY = "[+-]?[0-9]{0,2}(?:MO|TU|WE|TH|FR|SA|SU)"
_RECURRENCE = re.compile(
    "FREQ=(?:DAILY|WEEKLY|MONTHLY|YEARLY)(?:;(?:(?:INTERVAL|COUNT)=[0-9]{1,4}|UNTIL=[0-9]{8}(?:T[0-9]{6}Z)?"
    f"|(?:BYMONTHDAY|BYMONTH)=-?[0-9]{{1,2}}(?:,-?[0-9]{{1,2}})*|BYDAY={_DAY}(?:,{_DAY})*|WKST={_DAY}))*"
)
"""Nothing else fits, since it stands in clear."""


class Input(BaseModel):
    """Root of all commands and queries: frozen, strict about keys, quiet about values."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("holds a NUL character, which cannot be stored; remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is not text; send valid Unicode") from None
    return text


def _trimmed(value: Any) -> Any:
    return _storable(value.strip()) if isinstance(value, str) else value


def _instant(value: Any) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("is not an ISO 8601 instant such as 2026-03-01T09:00:00Z") from None
    if not isinstance(value, datetime):
        raise ValueError("must be an instant with a zone, such as 2026-03-01T09:00:00Z")
    if value.utcoffset() is None:
        raise ValueError("has no time zone; write 2026-03-01T09:00:00Z or add an offset such as +01:00")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the years 1 to 9999") from None


def _known_at(value: Any) -> datetime | int:
    if isinstance(value, str) and value.isascii() and value.strip().isdigit():
        value = _position(value.strip())
    if isinstance(value, bool) or not isinstance(value, int):
        try:
            return _instant(value)
        except ValueError as error:
            raise ValueError(f"{error}; or give a position of the log, such as 1200") from None
    if not 1 <= value < 2**63:
        raise ValueError("is not a position of the log; positions are counted from 1")
    return value


def _position(digits: str) -> int:
    if len(digits) == 8 and _is_date(digits):
        raise ValueError(
            "may be a date or a position of the log; write a date as 2026-03-01T00:00:00Z, and such a position "
            "with a zero in front"
        )
    # Longer ones are beyond every log, and Python refuses to read very long ones.
    return int(digits) if len(digits) < 40 else 2**63


def _is_date(digits: str) -> bool:
    try:
        date.fromisoformat(digits)
    except ValueError:
        return False
    return True


def _id(value: Any) -> UUID:
    if isinstance(value, UUID):
        return value
    if isinstance(value, str):
        try:
            return UUID(value)
        except ValueError:
            pass
    raise ValueError("is not an id; ids look like 0190a3b4-…, as every answer of Lethelog gives them")


def _person(name: str) -> str:
    return name.removeprefix("person:").strip() or name


def _recurrence(rule: str) -> str:
    if _RECURRENCE.fullmatch(rule) is None:
        raise ValueError("is no recurrence rule of RFC 5545; write one like FREQ=WEEKLY;BYDAY=MO")
    return rule


def _depth(value: Any, limit: int = 64) -> int:
    """How deep lists and objects are nested; counting stops at ``limit``."""
    inside: list[Any] = []
    if isinstance(value, Mapping):
        held = cast(Mapping[Any, Any], value)
        if not all(isinstance(key, str) for key in held):
            raise ValueError("holds a key that is no text; keys of inner objects must be text, too")
        inside = list(held.values())
    elif isinstance(value, list | tuple):
        inside = list(cast("list[Any]", value))
    if not inside or limit == 0:
        return 0
    return 1 + max(_depth(one, limit - 1) for one in inside)


def _metadata(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    given = cast(Mapping[Any, Any], value)
    if len(given) > 16:
        raise ValueError(f"has {len(given)} keys; at most 16 are allowed")
    for key in given:
        if not isinstance(key, str) or not key or len(key) > 64:
            raise ValueError("keys must be text of 1 to 64 characters")
    if _depth(given) > METADATA_DEPTH:
        raise ValueError(f"is nested more than {METADATA_DEPTH} levels deep; flatten it")
    try:
        written = json.dumps(given, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(
            "must hold plain JSON values: text, finite numbers, true, false, null, lists, objects"
        ) from None
    # A NUL is written as an escape, which a backslash that was itself escaped does not begin.
    _storable(written.replace("\\\\", "").replace("\\u0000", "\x00"))
    if len(written.encode()) > 4_096:
        raise ValueError(f"takes {len(written.encode())} bytes as JSON; at most 4096 are allowed")
    return json.loads(written)


Instant = Annotated[datetime, BeforeValidator(_instant)]
"""A moment with a zone, kept in UTC. Text must be ISO 8601 with an offset or Z; bare dates are refused (F15)."""
KnownAt = Annotated[datetime | int, BeforeValidator(_known_at)]
"""A moment of the record: an `Instant`, or a position of the log."""
Position = Annotated[int, Field(strict=True, ge=0)]
"""A position of the log; 0 stands before the first event."""
Id = Annotated[UUID, BeforeValidator(_id)]
Topic = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=256), BeforeValidator(_trimmed)]
Content = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=CONTENT_LIMIT), BeforeValidator(_trimmed)
]
ImportContent = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=IMPORT_CONTENT_LIMIT), BeforeValidator(_trimmed)
]
Scope = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=64, pattern=_SCOPE)]
Name = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=256), BeforeValidator(_trimmed)]
"""An outside name: project, user_id, agent_id, … It becomes an opaque id before any event is made."""
Owner = Annotated[Name, AfterValidator(_person)]
"""Somebody who is to do something, by name; ``person:ada``, as answers name actors, is the same as ``ada``."""
Tag = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=64), BeforeValidator(_trimmed)]
Tags = Annotated[tuple[Tag, ...], Field(max_length=32)]
Metadata = Annotated[dict[str, Any], BeforeValidator(_metadata)]
Reason = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=2_000), BeforeValidator(_trimmed)]
"""Free text about a memory; personal, so it is sealed wherever it is stored (F06)."""
Recurrence = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=200), AfterValidator(_recurrence)
]
"""How often something comes again: a recurrence rule of RFC 5545, such as ``FREQ=WEEKLY;BYDAY=MO``."""
CommandKey = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=COMMAND_KEY_LIMIT), AfterValidator(_storable)
]
"""A client's own id of a command; the same key with the same command gives the first result again."""

M = TypeVar("M", bound=BaseModel)


def parse(model: type[M], data: Mapping[str, Any]) -> M:
    """The command these arguments mean, or `InvalidInput` naming the first wrong field."""
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
        raise InvalidInput("input", "must be fields and their values")
    try:
        return model.model_validate(dict(data))
    except ValidationError as report:
        raise _invalid(report) from None


def _invalid(report: ValidationError) -> InvalidInput:
    first = report.errors(include_url=False, include_input=False)[0]
    path = ".".join(str(part)[:64] for part in first["loc"]) or "input"
    if first["type"] == "extra_forbidden":
        return InvalidInput(path, "unknown field", "Check the spelling; unknown fields are never ignored")
    if first["type"] == "missing":
        return InvalidInput(path, "is required")
    return InvalidInput(path, _problem(first["type"], first.get("ctx", {}), first["msg"]))


def _problem(kind: str, told: Mapping[str, Any], said: str) -> str:
    """What was wrong, in words that fit every door: pydantic's are about Python's types."""
    if kind == "value_error":
        return said.removeprefix("Value error, ")
    if told.get("pattern") == _SCOPE:
        return "should be of a-z, 0-9 and -, and begin with a letter or a digit"
    if kind in ("too_short", "too_long"):
        bound = f"at least {told['min_length']}" if kind == "too_short" else f"at most {told['max_length']}"
        return f"holds {told['actual_length']} items; {bound} are taken"
    return _PROBLEMS.get(kind, "is not of the form that is taken here").format_map(told)


_WHOLE, _LIST, _OBJECT = (
    "should be a whole number",
    "should be a list",
    "should be an object: fields and their values",
)
_PROBLEMS: Mapping[str, str] = {
    "string_type": "should be text",
    "string_too_short": "should have at least {min_length} characters",
    "string_too_long": "should have at most {max_length} characters",
    "string_pattern_mismatch": "should match {pattern}",
    "literal_error": "should be {expected}",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": "should be a number",
    "float_parsing": "should be a number",
    "finite_number": "should be a finite number",
    "greater_than": "should be greater than {gt}",
    "greater_than_equal": "should be at least {ge}",
    "less_than": "should be less than {lt}",
    "less_than_equal": "should be at most {le}",
    "tuple_type": _LIST,
    "list_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "uuid_type": "is not an id",
    "uuid_parsing": "is not an id",
}


def normalised(text: str) -> str:
    """Text as the duplicate rule compares it: NFKC, case folded, white space collapsed (settlement 4, F09)."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
