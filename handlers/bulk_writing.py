"""Many writes in one call: each by the ordinary rules and with its own result; none holds up another."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast
from uuid import UUID

from ..domain.errors import InvalidInput, LethelogError
from ..domain.fields import COMMAND_KEY_LIMIT
from .command_keys import checked_key
from .operating.views import View, Written

MOST = 100
"""Writes of one call."""
AT_ONCE = 16
"""So many are under way together, and share commits."""
_LOG = logging.getLogger(__name__)


class WrittenItem(View):
    """What became of one write."""

    status: Literal["written", "deduplicated", "unchanged", "refused", "failed"]
    memory_id: UUID | None = None
    version: int | None = None
    position: int | None = None
    error: dict[str, Any] | None = None
    """Code, message and field, where it was refused; ``failed`` is what nobody expected, and tells no more."""


class ManyWritten(View):
    """The results in the order of what was given."""

    items: tuple[WrittenItem, ...]
    counts: dict[str, int]
    position: int | None
    """The newest of theirs, which reads can wait for; None where all were refused."""


async def write_many(writes: Iterable[Callable[[], Awaitable[Written]]]) -> ManyWritten:
    """Do all, and tell of each."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(write: Callable[[], Awaitable[Written]]) -> WrittenItem:
        async with gate:
            try:
                return _written(await write())
            except LethelogError as error:
                return WrittenItem(status="refused", error=error.as_dict())
            except Exception as error:
                return WrittenItem(status="failed", error=accident(error).as_dict())

    items = tuple(await asyncio.gather(*(one(write) for write in writes)))
    counts: dict[str, int] = {}
    for item in items:
        counts[item.status] = counts.get(item.status, 0) + 1
    reached = max((item.position for item in items if item.position is not None), default=None)
    return ManyWritten(items=items, counts=counts, position=reached)


def checked_items(field: str, items: object) -> "list[Any]":
    """The list that was given. Raises `InvalidInput` for none, an empty one and one that is too long."""
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Sequence):
        raise InvalidInput(field, "must be a list")
    found = list(cast("Sequence[Any]", items))
    if not 1 <= len(found) <= MOST:
        raise InvalidInput(field, f"holds {len(found)} items; 1 to {MOST} are taken at a time")
    return found


def item_keys(key: str | None, count: int) -> list[str | None]:
    """The keys of so many writes: the same call again gives the same results. Raises `InvalidInput` for no key."""
    key = checked_key(key)
    if key is None:
        return [None] * count
    if len(key) + len(f"#{MOST}") > COMMAND_KEY_LIMIT:
        key = hashlib.sha256(key.encode()).hexdigest()
    return [f"{key}#{number}" for number in range(count)]


def accident(error: Exception) -> LethelogError:
    """What nobody expected of one item of many, for its result. Its text may hold content; its kind is logged."""
    _LOG.error("one item of many met an unforeseen %s", type(error).__name__)
    return LethelogError("something failed here that is not the request's fault")


def _written(written: Written) -> WrittenItem:
    if written.deduplicated:
        status: Literal["written", "deduplicated", "unchanged"] = "deduplicated"
    else:
        status = "written" if written.changed else "unchanged"
    return WrittenItem(
        status=status,
        memory_id=written.memory.id,
        version=written.memory.version,
        position=written.position,
    )
