"""A database that an earlier version filled goes on as it is: read, verified and appended to."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from lethelog.domain import events as e
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.engine import open_engine
from lethelog.handlers.memories import MemoryCommands
from lethelog.handlers.reading import Reading
from lethelog.ops import migrations
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.runner import ProjectionRunner, ensure_tables
from lethelog.streams.append import call_statement, unit_arrays
from lethelog.streams.audit import verify
from lethelog.streams.log import NewEvent, Unit
from lethelog.streams.master_keys import Keyring
from lethelog.streams.payloads import Actor, Envelope
from sqlalchemy import create_engine

MASTER = b"m" * 32


@pytest.fixture
def earlier_url(servers) -> Iterator[str]:
    """A database as the first three revisions make it."""
    name = f"earlier_{uuid4().hex}"
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    url = servers.database_url(name)
    with psycopg.connect(url) as connection:
        connection.execute("create schema lethelog")
    _run(url, lambda config: command.upgrade(config, "0003"))
    yield url
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)")


async def test_a_database_of_revision_0003_with_data_in_it_is_read_verified_and_appended_to(
    world, earlier_url, embedder
):
    caller, stream = Caller(uuid4(), Actor("person", uuid4())), uuid4()
    remembered = e.MemoryRemembered(
        memory_type="fact",
        scope="personal",
        topic="deploys",
        content="Deploys go to Hetzner",
        producer="user",
        trust="user",
        occurred_at=world.clock(),
    )
    unit = Unit(
        caller.tenant,
        stream,
        [NewEvent(stream, 1, remembered), NewEvent(stream, 2, e.MemoryPinned())],
        Envelope(caller.actor, cause=uuid4(), correlation=uuid4()),
        new_keys=frozenset({stream}),
    )
    # Sealed by the log of today, stored by the function of then.
    prepared, _ = await world.engine.log._prepare(unit)
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select wrapped from lethelog_vault.tenant_keys where tenant = %s", (caller.tenant,)
        )
        [wrapped] = await cursor.fetchone()
    with psycopg.connect(earlier_url) as connection:
        connection.execute("insert into lethelog_vault.tenant_keys values (%s, %s)", (caller.tenant, wrapped))
        [[outcome, position]] = connection.execute(
            call_statement()
            .replace("select unit, outcome, pos, at, detail, subject", "select outcome, pos")
            .encode(),
            unit_arrays([prepared]),
        ).fetchall()
    assert (outcome, position) == ("ok", 2)

    migrations.migrate(earlier_url)
    assert migrations.schema_revision(earlier_url) == (migrations.revisions()[-1],) * 2
    engine = await open_engine(earlier_url, Keyring.of(MASTER), embedder)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(engine.close)
        await ensure_tables(engine.database, engine.projections)
        await engine.tenants.ensure(caller.tenant, caller.actor)
        await MemoryCommands(engine).archive(caller, {"memory_id": stream})
        for projection in engine.projections:
            runner = ProjectionRunner(engine.database, engine.log, engine.tail, projection)
            await runner.catch_up(await engine.log.head())
        [seen] = await Reading(engine).get(caller, {"ids": [stream]})
        assert (seen.content, seen.pinned, seen.status, seen.version) == (
            "Deploys go to Hetzner",
            True,
            "archived",
            3,
        )
        found = await verify(engine.database)
        assert found.intact and found.events == await engine.log.head() > 3


async def test_a_database_of_one_role_is_handed_over_with_its_read_models_and_back(world, database_url):
    """Down to the revision before the roles, where one role did everything, and up again in place."""
    await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    for projection in world.engine.projections[1:]:
        await Rebuilder(world.engine.database, world.engine.log, world.engine.tail, projection).rebuild()
    await world.engine.database.close()
    with psycopg.connect(database_url, autocommit=True) as admin:
        before = admin.execute(_RIGHTS).fetchall()
        _run(database_url, lambda config: command.downgrade(config, "0009"))
        owners = admin.execute(
            "select distinct pg_get_userbyid(relowner), relrowsecurity, relforcerowsecurity from pg_class c "
            "join pg_namespace n on n.oid = c.relnamespace where n.nspname ~ '^lethelog_views' and relkind = 'r'"
        ).fetchall()
        assert owners == [("lethelog_application", False, False)]
        assert admin.execute("select count(*) from pg_policies where schemaname ~ '^lethelog'").fetchone() == (0,)
        admin.execute("set role lethelog_application")
        assert admin.execute("select count(*) > 1 from lethelog.events").fetchone() == (True,)
        assert admin.execute("select content from lethelog_views.live_memory").fetchall() == [
            ("Deploys go to Hetzner",)
        ]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            admin.execute("delete from lethelog.events")
        admin.execute("reset role")

        migrations.migrate(database_url)
        again = await open_engine(database_url, Keyring.of(MASTER), world.engine.embedder)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(again.close)
            await ensure_tables(again.database, again.projections)
            assert admin.execute(_RIGHTS).fetchall() == before
            page = await Reading(again).list(world.caller, {})
            assert [one.content for one in page.memories] == ["Deploys go to Hetzner"]
            other = Caller(uuid4(), Actor("person", uuid4()))
            await again.tenants.ensure(other.tenant, other.actor)
            assert (await Reading(again).list(other, {})).total == 0
        admin.execute("set role lethelog_application")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            admin.execute("select count(*) from lethelog.events")


_RIGHTS = """
    select n.nspname::text, c.relname::text, pg_get_userbyid(c.relowner)::text, c.relrowsecurity,
        c.relforcerowsecurity, (select array_agg(a::text order by a::text) from unnest(c.relacl) a),
        (select array_agg(p.polname::text order by p.polname) from pg_policy p where p.polrelid = c.oid)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname ~ '^lethelog(_|$)' and c.relkind = 'r' order by 1, 2
"""


def _run(url: str, step) -> None:
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url))
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    with engine.begin() as bound:
        config.attributes["connection"] = bound
        step(config)
    engine.dispose()
