"""Row-level security, read from the catalog and tried on every table that there is (F37 to F39, ADR 8).

Everything is enumerated: a table, view or function that somebody adds later is in these tests without being named.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.domain.events import ContradictionFlagged, MemoryArchived, ProposalStaged, SessionOpened
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.engine import open_engine
from lethelog.handlers.memories import MemoryCommands
from lethelog.ops.cli.role_checks import check_roles
from lethelog.ops.migrations.protection import WITHOUT_TENANT
from lethelog.ops.migrations.roles import ROLES
from lethelog.projections.generations import SHARED, tenant_read_models
from lethelog.projections.neighbours import refresh
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.replay import Replayer
from lethelog.projections.runner import ProjectionRunner, ensure_tables
from lethelog.streams.database import (
    APPENDER,
    BACKUP,
    DOOR,
    FUNCTIONS,
    WORKER,
    Database,
    session_options,
    tenant_statement,
)
from lethelog.streams.log import NewEvent, Unit
from lethelog.streams.master_keys import Keyring
from lethelog.streams.payloads import Actor, Envelope
from lethelog.streams.row_security import WORDS_BY_INDEX
from psycopg import sql
from psycopg.conninfo import make_conninfo

STAGED = Path(__file__).parents[1] / "unit" / "event_samples" / "proposal.staged.1.json"
TABLES = (
    "select n.nspname::text, c.relname::text, pg_get_userbyid(c.relowner)::text, c.relrowsecurity, "
    "c.relforcerowsecurity, exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant') "
    "from pg_class c join pg_namespace n on n.oid = c.relnamespace "
    "where n.nspname ~ '^lethelog(_|$)' and c.relkind in ('r', 'p') order by 1, 2"
)


@dataclass(frozen=True)
class Table:
    """One table of the catalog."""

    schema: str
    name: str
    owner: str
    secured: bool
    forced: bool
    tenanted: bool

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


@dataclass(frozen=True)
class Full:
    """A database in which every kind of table exists, with rows of two tenants."""

    url: str
    tables: list[Table]
    mine: UUID
    other: UUID

    @property
    def tenanted(self) -> list[Table]:
        return [one for one in self.tables if one.tenanted]


@pytest.fixture(scope="module")
def full(servers, template: str, embedder) -> Iterator[Full]:
    """Made once, and only looked at: read models, a rebuild, a comparison, a replay and neighbours of two tenants."""
    name = f"secured_{uuid4().hex}"
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"create database {name} template {template}")
        connection.execute(f"grant create on database {name} to {WORKER}")
    url = servers.database_url(name)
    mine, other = asyncio.run(fill(url, embedder))
    with psycopg.connect(url, autocommit=True) as admin:
        for tenant in (mine, other):
            admin.execute("insert into lethelog.usage values (%s, 1, 1)", (tenant,))
            admin.execute(
                "insert into lethelog.webhook_health (tenant, webhook) values (%s, %s)", (tenant, uuid4())
            )
            admin.execute(
                "insert into lethelog.webhook_deliveries (tenant, id, webhook, position, event, body, queued_at, "
                "next_attempt) values (%s, %s, %s, 1, 'e', '{}', now(), now())",
                (tenant, uuid4(), uuid4()),
            )
            admin.execute(
                "insert into lethelog_views.parked (name, schema, tenant, stream, position, event, error, attempts) "
                "select 'live_memory', 'lethelog_views', %s, %s, coalesce(max(position), 0) + 1, 'e', 'E', 1 "
                "from lethelog_views.parked",
                (tenant, uuid4()),
            )
        tables = [Table(*row) for row in admin.execute(TABLES).fetchall()]
    yield Full(url, tables, mine, other)
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)")


async def fill(url: str, embedder) -> tuple[UUID, UUID]:
    """Returns the two tenants."""
    engine = await open_engine(url, Keyring.of(b"m" * 32), embedder)
    await ensure_tables(engine.database, engine.projections)
    callers = [Caller(uuid4(), Actor("person", uuid4())) for _ in range(2)]
    commands = MemoryCommands(engine)
    for caller in callers:
        await engine.tenants.ensure(caller.tenant, caller.actor)
        said = {"topic": "deploys", "content": "to Hetzner", "project": "p", "memory_type": "fact"}
        fact = {"subject": "deploys", "predicate": "go to", "value": "Hetzner"}
        written = await commands.remember(caller, {**said, "facts": [fact]})
        await commands.pin(caller, {"memory_id": written.memory.id})
        staged = {**json.loads(STAGED.read_text()), "memory_id": written.memory.id}
        staged["evidence_memory"] = written.memory.id
        proposal, cause = uuid4(), uuid4()
        events = [NewEvent(proposal, 1, ProposalStaged.model_validate(staged))]
        await engine.log.append(Unit(caller.tenant, proposal, events, Envelope(caller.actor, cause, cause)))
        promised = await commands.remember(caller, {**said, "content": "soon", "memory_type": "commitment"})
        effect = NewEvent(promised.memory.id, 2, MemoryArchived(proposal=proposal))
        await engine.log.append(Unit(caller.tenant, proposal, [effect], Envelope(caller.actor, cause, cause)))
        both = {"memory_id": written.memory.id, "related_id": promised.memory.id}
        flagged = ContradictionFlagged(**both, found_by="verdict", source=proposal)
        events = [NewEvent(uuid4(), 1, flagged), NewEvent(uuid4(), 1, SessionOpened(session=uuid4()))]
        await engine.log.append(Unit(caller.tenant, proposal, events, Envelope(caller.actor, cause, cause)))
    parts = (engine.database, engine.log, engine.tail)
    head = await engine.log.head()
    for projection in engine.projections:
        await ProjectionRunner(*parts, projection).catch_up(head)
    for caller in callers:
        await refresh(engine.database, caller.tenant, upto_position=head, neighbours=3)
    for projection in engine.projections:
        await Rebuilder(*parts, projection, grace=timedelta(hours=1)).rebuild()
    at = await engine.log.recorded_at(head)
    await Replayer(*parts, engine.projections).replay("kept", head, at)
    # What a comparison looks at, and leaves when it is killed.
    await Rebuilder(*parts, engine.review_queue).build("lethelog_compare_review_queue", head, indexed=False)
    await engine.close()
    return callers[0].tenant, callers[1].tenant


@pytest.fixture
def as_admin(full: Full):
    """A superuser, whom no policy concerns."""
    with psycopg.connect(full.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def as_door(full: Full):
    with psycopg.connect(full.url, autocommit=True, options=session_options(DOOR)) as connection:
        yield connection


def tenants_in(connection: psycopg.Connection, table: Table) -> set[UUID]:
    statement = sql.SQL("select distinct tenant from {}").format(table.identifier)
    return {tenant for (tenant,) in connection.execute(statement).fetchall()}


async def test_every_table_with_a_tenant_is_protected_by_the_same_policies_and_no_other(full, as_admin):
    assert {one.schema for one in full.tables} >= {
        "lethelog",
        "lethelog_vault",
        "lethelog_views",
        "lethelog_views_live_memory_2",
        "lethelog_views_review_queue_2",
        "lethelog_views_memory_history_2",
        "lethelog_replay_kept",
        "lethelog_compare_review_queue",
    }
    policies: dict[tuple[str, str], dict[str, tuple]] = {}
    for schema, table, name, *says in as_admin.execute(
        "select schemaname::text, tablename::text, policyname::text, permissive, roles::text[], cmd, qual, with_check "
        "from pg_policies where schemaname ~ '^lethelog(_|$)'"
    ).fetchall():
        policies.setdefault((schema, table), {})[name] = tuple(says)
    of_events = policies[("lethelog", "events")]
    assert {name: says[1] for name, says in of_events.items()} == {
        "door": [DOOR],
        "worker": [WORKER],
        "functions": [FUNCTIONS],
    }
    assert of_events["worker"][3] == "true" and "lethelog.tenant" in of_events["door"][3]
    for one in full.tables:
        assert (one.secured, one.forced) == (one.tenanted, one.tenanted), one
        assert policies.get((one.schema, one.name), {}) == (of_events if one.tenanted else {}), one
    without = {(one.schema, one.name) for one in full.tables if not one.tenanted}
    assert without == {("lethelog", name) for name in WITHOUT_TENANT} | {
        ("lethelog_views", name) for name in SHARED
    }


async def test_who_owns_what(full, as_admin):
    """A door and the appender own nothing; what the worker owns are read models; functions own only functions."""
    for one in full.tables:
        assert (one.owner == WORKER) is (one.schema not in ("lethelog", "lethelog_vault")), one
        assert one.owner not in (DOOR, APPENDER, FUNCTIONS, BACKUP), one
    owned = as_admin.execute(
        "select d.classid::regclass::text, d.refobjid::regrole::text, count(*) from pg_shdepend d "
        "where d.deptype = 'o' and d.dbid = (select oid from pg_database where datname = current_database()) "
        "and d.refobjid = any(%s::regrole[]) group by 1, 2",
        ([DOOR, APPENDER, FUNCTIONS],),
    ).fetchall()
    assert {(kind, who) for kind, who, _ in owned} == {("pg_proc", FUNCTIONS)}


async def test_no_role_passes_row_level_security_but_the_one_for_backups(full, as_admin):
    rows = as_admin.execute(
        "select rolname, rolsuper, rolbypassrls, rolcanlogin, rolcreaterole, rolcreatedb from pg_roles "
        "where rolname = any(%s)",
        ([*ROLES, BACKUP],),
    ).fetchall()
    assert sorted(rows) == sorted(
        [(name, False, name == BACKUP, False, False, False) for name in (*ROLES, BACKUP)]
    )
    assert as_admin.execute(
        "select count(*) from pg_auth_members m where m.member = any(%s::regrole[])", ([*ROLES, BACKUP],)
    ).fetchone() == (0,), "none of them is more by being a member of another"


async def test_nothing_is_open_to_everybody(full, as_admin):
    opened = as_admin.execute(
        "select c.oid::regclass::text, a.privilege_type from pg_class c join pg_namespace n on n.oid = c.relnamespace, "
        "aclexplode(c.relacl) a where n.nspname ~ '^lethelog(_|$)' and a.grantee = 0 "
        "union all select n.nspname, a.privilege_type from pg_namespace n, aclexplode(n.nspacl) a "
        "where n.nspname ~ '^lethelog(_|$)' and a.grantee = 0 "
        "union all select p.oid::regprocedure::text, a.privilege_type from pg_proc p "
        "join pg_namespace n on n.oid = p.pronamespace, "
        "aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a "
        "where n.nspname ~ '^lethelog(_|$)' and a.grantee = 0"
    ).fetchall()
    assert opened == []


async def test_every_function_with_more_rights_than_its_caller_is_of_its_role_and_looks_in_the_catalog_first(
    full, as_admin
):
    found = as_admin.execute(
        "select p.proname, pg_get_userbyid(p.proowner), p.proconfig from pg_proc p "
        "join pg_namespace n on n.oid = p.pronamespace where n.nspname ~ '^lethelog(_|$)' and p.prosecdef"
    ).fetchall()
    assert {name for name, _, _ in found} >= {"append", "erase", "position_at", "recorded_at"}
    for name, owner, settings in found:
        assert owner == FUNCTIONS, name
        assert "search_path=pg_catalog, pg_temp" in settings, name


async def test_every_view_looks_with_the_rights_of_whoever_asks(full, as_admin, as_door):
    """There is none of the product's own; one that is made among the read models is made so."""
    worker = Database(full.url)
    await worker.open()
    async with worker.connection() as connection:
        await connection.execute("create view lethelog_views.seen as select tenant from lethelog_views.parked")
    await ensure_tables(worker, [])
    views = as_admin.execute(
        "select c.relname::text, c.reloptions from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname ~ '^lethelog(_|$)' and c.relkind in ('v', 'm')"
    ).fetchall()
    assert views == [("seen", ["security_invoker=true"])]
    assert as_door.execute("select count(*) from lethelog_views.seen").fetchone() == (0,)
    assert as_admin.execute("select count(*) from lethelog_views.seen").fetchone() == (2,)
    async with worker.connection() as connection:
        await connection.execute("drop view lethelog_views.seen")
    await worker.close()


