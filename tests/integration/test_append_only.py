"""The log is append-only for everybody: the application lacks the rights, and triggers refuse owner and superuser.

An owner can take the triggers off; what is then changed is found by `lethelog audit verify` (test_audit.py).
"""

from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.ops import migrations
from lethelog.ops.migrations import check_application, migrate
from lethelog.streams.append import PreparedUnit, call_statement, unit_arrays
from lethelog.streams.database import APPLICATION, Database, session_options
from lethelog.streams.log import CommandKey
from psycopg.conninfo import conninfo_to_dict, make_conninfo

FORBIDDEN = [
    "update {table} set position = position",
    "update {table} set position = position where false",
    "delete from {table}",
    "delete from {table} where false",
    "truncate {table}",
    "truncate {table} cascade",
]
LOG = ["lethelog.events", "lethelog.roots"]


@pytest.fixture
def as_application(database_url: str):
    with psycopg.connect(database_url, autocommit=True, options=session_options()) as connection:
        yield connection


@pytest.fixture
def as_owner(database_url: str):
    """The login that migrated, which is a superuser here: no right is missing, only the trigger stands."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
async def filled(world):
    """A log with events in it; how many."""
    await world.remember("Deploys go to Hetzner")
    return await world.engine.log.head()


def count(connection: psycopg.Connection, table: str) -> int:
    row = connection.execute(f"select count(*) from {table}").fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("table", LOG)
@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_owner_is_refused_by_the_trigger(filled, as_owner, table, statement):
    before = count(as_owner, table)
    assert before > 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
        as_owner.execute(statement.format(table=table))
    assert count(as_owner, table) == before


@pytest.mark.parametrize("table", LOG)
@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_application_is_refused_by_its_rights(filled, as_application, table, statement):
    assert count(as_application, table) > 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
        as_application.execute(statement.format(table=table))


@pytest.mark.parametrize(
    "statement",
    [
        "insert into lethelog.events select * from lethelog.events limit 1",
        "insert into lethelog.roots select * from lethelog.roots limit 1",
        "update lethelog.head set position = 0",
        "delete from lethelog.claims",
        "insert into lethelog.claims select * from lethelog.claims limit 1",
        "delete from lethelog.commands",
        "update lethelog_vault.tenant_keys set tenant = tenant",
        "delete from lethelog_vault.tenant_keys",
        "delete from lethelog_vault.data_keys",
        "insert into lethelog_vault.data_keys select * from lethelog_vault.data_keys limit 1",
        "delete from lethelog.directory",
    ],
)
def test_what_belongs_to_the_log_is_written_by_the_append_function_only(filled, as_application, statement):
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
        as_application.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "alter table lethelog.events disable trigger append_only",
        "drop trigger append_only on lethelog.events",
        "create rule quiet as on insert to lethelog.events do instead nothing",
        "drop table lethelog.events",
        "alter table lethelog.events add column more text",
        "alter function lethelog.append owner to current_user",
        "create or replace function lethelog.refuse_change() returns trigger language plpgsql as "
        "'begin return null; end'",
        "set session_replication_role = replica",
        "create table lethelog.more (one int)",
    ],
)
def test_the_application_cannot_take_the_protection_off(filled, as_application, statement):
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.WrongObjectType)):
        as_application.execute(statement)


async def test_every_connection_of_the_product_works_as_the_application(database: Database):
    dedicated = await database.connect()
    async with database.connection() as pooled:
        for connection in (pooled, dedicated):
            row = await (await connection.execute("select current_user")).fetchone()
            assert row == (APPLICATION,)
    await dedicated.close()


def test_the_application_owns_the_read_models_and_nothing_of_the_log(world, as_owner):
    owned = as_owner.execute(
        "select n.nspname, bool_and(pg_get_userbyid(c.relowner) = %s), bool_or(pg_get_userbyid(c.relowner) = %s) "
        "from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname like 'lethelog%%' and c.relkind = 'r' group by 1",
        (APPLICATION, APPLICATION),
    ).fetchall()
    kinds = {name: (every, some) for name, every, some in owned}
    assert kinds.pop("lethelog") == (False, False)
    assert kinds.pop("lethelog_vault") == (False, False)
    assert kinds and set(kinds.values()) == {(True, True)}


# --- logins ---------------------------------------------------------------------------------------------------


@pytest.fixture
def logins(servers, database_url: str):
    """An owner without special rights and an application's login, as an administrator makes them."""
    name = conninfo_to_dict(database_url)["dbname"]
    owner, login = f"owner_{name}", f"login_{name}"
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"create role {owner} login createrole password 'o'")
        admin.execute(f"create role {login} login password 'l'")
        admin.execute(f"create database {name}_own owner {owner}")
    with psycopg.connect(servers.database_url(f"{name}_own"), autocommit=True) as admin:
        admin.execute("create extension if not exists vector")
    url = servers.database_url(f"{name}_own")
    yield make_conninfo(url, user=owner, password="o"), make_conninfo(url, user=login, password="l")
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"drop database {name}_own with (force)")
        admin.execute(f"revoke {APPLICATION} from {owner}, {login}")
        admin.execute(f"drop role {owner}, {login}")


