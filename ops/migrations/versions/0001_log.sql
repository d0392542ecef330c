create extension if not exists vector;

-- The log. Positions are gapless and become visible in order: they are taken from the head row under one lock,
-- so "greater than the last seen" is a complete read.
create table lethelog.events (
    position    bigint      not null,
    tenant      uuid        not null,
    stream      uuid        not null,
    version     bigint      not null check (version > 0),
    name        text        not null,
    event_id    uuid        not null,
    recorded_at timestamptz not null,
    body        bytea       not null,
    primary key (tenant, stream, version)
);
create unique index events_position on lethelog.events (position);

create table lethelog.head (
    one         int         primary key default 1 check (one = 1),
    position    bigint      not null,
    recorded_at timestamptz not null
) with (fillfactor = 10);
insert into lethelog.head values (1, 0, '-infinity');

-- Rules that span streams, checked and written with the append: who holds what.
create table lethelog.claims (
    tenant uuid  not null,
    kind   text  not null,
    digest bytea not null,
    holder uuid  not null,
    primary key (tenant, kind, digest)
);

-- Command keys make retries idempotent: the same key and command give the first result again.
create table lethelog.commands (
    tenant   uuid   not null,
    digest   bytea  not null,
    hash     bytea  not null,
    position bigint not null,
    subject  uuid   not null,
    primary key (tenant, digest)
);

create function lethelog.refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'the log is append-only: % is refused', tg_op using errcode = '42501';
end $$;
create trigger append_only before update or delete or truncate on lethelog.events
    for each statement execute function lethelog.refuse_change();

-- Outside names (users, agents, projects, …) and their opaque ids. Found by keyed digest, stored sealed;
-- erasing a person destroys rows here.
create table lethelog.directory (
    tenant uuid  not null,
    kind   text  not null,
    digest bytea not null,
    id     uuid  not null,
    sealed bytea not null,
    primary key (tenant, kind, digest)
);
create unique index directory_id on lethelog.directory (tenant, id);

create schema lethelog_vault;
create table lethelog_vault.tenant_keys (
    tenant  uuid  primary key,
    wrapped bytea not null
);
create table lethelog_vault.data_keys (
    tenant  uuid  not null,
    key_id  uuid  not null,
    wrapped bytea not null,
    primary key (tenant, key_id)
);

-- Appends units. A unit is one command's events, claims, command key and new data keys: all or none, while other
-- units of the same call succeed. No two units of one call may touch the same stream, claim or command key.
--
-- A claim is compare-and-set: it must be held by "from" now (null = by nobody) and is held by "to" afterwards
-- (null = released). One row comes back per unit:
--   ok         position and time of its last event
--   repeat     its command key is known with the same hash; position and subject of the first result
--   key_reused its command key is known with another hash
--   version    a stream is at another version; stream and its version
--   claimed    a claim is held otherwise; ordinal of the claim and its holder
create function lethelog.append(
    ut uuid[], mk bytea[], mh bytea[], ms uuid[],
    eu int[], es uuid[], ev bigint[], en text[], ei uuid[], eb bytea[],
    cu int[], ck text[], cd bytea[], cf uuid[], ct uuid[],
    ku int[], kid uuid[], kw bytea[]
) returns table (unit int, outcome text, pos bigint, at timestamptz, detail bigint, subject uuid)
language plpgsql security definer
set search_path = pg_catalog
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_mergejoin = off
as $$
declare
    base bigint;
    stamp timestamptz;
begin
    perform pg_advisory_xact_lock(7283460113);
    -- The clock may go backwards; the log's time does not.
    select h.position, greatest(clock_timestamp(), h.recorded_at) into base, stamp from lethelog.head h;
    return query with
    event as materialized (
        select x.u, ut[x.u] tenant, x.stream, x.version, x.name, x.event_id, x.body, x.o
        from unnest(eu, es, ev, en, ei, eb) with ordinality x(u, stream, version, name, event_id, body, o)
    ),
    grown as materialized (
        select s.u, s.stream, s.lowest, s.highest, s.events,
            coalesce((select y.version from lethelog.events y
                      where y.tenant = s.tenant and y.stream = s.stream
                      order by y.version desc limit 1), 0) present
        from (select e.u, e.tenant, e.stream, min(e.version) lowest, max(e.version) highest, count(*) events
              from event e group by 1, 2, 3) s
    ),
    claim as materialized (
        select x.u, ut[x.u] tenant, x.kind, x.digest, x.held_by, x.holder, x.o,
            (select k.holder from lethelog.claims k
             where k.tenant = ut[x.u] and k.kind = x.kind and k.digest = x.digest) present
        from unnest(cu, ck, cd, cf, ct) with ordinality x(u, kind, digest, held_by, holder, o)
    ),
    known as materialized (
        select x.u::int u, k.position, k.hash = x.hash same, k.subject
        from unnest(ut, mk, mh) with ordinality x(tenant, digest, hash, u)
        join lethelog.commands k on k.tenant = x.tenant and k.digest = x.digest
    ),
    refused as materialized (
        select distinct on (z.u) z.u, z.outcome, z.pos, z.detail, z.subject from (
            select k.u, 1 rank, case when k.same then 'repeat' else 'key_reused' end outcome,
                   k.position pos, null::bigint detail, k.subject from known k
            union all
            select g.u, 2, 'version', null, g.present, g.stream from grown g
            where g.lowest <> g.present + 1 or g.highest - g.lowest + 1 <> g.events
            union all
            select c.u, 3, 'claimed', null, c.o, c.present from claim c
            where c.present is distinct from c.held_by
        ) z order by z.u, z.rank, z.detail
    ),
    good as materialized (
        select e.*, base + row_number() over (order by e.o) p
        from event e where not exists (select 1 from refused r where r.u = e.u)
    ),
    stored as (
        insert into lethelog.events (position, tenant, stream, version, name, event_id, recorded_at, body)
        select g.p, g.tenant, g.stream, g.version, g.name, g.event_id, stamp, g.body from good g order by g.p
    ),
    done as materialized (
        select x.u::int u, x.tenant,
               coalesce((select max(g.p) from good g where g.u = x.u), base) p
        from unnest(ut) with ordinality x(tenant, u)
        where not exists (select 1 from refused r where r.u = x.u)
    ),
    taken as (
        insert into lethelog.claims as k (tenant, kind, digest, holder)
        select c.tenant, c.kind, c.digest, c.holder from claim c join done d on d.u = c.u
        where c.holder is not null
        on conflict (tenant, kind, digest) do update set holder = excluded.holder
    ),
    released as (
        delete from lethelog.claims k using claim c, done d
        where d.u = c.u and c.holder is null and c.held_by is not null
          and k.tenant = c.tenant and k.kind = c.kind and k.digest = c.digest
    ),
    keyed as (
        insert into lethelog.commands (tenant, digest, hash, position, subject)
        select d.tenant, mk[d.u], mh[d.u], d.p, ms[d.u] from done d
    ),
    kept as (
        insert into lethelog_vault.data_keys (tenant, key_id, wrapped)
        select d.tenant, x.key_id, x.wrapped
        from unnest(ku, kid, kw) x(u, key_id, wrapped) join done d on d.u = x.u
    ),
    moved as (
        update lethelog.head h set position = m.p, recorded_at = stamp
        from (select max(g.p) p from good g) m where m.p is not null
    )
    select d.u, 'ok', d.p, stamp, null::bigint, ms[d.u] from done d
    union all
    select r.u, r.outcome, r.pos, null, r.detail, r.subject from refused r;
    perform pg_notify('lethelog', '');
end $$;
revoke all on function lethelog.append from public;