async def test_a_door_sees_its_own_rows_of_every_table_and_without_a_tenant_none(full, as_admin, as_door):
    held = {one: tenants_in(as_admin, one) for one in full.tenanted}
    assert [one for one, tenants in held.items() if not tenants >= {full.mine, full.other}] == [], (
        "nothing to hide"
    )
    for one in full.tenanted:
        assert tenants_in(as_door, one) == set(), one
    for tenant in (full.mine, full.other, uuid4()):
        with as_door.transaction():
            as_door.execute("select set_config('lethelog.tenant', %s, true)", (str(tenant),))
            for one in full.tenanted:
                assert tenants_in(as_door, one) == held[one] & {tenant}, one


async def test_a_door_cannot_write_what_is_anothers_and_read_models_not_at_all(full, as_door, as_admin):
    """Tried on every table with the other tenant's own rows, so that nothing but right or policy refuses them."""
    inserted = 0
    for one in full.tenanted:
        columns = sql.SQL(", ").join(
            sql.Identifier(name)
            for (name,) in as_admin.execute(
                "select attname::text from pg_attribute where attrelid = %s::regclass and attnum > 0 "
                "and not attisdropped and attgenerated = '' order by attnum",
                (f"{one.schema}.{one.name}",),
            ).fetchall()
        )
        row = as_admin.execute(
            sql.SQL("select row_to_json(x)::text from {} x where tenant = %s limit 1").format(one.identifier),
            (full.other,),
        ).fetchone()
        for statement in ("update {} set tenant = tenant", "delete from {}", "truncate {}"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), as_door.transaction():
                as_door.execute("select set_config('lethelog.tenant', %s, true)", (str(full.other),))
                as_door.execute(sql.SQL(statement).format(one.identifier))
        if row is None:
            continue
        insert = sql.SQL("insert into {0} ({1}) select {1} from json_populate_record(null::{0}, %s::json)").format(
            one.identifier, columns
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege), as_door.transaction():
            as_door.execute("select set_config('lethelog.tenant', %s, true)", (str(full.mine),))
            as_door.execute(insert, row)
        inserted += 1
    assert inserted >= 15
    # The control: what a door may write it may write for its own tenant.
    fresh = uuid4()
    named = "insert into lethelog.directory (tenant, kind, digest, id, sealed) values (%s, 'user', 'd', %s, 's')"
    with as_door.transaction():
        as_door.execute(tenant_statement(fresh).encode())
        as_door.execute(named, (fresh, uuid4()))
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"), as_door.transaction():
        as_door.execute(tenant_statement(fresh).encode())
        as_door.execute(named, (uuid4(), uuid4()))


