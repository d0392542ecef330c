"""What callers give to the facade of mem0, checked as mem0 checks it, and the errors that say so."""

import logging
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, cast
from uuid import UUID

from ...domain.apart import RESERVED
from ...domain.errors import InvalidInput, NotFound
from .finding import MOST_FOUND, check_query

OWNERS = ("user_id", "agent_id", "run_id")
_IDENTITY = frozenset({*OWNERS, "actor_id"})
"""What says whose a memory is, and is never taken from metadata."""
UNSET: Any = object()

logger = logging.getLogger(__name__)


class RefusedInput(InvalidInput, ValueError):
    """An argument breaks a rule; a ``ValueError``, since that is what programs of mem0 catch."""


class UnknownMemory(NotFound, ValueError):
    """There is no such memory, or it was deleted; a ``ValueError`` as with mem0."""


def unknown(memory_id: object) -> UnknownMemory:
    """The error for an id that no live memory has."""
    one = as_id(memory_id)
    return UnknownMemory("there is no memory of this id, or it was deleted", memory_id=one)


def as_id(given: object) -> UUID | None:
    """The id that was given; None for what is none."""
    if isinstance(given, UUID):
        return given
    try:
        return UUID(given) if isinstance(given, str) else None
    except ValueError:
        return None


def owner(value: object, name: str) -> str | None:
    """An id of a user, agent or run: text without white space inside; numbers are taken as text."""
    if value is None:
        return None
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise RefusedInput(name, "must be one id, as text", "Read for one at a time")
    said = str(value).strip()
    if not said:
        raise RefusedInput(name, "is empty", "Give an id, or leave it out")
    if any(letter.isspace() for letter in said):
        raise RefusedInput(name, "holds white space", "Give an id without it")
    return said


def owners(given: Mapping[str, object]) -> dict[str, str]:
    """Those of user, agent and run that are given."""
    found = {name: owner(given.get(name), name) for name in OWNERS}
    return {name: said for name, said in found.items() if said is not None}


def filters(given: object, method: str, others: Mapping[str, object]) -> dict[str, Any]:
    """The filter of a read, which names a user, an agent or a run. ``others`` are arguments that do not belong."""
    for name in others:
        if name in OWNERS:
            raise RefusedInput(name, f"is no argument of {method}", f"Use filters={{'{name}': …}}")
        raise RefusedInput(name, f"is no argument of {method}")
    if given is not None and not isinstance(given, Mapping):
        raise RefusedInput("filters", "must be a dict")
    wanted = dict(cast("Mapping[str, Any]", given or {}))
    wanted |= owners(wanted)
    if not any(wanted.get(name) for name in OWNERS):
        raise RefusedInput("filters", "names no user_id, agent_id or run_id", "Give e.g. {'user_id': 'ada'}")
    return wanted


def query(said: object) -> str:
    """The words of a search."""
    if not isinstance(said, str) or not said.strip():
        raise RefusedInput("query", "must be text, and not empty")
    try:
        return check_query(said)
    except InvalidInput as refused:
        raise RefusedInput(refused.field, refused.problem) from None


def top_k(value: object) -> int:
    """How many results are wanted."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_FOUND:
        raise RefusedInput("top_k", f"must be a whole number from 0 to {MOST_FOUND}")
    return value


def threshold(value: object) -> float:
    """The least score of a result."""
    if value is None:
        return 0.1
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise RefusedInput("threshold", "must be a number from 0 to 1")
    return float(value)


def expiration(value: object) -> str | None:
    """The last day on which a memory is shown, as ``YYYY-MM-DD``."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    try:
        return date.fromisoformat(cast("str", value)).isoformat()
    except (ValueError, TypeError):
        raise RefusedInput("expiration_date", "is no date", "Write it as YYYY-MM-DD") from None


def expires_at(day: str | None) -> datetime | None:
    """When a memory expires that is shown through that day, which ends in UTC."""
    if day is None:
        return None
    try:
        return datetime.combine(date.fromisoformat(day) + timedelta(days=1), time(), UTC)
    except OverflowError:
        raise RefusedInput("expiration_date", "lies outside the years 1 to 9999") from None


def metadata(given: object) -> dict[str, Any]:
    """The metadata of a memory, without what only arguments may say."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise RefusedInput("metadata", "must be a dict")
    said = dict(cast("Mapping[str, Any]", given))
    for name in sorted(RESERVED & said.keys()):
        raise RefusedInput(f"metadata.{name}", "is a name of the engine's own", "Choose another one")
    for name in sorted(_IDENTITY & said.keys()):
        logger.warning("metadata names %s, which only the argument of that name sets; it is left out", name)
        del said[name]
    return said


def messages(given: object) -> list[Mapping[str, Any]]:
    """The messages of a conversation: text, one message, or a list of them."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if isinstance(given, Mapping):
        return [cast("Mapping[str, Any]", given)]
    if not isinstance(given, list):
        raise RefusedInput("messages", "must be text, a message, or a list of messages")
    found: list[Mapping[str, Any]] = []
    for one in cast("list[Any]", given):
        said: Mapping[str, Any] = cast("Mapping[str, Any]", one) if isinstance(one, Mapping) else {}
        role, content = said.get("role"), said.get("content")
        if role is None or content is None:
            logger.warning("a message without role or content is left out")
        elif not isinstance(role, str) or not isinstance(content, str):
            raise RefusedInput("messages", "holds a message whose role or content is no text")
        else:
            found.append(said)
    return found
