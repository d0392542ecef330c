"""Which columns PostgreSQL keeps no samples of: what somebody wrote must not outlive its row among the statistics.

``pg_statistic`` holds values, words and vectors as they stood when a table was last analysed, and an erasure
cannot take single ones out of it.
"""

from collections.abc import Sequence

PLANNED = frozenset(
    {
        *("memory_type", "scope", "producer", "trust", "edge", "embedding_model", "derived_from", "links"),
        *("kind", "status", "state", "action", "rule", "outcome", "found_by", "actor_kind", "decided_by_kind"),
        *("name", "event", "schema", "version", "about", "digest"),
    }
)
"""Columns of which samples are kept, since plans depend on them: words of ours, opaque ids, names of scopes, and
the keyed digests that claims, commands and outside names are found by."""


def unsampled_statement(schemas: Sequence[str]) -> str:
    """SQL that ends sampling of every column of these schemas that may hold text, bytes, JSON, words or a vector,
    but those in `PLANNED`, and of what indexes compute from any; samples that there are go.

    What is done already is left alone. For the owner of the tables. Before PostgreSQL 18 old samples of a table
    stay until it is made anew.
    """
    of_schemas = "array[" + ", ".join(f"'{one}'" for one in schemas) + "]::name[]"
    planned = "array[" + ", ".join(f"'{one}'" for one in sorted(PLANNED)) + "]::name[]"
    return f"""
        do $unsampled$
        declare
            found record;
            clearing bool := to_regproc('pg_catalog.pg_clear_attribute_stats') is not null;
        begin
            for found in
                select n.nspname, c.relname, a.attname, a.attnum, c.relkind
                from pg_attribute a join pg_class c on c.oid = a.attrelid
                join pg_namespace n on n.oid = c.relnamespace join pg_type t on t.oid = a.atttypid
                left join pg_type e on e.oid = t.typelem and t.typcategory = 'A'
                where n.nspname = any({of_schemas}) and a.attnum > 0 and not a.attisdropped
                and a.attstattarget is distinct from 0
                and coalesce(e.typcategory, t.typcategory) in ('S', 'U')
                and coalesce(e.oid, t.oid) <> 'uuid'::regtype
                and (c.relkind = 'r' and a.attname <> all({planned})
                     or c.relkind = 'i' and (select i.indkey[a.attnum - 1] = 0 and a.attnum <= i.indnkeyatts
                                             from pg_index i where i.indexrelid = c.oid))
            loop
                execute format(
                    case when found.relkind = 'r' then 'alter table %1$I.%2$I alter column %3$I set statistics 0'
                         else 'alter index %1$I.%2$I alter column %4$s set statistics 0' end,
                    found.nspname, found.relname, found.attname, found.attnum);
                if clearing then
                    perform pg_clear_attribute_stats(
                        found.nspname::text, found.relname::text, found.attname::text, false);
                end if;
            end loop;
        end $unsampled$
    """
