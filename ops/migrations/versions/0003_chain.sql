-- What a row says, as bytes without ambiguity: fixed-width parts first, the name ended by a zero byte, which no
-- name holds. The ciphertext is covered, so erasure by destroying keys does not break the chain.
create function lethelog.row_hash(
    at_position bigint, tenant uuid, stream uuid, version bigint, name text, event_id uuid, recorded_at timestamptz,
    body bytea
) returns bytea language sql immutable strict parallel safe
return sha256(
    int8send(at_position) || uuid_send(tenant) || uuid_send(stream) || int8send(version) || uuid_send(event_id)
    || timestamptz_send(recorded_at) || convert_to(name, 'UTF8') || '\x00'::bytea || body
);

-- One root per commit: sha256(root before || hashes of its rows in order). A root's position is that of its last row.
create table lethelog.roots (
    position bigint primary key,
    chain    bytea  not null
);
create trigger append_only before update or delete or truncate on lethelog.roots
    for each statement execute function lethelog.refuse_change();

alter table lethelog.head add column chain bytea not null default '\x';
alter table lethelog.events add column hash bytea;
alter table lethelog.events disable trigger append_only;
update lethelog.events e
set hash = lethelog.row_hash(e.position, e.tenant, e.stream, e.version, e.name, e.event_id, e.recorded_at, e.body);
alter table lethelog.events enable trigger append_only;
alter table lethelog.events alter column hash set not null;
-- Events from before the chain are covered by one root.
insert into lethelog.roots (position, chain)
select max(e.position), sha256(''::bytea || string_agg(e.hash, ''::bytea order by e.position))
from lethelog.events e having count(*) > 0;
update lethelog.head h set chain = r.chain from lethelog.roots r where r.position = h.position;

drop function lethelog.append;
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
    before bytea;
begin
    perform pg_advisory_xact_lock(7283460113);
    -- The clock may go backwards; the log's time does not.
    select h.position, greatest(clock_timestamp(), h.recorded_at), h.chain
    into base, stamp, before from lethelog.head h;
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
    numbered as materialized (
        select e.*, base + row_number() over (order by e.o) p
        from event e where not exists (select 1 from refused r where r.u = e.u)
    ),
    good as materialized (
        select n.*, lethelog.row_hash(n.p, n.tenant, n.stream, n.version, n.name, n.event_id, stamp, n.body) hash
        from numbered n
    ),
    stored as (
        insert into lethelog.events (position, tenant, stream, version, name, event_id, recorded_at, body, hash)
        select g.p, g.tenant, g.stream, g.version, g.name, g.event_id, stamp, g.body, g.hash
        from good g order by g.p
    ),
    root as (
        insert into lethelog.roots (position, chain)
        select max(g.p), sha256(before || string_agg(g.hash, ''::bytea order by g.p)) from good g having count(*) > 0
        returning position, chain
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
        update lethelog.head h set position = r.position, recorded_at = stamp, chain = r.chain from root r
    )
    select d.u, 'ok', d.p, stamp, null::bigint, ms[d.u] from done d
    union all
    select r.u, r.outcome, r.pos, null, r.detail, r.subject from refused r;
    perform pg_notify('lethelog', '');
end $$;
revoke all on function lethelog.append from public;
