"""Reads: search, get, list, history. All go through one filter and one retrievable predicate."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import BeforeValidator, Field, StringConstraints, field_validator

from ..domain.errors import Erased, InvalidInput, NotFound
from ..domain.event import Event, event_class
from ..domain.fields import Id, Instant, MemoryType, Name, Scope, Tags, parse
from ..domain.memory import evolve
from ..projections.as_of import AsOf
from ..projections.contradictions import OpenPair
from ..projections.filters import MemoryFilter
from ..projections.generations import tenant_read_models
from ..projections.live_memory import LiveMemory
from ..projections.memory_history import MemoryHistory
from ..projections.parked import refuse_parked
from ..projections.progress import wait_for
from ..projections.rows import list_rows, read_rows
from ..projections.search import Hit, Search
from ..streams.database import Connection
from ..streams.directory import NameKind
from ..streams.folding import fold_stream
from .access.caller import Caller
from .as_of import Timed, echoed, in_words, look_from
from .choices import StatusChoice
from .contradictions.refusing import presented, refused_pairs, sides_of
from .cursors import make_cursor, read_cursor
from .engine import Engine
from .kinds import refuse_filter, refuse_other_kind
from .operating.views import History, HistoryEntry, MemoryPage, MemoryView, RefusedPair, SearchHit, SearchResult
from .present import present_rows
from .tenancy.scopes import applied_scope

Query = Annotated[
    str,
    StringConstraints(strict=True, min_length=1, max_length=2_000),
    BeforeValidator(lambda value: value.strip() if isinstance(value, str) else value),
]
_REFERENCES: Mapping[str, tuple[str, NameKind]] = {
    "project": ("project", "project"),
    "user_id": ("user_ref", "user"),
    "agent_id": ("agent_ref", "agent"),
    "run_id": ("run_ref", "run"),
    "session_id": ("session_ref", "session"),
    "subject": ("subject_ref", "subject"),
}


class _Narrowed(Timed):
    memory_types: tuple[MemoryType, ...] = Field(default=(), max_length=8)
    scope: Scope | None = None
    project: Name | None = None
    no_project: bool = False
    user_id: Name | None = None
    agent_id: Name | None = None
    run_id: Name | None = None
    session_id: Name | None = None
    subject: Name | None = None
    tags: Tags = ()
    status: StatusChoice = "retrievable"
    current: bool = False
    """Only memories that are neither superseded nor past their own end."""
    recorded_after: Instant | None = None
    recorded_before: Instant | None = None
    session_run_id: Id | None = None
    """Only what was written or changed in this session run."""


N = TypeVar("N", bound=_Narrowed)


class SearchQuery(_Narrowed):
    """What to search for. ``limit`` 1 to 25."""

    query: Query
    limit: int = Field(default=5, ge=1, le=25)


class ListQuery(_Narrowed):
    """What to list, newest first. ``limit`` 1 to 100."""

    limit: int = Field(default=25, ge=1, le=100)
    cursor: str | None = Field(default=None, max_length=400, strict=True)


class GetQuery(Timed):
    """Which memories to get, at most 20."""

    ids: tuple[Id, ...] = Field(min_length=1, max_length=20)


class HistoryQuery(Timed):
    """Whose history to read."""

    memory_id: Id

    @field_validator("valid_at", mode="before")
    @classmethod
    def _is_no_time_of_a_history(cls, given: object) -> None:
        if given is not None:
            raise ValueError("is no time of a history, which tells what was recorded when; use known_at")


class Reading:
    """Reads for one caller's tenant, from the current read models or from copies in the schema ``scratch``."""

    def __init__(self, engine: Engine, *, scratch: str | None = None) -> None:
        self._engine = engine
        self._scratch = scratch
        self._search = engine.search if scratch is None else Search(engine.doors, engine.embedder, scratch=scratch)

    async def search(self, caller: Caller, arguments: Mapping[str, Any]) -> SearchResult:
        """The best matches, score descending; superseded ones last and flagged (settlement 15)."""
        caller.require("memory:read")
        query = await self._scoped(caller, parse(SearchQuery, arguments))
        _check_text("query", query.query)
        as_of = await look_from(self._engine, caller.tenant, query, LiveMemory.name)
        matching = await self._filter(caller, query, as_of)
        if matching is None:
            return SearchResult(hits=(), count=0, applied_scope=query.scope, as_of=echoed(as_of))
        hits, refused = await self._answered(caller.tenant, query, matching)
        if not hits:
            await self._check_filter(caller, query)
        views = await present_rows(self._engine, caller.tenant, [hit.row for hit in hits], as_of.now)
        return SearchResult(
            hits=tuple(
                SearchHit(
                    memory=view,
                    score=hit.score,
                    legs={"text": hit.legs.text, "vector": hit.legs.vector, "topic": hit.legs.topic},
                    superseded=hit.row.successor is not None,
                )
                for hit, view in zip(hits, views, strict=True)
            ),
            count=len(hits),
            refused=refused,
            applied_scope=query.scope,
            as_of=echoed(as_of),
        )

    async def _answered(
        self, tenant: UUID, query: SearchQuery, matching: MemoryFilter
    ) -> tuple[Sequence[Hit], tuple[RefusedPair, ...]]:
        """The best matches, and the pairs that are refused instead of others."""
        hits = await self._search.search(query.query, matching, query.limit)
        pairs: Sequence[OpenPair] = ()
        if self._scratch is None:
            pairs = await refused_pairs(self._engine, tenant, matching.as_of, query.after)
        without: set[UUID] = set()
        # What comes in the place of a refused one may be refused as well.
        while sides := sides_of(pairs, {hit.row.memory_id for hit in hits}):
            without.update(sides)
            narrowed = replace(matching, without=tuple(without))
            hits = await self._search.search(query.query, narrowed, query.limit)
        return hits, await presented(self._engine, tenant, pairs, without)

    async def list(self, caller: Caller, arguments: Mapping[str, Any]) -> MemoryPage:
        """A page of memories, newest first by when they were said, with the exact total."""
        caller.require("memory:read")
        query = await self._scoped(caller, parse(ListQuery, arguments))
        as_of = await look_from(self._engine, caller.tenant, query, LiveMemory.name)
        matching = await self._filter(caller, query, as_of)
        if matching is None:
            return MemoryPage(memories=(), total=0, applied_scope=query.scope, as_of=echoed(as_of))
        asked = query.model_dump(exclude={"cursor", "limit", "after"})
        beyond = read_cursor(query.cursor, asked) if query.cursor is not None else None
        async with self._read_models(caller.tenant) as connection:
            rows, total = await list_rows(connection, matching, query.limit + 1, beyond)
        if not total:
            await self._check_filter(caller, query)
        page = rows[: query.limit]
        views = await present_rows(self._engine, caller.tenant, page, as_of.now)
        more = len(rows) > query.limit
        return MemoryPage(
            memories=tuple(views),
            total=total,
            next_cursor=make_cursor(asked, page[-1].occurred_at, page[-1].memory_id) if more else None,
            applied_scope=query.scope,
            as_of=echoed(as_of),
        )

    async def get(self, caller: Caller, arguments: Mapping[str, Any]) -> tuple[MemoryView, ...]:
        """Memories of any status by id, in the order asked.

        Raises `NotFound` naming the first id that is unknown (or another tenant's: they answer alike), and
        `WrongKind` for the id of something else.
        """
        caller.require("memory:read")
        query = parse(GetQuery, arguments)
        as_of = await look_from(self._engine, caller.tenant, query, LiveMemory.name)
        async with self._read_models(caller.tenant) as connection:
            rows = await read_rows(connection, caller.tenant, query.ids, as_of)
        await self.refuse_missing(caller.tenant, [one for one in query.ids if one not in rows], as_of)
        views = await present_rows(self._engine, caller.tenant, [rows[one] for one in query.ids], as_of.now)
        times = echoed(as_of)
        return tuple(views) if times is None else tuple(one.model_copy(update={"as_of": times}) for one in views)

    async def history(self, caller: Caller, arguments: Mapping[str, Any]) -> History:
        """Everything that happened to a memory, in order, with actors and causes."""
        caller.require("memory:read")
        query = parse(HistoryQuery, arguments)
        as_of = await look_from(self._engine, caller.tenant, query, MemoryHistory.name)
        async with self._read_models(caller.tenant) as connection:
            cursor = await connection.execute(
                "select position, name, event_id, recorded_at, actor_kind, actor_ref, cause, correlation, policy, "
                "judge, detail, session from memory_history where tenant = %(tenant)s and memory_id = %(memory)s "
                f"{_THEN[as_of.moved_in]} order by recorded_at, happened_at",
                {"tenant": caller.tenant, "memory": query.memory_id, "known": as_of.known, "now": as_of.now},
            )
            rows = await cursor.fetchall()
        if not rows:
            await self.refuse_missing(caller.tenant, [query.memory_id], as_of, MemoryHistory.name)
        named = [_named(row[1], row[10]) for row in rows]
        names = await self._engine.directory.names(caller.tenant, {row[5] for row in rows}.union(*named))
        entries: list[HistoryEntry] = []
        said: str | None = None
        for row, ids in zip(rows, named, strict=True):
            detail = dict(row[10])
            own = row[1].startswith("memory.")
            new = detail.pop("new", None) if own else None
            detail.pop("old", None)
            entries.append(
                HistoryEntry(
                    position=row[0],
                    event=row[1],
                    event_id=row[2],
                    recorded_at=row[3],
                    actor=_actor(row[4], names.get(row[5])),
                    cause=row[6],
                    correlation=row[7],
                    policy=row[8],
                    judge=row[9],
                    session=row[11],
                    old=said if own else None,
                    new=(new or said) if own else None,
                    detail=detail,
                    names={str(one): names[one] for one in ids if one in names},
                )
            )
            if own:
                said = new or said
        return History(memory_id=query.memory_id, entries=tuple(entries), as_of=echoed(as_of))

    async def refuse_missing(
        self, tenant: UUID, missing: Sequence[UUID], as_of: AsOf, read_model: str = LiveMemory.name
    ) -> None:
        """Raise for ids that a read model holds no memory of: there is none then, or it was set aside.

        Nothing where the list is empty.
        """
        if not missing:
            return
        names = await self._engine.log.stream_names(tenant, missing)
        for one in missing:
            refuse_other_kind(one, names.get(one, ""), "memory")
            if self._scratch is None:
                async with self._read_models(tenant) as connection:
                    await refuse_parked(connection, read_model, tenant, [one], as_of.known)
            # Behind the parked ones: whether it was erased is read from events that may not be readable.
            if one in names and await self._is_erased(tenant, one, as_of):
                raise Erased(f"memory {one} was erased; nothing brings it back", memory_id=one)
            raise NotFound(f"no memory {one}{in_words(as_of)}", memory_id=one)

    async def _check_filter(self, caller: Caller, query: ListQuery | SearchQuery) -> None:
        await refuse_filter(self._engine.log, caller.tenant, "session_run_id", query.session_run_id, "session")

    async def _is_erased(self, tenant: UUID, memory_id: UUID, as_of: AsOf) -> bool:
        """Whether it was on record by then and its key is destroyed."""
        recorded = await self._engine.log.read_streams(tenant, [memory_id], upto=as_of.known or 2**62)
        state = fold_stream(recorded.get(memory_id, ()), evolve)
        return state is not None and state.erased

    async def _scoped(self, caller: Caller, query: N) -> N:
        """The query, narrowed as the tenant's retrieval policy says."""
        scope = await applied_scope(self._engine, caller.tenant, query.scope)
        return query if scope == query.scope else query.model_copy(update={"scope": scope})

    def _read_models(self, tenant: UUID) -> AbstractAsyncContextManager[Connection]:
        return tenant_read_models(self._engine.doors, tenant, scratch=self._scratch)

    async def _filter(self, caller: Caller, query: _Narrowed, as_of: AsOf) -> MemoryFilter | None:
        """The conditions, or None where a name was never used and nothing can match."""
        if query.session_run_id is not None and query.after:
            await wait_for(self._engine.doors, MemoryHistory.name, query.after)
        _refuse_contradictions(query, as_of)
        references: dict[str, UUID] = {}
        for field, (column, kind) in _REFERENCES.items():
            name: str | None = getattr(query, field)
            if name is None:
                continue
            found = await self._engine.directory.find(caller.tenant, kind, name)
            if found is None:
                return None
            references[column] = found
        return MemoryFilter(
            tenant=caller.tenant,
            as_of=as_of,
            status=query.status,
            current=query.current,
            memory_types=query.memory_types,
            scope=query.scope,
            references=references,
            no_project=query.no_project,
            tags=query.tags,
            recorded_after=query.recorded_after,
            recorded_before=query.recorded_before,
            session_run=query.session_run_id,
        )


def _refuse_contradictions(query: _Narrowed, as_of: AsOf) -> None:
    if query.no_project and query.project is not None:
        raise InvalidInput("no_project", "cannot be given together with project")
    if query.current and query.valid_at is not None:
        raise InvalidInput("current", "cannot be given together with valid_at", "valid_at keeps what held then")
    if query.recorded_after is not None and as_of.known is not None and query.recorded_after > as_of.now:
        raise InvalidInput("recorded_after", "lies after known_at, when nothing of that was on record")


_THEN = {
    False: "and (%(known)s::bigint is null or position <= %(known)s)",
    True: "and recorded_at <= %(now)s",
}
"""SQL of what was on record: by position, or by instant where history was moved in."""


def _check_text(field: str, text: str) -> None:
    if "\x00" in text:
        raise InvalidInput(field, "holds a NUL character; remove it")


def _named(name: str, detail: Mapping[str, Any]) -> set[UUID]:
    """The opaque ids in what a history keeps of an event that stand for outside names."""
    fields = (event_class(name) or Event).NAMED
    return {UUID(said) for field in fields if isinstance(said := detail.get(field), str)}


def _actor(kind: str, name: str | None) -> str:
    return kind if name is None else f"{kind}:{name}"