async def test_a_door_gives_a_tenant_its_first_key_and_never_another(full, as_door, as_admin):
    def keys(tenant: UUID) -> list[tuple]:
        statement = "select generation, wrapped from lethelog_vault.tenant_keys where tenant = %s"
        return as_admin.execute(statement, (tenant,)).fetchall()

    def made(given_for: UUID, tenant: UUID, wrapped: bytes = b"junk") -> None:
        with as_door.transaction():
            as_door.execute(tenant_statement(given_for).encode())
            as_door.execute("select lethelog.first_tenant_key(%s, %s, %s)", (tenant, b"m", wrapped))

    before = keys(full.mine)
    made(full.mine, full.mine)
    assert keys(full.mine) == before, "it has one, whatever its generation"
    fresh = uuid4()
    for given_for in (full.mine, uuid4()):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            made(given_for, fresh)
    made(fresh, fresh, b"")
    assert keys(fresh) == [], "an empty key is what an erased tenant leaves"
    for values in ("(tenant, generation, wrapped) values (%s, 99, 'x')", "(tenant, wrapped) values (%s, 'x')"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), as_door.transaction():
            as_door.execute(tenant_statement(fresh).encode())
            as_door.execute(f"insert into lethelog_vault.tenant_keys {values}".encode(), (fresh,))
    made(fresh, fresh)
    assert keys(fresh) == [(1, b"junk")]
    as_admin.execute("delete from lethelog_vault.tenant_keys where tenant = %s", (fresh,))