def test_an_owner_without_superuser_rights_migrates_and_a_login_of_its_own_works_as_the_application(
    logins, database_url: str
):
    owner, login = logins
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"grant {APPLICATION} to {conninfo_to_dict(owner)['user']}")
    migrate(owner)
    with pytest.raises(Misconfigured, match="may not work as the application"):
        check_application(login)
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"grant {APPLICATION} to {conninfo_to_dict(login)['user']}")
    check_application(login)
    with psycopg.connect(login, autocommit=True, options=session_options()) as connection:
        connection.execute("create schema lethelog_views")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("delete from lethelog.events")
        connection.execute("reset role")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("delete from lethelog.events")


def test_a_login_without_the_right_to_migrate_is_told_what_to_do(logins):
    _, login = logins
    with pytest.raises(Misconfigured, match="LETHELOG_DATABASE_OWNER_URL"):
        migrate(login)


def test_a_database_restored_or_copied_gets_the_right_that_does_not_travel_with_it(database_url: str):
    name = conninfo_to_dict(database_url)["dbname"]
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"revoke create on database {name} from {APPLICATION}")
    migrate(database_url)
    with psycopg.connect(database_url, autocommit=True, options=session_options()) as connection:
        connection.execute("create schema lethelog_views_again")


def test_read_models_of_before_the_role_are_handed_over_and_leftovers_of_rebuilds_go(database_url: str):
    with psycopg.connect(database_url, autocommit=True) as owner:
        for schema in ("lethelog_views", "lethelog_views_live_memory_2", "lethelog_rebuild_live_memory"):
            owner.execute(f"create schema {schema}")
            owner.execute(f"create table {schema}.kept (one int)")
            owner.execute(f"insert into {schema}.kept values (7)")
        revision = Path(migrations.__file__).with_name("versions") / "0004_roles.sql"
        owner.execute(revision.read_text())
    with psycopg.connect(database_url, autocommit=True, options=session_options()) as connection:
        assert connection.execute("select to_regclass('lethelog_rebuild_live_memory.kept')").fetchone() == (None,)
        for schema in ("lethelog_views", "lethelog_views_live_memory_2"):
            assert connection.execute(f"select one from {schema}.kept").fetchone() == (7,)
            connection.execute(f"alter table {schema}.kept add column two int")
            connection.execute(f"drop schema {schema} cascade")


def _raw_append(connection: psycopg.Connection) -> None:
    unit = PreparedUnit(uuid4(), uuid4(), CommandKey.fresh())
    unit.add_event(uuid4(), 1, "memory.reaffirmed", uuid4(), b"x")
    statement = call_statement().replace("bytea", "pg_catalog.bytea")
    connection.execute(statement.encode(), unit_arrays([unit]))


def test_types_of_the_callers_own_are_never_looked_up_by_the_append_function(filled, as_application, as_owner):
    """A domain ``pg_temp.bytea`` whose check runs code: the function's owner must not run it."""
    as_application.execute(
        "create function pg_temp.evil(value pg_catalog.bytea) returns boolean language plpgsql as $$ begin "
        "if current_user <> 'lethelog_application' then "
        "execute 'grant delete on lethelog.events to lethelog_application'; end if; return true; end $$"
    )
    as_application.execute("grant execute on function pg_temp.evil to public")
    as_application.execute("create domain pg_temp.bytea as pg_catalog.bytea check (pg_temp.evil(value))")
    before = count(as_owner, "lethelog.events")
    _raw_append(as_application)
    assert count(as_owner, "lethelog.events") == before + 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
        as_application.execute("delete from lethelog.events")


def test_every_function_that_runs_as_its_owner_looks_in_the_catalog_first_and_in_temporary_schemas_last(as_owner):
    found = as_owner.execute(
        "select p.proname, p.proconfig from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname like 'lethelog%' and p.prosecdef"
    ).fetchall()
    assert sorted(name for name, _ in found) == ["append", "erase"]
    for name, settings in found:
        assert "search_path=pg_catalog, pg_temp" in settings, name
