"""Row-level security, made the same way for every table that holds a tenant's rows (ADR 8).

One statement protects all tables of some schemas, whoever made them: the migrations give it those of the log, the
projections those of every copy of a read model. A table that has a column ``tenant`` is protected by it; one that
has none is nobody's but its owner's, unless it is named as one that concerns no tenant.
"""

from collections.abc import Sequence

from .database import DOOR, FUNCTIONS, TENANT_SETTING, WORKER

TENANT = f"(select nullif(current_setting('{TENANT_SETTING}', true), '')::uuid)"
"""SQL of the tenant that a transaction is for; null outside of one, which equals no tenant.

A sub-select, so that it is asked once per statement. A connection that was set before answers ``''``."""

POLICIES = {
    "door": f"to {DOOR} using (tenant = {TENANT})",
    "worker": f"to {WORKER} using (true)",
    "functions": f"to {FUNCTIONS} using (true)",
}
"""The policies of every table with a column ``tenant``. Nobody else sees a row, the table's owner included."""


WORDS_BY_INDEX = "alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof"
"""Lets a door find words by their index, for a superuser, once in each database.

Under a policy only operators that leak nothing may be asked of an index. The match of full text raises no error
that tells of a row, but is not marked so; without this a door compares all rows of its tenant, one by one."""
ARE_WORDS_BY_INDEX = (
    "select proleakproof from pg_proc where oid = 'pg_catalog.ts_match_vq(tsvector, tsquery)'::regprocedure"
)


def protect_statement(schemas: Sequence[str]) -> str:
    """SQL that forces row-level security with `POLICIES` on every table of these schemas that has a tenant.

    What is protected already is left alone. For the owner of the tables.
    """
    policies = " ".join(
        f"if not exists (select from pg_policy where polrelid = found and polname = '{name}') then "
        f"execute format('create policy {name} on %s {_quoted(says)}', found); end if;"
        for name, says in POLICIES.items()
    )
    return (
        f"do $protect$ declare found regclass; begin for found in {_unprotected(schemas)} loop "
        "execute format('alter table %s enable row level security, force row level security', found); "
        f"{policies} end loop; end $protect$"
    )


def lift_statement(schemas: Sequence[str]) -> str:
    """SQL that takes row-level security off again, for loading: COPY is refused under it. For the owner."""
    return (
        f"do $lift$ declare found regclass; begin for found in {_tables(schemas)} and c.relrowsecurity loop "
        "execute format('alter table %s disable row level security, no force row level security', found); "
        "end loop; end $lift$"
    )


def untenanted(schemas: Sequence[str]) -> str:
    """A query for the tables of these schemas without a column ``tenant``: schema and name."""
    return (
        "select n.nspname::text, c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        f"where n.nspname = any({_array(schemas)}) and c.relkind in ('r', 'p') and not {_HAS_TENANT} order by 1, 2"
    )


def _unprotected(schemas: Sequence[str]) -> str:
    return (
        f"{_tables(schemas)} and {_HAS_TENANT} and not (c.relrowsecurity and c.relforcerowsecurity "
        f"and {len(POLICIES)} = (select count(*) from pg_policy p where p.polrelid = c.oid))"
    )


def _tables(schemas: Sequence[str]) -> str:
    return (
        "select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        f"where n.nspname = any({_array(schemas)}) and c.relkind in ('r', 'p')"
    )


def _array(schemas: Sequence[str]) -> str:
    return "array[" + ", ".join(f"'{_quoted(one)}'" for one in schemas) + "]::name[]"


def _quoted(text: str) -> str:
    return text.replace("'", "''")


_HAS_TENANT = (
    "exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant' "
    "and a.atttypid = 'uuid'::regtype and not a.attisdropped)"
)
OPEN_TABLES = (
    "select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace "
    "where n.nspname ~ '^lethelog(_|$)' and c.relkind in ('r', 'p') and "
    f"{_HAS_TENANT} and has_schema_privilege('{DOOR}', n.oid, 'usage') and "
    f"has_table_privilege('{DOOR}', c.oid, 'select') and not (c.relrowsecurity and c.relforcerowsecurity "
    f"and {len(POLICIES)} = (select count(*) from pg_policy p where p.polrelid = c.oid)) order by 1"
)
"""A query for tables of which a door may see more than its tenant's rows: those that somebody opened."""
