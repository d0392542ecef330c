"""Items of a key-value store as memories: what LangGraph's store stands on.

An item is a lineage of memories in the scope ``langgraph``. Its namespace is the project, so that a pass compares
what belongs together and an erasure can be of a namespace; its value is the text; its name, which tells it apart
from every other (`domain.apart`), is in the metadata. A put on a name that is there writes a successor, a delete
archives, and nothing of that is lost from the history.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast
from unicodedata import normalize
from uuid import UUID
from weakref import WeakValueDictionary

from ...domain.apart import ITEM, ItemName, item_name
from ...domain.errors import Conflict, InvalidInput, QuotaExceeded, Unavailable
from ...domain.memory import Memory
from ...projections.as_of import AsOf
from ...projections.filters import MemoryFilter
from ...projections.generations import tenant_read_models
from ...projections.live_memory import LiveMemory
from ...projections.progress import wait_for
from ...projections.rows import MemoryRow, projects_of
from ..access.caller import Caller
from ..claims import TextClaims
from ..engine import Engine
from ..memories import MemoryCommands
from . import item_filters, item_values
from .finding import check_query, check_window, each_row, ranked

SCOPE = "langgraph"
UNINDEXED = "not-indexed"
"""Tag of items that no query is to find."""
LONGEST_KEY = 1_024
LONGEST_NAMESPACE = 256
SPARE_LIFE = 0.1
"""By how much of it a life is prolonged beyond what was asked, so that reading does not write every time."""
_ATTEMPTS = 100
_KEEPS_CHANGING = "the item keeps changing while this is tried; try again"


@dataclass(frozen=True, slots=True)
class Item:
    """One item as it stands."""

    name: ItemName
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    memory_id: UUID
    lifetime: timedelta | None = None
    expires_at: datetime | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """What is put: ``texts`` title it; an item that is not ``indexed`` is found by no query."""

    name: ItemName
    value: Mapping[str, Any]
    texts: Sequence[str] = ()
    indexed: bool = True
    lifetime: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is searched for."""

    prefix: tuple[str, ...] = ()
    query: str | None = None
    filter: Mapping[str, Any] | None = None
    limit: int = 10
    offset: int = 0


