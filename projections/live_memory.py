"""The read model that search, get and list read: one row per memory, with its vector and full text.

A row is the memory's folded state, so it can always be told from the log alone. Rows of every status are kept
(history, filters by status), and every past state stands in a table beside (`memory_past`). The *retrievable*
predicate stands here once, for every read path.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from ..domain.errors import LethelogError
from ..domain.events import event_names
from ..domain.memory import Memory, evolve
from ..streams.database import Connection, Database
from ..streams.folding import fold_states
from ..streams.log import Log
from ..streams.payloads import RecordedEvent
from ..streams.portions import portions, uncollected
from .embedders import Embedder
from .generations import HOME, read_models
from .memory_columns import COLUMNS, NULL, copy_row, text_field, vector_field
from .memory_past import (
    STAGED,
    Held,
    Key,
    State,
    add_staged_past,
    create_past,
    end_present_states,
    index_past,
    past_rows,
    stage,
)
from .projection import ClearText, Projection

LIVE = "not (archived or suppressed or refuted or quarantined) and successor is null"
"""SQL of `domain.memory.Memory.live`."""
RETRIEVABLE = (
    "not (archived or suppressed or refuted or quarantined) and (expires_at is null or expires_at > %(now)s)"
)
"""SQL of `domain.memory.Memory.retrievable`; every read path that was not asked for a status uses it."""
INDEXED_CHARACTERS = 100_000
"""Full text is made of this many first characters: the words of more may pass the megabyte that a tsvector holds.

They are made small before they are split. The parser drops words too long by their length as given, and the server
crashes on one that grows beyond that when the dictionary makes it small (Ⱥ takes two bytes, ⱥ three).
"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a page makes of the memories that it tells of."""

    present: list[bytes]
    """The row of each memory, as it is after the page."""
    past: list[bytes]
    """Rows of the states that it went through within the page."""
    ended: dict[Key, State]
    """Memories that were there before, and the state that ends their present one."""
    cleared: list[Key]
    """Memories whose rows must go: their key is destroyed, or all their rows are written here."""


def embedded_text(topic: str, content: str) -> str:
    """The text a memory is found by."""
    return f"{topic}\n{content}"


