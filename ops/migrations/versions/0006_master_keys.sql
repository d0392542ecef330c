-- Which master key a tenant's key is wrapped under; null for those of the time before there could be several.
alter table lethelog_vault.tenant_keys add column master bytea;
-- Wrapping anew under another master key. The keys themselves never change.
do $$
begin
    if exists (select from pg_roles where rolname = 'lethelog_application') then
        grant update (master, wrapped) on lethelog_vault.tenant_keys to lethelog_application;
    end if;
end $$;
