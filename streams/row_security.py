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
