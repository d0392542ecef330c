-- A door that is made to run SQL of others must not lock its own tenant out: only a tenant without a key gets one from
-- it, and nothing but that.
create function lethelog.first_tenant_key(of_tenant uuid, with_master bytea, with_wrapped bytea) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if of_tenant is distinct from nullif(current_setting('lethelog.tenant', true), '')::uuid then
        raise insufficient_privilege using message = 'a door makes the key of its own tenant';
    end if;
    insert into lethelog_vault.tenant_keys (tenant, master, wrapped)
    select of_tenant, with_master, with_wrapped where octet_length(with_wrapped) > 0 and not exists (
        select from lethelog_vault.tenant_keys k where k.tenant = of_tenant
    ) on conflict do nothing;
end $$;
grant execute on function lethelog.first_tenant_key to lethelog_door;
revoke insert on lethelog_vault.tenant_keys from lethelog_door;

-- What a tenant has in the log, in order; without it a small tenant's reads go through the events of all others.
create index events_of_tenant on lethelog.events (tenant, position);
