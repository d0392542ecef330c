"""Search in tenants of every size, against the best plan that bare pgvector has for that tenant.

Ten results over one table of live memory: by vectors alone, held against the bare plans, and by words and
vectors. Recall is held against comparing every vector. The bare table has nothing but tenant, id, liveness and
vector. Its plans are given the tenant's size for free: an exact scan over the tenant's rows, and for the largest
an index of that tenant alone. All take turns of many questions each, so that each finds in the buffers what it
left there, as it would alone. The same search is also measured in the role that sees all rows: what row-level
security costs.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any
from uuid import UUID, uuid4

import numpy as np
from numpy.typing import NDArray

from ...domain.ranking import PRODUCT_WEIGHTS, Weights
from ...handlers.engine import Engine
from ...projections.as_of import AsOf
from ...projections.filters import MemoryFilter
from ...projections.generations import HOME, SHARED
from ...projections.protection import lift, protect
from ...projections.search import Search
from ...streams.database import WORKER, Connection, Doors
from .bench import Bench
from .past import CLUSTERS, Clusters
from .rounds import Turn, alternate
from .row import Row, Target
from .servers import Servers

LIMIT = 10
_VECTORS_ONLY = Weights(text=0.0, recency=0.0, vector=1.0, topic=0.0)
_VECTORS, _HYBRID, _UNPROTECTED = "vectors", "hybrid", "vectors, all rows visible"
_AT_A_TURN = 20
_BOUND_BY_CLIENT = (
    "Two round trips, candidates and whole rows, each behind the pointer to the read model; the bare plan is one, "
    "for ids alone, on a connection that is held. Most of the time is the client's: the pool, pipelines, ranking, "
    "and rows made of what came."
)
_BOUND_BY_SHARED_INDEX = (
    "The index is that of all tenants, twice as large as the one of this tenant alone that the bare plan has. It "
    "brings five times as many, the candidates that ranking chooses from, and meets as many rows of others."
)
_FULL = (50_000, *[1_000] * 30, *[400] * 40, *[50] * 29, 2_550)
_QUICK = (1_500, *[400] * 2, *[50] * 4)
_ARCHIVED = 10
"""Every so many-th memory is archived, so that the filter is one."""
_COLUMNS = (
    "tenant, memory_id, version, state_version, position, memory_type, scope, topic, content, tags, producer, "
    "trust, core, pinned, verified, occurred_at, recorded_at, changed_at, fresh_at, derived_from, links, "
    "archived, suppressed, refuted, quarantined, embedding, embedding_model"
)
_EXACT = (
    "select id from (select id, embedding from bare.memory where tenant = %(tenant)s and live offset 0) bounded "
    "order by embedding operator(public.<=>) %(vector)s::public.halfvec limit 10"
)
_INDEXED = (
    "select id from bare.memory where tenant = '{tenant}' and live "
    "order by embedding operator(public.<=>) %(vector)s::public.halfvec limit 10"
)


@dataclass(frozen=True, slots=True)
class _Tenant:
    id: UUID
    size: int
    largest: bool


@dataclass(frozen=True, slots=True)
class _Question:
    text: str
    vector: str
    nearest: Sequence[UUID]
    """By comparing every vector."""


_Way = Callable[[_Question], Awaitable[tuple[list[UUID], float]]]
"""One way to search: what it found, and the seconds it took."""


async def tenants(bench: Bench) -> list[Row]:
    """Tenants of four sizes in one table."""
    sizes = bench.pick(_FULL, _QUICK)
    times = bench.pick(60, 15)
    embedder = Clusters()
    async with (
        _filled(bench.servers, embedder, sizes, bench) as (engine, everybody),
        _all_rows_visible(engine, embedder) as unprotected,
    ):
        chosen = [next(one for one in everybody if one.size == size) for size in sorted({*sizes} - {2_550})]
        rows: list[Row] = []
        for tenant in chosen:
            bench.say(f"searching among {tenant.size:,}")
            rows += await _tenant(engine, unprotected, embedder, tenant, times, len(everybody), sum(sizes))
    return rows


async def _tenant(
    engine: Engine,
    unprotected: Search,
    embedder: Clusters,
    tenant: _Tenant,
    times: int,
    tenants: int,
    total: int,
) -> list[Row]:
    async with engine.database.connection() as connection:
        questions = [await _question(connection, embedder, tenant, number) for number in range(times)]
        ways = {
            _VECTORS: _searching(engine.search, tenant, _VECTORS_ONLY),
            _HYBRID: _searching(engine.search, tenant, PRODUCT_WEIGHTS),
            _UNPROTECTED: _searching(unprotected, tenant, _VECTORS_ONLY),
            **{plan: _planned(connection, tenant, *said) for plan, said in _plans(tenant).items()},
        }
        took: dict[str, list[float]] = {way: [] for way in ways}
        shares: dict[str, list[float]] = {way: [] for way in ways}

        def turn(way: str) -> Turn:
            async def run() -> float:
                part = questions[len(took[way]) % times :][:_AT_A_TURN]
                for question in part:
                    ids, seconds = await ways[way](question)
                    took[way].append(seconds)
                    shares[way].append(_share(ids, question.nearest))
                return median(took[way][-len(part) :])

            return run

        turns = {way: turn(way) for way in ways}
        await alternate(turns, 1, warm_up=False)
        for way in ways:
            took[way].clear()
            shares[way].clear()
        await alternate(turns, -(-times // _AT_A_TURN), warm_up=False)
    return _rows(
        tenant, took, shares, f"in a tenant of {tenant.size:,} among {tenants} tenants with {total:,} memories"
    )


def _rows(
    tenant: _Tenant, took: Mapping[str, list[float]], shares: Mapping[str, list[float]], where: str
) -> list[Row]:
    recall = {way: sum(each) / len(each) for way, each in shares.items()}
    p50 = {way: 1e3 * median(each) for way, each in took.items()}
    plans = [way for way in p50 if way not in (_VECTORS, _HYBRID, _UNPROTECTED)]
    best = min((plan for plan in plans if recall[plan] >= 0.99), key=lambda plan: p50[plan])
    name, n, says = f"search.{tenant.size}", len(took[_VECTORS]), f"10 nearest {where}"
    return [
        Row(
            name=name,
            figure=p50[_VECTORS],
            unit="ms",
            says=f"p50, {says}: search as the product does it, from question to whole rows, by vectors alone; "
            "under row-level security",
            baseline=p50[best],
            against=f"bare pgvector, ids only, {best}",
            target=Target("at most", 1.5),
            n=n,
            bound_by=_BOUND_BY_CLIENT if tenant.size <= 5_000 else _BOUND_BY_SHARED_INDEX,
            detail={f"{plan}, p50 ms": round(p50[plan], 2) for plan in plans},
        ),
        Row(
            name=f"{name}.recall",
            figure=recall[_VECTORS],
            unit="",
            says=f"share of the {says} that search finds",
            against="comparing every vector",
            target=Target("at least", 0.99, of="figure"),
            n=n,
        ),
        Row(
            name=f"{name}.hybrid",
            figure=p50[_HYBRID],
            unit="ms",
            says=f"p50, the 10 best {where}, by vectors and words",
            baseline=p50[best],
            against=f"the same bare plan for vectors alone, {best}",
            n=n,
        ),
        Row(
            name=f"{name}.protected",
            figure=p50[_VECTORS],
            unit="ms",
            says=f"p50, {says}, by vectors alone, in the role of a tenant's door, which sees its own rows",
            baseline=p50[_UNPROTECTED],
            against="the same search in the worker's role, whose policy lets it see every row",
            n=n,
        ),
    ]


@asynccontextmanager
async def _all_rows_visible(engine: Engine, embedder: Clusters) -> AsyncGenerator[Search]:
    """The product's search in a role that row-level security keeps nothing from."""
    doors = Doors(engine.database.url, role=WORKER)
    await doors.open()
    try:
        yield Search(doors, embedder)
    finally:
        await doors.close()


