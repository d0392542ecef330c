-- How often something was erased, whose ever it was: whoever remembers anything compares it (streams/recollection.py).
create table lethelog.erasing (
    one   int    primary key default 1 check (one = 1),
    epoch int    not null
) with (fillfactor = 10);
insert into lethelog.erasing values (1, 0);

-- Erasures that are asked for and not verified; whoever finishes them looks for them in all tenants.
create index claims_open_erasures on lethelog.claims (tenant, digest) where kind = 'open-erasure';

-- Destroys what makes memories readable, inside the transaction in which the read models' clear rows go: their data
-- keys, names of the directory and, with "everything", all keys and names of the tenant. What claims and command keys
-- say of their texts goes too, but "blocks": digests under which a text comes back quarantined.
--
-- Nobody appends until the transaction ends, and units that were decided before are refused by the claim "erasing".
create function lethelog.erase(
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
        insert into lethelog_vault.tenant_keys (tenant, wrapped) values (of_tenant, ''::bytea)
        on conflict (tenant) do update set wrapped = excluded.wrapped, master = null;
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
revoke all on function lethelog.erase from public;
do $$
begin
    if exists (select from pg_roles where rolname = 'lethelog_application') then
        grant select on lethelog.erasing to lethelog_application;
        grant execute on function lethelog.erase to lethelog_application;
    end if;
end $$;