class Items:
    """Items of one engine; every call is for one caller, whose tenant they are of."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._commands = MemoryCommands(engine)
        self._locks: WeakValueDictionary[tuple[UUID, ItemName], asyncio.Lock] = WeakValueDictionary()

    async def put(self, caller: Caller, put: Put) -> int:
        """Write an item, or the successor of the one that is there; gives the position.

        Raises `InvalidInput`, and `Conflict` where this value was refuted, under this name or on its own.
        """
        caller.require("memory:write")
        content = item_values.written(put.value)
        _check_name(put.name)
        # Those of one process come one after the other, since each of several at once would have to try again.
        lock = self._locks.setdefault((caller.tenant, put.name), asyncio.Lock())
        async with lock:
            return await self._put(caller, put, content)

    async def _put(self, caller: Caller, put: Put, content: str) -> int:
        last: Conflict | None = None
        for _ in range(_ATTEMPTS):
            present = await self._present(caller.tenant, put.name, content)
            try:
                position = await self._put_over(caller, put, content, present)
            except Conflict as refused:
                if "refuted_memory" in refused.details:
                    raise
                # Somebody was quicker: what is there now decides.
                last = refused
                continue
            if position is not None:
                return position
        raise last or Conflict(_KEEPS_CHANGING)

    async def delete(self, caller: Caller, name: ItemName) -> int:
        """Archive an item; nothing where there is none. Gives the position."""
        caller.require("memory:write")
        for _ in range(_ATTEMPTS):
            present = await self._present(caller.tenant, name)
            if present is None:
                return 0
            try:
                return (await self._commands.archive(caller, {"memory_id": present.id})).position
            except Conflict:
                # Somebody was quicker: what is there now is deleted.
                continue
        raise Conflict(_KEEPS_CHANGING)

    async def get(self, caller: Caller, name: ItemName) -> Item | None:
        """An item by its name, from the log itself: what was put a moment ago is there."""
        caller.require("memory:read")
        present = await self._present(caller.tenant, name)
        if present is None or not present.live or present.expired(self._engine.clock()):
            return None
        if present.project != await self._engine.directory.find(caller.tenant, "project", _project(name)):
            return None
        return _item(present.metadata, present.content or "", present, present.id)

    async def search(self, caller: Caller, wanted: Wanted, after: int) -> list[Item]:
        """Items under a prefix of namespaces: the best matches first, or the newest where nothing is asked.

        ``after`` is a position that the answer must include.
        """
        caller.require("memory:read")
        check_window(wanted.limit, wanted.offset)
        item_filters.check(wanted.filter)
        query = check_query(wanted.query) if wanted.query else ""
        if after:
            await wait_for(self._engine.doors, LiveMemory.name, after)
        matching = await self._matching(caller.tenant, wanted.prefix)
        if matching is None:
            return []
        end = wanted.offset + wanted.limit
        if not query:
            return (await self._listed(matching, wanted, end))[wanted.offset :]
        matching = replace(matching, without_tag=UNINDEXED)
        only: list[UUID] | None = None
        if wanted.filter:
            only = [one.memory_id for one in await self._listed(matching, wanted, None)]
        hits = await ranked(self._engine, query, matching, end, only)
        found = [(await self._of_row(caller.tenant, hit.row, wanted.prefix), hit.score) for hit in hits]
        return [replace(one, score=score) for one, score in found if one is not None][wanted.offset :]

    async def namespaces(
        self, caller: Caller, wanted: Callable[[tuple[str, ...]], bool], max_depth: int | None, after: int
    ) -> list[tuple[str, ...]]:
        """Namespaces that hold an item, cut to a depth, in order."""
        caller.require("memory:read")
        if after:
            await wait_for(self._engine.doors, LiveMemory.name, after)
        held = await self._namespaces(caller.tenant)
        return sorted({namespace[:max_depth] for namespace in held if wanted(namespace)})

    async def refresh(self, caller: Caller, item: Item) -> int:
        """Prolong the life of an item that was read; gives the position, 0 where nothing was written.

        It lives at least as long as it was put for, from now on, and is no other memory than before.
        """
        if item.lifetime is None or item.expires_at is None or "memory:write" not in caller.permissions:
            return 0
        now = self._engine.clock()
        if item.expires_at - now >= item.lifetime:
            return 0
        later = {"memory_id": item.memory_id, "expires_at": now + item.lifetime * (1 + SPARE_LIFE)}
        try:
            return (await self._commands.prolong(caller, later)).position
        except (Conflict, QuotaExceeded, Unavailable):
            # Somebody wrote or deleted it meanwhile, and that counts; and no read fails for what it would prolong.
            return 0

    async def _put_over(self, caller: Caller, put: Put, content: str, present: Memory | None) -> int | None:
        """The position of what was written over what is there; None where somebody was quicker."""
        now = self._engine.clock()
        if present is not None and present.quarantined:
            raise Conflict(
                "the item there is quarantined, since its value was refuted; a person has to release it",
                memory_id=present.id,
                refuted_memory=present.id,
            )
        fields: dict[str, Any] = {
            "content": content,
            "topic": item_values.topic(put.value, put.texts, put.name.key),
            "project": _project(put.name),
            "scope": SCOPE,
            "tags": () if put.indexed else (UNINDEXED,),
            "expires_at": None if put.lifetime is None else now + put.lifetime,
        }
        if present is None or present.expired(now):
            fields["metadata"] = _metadata(put.name, put.lifetime)
            written = await self._commands.remember_apart(caller, fields)
            return None if written.deduplicated else written.position
        since = _created_at(present.metadata) or present.recorded_at
        fields |= {
            "memory_id": present.id,
            "metadata": _metadata(put.name, put.lifetime, since),
            "expected_version": present.state_version,
        }
        return (await self._commands.revise_apart(caller, fields)).position

    async def _present(self, tenant: UUID, name: ItemName, content: str | None = None) -> Memory | None:
        """The memory that holds a name now, whatever its state. Refuses a text that was refuted."""
        texts = await TextClaims.of(self._engine.log, self._engine.vault, tenant)
        holders = await texts.holders(SCOPE, content or "", name.apart)
        if content is not None and holders.refuted is not None:
            raise Conflict(
                "this value was refuted as never true, or erased for good; put another one, or remember this text "
                "on its own and have a person release it",
                refuted_memory=holders.refuted,
            )
        if holders.content is None:
            return None
        found = (await self._commands.load_many(tenant, [holders.content])).get(holders.content)
        return None if found is None or found.erased else found

    async def _matching(self, tenant: UUID, prefix: tuple[str, ...]) -> MemoryFilter | None:
        """The filter for items under a prefix; None where there is no such namespace.

        Label by label, so that ``("a",)`` is no prefix of ``("ab",)`` (F37).
        """
        matching = MemoryFilter(tenant, AsOf(self._engine.clock()), status="active", scope=SCOPE)
        if not prefix:
            return matching
        held = await self._namespaces(tenant)
        wanted = _filed(prefix)
        under = tuple(one for namespace, one in held.items() if namespace[: len(wanted)] == wanted)
        return replace(matching, projects=under) if under else None

    async def _namespaces(self, tenant: UUID) -> dict[tuple[str, ...], UUID]:
        matching = MemoryFilter(tenant, AsOf(self._engine.clock()), status="active", scope=SCOPE)
        async with tenant_read_models(self._engine.doors, tenant) as connection:
            ids = await projects_of(connection, matching)
        names = await self._engine.directory.names(tenant, ids)
        return {tuple(name.split(".")): one for one, name in names.items()}

    async def _listed(self, matching: MemoryFilter, wanted: Wanted, end: int | None) -> list[Item]:
        """Items that the filter keeps, newest first, up to an end."""
        found: list[Item] = []
        if end == 0:
            return found
        async with aclosing(each_row(self._engine, matching)) as rows:
            async for row in rows:
                one = await self._of_row(matching.tenant, row, wanted.prefix)
                if one is not None and item_filters.keeps(wanted.filter, one.value):
                    found.append(one)
                    if len(found) == end:
                        break
        return found

    async def _of_row(self, tenant: UUID, row: MemoryRow, prefix: tuple[str, ...]) -> Item | None:
        """The item that a row is; None for what somebody else filed in the scope, or moved elsewhere.

        Two namespaces may have one project; which one the item is in, it says itself.
        """
        found = _item(row.metadata, row.content, row, row.memory_id)
        if found is None or row.project is None or found.name.namespace[: len(prefix)] != prefix:
            return None
        names = await self._engine.directory.names(tenant, [row.project])
        return found if names.get(row.project) == _project(found.name) else None


async def refreshed(items: Items, caller: Caller, found: Sequence[Item]) -> int:
    """Prolong the lives of what was read; gives the last position."""
    return max(await asyncio.gather(*(items.refresh(caller, one) for one in found)), default=0)


def _check_name(name: ItemName) -> None:
    if not all(label.strip() for label in name.namespace):
        raise InvalidInput("namespace", "has a label of white space alone")
    project = _project(name)
    if len(project) > LONGEST_NAMESPACE:
        raise InvalidInput(
            "namespace", f"its labels have {len(project)} characters in all; at most {LONGEST_NAMESPACE} are kept"
        )
    if len(name.key) > LONGEST_KEY:
        raise InvalidInput("key", f"has {len(name.key)} characters; at most {LONGEST_KEY} are kept")
    for field, text in (("namespace", project), ("key", name.key)):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInput(field, "holds half of a surrogate pair, which is not text") from None
        if "\x00" in text:
            raise InvalidInput(field, "holds a NUL character, which cannot be stored; remove it")


def _project(name: ItemName) -> str:
    # No label holds a full stop, so two namespaces have one name only where their labels are filed alike.
    return ".".join(_filed(name.namespace))


def _filed(namespace: tuple[str, ...]) -> tuple[str, ...]:
    """The labels as the names of projects are kept: composed, and without white space around them."""
    return tuple(normalize("NFC", label).strip() for label in namespace)


def _metadata(name: ItemName, lifetime: timedelta | None, created_at: datetime | None = None) -> dict[str, Any]:
    said: dict[str, Any] = {"namespace": list(name.namespace), "key": name.key}
    if lifetime is not None:
        said["ttl_minutes"] = lifetime.total_seconds() / 60
    if created_at is not None:
        said["created_at"] = created_at.isoformat()
    return {ITEM: said}


def _item(metadata: Mapping[str, Any] | None, content: str, state: Memory | MemoryRow, one: UUID) -> Item | None:
    name = item_name(metadata)
    if name is None:
        return None
    assert metadata is not None
    minutes = cast("Mapping[str, Any]", metadata[ITEM]).get("ttl_minutes")
    return Item(
        name=name,
        value=item_values.read(content),
        created_at=_created_at(metadata) or state.recorded_at,
        updated_at=state.recorded_at,
        memory_id=one,
        lifetime=None if minutes is None else timedelta(minutes=minutes),
        expires_at=state.expires_at,
    )


def _created_at(metadata: Mapping[str, Any] | None) -> datetime | None:
    said = (metadata or {}).get(ITEM, {}).get("created_at")
    return None if said is None else datetime.fromisoformat(said)
