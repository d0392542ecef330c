"""Memories in the shape of mem0: one, a list, a search, and what happened to one.

A memory is known by the id of the first of its lineage, so that it stays the same through every update.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast
from uuid import UUID

from ...domain.apart import KEPT, RESERVED
from ...domain.errors import NotFound
from ...domain.fields import parse
from ...projections.as_of import AsOf
from ...projections.filters import MemoryFilter, StatusFilter
from ...projections.generations import tenant_read_models
from ...projections.lineages import Beginning, read_beginnings, read_lineage
from ...projections.live_memory import LiveMemory
from ...projections.rows import MemoryRow, list_rows
from ...projections.search import Hit
from ..access.caller import Caller
from ..as_of import Timed, look_from
from ..engine import Engine
from ..operating.views import HistoryEntry
from ..reading import Reading
from . import mem0_arguments as given
from . import mem0_filters
from .finding import each_row, ranked

_PROMOTED = ("actor_id", "role", "attributed_to", "expiration_date")
"""What stands beside the text and not in the metadata, where it is there."""
_COLUMNS = {"user_id": "user_ref", "agent_id": "agent_ref", "run_id": "run_ref"}
_ENDED = frozenset({"memory.archived", "memory.suppressed", "memory.refuted", "memory.quarantined"})
_BACK = frozenset({"memory.restored", "memory.released"})


class Mem0Reading:
    """Reads for one caller at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reading = Reading(engine)

    async def get(self, caller: Caller, memory_id: object, times: Mapping[str, Any]) -> dict[str, Any] | None:
        """A live memory; None where there is none, or it was deleted."""
        caller.require("memory:read")
        as_of = await self._look(caller, times)
        line = await self.line(caller.tenant, memory_id, as_of)
        if not line or not _is_live(line[-1]) or line[-1].status(as_of.now) == "expired":
            return None
        beginning = Beginning(line[0].memory_id, line[0].occurred_at)
        return {**await self._shown(caller.tenant, line[-1], beginning), "score": None}

    async def get_all(
        self, caller: Caller, wanted: Mapping[str, Any], limit: int, status: StatusFilter, times: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The newest memories that a filter keeps, and how many it keeps in all."""
        caller.require("memory:read")
        mem0_filters.check(wanted)
        as_of = await self._look(caller, times)
        matching = await self._matching(caller.tenant, wanted, status, as_of)
        rows, total = ([], 0) if matching is None else await self._newest(matching, wanted, limit)
        beginnings = await self._beginnings(caller.tenant, rows)
        results = [await self._shown(caller.tenant, row, beginnings[row.memory_id]) for row in rows]
        return {"results": results, "total": total}

    async def search(
        self,
        caller: Caller,
        query: object,
        wanted: Mapping[str, Any],
        limit: int,
        least: float,
        status: StatusFilter,
        times: Mapping[str, Any],
    ) -> list[tuple[dict[str, Any], Hit]]:
        """The best matches that a filter keeps, down to the least score."""
        caller.require("memory:read")
        mem0_filters.check(wanted)
        words = given.query(query)
        as_of = await self._look(caller, times)
        matching = await self._matching(caller.tenant, wanted, status, as_of)
        if matching is None:
            return []
        only: Sequence[UUID] | None = None
        if _beside_owners(wanted):
            only = [row.memory_id for row in await self._kept(matching, wanted)]
        hits = [hit for hit in await ranked(self._engine, words, matching, limit, only) if hit.score >= least]
        beginnings = await self._beginnings(caller.tenant, [hit.row for hit in hits])
        return [
            ({**await self._shown(caller.tenant, hit.row, beginnings[hit.row.memory_id]), "score": hit.score}, hit)
            for hit in hits
        ]

    async def history(self, caller: Caller, memory_id: object, times: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What happened to a memory, oldest first; empty for an id that none has."""
        caller.require("memory:read")
        one = given.as_id(memory_id)
        if one is None:
            return []
        as_of = await self._look(caller, times)
        line = await self.line(caller.tenant, one, as_of)
        rows: dict[UUID, MemoryRow | None] = {row.memory_id: row for row in line}
        found: list[dict[str, Any]] = []
        # Of an erased one there is no row, and its history tells times and kinds.
        for number, (part, row) in enumerate((rows or {one: None}).items()):
            try:
                told = await self._reading.history(caller, {**times, "memory_id": part})
            except NotFound:
                return []
            said: Mapping[str, Any] = {} if row is None else _kept(row)
            for entry in told.entries:
                kind = _kind(entry, rows, first=number == 0)
                if kind is None:
                    continue
                found.append(
                    {
                        "id": str(entry.event_id),
                        "memory_id": str(line[0].memory_id if line else one),
                        "old_memory": None if kind == "ADD" else _before(entry, line, number),
                        "new_memory": None if kind == "DELETE" else entry.new,
                        "event": kind,
                        "created_at": (line[0].occurred_at if line else told.entries[0].recorded_at).isoformat(),
                        "updated_at": entry.recorded_at.isoformat(),
                        "is_deleted": kind == "DELETE",
                        "actor_id": said.get("actor_id"),
                        "role": said.get("role"),
                        "event_id": str(entry.event_id),
                        "position": entry.position,
                        "type": entry.event,
                        "cause": str(entry.cause),
                        "reason": entry.detail.get("reason"),
                        "proposal_id": entry.detail.get("proposal"),
                        "policy_version": entry.policy,
                        "judge_model": entry.judge,
                    }
                )
        return sorted(found, key=lambda row: row["position"])

    async def line(self, tenant: UUID, memory_id: object, as_of: AsOf) -> list[MemoryRow]:
        """The lineage that an id is of, oldest first; empty where there is none."""
        one = given.as_id(memory_id)
        if one is None:
            return []
        async with tenant_read_models(self._engine.doors, tenant) as connection:
            return await read_lineage(connection, tenant, one, as_of)

    async def live(self, caller: Caller, wanted: Mapping[str, Any] | None, after: int) -> list[MemoryRow]:
        """Every memory of these owners that has not ended; without any, all that came through this facade."""
        as_of = await self._look(caller, {"after": after})
        if wanted is None:
            matching: MemoryFilter | None = MemoryFilter(caller.tenant, as_of, status="live")
        else:
            matching = await self._matching(caller.tenant, wanted, "live", as_of)
        rows = [] if matching is None else await self._kept(matching, {})
        return rows if wanted is not None else [row for row in rows if _came_through(row)]

    async def _look(self, caller: Caller, times: Mapping[str, Any]) -> AsOf:
        return await look_from(self._engine, caller.tenant, parse(Timed, times), LiveMemory.name)

    async def _matching(
        self,
        tenant: UUID,
        wanted: Mapping[str, Any],
        status: StatusFilter,
        as_of: AsOf,
    ) -> MemoryFilter | None:
        """Conditions of SQL; None where a name was never used and nothing can match.

        In every scope: nobody can name one here, so what the tenant's retrieval policy leaves out could not be
        asked for, nor be seen to stay when all is deleted.
        """
        references: dict[str, UUID] = {}
        for name, kind in (("user_id", "user"), ("agent_id", "agent"), ("run_id", "run")):
            said = wanted.get(name)
            if said is None:
                continue
            known = await self._engine.directory.find(tenant, cast("Any", kind), said)
            if known is None:
                return None
            references[_COLUMNS[name]] = known
        return MemoryFilter(tenant, as_of, status=status, references=references)

    async def _newest(
        self, matching: MemoryFilter, wanted: Mapping[str, Any], limit: int
    ) -> tuple[list[MemoryRow], int]:
        """The first of what a filter keeps, and how many it keeps in all; read whole only where SQL cannot ask."""
        if _beside_owners(wanted):
            kept = await self._kept(matching, wanted)
            return kept[:limit], len(kept)
        async with tenant_read_models(self._engine.doors, matching.tenant) as connection:
            return await list_rows(connection, matching, limit, None)

    async def _kept(self, matching: MemoryFilter, wanted: Mapping[str, Any]) -> list[MemoryRow]:
        """Rows that the whole filter keeps, newest first."""
        rest = _beside_owners(wanted)
        found: list[MemoryRow] = []
        async with aclosing(each_row(self._engine, matching)) as rows:
            async for row in rows:
                if not rest or mem0_filters.keeps(rest, await self._payload(matching.tenant, row)):
                    found.append(row)
        return found

    async def _payload(self, tenant: UUID, row: MemoryRow) -> dict[str, Any]:
        """The fields by which a filter of mem0 may ask."""
        beginning = (await self._beginnings(tenant, [row]))[row.memory_id]
        return {
            **(row.metadata or {}),
            **_promoted(row),
            **await self._owners(tenant, row),
            "data": row.content,
            "memory": row.content,
            "created_at": beginning.at.isoformat(),
            "updated_at": row.occurred_at.isoformat(),
        }

    async def _owners(self, tenant: UUID, row: MemoryRow) -> dict[str, str]:
        ids = {name: cast("UUID | None", getattr(row, column)) for name, column in _COLUMNS.items()}
        names = await self._engine.directory.names(tenant, ids.values())
        return {name: names[one] for name, one in ids.items() if one is not None and one in names}

    async def _beginnings(self, tenant: UUID, rows: Sequence[MemoryRow]) -> dict[UUID, Beginning]:
        found = {row.memory_id: Beginning(row.memory_id, row.occurred_at) for row in rows}
        revised = [row.memory_id for row in rows if row.predecessor is not None]
        if revised:
            async with tenant_read_models(self._engine.doors, tenant) as connection:
                found |= await read_beginnings(connection, tenant, revised)
        return found

    async def _shown(self, tenant: UUID, row: MemoryRow, beginning: Beginning) -> dict[str, Any]:
        return {
            "id": str(beginning.memory_id),
            "memory": row.content,
            "hash": hashlib.md5(row.content.encode(), usedforsecurity=False).hexdigest(),
            "metadata": metadata_of(row) or None,
            "created_at": beginning.at.isoformat(),
            "updated_at": row.occurred_at.isoformat(),
            **await self._owners(tenant, row),
            **_promoted(row),
            "content": row.content,
        }


def metadata_of(row: MemoryRow) -> dict[str, Any]:
    """The metadata as it was given."""
    return {name: value for name, value in (row.metadata or {}).items() if name not in {*RESERVED, *_PROMOTED}}


def kept_of(row: MemoryRow) -> dict[str, Any]:
    """What the facade itself keeps of a memory."""
    return {name: value for name, value in _kept(row).items() if name in _PROMOTED}


def is_live(row: MemoryRow) -> bool:
    """Whether a memory has not ended in any way."""
    return _is_live(row)


def unexpired(show_expired: bool) -> StatusFilter:
    """The status that a read asks for."""
    return "live" if show_expired else "active"


def _is_live(row: MemoryRow) -> bool:
    ended = row.archived or row.suppressed or row.refuted or row.quarantined
    return not ended and row.successor is None


def _beside_owners(wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in wanted.items() if name not in given.OWNERS}


def _came_through(row: MemoryRow) -> bool:
    return KEPT in (row.metadata or {})


def _kept(row: MemoryRow) -> Mapping[str, Any]:
    said = row.metadata or {}
    kept = said.get(KEPT)
    # What was imported from mem0 has them beside its own metadata.
    return cast("Mapping[str, Any]", kept) if isinstance(kept, Mapping) else said


def _promoted(row: MemoryRow) -> dict[str, Any]:
    kept = _kept(row)
    return {name: kept[name] for name in _PROMOTED if name in kept}


def _kind(entry: HistoryEntry, line: Mapping[UUID, object], *, first: bool) -> str | None:
    """mem0's word for an event; None for what changes neither the text nor whether it is there."""
    if entry.event == "memory.remembered":
        return "ADD" if first else "UPDATE"
    if entry.event in _ENDED:
        return "DELETE"
    if entry.event in _BACK:
        return "ADD"
    if entry.event == "memory.superseded":
        successor = given.as_id(entry.detail.get("successor"))
        if all(row is None for row in line.values()):
            return "UPDATE"
        return None if successor in line else "DELETE"
    if entry.event == "memory.effect_undone" and entry.detail.get("undone") in (
        "memory.archived",
        "memory.superseded",
    ):
        return "DELETE" if entry.detail.get("again") else "ADD"
    return None


def _before(entry: HistoryEntry, line: Sequence[MemoryRow], number: int) -> str | None:
    """The text before an event."""
    if entry.event != "memory.remembered":
        return entry.old
    return line[number - 1].content if number else None
