-- Back to one role for everything, which owns the read models and is not shown less than all.
do $$
declare
    found record;
begin
    if not exists (select from pg_roles where rolname = 'lethelog_application') then
        create role lethelog_application nologin;
        grant lethelog_application to current_user;
    end if;
    execute format('grant create on database %I to lethelog_application', current_database());
    for found in
        select c.oid::regclass as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname ~ '^lethelog(_|$)' and c.relrowsecurity
    loop
        execute format('alter table %s disable row level security, no force row level security', found.name);
    end loop;
    for found in
        select p.polname, p.polrelid::regclass as name from pg_policy p join pg_class c on c.oid = p.polrelid
        join pg_namespace n on n.oid = c.relnamespace where n.nspname ~ '^lethelog(_|$)'
    loop
        execute format('drop policy %I on %s', found.polname, found.name);
    end loop;
    for found in
        select nspname from pg_namespace
        where nspname ~ '^lethelog_' and nspname <> 'lethelog_vault' and nspowner = 'lethelog_worker'::regrole
    loop
        execute format('revoke all on all tables in schema %I from lethelog_door', found.nspname);
        execute format('revoke all on schema %I from lethelog_door', found.nspname);
    end loop;
end $$;
do $$
begin
    if exists (select from pg_namespace where nspowner = 'lethelog_worker'::regrole) then
        reassign owned by lethelog_worker to lethelog_application;
    end if;
end $$;
drop function lethelog.recorded_at, lethelog.position_at;
alter function lethelog.append owner to current_user;
alter function lethelog.erase owner to current_user;
revoke all on all functions in schema lethelog from lethelog_appender, lethelog_worker, lethelog_functions;
revoke all on all tables in schema lethelog, lethelog_vault
from lethelog_door, lethelog_appender, lethelog_worker, lethelog_functions;
revoke all on schema lethelog, lethelog_vault
from lethelog_door, lethelog_appender, lethelog_worker, lethelog_functions;
grant usage on schema lethelog, lethelog_vault to lethelog_application;
grant select on
    lethelog.events, lethelog.roots, lethelog.head, lethelog.claims, lethelog.commands, lethelog.erasing,
    lethelog.schema_version
to lethelog_application;
grant execute on function lethelog.append, lethelog.erase to lethelog_application;
grant select, insert on lethelog.directory, lethelog_vault.tenant_keys to lethelog_application;
grant update (master, wrapped) on lethelog_vault.tenant_keys to lethelog_application;
grant select on lethelog_vault.data_keys to lethelog_application;
grant select, insert, update on lethelog.relay to lethelog_application;
grant execute on function lethelog.row_hash to public;
grant execute on function lethelog.refuse_change to public;
