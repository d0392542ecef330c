"""The append without what this log adds: what the shape itself can do.

Kept are the order (positions from a head row under one lock), the expected version, the notification, and that
callers share a durable commit, each with its own outcome. Left out are envelope, sealing, data keys, claims,
command keys, row hashes and chain. The function stands in a schema of the measurement's own, never in a product's.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import uuid4

from ...streams.append import AppendQueue, PreparedUnit
from ...streams.database import Database
from ...streams.ids import new_id
from ...streams.log import CommandKey
from .stock import BODY_BYTES

_SCHEMA = """
create schema bare;
create table bare.events (
    position bigint not null,
    tenant   uuid   not null,
    stream   uuid   not null,
    version  bigint not null,
    name     text   not null,
    event_id uuid   not null,
    recorded_at timestamptz not null,
    body     bytea  not null,
    primary key (tenant, stream, version)
);
create unique index on bare.events (position);
create table bare.head (one int primary key, position bigint not null) with (fillfactor = 10);
insert into bare.head values (1, 0);
create function bare.append(
    ut uuid[], mk bytea[], mh bytea[], ms uuid[],
    eu int[], es uuid[], ev bigint[], en text[], ei uuid[], eb bytea[],
    cu int[], ck text[], cd bytea[], cf uuid[], ct uuid[],
    ku int[], kid uuid[], kw bytea[]
) returns table (unit int, outcome text, pos bigint, at timestamptz, detail bigint, subject uuid)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_mergejoin = off
as $$
declare
    base bigint;
    stamp timestamptz := clock_timestamp();
begin
    perform pg_advisory_xact_lock(7283460116);
    select h.position into base from bare.head h;
    return query with
    event as materialized (
        select x.u, ut[x.u] tenant, x.stream, x.version, x.name, x.event_id, x.body, x.o,
            coalesce((select y.version from bare.events y where y.tenant = ut[x.u] and y.stream = x.stream
                      order by y.version desc limit 1), 0) present
        from unnest(eu, es, ev, en, ei, eb) with ordinality x(u, stream, version, name, event_id, body, o)
    ),
    refused as materialized (select e.u, e.present, e.stream from event e where e.version <> e.present + 1),
    good as materialized (
        select e.*, base + row_number() over (order by e.o) p
        from event e where not exists (select 1 from refused r where r.u = e.u)
    ),
    stored as (
        insert into bare.events (position, tenant, stream, version, name, event_id, recorded_at, body)
        select g.p, g.tenant, g.stream, g.version, g.name, g.event_id, stamp, g.body from good g order by g.p
    ),
    moved as (
        update bare.head h set position = m.p from (select max(g.p) p from good g) m where m.p is not null
    )
    select g.u, 'ok', max(g.p), stamp, null::bigint, ms[g.u] from good g group by g.u
    union all
    select r.u, 'version', null, null, r.present, r.stream from refused r;
    perform pg_notify('bare', '');
end $$;
"""


class BareAppend:
    """Use `open`."""

    def __init__(self, queue: AppendQueue) -> None:
        self._queue = queue
        self._tenant = uuid4()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncGenerator["BareAppend"]:
        """Make the schema in a database, and a writer over it."""
        database = Database(url)
        await database.open()
        queue = AppendQueue(database, function="bare.append")
        try:
            async with database.connection() as connection:
                await connection.execute(_SCHEMA)
            await queue.open()
            yield cls(queue)
        finally:
            await queue.close()
            await database.close()

    def units(self, number: int) -> list[PreparedUnit]:
        """First events of so many streams, encoded already, as the baseline's are."""
        made: list[PreparedUnit] = []
        for _ in range(number):
            stream = uuid4()
            unit = PreparedUnit(self._tenant, stream, CommandKey.fresh())
            unit.add_event(stream, 1, "memory.remembered", new_id(), b"x" * BODY_BYTES)
            made.append(unit)
        return made

    async def append(self, unit: PreparedUnit) -> None:
        """Durable when it returns."""
        result = await self._queue.submit(unit)
        assert result.outcome == "ok", result
