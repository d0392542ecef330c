-- Units with quotas share a commit with all others. Each is judged beside those that stand before it in the call,
-- under the lock that every append takes, and what is too much is refused alone.
drop function lethelog.append_within_quotas;
drop function lethelog.append;
alter table lethelog.write_counts rename to usage;
alter table lethelog.usage rename constraint write_counts_pkey to usage_pkey;
alter table lethelog.usage
    -- Live memories, of which each holds one claim of the kind "content"; null until a unit with a cap asks, and after
    -- an erasure.
    add column live bigint;

-- As before, and with quotas of the units (null for one that has none), of which these are the outcomes:
--   live       it would make more than "most" live memories of its tenant; how many too many
--   rate       it would make more than "per_minute" memories written in this minute; seconds until the next one
create function lethelog.append(
    ut uuid[], mk bytea[], mh bytea[], ms uuid[],
    eu int[], es uuid[], ev bigint[], en text[], ei uuid[], eb bytea[],
    cu int[], ck text[], cd bytea[], cf uuid[], ct uuid[],
    ku int[], kid uuid[], kw bytea[],
    most bigint[] default null, per_minute bigint[] default null
) returns table (unit int, outcome text, pos bigint, at timestamptz, detail bigint, subject uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_mergejoin = off
as $$
declare
    base bigint;
    stamp timestamptz;
    before bytea;
    bad int[] := '{}';
    last bigint;
    root bytea;
    this_minute bigint;
    quotas record;
    each record;
    held bigint;
    written bigint;
begin
    perform pg_advisory_xact_lock(7283460113);
    -- The clock may go backwards; the log's time does not.
    select h.position, greatest(clock_timestamp(), h.recorded_at), h.chain
    into base, stamp, before from lethelog.head h;

    -- The first thing that stands against a unit is its answer. "offset 0" keeps each look-up one of the index.
    for unit, outcome, pos, subject in
        select x.u, case when k.hash = x.hash then 'repeat' else 'key_reused' end, k.position, k.subject
        from unnest(ut, mk, mh) with ordinality x(tenant, digest, hash, u), lateral (
            select c.hash, c.position, c.subject from lethelog.commands c
            where c.tenant = x.tenant and c.digest = x.digest offset 0
        ) k
    loop
        bad := bad || unit;
        return next;
    end loop;
    pos := null;
    outcome := 'version';
    for unit, detail, subject in
        select distinct on (g.u) g.u, g.present, g.stream from (
            select s.u, s.stream, s.lowest, s.highest, s.events,
                coalesce((select y.version from lethelog.events y
                          where y.tenant = ut[s.u] and y.stream = s.stream
                          order by y.version desc limit 1), 0) present
            from (select e.u, e.stream, min(e.version) lowest, max(e.version) highest, count(*) events
                  from unnest(eu, es, ev) e(u, stream, version) group by 1, 2) s
        ) g
        where (g.lowest <> g.present + 1 or g.highest - g.lowest + 1 <> g.events) and g.u <> all (bad)
        order by g.u, g.present
    loop
        bad := bad || unit;
        return next;
    end loop;
    if cardinality(cu) > 0 then
        outcome := 'claimed';
        for unit, detail, subject in
            select distinct on (c.u) c.u, c.o, c.present from (
                select x.u, x.o, x.held_by,
                    (select k.holder from lethelog.claims k
                     where k.tenant = ut[x.u] and k.kind = x.kind and k.digest = x.digest) present
                from unnest(cu, ck, cd, cf) with ordinality x(u, kind, digest, held_by, o)
            ) c
            where c.present is distinct from c.held_by and c.u <> all (bad)
            order by c.u, c.o
        loop
            bad := bad || unit;
            return next;
        end loop;
    end if;
    if cardinality(ku) > 0 then
        -- A data key that comes wrapped under a key that is being replaced would be lost together with that one.
        outcome := 'rekeyed';
        detail := null;
        subject := null;
        for unit in
            select distinct x.u from unnest(ku, kw) x(u, wrapped)
            where x.u <> all (bad) and exists (
                select from lethelog_vault.tenant_keys t
                where t.tenant = ut[x.u] and int4send(t.generation) >
                    case octet_length(x.wrapped) when 64 then substr(x.wrapped, 1, 4) else int4send(1) end
            )
        loop
            bad := bad || unit;
            return next;
        end loop;
    end if;
    if most is not null then
        this_minute := floor(extract(epoch from stamp) / 60);
        pos := null;
        subject := null;
        for quotas in
            select x.tenant, min(x.cap) cap, min(x.rate) rate,
                coalesce(min(c.grows), 0) grows, coalesce(min(n.brings), 0) brings
            from unnest(ut, most, per_minute) x(tenant, cap, rate)
            left join (
                select ut[k.u] tenant, count(*) grows from unnest(cu, ck, cf, ct) k(u, kind, held_by, holder)
                where k.kind = 'content' and k.held_by is null and k.holder is not null group by 1
            ) c on c.tenant = x.tenant
            left join (
                select ut[k.u] tenant, count(*) brings from unnest(eu, en) k(u, name)
                where k.name = 'memory.remembered' group by 1
            ) n on n.tenant = x.tenant
            group by x.tenant having min(x.cap) is not null or min(x.rate) is not null
        loop
            select k.live, case when k.minute = this_minute then k.writes else 0 end into held, written
            from lethelog.usage k where k.tenant = quotas.tenant;
            if held is null then
                select count(*) into held
                from (select from lethelog.claims c where c.tenant = quotas.tenant and c.kind = 'content') k;
                written := coalesce(written, 0);
                insert into lethelog.usage (tenant, minute, writes, live)
                values (quotas.tenant, this_minute, written, held)
                on conflict on constraint usage_pkey do update set live = excluded.live;
            end if;
            -- Where all of them together stay below the lowest, each does.
            continue when coalesce(held + quotas.grows <= quotas.cap, true)
                and coalesce(written + quotas.brings <= quotas.rate, true);
            for each in
                select x.u, x.cap, x.rate, coalesce(c.grows, 0) grows, coalesce(n.brings, 0) brings
                from unnest(ut, most, per_minute) with ordinality x(tenant, cap, rate, u)
                left join (
                    select k.u, sum((k.holder is not null)::int - (k.held_by is not null)::int) grows
                    from unnest(cu, ck, cf, ct) k(u, kind, held_by, holder) where k.kind = 'content' group by k.u
                ) c on c.u = x.u
                left join (
                    select k.u, count(*) brings from unnest(eu, en) k(u, name)
                    where k.name = 'memory.remembered' group by k.u
                ) n on n.u = x.u
                where x.tenant = quotas.tenant and x.u <> all (bad)
                order by x.u
            loop
                unit := each.u;
                if each.grows > 0 and held + each.grows > each.cap then
                    outcome := 'live';
                    detail := held + each.grows - each.cap;
                elsif each.brings > 0 and written + each.brings > each.rate then
                    outcome := 'rate';
                    detail := ceil((this_minute + 1) * 60 - extract(epoch from stamp));
                else
                    held := held + each.grows;
                    written := written + case when each.rate is null then 0 else each.brings end;
                    continue;
                end if;
                bad := bad || unit;
                return next;
            end loop;
        end loop;
    end if;
    if cardinality(bad) > 0 then
        select coalesce(array_agg(x.u order by x.o), '{}'), array_agg(x.stream order by x.o),
            array_agg(x.version order by x.o), array_agg(x.name order by x.o), array_agg(x.event_id order by x.o),
            array_agg(x.body order by x.o)
        into eu, es, ev, en, ei, eb
        from unnest(eu, es, ev, en, ei, eb) with ordinality x(u, stream, version, name, event_id, body, o)
        where x.u <> all (bad);
        select coalesce(array_agg(x.u order by x.o), '{}'), array_agg(x.kind order by x.o),
            array_agg(x.digest order by x.o), array_agg(x.held_by order by x.o), array_agg(x.holder order by x.o)
        into cu, ck, cd, cf, ct
        from unnest(cu, ck, cd, cf, ct) with ordinality x(u, kind, digest, held_by, holder, o)
        where x.u <> all (bad);
        select coalesce(array_agg(x.u order by x.o), '{}'), array_agg(x.key_id order by x.o),
            array_agg(x.wrapped order by x.o)
        into ku, kid, kw
        from unnest(ku, kid, kw) with ordinality x(u, key_id, wrapped, o)
        where x.u <> all (bad);
    end if;

    if cardinality(eu) > 0 then
        with stored as (
            insert into lethelog.events (position, tenant, stream, version, name, event_id, recorded_at, body, hash)
            select base + x.o, ut[x.u], x.stream, x.version, x.name, x.event_id, stamp, x.body,
                -- As lethelog.row_hash has it, which the planner cannot take into this statement.
                sha256(int8send(base + x.o) || uuid_send(ut[x.u]) || uuid_send(x.stream) || int8send(x.version)
                    || uuid_send(x.event_id) || timestamptz_send(stamp) || convert_to(x.name, 'UTF8')
                    || '\x00'::bytea || x.body)
            from unnest(eu, es, ev, en, ei, eb) with ordinality x(u, stream, version, name, event_id, body, o)
            returning position, hash
        )
        select sha256(before || string_agg(s.hash, ''::bytea order by s.position)) into root from stored s;
        last := base + cardinality(eu);
        insert into lethelog.roots (position, chain) values (last, root);
        update lethelog.head h set position = last, recorded_at = stamp, chain = root;
    end if;

    if cardinality(cu) > 0 then
        insert into lethelog.claims (tenant, kind, digest, holder)
        select ut[x.u], x.kind, x.digest, x.holder from unnest(cu, ck, cd, cf, ct) x(u, kind, digest, held_by, holder)
        where x.held_by is null and x.holder is not null;
    end if;
    if cardinality(array_remove(cf, null)) > 0 then
        update lethelog.claims k set holder = x.holder
        from unnest(cu, ck, cd, cf, ct) x(u, kind, digest, held_by, holder)
        where x.held_by <> x.holder
          and k.tenant = ut[x.u] and k.kind = x.kind and k.digest = x.digest;
        delete from lethelog.claims k
        using unnest(cu, ck, cd, cf, ct) x(u, kind, digest, held_by, holder)
        where x.held_by is not null and x.holder is null
          and k.tenant = ut[x.u] and k.kind = x.kind and k.digest = x.digest;
    end if;
    if cardinality(cu) > 0 and exists (select from lethelog.usage) then
        update lethelog.usage k
        set live = k.live + d.grows,
            minute = coalesce(this_minute, k.minute),
            writes = d.brings + case when k.minute < this_minute then 0 else k.writes end
        from (
            select g.tenant, sum(g.grows) grows, sum(g.brings) brings from (
                select ut[c.u], (c.holder is not null)::int - (c.held_by is not null)::int, 0
                from unnest(cu, ck, cf, ct) c(u, kind, held_by, holder) where c.kind = 'content'
                union all
                select ut[e.u], 0, 1 from unnest(eu, en) e(u, name)
                where e.name = 'memory.remembered' and per_minute[e.u] is not null
            ) g(tenant, grows, brings) group by g.tenant
        ) d
        where k.tenant = d.tenant;
    end if;
    if cardinality(ku) > 0 then
        insert into lethelog_vault.data_keys (tenant, key_id, wrapped)
        select ut[x.u], x.key_id, x.wrapped from unnest(ku, kid, kw) x(u, key_id, wrapped);
    end if;
    -- A unit's position is that of its last event: so many events stand before the next unit's.
    insert into lethelog.commands (tenant, digest, hash, position, subject)
    select x.tenant, x.digest, x.hash, base + width_bucket(x.u::int, eu), x.subject
    from unnest(ut, mk, mh, ms) with ordinality x(tenant, digest, hash, subject, u)
    where x.u <> all (bad);
    return query
    select x.u::int, 'ok', base + width_bucket(x.u::int, eu), stamp, null::bigint, x.subject
    from unnest(ms) with ordinality x(subject, u) where x.u <> all (bad);
    perform pg_notify('lethelog', '');
end $$;
grant execute on function lethelog.append to lethelog_appender, lethelog_worker;
grant delete on lethelog.usage to lethelog_functions;

-- As before, but that what was counted of the tenant is forgotten.
create or replace function lethelog.erase(
    erasure uuid, of_tenant uuid, memories uuid[], names uuid[], everything boolean, blocks bytea[], blocking uuid[]
) returns table (keys bigint, names_gone bigint, claims bigint, commands bigint, epoch int)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
begin
    perform pg_advisory_xact_lock(7283460113);

    delete from lethelog_vault.data_keys k where k.tenant = of_tenant
        and (everything or k.key_id in (select unnest(memories)));
    get diagnostics keys = row_count;
    delete from lethelog.directory d where d.tenant = of_tenant and (everything or d.id in (select unnest(names)));
    get diagnostics names_gone = row_count;
    if everything then
        -- An empty key stays where the tenant's was: a new one would let the tenant live on.
        delete from lethelog_vault.tenant_keys k where k.tenant = of_tenant;
        insert into lethelog_vault.tenant_keys (tenant, generation, wrapped) values (of_tenant, 1, ''::bytea);
        delete from lethelog.directory d where d.tenant = '00000000-0000-0000-0000-000000000000' and d.id = of_tenant;
        names_gone := names_gone + 1;
        delete from lethelog.usage k where k.tenant = of_tenant;
    end if;

    delete from lethelog.claims c where c.tenant = of_tenant
        and c.kind not in ('erasure', 'open-erasure', 'erasing')
        and (everything or c.holder in (select unnest(memories)));
    get diagnostics claims = row_count;
    -- Counted anew by the next unit that has a cap.
    update lethelog.usage k set live = null where k.tenant = of_tenant;
    insert into lethelog.claims (tenant, kind, digest, holder)
    select of_tenant, 'refuted', b.digest, b.holder from unnest(blocks, blocking) b(digest, holder)
    on conflict do nothing;
    -- The key stays, so that a retry does not write the text again; what the command said goes.
    update lethelog.commands c set hash = ''::bytea where c.tenant = of_tenant and c.hash <> ''::bytea
        and (everything or c.subject in (select unnest(memories)));
    get diagnostics commands = row_count;

    insert into lethelog.claims (tenant, kind, digest, holder) values (of_tenant, 'erasing', ''::bytea, erasure)
    on conflict (tenant, kind, digest) do update set holder = excluded.holder;
    update lethelog.erasing e set epoch = e.epoch + 1 returning e.epoch into epoch;
    perform pg_notify('lethelog_erased', '');
    return next;
end $$;
