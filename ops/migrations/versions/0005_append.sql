-- The same append at a lower price. Units were joined with their events in one large statement: neither side's size can
-- be known to a plan that serves every call, so each was compared with each, and a lone unit paid for the making of
-- the whole plan. Now one statement judges, small ones write, and what a call does not hold is not asked for.
create or replace function lethelog.append(
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
    bad int[] := '{}';
    numbered int[];
    last bigint;
    root bytea;
begin
    perform pg_advisory_xact_lock(7283460113);
    -- The clock may go backwards; the log's time does not.
    select h.position, greatest(clock_timestamp(), h.recorded_at), h.chain
    into base, stamp, before from lethelog.head h;

    -- One statement judges every unit; what it refuses is answered and takes no part in the rest.
    for unit, outcome, pos, detail, subject in
        select distinct on (z.u) z.u, z.outcome, z.pos, z.detail, z.subject from (
            select x.u::int u, 1 rank, case when k.hash = x.hash then 'repeat' else 'key_reused' end outcome,
                   k.position pos, null::bigint detail, k.subject
            from unnest(ut, mk, mh) with ordinality x(tenant, digest, hash, u)
            join lethelog.commands k on k.tenant = x.tenant and k.digest = x.digest
            union all
            select g.u, 2, 'version', null, g.present, g.stream from (
                select s.u, s.stream, s.lowest, s.highest, s.events,
                    coalesce((select y.version from lethelog.events y
                              where y.tenant = ut[s.u] and y.stream = s.stream
                              order by y.version desc limit 1), 0) present
                from (select e.u, e.stream, min(e.version) lowest, max(e.version) highest, count(*) events
                      from unnest(eu, es, ev) e(u, stream, version) group by 1, 2) s
            ) g where g.lowest <> g.present + 1 or g.highest - g.lowest + 1 <> g.events
            union all
            select c.u, 3, 'claimed', null, c.o, c.present from (
                select x.u, x.o, x.held_by,
                    (select k.holder from lethelog.claims k
                     where k.tenant = ut[x.u] and k.kind = x.kind and k.digest = x.digest) present
                from unnest(cu, ck, cd, cf) with ordinality x(u, kind, digest, held_by, o)
            ) c where c.present is distinct from c.held_by
        ) z order by z.u, z.rank, z.detail
    loop
        bad := bad || unit;
        return next;
    end loop;

    with good as materialized (
        select n.*,
            -- As lethelog.row_hash has it, which the planner cannot take into this statement.
            sha256(int8send(n.p) || uuid_send(n.tenant) || uuid_send(n.stream) || int8send(n.version)
                || uuid_send(n.event_id) || timestamptz_send(stamp) || convert_to(n.name, 'UTF8') || '\x00'::bytea
                || n.body) hash
        from (
            select x.u, ut[x.u] tenant, x.stream, x.version, x.name, x.event_id, x.body,
                base + row_number() over (order by x.o) p
            from unnest(eu, es, ev, en, ei, eb) with ordinality x(u, stream, version, name, event_id, body, o)
            where x.u <> all (bad)
        ) n
    ),
    stored as (
        insert into lethelog.events (position, tenant, stream, version, name, event_id, recorded_at, body, hash)
        select g.p, g.tenant, g.stream, g.version, g.name, g.event_id, stamp, g.body, g.hash from good g
    )
    select max(g.p), sha256(before || string_agg(g.hash, ''::bytea order by g.p)), array_agg(g.u order by g.p)
    into last, root, numbered from good g;
    if last is not null then
        insert into lethelog.roots (position, chain) values (last, root);
        update lethelog.head h set position = last, recorded_at = stamp, chain = root;
    end if;

    if cardinality(cu) > 0 then
        insert into lethelog.claims (tenant, kind, digest, holder)
        select ut[x.u], x.kind, x.digest, x.holder from unnest(cu, ck, cd, cf, ct) x(u, kind, digest, held_by, holder)
        where x.held_by is null and x.holder is not null and x.u <> all (bad);
    end if;
    if cardinality(array_remove(cf, null)) > 0 then
        update lethelog.claims k set holder = x.holder
        from unnest(cu, ck, cd, cf, ct) x(u, kind, digest, held_by, holder)
        where x.held_by <> x.holder and x.u <> all (bad)
          and k.tenant = ut[x.u] and k.kind = x.kind and k.digest = x.digest;
        delete from lethelog.claims k
        using unnest(cu, ck, cd, cf, ct) x(u, kind, digest, held_by, holder)
        where x.held_by is not null and x.holder is null and x.u <> all (bad)
          and k.tenant = ut[x.u] and k.kind = x.kind and k.digest = x.digest;
    end if;
    if cardinality(ku) > 0 then
        insert into lethelog_vault.data_keys (tenant, key_id, wrapped)
        select ut[x.u], x.key_id, x.wrapped from unnest(ku, kid, kw) x(u, key_id, wrapped) where x.u <> all (bad);
    end if;
    -- A unit's position is that of its last event: so many events stand before the next unit's.
    insert into lethelog.commands (tenant, digest, hash, position, subject)
    select x.tenant, x.digest, x.hash, base + coalesce(width_bucket(x.u::int, numbered), 0), x.subject
    from unnest(ut, mk, mh, ms) with ordinality x(tenant, digest, hash, subject, u)
    where x.u <> all (bad);
    return query
    select x.u::int, 'ok', base + coalesce(width_bucket(x.u::int, numbered), 0), stamp, null::bigint, x.subject
    from unnest(ms) with ordinality x(subject, u) where x.u <> all (bad);
    perform pg_notify('lethelog', '');
end $$;
