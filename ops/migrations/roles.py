"""The roles of ADR 8: what belongs to the whole server, or to the database as a whole, and so to no revision."""

import contextlib
from collections.abc import Sequence

import psycopg
from psycopg import sql

from ...streams.database import APPENDER, BACKUP, DOOR, FUNCTIONS, WORKER
from ...streams.row_security import WORDS_BY_INDEX

ROLES = (DOOR, APPENDER, WORKER, FUNCTIONS)
"""The roles that there must be."""


def statements_for_administrators(database: str) -> str:
    """What an administrator runs where the login that migrates may not make roles itself."""
    made = "; ".join(f"create role {role} nologin" for role in ROLES)
    return (
        f"{made}; grant {', '.join(ROLES)} to the login that migrates; "
        f'grant create on database "{database}" to that login and to {WORKER}'
    )


def are_prepared(connection: psycopg.Connection) -> bool:
    """Whether every role is there and the worker may make schemas, a right that a copied database has lost."""
    row = connection.execute(
        "select (select count(*) from pg_roles where rolname = any(%s)) = %s and coalesce((select "
        "has_database_privilege(oid, current_database(), 'create') from pg_roles where rolname = %s), false)",
        (list(ROLES), len(ROLES), WORKER),
    ).fetchone()
    return row == (True,)


def prepare_roles(connection: psycopg.Connection) -> None:
    """Make what is missing. Raises `InsufficientPrivilege`, but not for what only speeds up or serves backups."""
    for role in ROLES:
        _make(connection, role, "nologin")
    # Only a role that passes row-level security itself may hand that on, which few administrators' logins do.
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
        _make(connection, BACKUP, "nologin bypassrls")
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
        connection.execute(WORDS_BY_INDEX)
    for role in ROLES:
        [[may]] = connection.execute("select pg_has_role(%s::name, 'usage')", (role,)).fetchall()
        if not may:
            connection.execute(sql.SQL("grant {} to current_user").format(sql.Identifier(role)))
    if not are_prepared(connection):
        connection.execute(
            sql.SQL("grant create on database {} to {}").format(
                sql.Identifier(connection.info.dbname), sql.Identifier(WORKER)
            )
        )


def missing_roles(url: str, roles: Sequence[str]) -> tuple[str, list[str]]:
    """(this login, those of the roles that it may not become)."""
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        rows = connection.execute(
            "select current_user, x.name from unnest(%s::name[]) x(name) "
            "left join pg_roles r on r.rolname = x.name "
            "where r.oid is null or not pg_has_role(r.oid, 'set') union all select current_user, null",
            (list(roles),),
        ).fetchall()
    return rows[-1][0], [name for _, name in rows if name is not None]


def _make(connection: psycopg.Connection, role: str, attributes: str) -> None:
    if connection.execute("select from pg_roles where rolname = %s", (role,)).fetchone() is not None:
        return
    statement = f"create role {role} {attributes}"
    with contextlib.suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        connection.execute(statement.encode())
