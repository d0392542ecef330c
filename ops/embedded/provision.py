"""What a new database cluster gets: pgvector, the database, its owner, the roles, and the login that has them."""

import os
from collections.abc import Mapping
from pathlib import Path

from ...domain.errors import Misconfigured, Unavailable
from ...streams.database import APPENDER, BACKUP, DOOR, FUNCTIONS, WORKER
from ...streams.row_security import WORDS_BY_INDEX
from .files import write_atomically
from .placement import Placement
from .postgres import PORT, SUPERUSER
from .secret_files import has_secret, make_secret, read_secret

OWNER = "lethelog"
"""Owns the log and migrates it; nobody works as it otherwise."""
LOGIN = "lethelog_local"
"""The login of everything else: it may become the roles it works in (ADR 8), and nothing else."""
DATABASE = "lethelog"

_GRANTED = {
    DOOR: (OWNER, LOGIN),
    APPENDER: (OWNER, LOGIN),
    WORKER: (OWNER, LOGIN),
    # Only a member can make it the owner of a function.
    FUNCTIONS: (OWNER,),
    BACKUP: (),
}
"""Who may become which role."""
_DONE = "lethelog-provisioned"
PROVISIONED = "3"
"""Counts up with every change of what a cluster gets, the passwords included."""


def provision(secrets_folder: Path, placement: Placement) -> None:
    """Finish what is missing; every step may be repeated, and a mark in the cluster says when all are done.

    Raises OSError for files, Misconfigured for a lost password, Unavailable for what the server refuses.
    """
    mark = placement.cluster / _DONE
    if not (has_secret(secrets_folder, "owner") and has_secret(secrets_folder, "application")):
        mark.unlink(missing_ok=True)  # first: the roles must learn their new passwords even if we are cut short
    if _read(mark) == PROVISIONED:
        return
    superuser = read_secret(secrets_folder, "superuser")
    passwords = {OWNER: make_secret(secrets_folder, "owner"), LOGIN: make_secret(secrets_folder, "application")}
    _run_statements(placement, superuser, passwords)
    write_atomically(mark, PROVISIONED.encode())
    placement.account.own(mark)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _run_statements(placement: Placement, superuser: str, passwords: Mapping[str, str]) -> None:
    import psycopg  # a warm start does without it
    from psycopg import sql

    def connect(database: str) -> psycopg.Connection:
        return psycopg.connect(
            host=os.fspath(placement.sockets),
            port=PORT,
            user=SUPERUSER,
            password=superuser,
            dbname=database,
            connect_timeout=20,
            autocommit=True,
        )

    owner, name = sql.Identifier(OWNER), sql.Identifier(DATABASE)
    try:
        with connect("template1") as template:
            template.execute("CREATE EXTENSION IF NOT EXISTS vector")
        with connect("postgres") as server:
            for login, password in passwords.items():
                known = server.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [login]).fetchone()
                # Only the hash is sent, so that no log or view of statements can show the password.
                hashed = server.pgconn.encrypt_password(
                    password.encode(), login.encode(), b"scram-sha-256"
                ).decode()
                server.execute(
                    sql.SQL("{} ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD {}").format(
                        sql.SQL("ALTER" if known else "CREATE"), sql.Identifier(login), sql.Literal(hashed)
                    )
                )
            for role, granted_to in _GRANTED.items():
                if not server.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                    server.execute(
                        sql.SQL("CREATE ROLE {} NOLOGIN {}").format(
                            sql.Identifier(role), sql.SQL("BYPASSRLS" if role == BACKUP else "")
                        )
                    )
                for login in granted_to:
                    server.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(login)))
            if not server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                server.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, owner))
        with connect(DATABASE) as database:
            database.execute("CREATE EXTENSION IF NOT EXISTS vector")
            database.execute(WORDS_BY_INDEX)
    except psycopg.OperationalError as error:
        if "password authentication failed" in str(error):
            raise Misconfigured(
                f"The database in {placement.cluster} does not take the password in the file "
                "secrets/superuser. Put that file back from the backup the database is of."
            ) from None
        raise Unavailable(f"The new database could not be set up: {error}".strip()) from None
    except psycopg.Error as error:
        raise Unavailable(f"The new database could not be set up: {error}".strip()) from None
