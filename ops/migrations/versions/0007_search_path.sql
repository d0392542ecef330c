-- pg_temp is searched first for types unless it is named, and whoever calls the function may make types there: a
-- domain called bytea with a check of the caller's own would run with the rights of the function's owner.
alter function lethelog.append set search_path = pg_catalog, pg_temp;
alter function lethelog.refuse_change set search_path = pg_catalog, pg_temp;
