-- A tenant's key can be replaced while everything runs. Its generations are there together until every data key is
-- wrapped under the newest; a wrapped data key begins with the generation that opens it (streams/wrapping.py).
alter table lethelog_vault.tenant_keys
    add column generation int not null default 1 check (generation > 0),
    -- Null for those of the time before this was recorded.
    add column made_at timestamptz;
alter table lethelog_vault.tenant_keys alter column made_at set default now();
alter table lethelog_vault.tenant_keys drop constraint tenant_keys_pkey, add primary key (tenant, generation);

-- Puts a new key in front of a tenant's only one, "after", and keeps what was derived from that one. Nobody appends
-- meanwhile, and whoever appends later must have wrapped under the new one: from here on those of before grow fewer.
create function lethelog.begin_tenant_key(
    of_tenant uuid, after int, new_master bytea, new_wrapped bytea, ids uuid[], kept bytea[]
) returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform pg_advisory_xact_lock(7283460113);
    if (select array_agg(k.generation) from lethelog_vault.tenant_keys k
        where k.tenant = of_tenant and k.wrapped <> ''::bytea) is distinct from array[after]
    then
        return false;
    end if;
    insert into lethelog_vault.tenant_keys (tenant, generation, master, wrapped)
    values (of_tenant, after + 1, new_master, new_wrapped);
    insert into lethelog_vault.data_keys (tenant, key_id, wrapped)
    select of_tenant, x.key_id, x.wrapped from unnest(ids, kept) x(key_id, wrapped);
    return true;
end $$;

-- Stores data keys wrapped under the newest key of their tenant, where nobody else changed or destroyed them. Passes
-- over those that somebody holds: an erasure waits for nobody here, and nobody for an erasure.
create function lethelog.rewrap_data_keys(of_tenant uuid, ids uuid[], known bytea[], fresh bytea[])
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    done bigint;
begin
    update lethelog_vault.data_keys k set wrapped = x.fresh from (
        select d.key_id, u.fresh from unnest(ids, known, fresh) u(key_id, known, fresh)
        join lethelog_vault.data_keys d on d.tenant = of_tenant and d.key_id = u.key_id and d.wrapped = u.known
        where octet_length(u.fresh) = 64 and substr(u.fresh, 1, 4) = (
            select int4send(max(t.generation)) from lethelog_vault.tenant_keys t where t.tenant = of_tenant
        )
        for update of d skip locked
    ) x where k.tenant = of_tenant and k.key_id = x.key_id;
    get diagnostics done = row_count;
    return done;
end $$;

-- Destroys a tenant's older key once it wraps nothing any more, and has every process let go of it.
create function lethelog.end_tenant_key(of_tenant uuid, ended int)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (
        select from lethelog_vault.data_keys d where d.tenant = of_tenant
            and case octet_length(d.wrapped) when 64 then substr(d.wrapped, 1, 4) else int4send(1) end <> (
                select int4send(max(t.generation)) from lethelog_vault.tenant_keys t where t.tenant = of_tenant
            )
    ) then
        return false;
    end if;
    delete from lethelog_vault.tenant_keys k where k.tenant = of_tenant and k.generation = ended and exists (
        select from lethelog_vault.tenant_keys t where t.tenant = of_tenant and t.generation > ended
    );
    perform pg_notify('lethelog_erased', '');
    return true;
end $$;
grant execute on function lethelog.begin_tenant_key, lethelog.rewrap_data_keys, lethelog.end_tenant_key
to lethelog_worker;
grant delete on lethelog_vault.tenant_keys to lethelog_functions;
grant update (wrapped) on lethelog_vault.data_keys to lethelog_functions;

-- As before, but that a unit is refused whose data keys are wrapped under a key that was replaced since.
create or replace function lethelog.append(
    ut uuid[], mk bytea[], mh bytea[], ms uuid[],
    eu int[], es uuid[], ev bigint[], en text[], ei uuid[], eb bytea[],
    cu int[], ck text[], cd bytea[], cf uuid[], ct uuid[],
    ku int[], kid uuid[], kw bytea[]
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

-- As before, but that every generation of the tenant's key goes.
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
    end if;

    delete from lethelog.claims c where c.tenant = of_tenant
        and c.kind not in ('erasure', 'open-erasure', 'erasing')
        and (everything or c.holder in (select unnest(memories)));
    get diagnostics claims = row_count;
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
