-- Quotas. One unit at a time, since what it adds is judged by what is there after it: `lethelog.append` does all it
-- does, and what is too much is taken back whole. Who has no quota calls `lethelog.append` as before.
create table lethelog.write_counts (
    tenant uuid   primary key,
    minute bigint not null,
    writes bigint not null
);

-- As lethelog.append for one unit, and beside its outcomes:
--   live       it would make more than "most" live memories, of which each holds one claim of the kind "content"; how
--              many too many
--   rate       it would write more than "per_minute" memories in this minute; seconds until the next one
create function lethelog.append_within_quotas(
    most bigint, per_minute bigint,
    ut uuid[], mk bytea[], mh bytea[], ms uuid[],
    eu int[], es uuid[], ev bigint[], en text[], ei uuid[], eb bytea[],
    cu int[], ck text[], cd bytea[], cf uuid[], ct uuid[],
    ku int[], kid uuid[], kw bytea[]
) returns table (unit int, outcome text, pos bigint, at timestamptz, detail bigint, subject uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    written int := cardinality(array_positions(en, 'memory.remembered'));
    held bigint;
    this_minute bigint;
begin
    if cardinality(ut) <> 1 then
        raise exception 'quotas are judged for one unit at a time' using errcode = '22023';
    end if;
    -- Before the block that may be taken back: what is locked within it would be let go.
    perform pg_advisory_xact_lock(7283460113);
    begin
        select a.unit, a.outcome, a.pos, a.at, a.detail, a.subject into unit, outcome, pos, at, detail, subject
        from lethelog.append(ut, mk, mh, ms, eu, es, ev, en, ei, eb, cu, ck, cd, cf, ct, ku, kid, kw) a;
        if outcome = 'ok' and most is not null then
            select count(*) into held
            from (select from lethelog.claims c where c.tenant = ut[1] and c.kind = 'content') k;
            if held > most then
                raise exception using errcode = 'LTH01', message = (held - most)::text;
            end if;
        end if;
        if outcome = 'ok' and per_minute is not null and written > 0 then
            this_minute := floor(extract(epoch from at) / 60);
            insert into lethelog.write_counts as w (tenant, minute, writes) values (ut[1], this_minute, written)
            on conflict (tenant) do update
            set writes = written + case when w.minute = excluded.minute then w.writes else 0 end,
                minute = excluded.minute
            returning w.writes into held;
            if held > per_minute then
                raise exception using errcode = 'LTH02',
                    message = ceil((this_minute + 1) * 60 - extract(epoch from at))::bigint::text;
            end if;
        end if;
    exception when sqlstate 'LTH01' or sqlstate 'LTH02' then
        unit := 1;
        outcome := case sqlstate when 'LTH01' then 'live' else 'rate' end;
        detail := sqlerrm::bigint;
        pos := null;
        at := null;
        subject := null;
    end;
    return next;
end $$;
grant select, insert, update on lethelog.write_counts to lethelog_functions;
grant select on lethelog.write_counts to lethelog_door, lethelog_worker;
grant execute on function lethelog.append_within_quotas to lethelog_appender, lethelog_worker;