async def test_the_owner_of_the_log_sees_no_rows_and_the_role_for_backups_all(full, as_admin):
    login = f"owner_of_{full.mine.hex}"
    as_admin.execute(f"create role {login}")
    try:
        as_admin.execute(f"grant usage on schema lethelog to {login}")
        as_admin.execute(f"alter table lethelog.events owner to {login}")
        as_admin.execute(f"set role {login}")
        assert as_admin.execute("select count(*) from lethelog.events").fetchone() == (0,)
    finally:
        as_admin.execute("reset role")
        as_admin.execute(f"reassign owned by {login} to current_user")
        as_admin.execute(f"drop owned by {login}")
        as_admin.execute(f"drop role {login}")
    whole = {one: tenants_in(as_admin, one) for one in full.tenanted}
    as_admin.execute(f"set role {BACKUP}")
    # As pg_dump does: an error instead of rows that are missing.
    as_admin.execute("set row_security = off")
    assert {one: tenants_in(as_admin, one) for one in full.tenanted} == whole
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_admin.execute("delete from lethelog_views.parked")


async def test_a_login_of_doors_alone_cannot_become_more(full, as_admin):
    login = f"door_of_{full.mine.hex}"
    as_admin.execute(f"create role {login} login password 'd' in role {DOOR}, {APPENDER}")
    try:
        url = make_conninfo(full.url, user=login, password="d")
        with psycopg.connect(url, autocommit=True, options=session_options(DOOR)) as connection:
            for statement in (
                f"set role {WORKER}",
                f"set role {BACKUP}",
                f"set role {FUNCTIONS}",
                "set role postgres",
            ):
                with pytest.raises(psycopg.Error):
                    connection.execute(statement)
            connection.execute("reset role")
            assert connection.execute("select current_user").fetchone() == (DOOR,)
            for statement in ("set role none", "set session authorization default"):
                connection.execute(statement)
                assert connection.execute("select count(*) from lethelog.events").fetchone() == (0,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("set row_security = off; select count(*) from lethelog.events")
    finally:
        as_admin.execute(f"drop role {login}")


async def test_doctor_names_a_role_that_passes_the_policies_and_a_table_that_is_open(full, as_admin):
    database = Database(full.url, role=None)
    await database.open()

    async def levels() -> dict[str, tuple[str, str]]:
        async with database.connection() as connection:
            return {one.name: (one.level, one.says) async for one in check_roles(connection)}

    assert {name: level for name, (level, _) in (await levels()).items()} == {"roles": "ok"}
    for statement in ("no force row level security", "disable row level security"):
        as_admin.execute(f"alter table lethelog_views.live_memory {statement}")
        level, says = (await levels())["rows"]
        assert level == "fault" and "lethelog_views.live_memory" in says
        as_admin.execute(
            "alter table lethelog_views.live_memory enable row level security, force row level security"
        )
    as_admin.execute("create policy more on lethelog.claims to lethelog_door using (true)")
    assert "lethelog.claims" in (await levels())["rows"][1]
    as_admin.execute("drop policy more on lethelog.claims")
    as_admin.execute("alter function pg_catalog.ts_match_vq(tsvector, tsquery) not leakproof")
    assert (await levels())["words"][0] == "warning"
    as_admin.execute(WORDS_BY_INDEX)
    assert {name: level for name, (level, _) in (await levels()).items()} == {"roles": "ok"}
    await database.close()


# --- the setting ----------------------------------------------------------------------------------------------


async def test_one_connection_used_by_turns_never_keeps_a_tenant(full):
    """F39: also after a transaction that raises, one that is cancelled, and one that fails in the database."""
    database = Database(full.url, size=1)
    await database.open()
    doors = database.doors
    own = "select distinct tenant from lethelog.events"

    async def nobody() -> bool:
        async with doors.connection() as connection:
            cursor = await connection.execute(
                "select nullif(current_setting('lethelog.tenant', true), ''), (select count(*) from lethelog.events)"
            )
            return await cursor.fetchone() == (None, 0)

    async def raising(tenant: UUID) -> None:
        async with doors.tenant(tenant) as connection:
            assert await (await connection.execute(own)).fetchall() == [(tenant,)]
            raise LookupError

    async def failing(tenant: UUID) -> None:
        async with doors.tenant(tenant) as connection:
            await connection.execute("select 1 / 0")

    async def waiting(tenant: UUID) -> None:
        async with doors.tenant(tenant) as connection:
            await connection.execute("select pg_sleep(600)")

    for tenant in (full.mine, full.other) * 2:
        assert await doors.rows(tenant, own) == [(tenant,)]
        assert await nobody()
        with pytest.raises(LookupError):
            await raising(tenant)
        assert await nobody()
        with pytest.raises(psycopg.errors.DivisionByZero):
            await failing(tenant)
        assert await nobody()
        with pytest.raises(psycopg.errors.DivisionByZero):
            await doors.rows(tenant, "select 1 / 0")
        assert await nobody()
        async with tenant_read_models(doors, tenant) as connection:
            assert await (await connection.execute("select distinct tenant from live_memory")).fetchall() == [
                (tenant,)
            ]
        assert await nobody()
        task = asyncio.create_task(waiting(tenant))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 0.1)
        assert await nobody()
    await database.close()