class LiveMemory:
    """See the module's docstring. ``embedder`` belongs to the version: another model demands a rebuild."""

    name = "live_memory"
    tables = ("live_memory", "memory_past")
    clear_texts = (
        ClearText("live_memory", about="memory_id = any(%(memories)s)", model="embedding_model"),
        ClearText("memory_past", about="memory_id = any(%(memories)s)", model="embedding_model"),
    )
    stream_column = "memory_id"
    wants = frozenset(event_names("memory."))

    def __init__(self, log: Log, embedder: Embedder) -> None:
        self._log = log
        self._embedder = embedder

    @property
    def version(self) -> str:
        return f"5/{self._embedder.model}/{self._embedder.dimensions}"

    def loading(self, start: int, target: int) -> Projection:
        from .live_memory_loading import LiveMemoryLoading

        return LiveMemoryLoading(self._log, self._embedder, start, target)

    async def create_tables(self, connection: Connection, schema: str) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        await connection.execute(
            f"create table {schema}.live_memory ({columns}, "
            f"embedding public.halfvec({self._embedder.dimensions}), embedding_model text, "
            "lexemes tsvector generated always as (setweight(to_tsvector('english', lower(topic)), 'A') || "
            f"setweight(to_tsvector('english', lower(left(content, {INDEXED_CHARACTERS}))), 'B')) stored, "
            "primary key (tenant, memory_id))"
        )
        await create_past(connection, schema, self._embedder.dimensions)

    async def create_indexes(self, connection: Connection, schema: str) -> None:
        for statement in (
            f"create index live_memory_filing on {schema}.live_memory "
            "(tenant, memory_type, scope, project, occurred_at)",
            f"create index live_memory_recency on {schema}.live_memory (tenant, occurred_at desc, memory_id)",
            f"create index live_memory_changes on {schema}.live_memory (tenant, position)",
            f"create index live_memory_lexemes on {schema}.live_memory using gin (lexemes)",
            f"create index live_memory_vectors on {schema}.live_memory "
            "using hnsw (embedding public.halfvec_cosine_ops)",
            f"create index live_memory_derived on {schema}.live_memory (tenant, memory_id) "
            "where derived_from <> '[]'",
            f"create index live_memory_unembedded on {schema}.live_memory (position) where embedding is null",
        ):
            await connection.execute(statement)
        await index_past(connection, schema)

    async def prepare(self, page: Sequence[RecordedEvent]) -> Prepared:
        by_memory = by_memories(page)
        first = page[0].position
        before = await self._read_beginnings(by_memory, first)
        told: list[Held] = []
        async for portion in portions(by_memory):
            with uncollected():
                for key, events in portion:
                    earlier = before.get(key) if before and events[0].version > 1 else None
                    folded = fold_states([*earlier, *events] if earlier else events, evolve)
                    told.append((key, [(state, one.position) for one, state in folded if one.position >= first]))
        kept, gone = parted(told)
        vectors = await self._embed([(key, held[-1][0]) for key, held in kept if held[0][0].version == 1])
        return await self.prepared(kept, gone, vectors)

    async def prepared(
        self, kept: Sequence[Held], gone: list[Key], vectors: Mapping[Key, Sequence[float]]
    ) -> Prepared:
        """What `apply` writes: new states of memories, in order, and memories that go."""
        present, past = await self._rows(kept, vectors, NULL, NULL)
        ended = {key: held[0] for key, held in kept if held[0][0].version > 1}
        return Prepared(present, past, ended, gone)

    async def apply(
        self, connection: Connection, schema: str, page: Sequence[RecordedEvent], prepared: Prepared
    ) -> None:
        if prepared.ended:
            await end_present_states(connection, schema, prepared.ended)
        if prepared.present:
            await stage(connection, [*prepared.present, *prepared.past])
            await connection.execute(_UPSERT.format(schema=schema))
        if prepared.past:
            await add_staged_past(connection, schema)
        if prepared.cleared:
            await self._delete(connection, schema, prepared.cleared)

    async def _rows(
        self, told: Sequence[Held], vectors: Mapping[Key, Sequence[float]], *further: bytes
    ) -> tuple[list[bytes], list[bytes]]:
        """(the last state of each memory with its vector and ``further`` fields, all earlier ones), to copy."""
        model = text_field(self._embedder.model)
        present: list[bytes] = []
        past: list[bytes] = []
        async for portion in portions(told):
            with uncollected():
                for key, held in portion:
                    vector = vectors.get(key) if vectors else None
                    embedded = (NULL, NULL) if vector is None else (vector_field(vector), model)
                    present.append(copy_row(key[0], *held[-1], *embedded, *further))
                    if len(held) > 1:
                        past += past_rows(key[0], held)
        return present, past

    async def _delete(self, connection: Connection, schema: str, keys: Sequence[Key]) -> None:
        for table in self.tables:
            await connection.execute(
                f"delete from {schema}.{table} m using unnest(%s::uuid[], %s::uuid[]) x(tenant, memory_id) "
                "where m.tenant = x.tenant and m.memory_id = x.memory_id",
                ([tenant for tenant, _ in keys], [memory_id for _, memory_id in keys]),
            )

    async def fill_vectors(self, database: Database, limit: int = 100) -> int:
        """Embed rows whose embedding failed when they were written; returns how many were filled.

        Nothing is written once the view was rebuilt for another model (F40).
        """
        async with read_models(database) as connection:
            cursor = await connection.execute(
                "select tenant, memory_id, topic, content from live_memory where embedding is null "
                "order by position limit %s",
                (limit,),
            )
            rows = await cursor.fetchall()
        if not rows:
            return 0
        texts = [embedded_text(topic, content) for _, _, topic, content in rows]
        vectors = await asyncio.to_thread(self._embedder.embed, texts)
        async with database.transaction() as connection:
            cursor = await connection.execute(
                f"select schema from {HOME}.tracking where name = %s and version = %s and state = 'current' "
                "for share",
                (self.name, self.version),
            )
            row = await cursor.fetchone()
            if row is None:
                return 0
            made = (
                self._embedder.model,
                [one[0] for one in rows],
                [one[1] for one in rows],
                [vector_literal(vector.tolist()) for vector in vectors],
            )
            for table in self.tables:
                await connection.execute(
                    f"update {row[0]}.{table} m set embedding = x.vector::public.halfvec, embedding_model = %s "
                    "from unnest(%s::uuid[], %s::uuid[], %s::text[]) x(tenant, memory_id, vector) "
                    "where m.tenant = x.tenant and m.memory_id = x.memory_id and m.embedding is null",
                    made,
                )
        return len(rows)

    async def _read_beginnings(
        self, by_memory: Sequence[tuple[Key, list[RecordedEvent]]], before: int
    ) -> dict[Key, list[RecordedEvent]]:
        """Earlier events of memories whose first event is not in the page."""
        wanted: dict[UUID, list[UUID]] = {}
        for (tenant, stream), events in by_memory:
            if events[0].version > 1:
                wanted.setdefault(tenant, []).append(stream)
        found: dict[Key, list[RecordedEvent]] = {}
        for tenant, streams in wanted.items():
            # Up to there and no further: a later one that cannot be read is not theirs.
            for stream, events in (await self._log.read_streams(tenant, streams, upto=before - 1)).items():
                found[(tenant, stream)] = events
        return found

    async def _embed(
        self, wanted: Sequence[tuple[tuple[UUID, UUID], Memory]]
    ) -> dict[tuple[UUID, UUID], list[float]]:
        readable = [(key, m) for key, m in wanted if m.content is not None and m.topic is not None]
        if not readable:
            return {}
        texts = [embedded_text(m.topic or "", m.content or "") for _, m in readable]
        try:
            vectors = await asyncio.to_thread(self._embedder.embed, texts)
        except LethelogError:
            # An endpoint that is down must not hold up the view: the row is found by its words at once, and
            # by its vector as soon as `fill_vectors` got one.
            return {}
        return {key: vector for (key, _), vector in zip(readable, vectors, strict=True)}


