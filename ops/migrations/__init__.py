"""The schema of the log, the vault and the directory, moved forward by Alembic.

Read models are not migrated: a changed one gets a new version and is rebuilt from the log.
"""

from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ...domain.errors import Misconfigured, Unavailable
from ...streams.database import APPENDER, DOOR, WORKER
from . import roles
from .protection import protect_log

_HERE = Path(__file__).parent
_LOCK = 7_283_460_114
"""Advisory lock of migrations, so that two starting processes do not both migrate."""


def migrate(owner_url: str) -> str:
    """Bring the schema to the newest revision this version knows; returns it. Safe to run from many processes.

    ``owner_url`` is a login that may make schemas, the extension and the roles, or finds them made.
    Raises `Misconfigured` for a schema newer than this version or a missing right, `Unavailable` when the server
    does not answer.
    """
    known = revisions()
    newest = known[-1]
    try:
        with psycopg.connect(owner_url, autocommit=True, connect_timeout=10) as connection:
            present = _present(connection)
            if present is not None and present not in known:
                raise Misconfigured(
                    f"the database has schema {present}, which this version of Lethelog does not know; "
                    "upgrade Lethelog"
                )
            if present == newest and roles.are_prepared(connection):
                return newest
            connection.execute("select pg_advisory_lock(%s)", (_LOCK,))
            try:
                roles.prepare_roles(connection)
                _upgrade(connection)
            finally:
                connection.execute("select pg_advisory_unlock(%s)", (_LOCK,))
    except psycopg.errors.InsufficientPrivilege as error:
        database = str(conninfo_to_dict(owner_url).get("dbname") or "lethelog")
        raise Misconfigured(
            "the database user lacks a right that setting up the schema needs. Let an administrator run, in this "
            "database: create extension if not exists vector; "
            f"{roles.statements_for_administrators(database)}. Or name a login with these rights by "
            "LETHELOG_DATABASE_OWNER_URL"
        ) from error
    except psycopg.Error as error:
        raise _unavailable(error) from error
    return newest


def _unavailable(error: psycopg.Error) -> Unavailable:
    return Unavailable(f"the database cannot be prepared: {type(error).__name__}; is PostgreSQL running?")


def check_logins(database_url: str, worker_url: str | None = None) -> None:
    """Raise `Misconfigured` when a login may not work in its roles; `Unavailable` without a server."""
    _check_login(
        database_url, (DOOR, APPENDER) if worker_url else (DOOR, APPENDER, WORKER), "LETHELOG_DATABASE_URL"
    )
    if worker_url:
        _check_login(worker_url, (WORKER,), "LETHELOG_WORKER_DATABASE_URL")


def _check_login(url: str, wanted: tuple[str, ...], setting: str) -> None:
    try:
        who, missing = roles.missing_roles(url, wanted)
    except psycopg.Error as error:
        raise _unavailable(error) from error
    if missing:
        raise Misconfigured(
            f"{who} may not work as {', '.join(missing)}; let an administrator run: "
            f"grant {', '.join(missing)} to {who}",
            setting=setting,
        )


def revisions() -> tuple[str, ...]:
    """The revisions this version knows, oldest first. Their files are named ``NUMBER_name.py``."""
    return tuple(sorted(path.name.partition("_")[0] for path in (_HERE / "versions").glob("[0-9]*_*.py")))


def schema_revision(database_url: str) -> tuple[str | None, str]:
    """(revision in the database or None, newest revision known to this version)."""
    with psycopg.connect(database_url, autocommit=True, connect_timeout=10) as connection:
        return _present(connection), revisions()[-1]


def _present(connection: psycopg.Connection) -> str | None:
    row = connection.execute("select to_regclass('lethelog.schema_version')").fetchone()
    if row is None or row[0] is None:
        return None
    found = connection.execute("select version_num from lethelog.schema_version").fetchone()
    return None if found is None else str(found[0])


def _upgrade(connection: psycopg.Connection) -> None:
    # Imported here: they take longer than all the rest of a command whose schema is up to date.
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError

    connection.execute("create schema if not exists lethelog")
    url = connection.info.dsn
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url, password=connection.info.password or None)
    )
    config = Config()
    # ConfigParser would read a percent sign in the path as an interpolation.
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    try:
        with engine.begin() as bound:
            config.attributes["connection"] = bound
            command.upgrade(config, "head")
            protect_log(bound)
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.Error):
            raise error.orig from error
        raise
    finally:
        engine.dispose()