async def _question(connection: Connection, embedder: Clusters, tenant: _Tenant, number: int) -> _Question:
    chance = np.random.default_rng((tenant.size, number))
    text = f"c{chance.integers(CLUSTERS)} question {number}"
    vector = _text(embedder.embed([text])[0])
    nearest, _ = await _bare(connection, _EXACT, tenant, vector)
    return _Question(text, vector, nearest)


def _searching(searching: Search, tenant: _Tenant, weights: Weights) -> _Way:
    async def search(question: _Question) -> tuple[list[UUID], float]:
        matching = MemoryFilter(tenant=tenant.id, as_of=AsOf(datetime.now(UTC)))
        began = time.perf_counter()
        hits = await searching.search(question.text, matching, LIMIT, weights)
        return [hit.row.memory_id for hit in hits], time.perf_counter() - began

    return search


def _planned(connection: Connection, tenant: _Tenant, statement: str, settings: Sequence[str]) -> _Way:
    async def search(question: _Question) -> tuple[list[UUID], float]:
        return await _bare(connection, statement, tenant, question.vector, settings)

    return search


def _plans(tenant: _Tenant) -> dict[str, tuple[str, tuple[str, ...]]]:
    plans: dict[str, tuple[str, tuple[str, ...]]] = {"exact over the tenant's rows": (_EXACT, ())}
    if tenant.largest:
        indexed = _INDEXED.format(tenant=tenant.id)
        for wide in (100, 200, 400):
            plans[f"an index of this tenant alone, ef {wide}"] = (indexed, (f"set local hnsw.ef_search = {wide}",))
    return plans