def by_memories(page: Sequence[RecordedEvent]) -> list[tuple[Key, list[RecordedEvent]]]:
    """A page's events by the memory that they are about."""
    found: dict[tuple[int, int], tuple[Key, list[RecordedEvent]]] = {}
    for event in page:
        key = (event.tenant, event.stream)
        number = numbered(key)
        one = found.get(number)
        if one is None:
            found[number] = (key, [event])
        else:
            one[1].append(event)
    return list(found.values())


def numbered(key: Key) -> tuple[int, int]:
    """A key as numbers: the hash of a UUID is computed in Python, each time that it is looked for."""
    return key[0].int, key[1].int


def parted(told: Sequence[Held]) -> tuple[list[Held], list[Key]]:
    """(memories that can be read, memories whose key is destroyed)."""
    kept = [one for one in told if one[1][-1][0].content is not None]
    return kept, [key for key, held in told if held[-1][0].content is None]


def vector_literal(vector: Sequence[float]) -> str:
    """A vector as PostgreSQL reads it."""
    return "[" + ",".join(map(repr, np.asarray(vector, dtype=np.float32).tolist())) + "]"


_FOR_EVER = ("tenant", "memory_id", "topic", "content")
"""No event changes them; naming the texts in an update would make the server split them into words again."""
_WRITTEN = ", ".join([*COLUMNS, "embedding", "embedding_model"])
_UPSERT = (
    f"insert into {{schema}}.live_memory ({_WRITTEN}) select {_WRITTEN} from pg_temp.{STAGED} "
    "where until_position is null on conflict (tenant, memory_id) do update set "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name not in _FOR_EVER)
    + ", embedding = coalesce(excluded.embedding, live_memory.embedding)"
    + ", embedding_model = coalesce(excluded.embedding_model, live_memory.embedding_model)"
    + " where live_memory.version < excluded.version"
)
