-- A role for each kind of work (ADR 8). They exist by now: a role belongs to the whole server.
grant usage on schema lethelog to lethelog_door, lethelog_appender, lethelog_worker, lethelog_functions;
grant usage on schema lethelog_vault to lethelog_door, lethelog_worker, lethelog_functions;

-- A door reads what row-level security shows it. Names and tenants' keys come to be at their first use.
grant select on
    lethelog.events, lethelog.claims, lethelog.commands, lethelog.head, lethelog.directory, lethelog.erasing
to lethelog_door;
grant select on lethelog_vault.tenant_keys, lethelog_vault.data_keys to lethelog_door;
grant insert on lethelog.directory, lethelog_vault.tenant_keys to lethelog_door;

grant select on
    lethelog.events, lethelog.roots, lethelog.head, lethelog.claims, lethelog.commands, lethelog.directory,
    lethelog.erasing, lethelog.schema_version
to lethelog_worker;
grant select on lethelog_vault.tenant_keys, lethelog_vault.data_keys to lethelog_worker;
-- Wrapping anew under another master key. The keys themselves never change.
grant update (master, wrapped) on lethelog_vault.tenant_keys to lethelog_worker;
grant select, insert, update on lethelog.relay to lethelog_worker;

-- What the functions do, and no more.
grant select, insert on lethelog.events, lethelog.roots to lethelog_functions;
grant select, insert, update on lethelog.commands to lethelog_functions;
grant select, update on lethelog.head, lethelog.erasing to lethelog_functions;
grant select, insert, update, delete on lethelog.claims to lethelog_functions;
grant select, delete on lethelog.directory to lethelog_functions;
grant select, insert, delete on lethelog_vault.data_keys to lethelog_functions;
grant select, insert, update on lethelog_vault.tenant_keys to lethelog_functions;
grant execute on function lethelog.append to lethelog_appender;
-- An erasure deletes the read models' rows, destroys keys and says so, all in one transaction.
grant execute on function lethelog.append, lethelog.erase to lethelog_worker;

-- Positions and times of the log belong to no tenant, and are found by looking at the events of all.
create function lethelog.recorded_at(at_position bigint, of_event uuid default null) returns timestamptz
language sql stable security definer set search_path = pg_catalog, pg_temp
return (
    select e.recorded_at from lethelog.events e
    where e.position = at_position and (of_event is null or e.event_id = of_event)
);
create function lethelog.position_at(instant timestamptz) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    -- Positions have no gap and the log's time never goes back, so half of what is left falls out at each step.
    with recursive search(low, high) as (
        select 0::bigint, h.position from lethelog.head h
        union all
        select case when earlier then middle else low end, case when earlier then high else middle - 1 end
        from (
            select low, high, middle,
                (select e.recorded_at from lethelog.events e where e.position = middle) <= instant as earlier
            from (select low, high, (low + high + 1) / 2 as middle from search where low < high) halved
        ) compared
    )
    select low from search where low = high;
end;
grant execute on function lethelog.recorded_at to lethelog_door, lethelog_appender, lethelog_worker;
grant execute on function lethelog.position_at to lethelog_door, lethelog_worker;

-- What was made while there was one role for everything goes over to the worker.
do $$
begin
    if exists (select from pg_roles where rolname = 'lethelog_application') then
        if exists (select from pg_namespace where nspowner = 'lethelog_application'::regrole) then
            reassign owned by lethelog_application to lethelog_worker;
        end if;
        revoke all on all tables in schema lethelog, lethelog_vault from lethelog_application;
        revoke all on all functions in schema lethelog from lethelog_application;
        revoke all on schema lethelog, lethelog_vault from lethelog_application;
    end if;
end $$;
