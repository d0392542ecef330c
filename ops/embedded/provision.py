"""What a new database cluster gets: the role ``lethelog``, its database, and pgvector."""

import os
from pathlib import Path

from ...domain.errors import Misconfigured, Unavailable
from .files import write_atomically
from .placement import Placement
from .postgres import PORT, SUPERUSER
from .secret_files import has_secret, make_secret, read_secret

OWNER = "lethelog"
DATABASE = "lethelog"

_DONE = "lethelog-provisioned"
_VERSION = "1"


def provision(secrets_folder: Path, placement: Placement) -> None:
    """Finish what is missing; every step may be repeated, and a mark in the cluster says when all are done.

    Raises OSError for files, Misconfigured for a lost password, Unavailable for what the server refuses.
    """
    mark = placement.cluster / _DONE
    if not has_secret(secrets_folder, "owner"):
        mark.unlink(missing_ok=True)  # first: the role must learn its new password even if we are cut short
    if _read(mark) == _VERSION:
        return
    superuser = read_secret(secrets_folder, "superuser")
    owner = make_secret(secrets_folder, "owner")
    _run_statements(placement, superuser, owner)
    write_atomically(mark, _VERSION.encode())
    placement.account.own(mark)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _run_statements(placement: Placement, superuser: str, owner: str) -> None:
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

    role, name = sql.Identifier(OWNER), sql.Identifier(DATABASE)
    try:
        with connect("template1") as template:
            template.execute("CREATE EXTENSION IF NOT EXISTS vector")
        with connect("postgres") as server:
            known = server.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [OWNER]).fetchone()
            # Only the hash is sent, so that no log or view of statements can show the password.
            hashed = server.pgconn.encrypt_password(owner.encode(), OWNER.encode(), b"scram-sha-256").decode()
            server.execute(
                sql.SQL("{} ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD {}").format(
                    sql.SQL("ALTER" if known else "CREATE"), role, sql.Literal(hashed)
                )
            )
            if not server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                server.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, role))
        with connect(DATABASE) as database:
            database.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except psycopg.OperationalError as error:
        if "password authentication failed" in str(error):
            raise Misconfigured(
                f"The database in {placement.cluster} does not take the password in the file "
                "secrets/superuser. Put that file back from the backup the database is of."
            ) from None
        raise Unavailable(f"The new database could not be set up: {error}".strip()) from None
    except psycopg.Error as error:
        raise Unavailable(f"The new database could not be set up: {error}".strip()) from None