async def test_a_read_that_names_another_tenant_than_its_transactions_finds_nothing(full):
    """What row-level security is for: a statement that lost its condition, or has the wrong one."""
    database = Database(full.url)
    await database.open()
    doors = database.doors
    assert await doors.rows(full.mine, "select 1 from lethelog.events where tenant = %s", (full.other,)) == []
    assert await doors.rows(full.mine, "select distinct tenant from lethelog.directory") == [(full.mine,)]
    async with tenant_read_models(doors, full.mine) as connection:
        cursor = await connection.execute("select count(*) from live_memory where tenant = %s", (full.other,))
        assert await cursor.fetchone() == (0,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        async with tenant_read_models(doors, full.mine) as connection:
            await connection.execute("delete from live_memory")
    await database.close()


# --- read models of one's own ---------------------------------------------------------------------------------


class OwnModel:
    """A user's read model that thinks of nothing."""

    name = "own_model"
    version = "1"
    wants = frozenset({"memory.remembered"})
    tables = ("own_rows", "own_totals")
    stream_column = "memory_id"

    def loading(self, start, target):
        return self

    async def create_tables(self, connection, schema):
        await connection.execute(
            f"create table {schema}.own_rows (tenant uuid, memory_id uuid, primary key (memory_id))"
        )
        await connection.execute(f"create table {schema}.own_totals (name text primary key, memory_id uuid)")

    async def create_indexes(self, connection, schema):
        return None

    async def prepare(self, page):
        return None

    async def apply(self, connection, schema, page, prepared):
        for one in page:
            await connection.execute(
                f"insert into {schema}.own_rows values (%s, %s) on conflict do nothing", (one.tenant, one.stream)
            )


class DeclaredModel(OwnModel):
    shared_tables = ("own_totals",)


async def test_a_read_model_of_ones_own_is_protected_too_and_must_say_which_tables_have_no_tenant(world):
    engine = world.engine
    await world.remember("Deploys go to Hetzner")
    with pytest.raises(Misconfigured, match=r"own_totals.*shared_tables"):
        await ensure_tables(engine.database, [OwnModel()])
    async with engine.database.connection() as connection:
        cursor = await connection.execute("select to_regclass('lethelog_views.own_rows')")
        assert await cursor.fetchone() == (None,), "nothing was half-done"
    own = DeclaredModel()
    await ensure_tables(engine.database, [own])
    rebuilder = Rebuilder(engine.database, engine.log, engine.tail, own)
    await rebuilder.rebuild()
    assert (await rebuilder.compare()).equal
    async with tenant_read_models(engine.doors, uuid4()) as connection:
        assert await (await connection.execute("select tenant from own_rows")).fetchall() == []
    async with tenant_read_models(engine.doors, world.caller.tenant) as connection:
        cursor = await connection.execute("select distinct tenant from own_rows")
        assert await cursor.fetchall() == [(world.caller.tenant,)]
        cursor = await connection.execute("select count(*) from own_totals")
        assert await cursor.fetchone() == (0,)


async def test_a_rebuild_that_was_broken_off_when_it_was_whole_is_loaded_further_and_protected_again(
    world, database_url, monkeypatch
):
    engine = world.engine
    await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    rebuilder = Rebuilder(engine.database, engine.log, engine.tail, engine.live_memory)

    async def broken_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Rebuilder, "_switch", broken_off)
        with pytest.raises(KeyboardInterrupt):
            await rebuilder.rebuild()
    for _ in range(3):
        await world.remember(f"written after that {uuid4()}")
    done = await rebuilder.rebuild()
    assert done.resumed_at is not None
    with psycopg.connect(database_url) as admin:
        row = admin.execute(
            "select relrowsecurity, relforcerowsecurity from pg_class where oid = %s::regclass",
            (f"{done.schema}.live_memory",),
        ).fetchone()
    assert row == (True, True)
    assert len(await world.search("written after that")) == 4