async def _bare(
    connection: Connection, statement: str, tenant: _Tenant, vector: str, settings: Sequence[str] = ()
) -> tuple[list[UUID], float]:
    async with connection.transaction():
        for setting in settings:
            await connection.execute(setting)
        began = time.perf_counter()
        cursor = await connection.execute(statement, {"tenant": tenant.id, "vector": vector})
        ids = [row[0] for row in await cursor.fetchall()]
        return ids, time.perf_counter() - began


def _share(found: Sequence[UUID], exact: Sequence[UUID]) -> float:
    return len({*found} & {*exact}) / max(1, len(exact))


@asynccontextmanager
async def _filled(
    servers: Servers, embedder: Clusters, sizes: Sequence[int], bench: Bench
) -> AsyncGenerator[tuple[Engine, list[_Tenant]]]:
    async with servers.engine(embedder) as engine:
        everybody = [_Tenant(uuid4(), size, size == max(sizes)) for size in sizes]
        bench.say(f"loading {sum(sizes):,} vectors")
        async with engine.database.connection() as connection:
            await _drop_indexes(connection, engine)
            await lift(connection, HOME)
            await _load(connection, embedder, everybody)
            bench.say("building the indexes")
            await connection.execute("set maintenance_work_mem = '1GB'")
            await engine.live_memory.create_indexes(connection, HOME)
            await protect(connection, [HOME], SHARED)
            await _make_bare(connection, everybody)
            await connection.execute(f"vacuum analyze {HOME}.live_memory, bare.memory")
        yield engine, everybody


async def _drop_indexes(connection: Connection, engine: Engine) -> None:
    cursor = await connection.execute(
        "select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid "
        "where not i.indisprimary and i.indrelid = any(%s::regclass[])",
        ([f"{HOME}.{table}" for table in engine.live_memory.tables],),
    )
    for (index,) in await cursor.fetchall():
        await connection.execute(f"drop index {HOME}.{index}")


async def _load(connection: Connection, embedder: Clusters, everybody: Sequence[_Tenant]) -> None:
    """Rows of all tenants, mixed as time mixes them."""
    chance = np.random.default_rng(11)
    owners = np.repeat(np.arange(len(everybody)), [one.size for one in everybody])
    chance.shuffle(owners)
    texts = [
        f"c{cluster} memory {number}" for number, cluster in enumerate(chance.integers(0, CLUSTERS, len(owners)))
    ]
    now = datetime.now(UTC)
    statement = f"copy {HOME}.live_memory ({_COLUMNS}) from stdin"
    async with connection.cursor().copy(statement.encode()) as copy:
        for number, (owner, text) in enumerate(zip(owners.tolist(), texts, strict=True), 1):
            [vector] = embedder.embed([text])
            row: tuple[Any, ...] = (
                *(
                    everybody[owner].id,
                    uuid4(),
                    1,
                    1,
                    number,
                    "fact",
                    "personal",
                    text,
                    text,
                    "[]",
                    "agent",
                    "agent",
                ),
                *(False, False, False, now, now, now, now, "[]", "{}"),
                *(number % _ARCHIVED == 0, False, False, False),
                *(_text(vector), embedder.model),
            )
            await copy.write_row(row)


async def _make_bare(connection: Connection, everybody: Sequence[_Tenant]) -> None:
    largest = next(one for one in everybody if one.largest)
    for statement in (
        "create schema bare",
        "create table bare.memory as select tenant, memory_id id, not archived live, embedding "
        f"from {HOME}.live_memory",
        "create index on bare.memory (tenant)",
        "create index on bare.memory using hnsw (embedding public.halfvec_cosine_ops) "
        f"where tenant = '{largest.id}' and live",
    ):
        await connection.execute(statement)


def _text(vector: NDArray[np.float32]) -> str:
    return str(np.round(vector, 4).astype(np.float64).round(4).tolist())
