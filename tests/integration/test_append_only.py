"""The log is append-only for everybody: no role has the rights, and triggers refuse owner and superuser.

An owner can take the triggers off; what is then changed is found by `lethelog audit verify` (test_audit.py).
"""

from contextlib import ExitStack
from uuid import UUID, uuid4

import psycopg
import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.ops.migrations import check_logins, migrate, roles
from lethelog.streams.append import PreparedUnit, call_statement, unit_arrays
from lethelog.streams.database import APPENDER, DOOR, WORKER, Database, session_options
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


WORKED_AS = [DOOR, APPENDER, WORKER]


@pytest.fixture
def connected(database_url: str):
    """Connects as the product does, in one role, for the tenant whose memory was written, if any."""
    with ExitStack() as stack:

        def connect(role: str, tenant: UUID | None = None) -> psycopg.Connection:
            connection = stack.enter_context(
                psycopg.connect(database_url, autocommit=True, options=session_options(role))
            )
            if tenant is not None:
                connection.execute("select set_config('lethelog.tenant', %s, false)", (str(tenant),))
            return connection

        yield connect


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


@pytest.mark.parametrize("role", WORKED_AS)
def test_every_role_is_refused_by_its_rights(filled, world, connected, role):
    connection = connected(role, world.caller.tenant)
    for table in LOG:
        for statement in FORBIDDEN:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
                connection.execute(statement.format(table=table))


def test_the_worker_reads_the_whole_log_a_door_its_tenants_and_the_appender_nothing(filled, world, connected):
    assert count(connected(WORKER), "lethelog.events") == filled
    assert count(connected(DOOR, world.caller.tenant), "lethelog.events") == filled
    assert count(connected(DOOR, uuid4()), "lethelog.events") == 0
    assert count(connected(DOOR), "lethelog.events") == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
        count(connected(APPENDER, world.caller.tenant), "lethelog.events")


@pytest.mark.parametrize("role", WORKED_AS)
def test_what_belongs_to_the_log_is_written_by_the_append_function_only(filled, world, connected, role):
    connection = connected(role, world.caller.tenant)
    for statement in (
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
        "update lethelog.directory set sealed = sealed",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
            connection.execute(statement)


def test_a_door_may_not_append_nor_may_the_appender_erase(filled, world, connected, as_owner):
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
        _raw_append(connected(DOOR, world.caller.tenant))
    for role in (DOOR, APPENDER):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
            connected(role, world.caller.tenant).execute(
                "select lethelog.erase(%s, %s, '{}', '{}', true, '{}', '{}')", (uuid4(), world.caller.tenant)
            )
    assert count(as_owner, "lethelog.events") == filled
    _raw_append(connected(APPENDER))
    assert count(as_owner, "lethelog.events") == filled + 1


@pytest.mark.parametrize("role", WORKED_AS)
def test_no_role_can_take_the_protection_off(filled, connected, role):
    connection = connected(role)
    for statement in (
        "alter table lethelog.events disable trigger append_only",
        "alter table lethelog.events disable row level security",
        "alter table lethelog.events no force row level security",
        "drop policy door on lethelog.events",
        f"create policy all_of_it on lethelog.events to {role} using (true)",
        "drop trigger append_only on lethelog.events",
        "create rule quiet as on insert to lethelog.events do instead nothing",
        "drop table lethelog.events",
        "alter table lethelog.events add column more text",
        "alter function lethelog.append owner to current_user",
        "create or replace function lethelog.refuse_change() returns trigger language plpgsql as "
        "'begin return null; end'",
        "set session_replication_role = replica",
        "create table lethelog.more (one int)",
    ):
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.WrongObjectType)):
            connection.execute(statement)


async def test_every_connection_of_the_product_works_in_its_role(database: Database):
    for pool, role in ((database, WORKER), (database.doors, DOOR), (database.appender, APPENDER)):
        dedicated = await pool.connect()
        row = await (await dedicated.execute("select current_user")).fetchone()
        await dedicated.close()
        assert row == (role,)
    for pool, role in ((database, WORKER), (database.doors, DOOR)):
        async with pool.connection() as pooled:
            assert await (await pooled.execute("select current_user")).fetchone() == (role,)


# --- logins ---------------------------------------------------------------------------------------------------


@pytest.fixture
def logins(servers, database_url: str):
    """An owner without special rights and a login for everything else, as an administrator makes them."""
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
        admin.execute(f"revoke {', '.join(roles.ROLES)} from {owner}, {login}")
        admin.execute(f"drop role {owner}, {login}")


def test_an_owner_without_superuser_rights_migrates_and_a_login_of_its_own_works_in_its_roles(
    logins, database_url: str
):
    owner, login = logins
    name = conninfo_to_dict(login)["user"]
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"grant {', '.join(roles.ROLES)} to {conninfo_to_dict(owner)['user']}")
    migrate(owner)
    with pytest.raises(Misconfigured, match=f"may not work as .*{WORKER}.* grant .*{WORKER} to {name}"):
        check_logins(login)
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"grant {DOOR}, {APPENDER} to {name}")
    with pytest.raises(Misconfigured, match=f"may not work as {WORKER};"):
        check_logins(login)
    check_logins(login, owner)
    with psycopg.connect(login, autocommit=True, options=session_options(DOOR)) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"set role {WORKER}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("set role none; delete from lethelog.events")
    with psycopg.connect(owner, autocommit=True, options=session_options(WORKER)) as connection:
        connection.execute("create schema lethelog_views")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("delete from lethelog.events")


def test_a_login_without_the_right_to_migrate_is_told_what_to_do(logins):
    _, login = logins
    with pytest.raises(Misconfigured, match="LETHELOG_DATABASE_OWNER_URL"):
        migrate(login)


def test_a_database_restored_or_copied_gets_the_right_that_does_not_travel_with_it(database_url: str):
    name = conninfo_to_dict(database_url)["dbname"]
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"revoke create on database {name} from {WORKER}")
    migrate(database_url)
    with psycopg.connect(database_url, autocommit=True, options=session_options(WORKER)) as connection:
        connection.execute("create schema lethelog_views_again")


def _raw_append(connection: psycopg.Connection) -> None:
    unit = PreparedUnit(uuid4(), uuid4(), CommandKey.fresh())
    unit.add_event(uuid4(), 1, "memory.reaffirmed", uuid4(), b"x")
    statement = call_statement().replace("bytea", "pg_catalog.bytea")
    connection.execute(statement.encode(), unit_arrays([unit]))


def test_types_of_the_callers_own_are_never_looked_up_by_the_append_function(filled, connected, as_owner):
    """A domain ``pg_temp.bytea`` whose check runs code: the function's owner must not run it."""
    appender = connected(APPENDER)
    appender.execute(
        "create function pg_temp.evil(value pg_catalog.bytea) returns boolean language plpgsql as $$ begin "
        "if current_user <> 'lethelog_appender' then "
        "execute 'grant delete on lethelog.claims to lethelog_appender'; end if; return true; end $$"
    )
    appender.execute("grant execute on function pg_temp.evil to public")
    appender.execute("create domain pg_temp.bytea as pg_catalog.bytea check (pg_temp.evil(value))")
    before = count(as_owner, "lethelog.events")
    _raw_append(appender)
    assert count(as_owner, "lethelog.events") == before + 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
        appender.execute("delete from lethelog.claims")
