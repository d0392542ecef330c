"""What every table and function of the log gets after every revision, so that none can forget it (ADR 8)."""

from typing import TYPE_CHECKING

from ...domain.errors import Misconfigured
from ...streams.column_statistics import unsampled_statement
from ...streams.database import BACKUP, FUNCTIONS
from ...streams.row_security import protect_statement, untenanted

if TYPE_CHECKING:
    from sqlalchemy import Connection

SCHEMAS = ("lethelog", "lethelog_vault")
WITHOUT_TENANT = frozenset({"erasing", "head", "roots", "relay", "schema_version"})
"""Tables of the log that hold nothing of a tenant."""


def protect_log(connection: "Connection") -> None:
    """Force row-level security, hand functions over to their role, leave nothing to everybody, and let PostgreSQL
    keep no samples of keys and sealed names.

    Raises `Misconfigured` for a table that has no tenant and is not known to need none.
    """
    forgotten = [
        f"{schema}.{table}"
        for schema, table in connection.exec_driver_sql(_driver(untenanted(SCHEMAS))).all()
        if table not in WITHOUT_TENANT
    ]
    if forgotten:
        raise Misconfigured(f"{', '.join(forgotten)}: a table of the log needs a column tenant of type uuid")
    connection.exec_driver_sql(_driver(protect_statement(SCHEMAS)))
    connection.exec_driver_sql(_driver(unsampled_statement(SCHEMAS)))
    connection.exec_driver_sql(_driver(_RIGHTS))


def _driver(statement: str) -> str:
    """As the driver takes it, for which a percent sign begins a parameter."""
    return statement.replace("%", "%%")


_RIGHTS = f"""
do $$
declare
    found regprocedure;
begin
    revoke all on all functions in schema lethelog, lethelog_vault from public;
    revoke all on all tables in schema lethelog, lethelog_vault from public;
    -- Whoever owns a function must be allowed to make one there, for the moment of the change.
    grant create on schema lethelog to {FUNCTIONS};
    for found in
        select p.oid from pg_proc p
        where p.pronamespace = 'lethelog'::regnamespace and p.prosecdef and p.proowner <> '{FUNCTIONS}'::regrole
    loop
        execute format('alter function %s owner to {FUNCTIONS}', found);
    end loop;
    revoke create on schema lethelog from {FUNCTIONS};
    if exists (select from pg_roles where rolname = '{BACKUP}') then
        grant usage on schema lethelog, lethelog_vault to {BACKUP};
        grant select on all tables in schema lethelog, lethelog_vault to {BACKUP};
    end if;
end $$
"""
