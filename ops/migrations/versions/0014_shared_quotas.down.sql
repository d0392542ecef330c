drop function lethelog.append;
revoke delete on lethelog.usage from lethelog_functions;
alter table lethelog.usage drop column live;
alter table lethelog.usage rename constraint usage_pkey to write_counts_pkey;
alter table lethelog.usage rename to write_counts;
