-- Before there was a role for each kind of work there was one for everything (0010 does away with it). Where the
-- server never had it, nothing is given to it.
do $$
begin
    if not exists (select from pg_roles where rolname = 'lethelog_application') then
        return;
    end if;
    grant usage on schema lethelog, lethelog_vault to lethelog_application;
    grant select on
        lethelog.events, lethelog.roots, lethelog.head, lethelog.claims, lethelog.commands, lethelog.schema_version
    to lethelog_application;
    grant execute on function lethelog.append to lethelog_application;
    grant select, insert on lethelog.directory, lethelog_vault.tenant_keys to lethelog_application;
    -- Data keys come with the event that needs them, so the append function writes them.
    grant select on lethelog_vault.data_keys to lethelog_application;
    grant select, insert, update on lethelog.relay to lethelog_application;
end $$;

-- Read models belong to the application, which makes, rebuilds and drops them. What a rebuild or a comparison that
-- was cut short left behind goes.
do $$
declare
    found record;
begin
    for found in select nspname from pg_namespace where nspname ~ '^lethelog_(rebuild|compare)_' loop
        execute format('drop schema %I cascade', found.nspname);
    end loop;
    if not exists (select from pg_roles where rolname = 'lethelog_application') then
        return;
    end if;
    for found in select nspname from pg_namespace where nspname ~ '^lethelog_views' loop
        execute format('alter schema %I owner to lethelog_application', found.nspname);
    end loop;
    for found in
        select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname ~ '^lethelog_views' and c.relkind = 'r'
    loop
        execute format('alter table %I.%I owner to lethelog_application', found.nspname, found.relname);
    end loop;
end $$;
