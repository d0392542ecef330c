"""Every released schema goes forward, back and forward again with everything in it (F46)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from lethelog.domain.errors import Erased, Misconfigured
from lethelog.ops import migrations
from lethelog.streams.append import PreparedUnit, call_statement, unit_arrays
from lethelog.streams.audit import verify
from lethelog.streams.log import CommandKey
from lethelog.streams.vault import WrappedKey
from sqlalchemy import create_engine

from .archives import lived_in

TABLES = {
    "lethelog.events": "position",
    "lethelog.claims": "tenant, kind, digest",
    "lethelog.commands": "tenant, digest",
    "lethelog.directory": "tenant, kind, digest",
    "lethelog_vault.tenant_keys": "tenant",
    "lethelog_vault.data_keys": "tenant, key_id",
}
"""What every revision has, and how its rows are put in order."""
WRAPPED_BYTES = 60
"""A wrapped data key, without what newer revisions put in front of it."""


@pytest.fixture
def empty_url(servers) -> Iterator[str]:
    name = f"empty_{uuid4().hex}"
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    yield servers.database_url(name)
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)")


def move(url: str, to: Callable[[Config, str], None], revision: str) -> None:
    """Let Alembic move a database to a revision."""
    with psycopg.connect(url) as connection:
        connection.execute("create schema if not exists lethelog")
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url))
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    with engine.begin() as bound:
        config.attributes["connection"] = bound
        to(config, revision)
    engine.dispose()


def fingerprints(url: str, columns: dict[str, str]) -> dict[str, tuple[int, str]]:
    """Count and hash of the rows of every table, by the columns that the first revision has."""
    found = {}
    with psycopg.connect(url) as connection:
        for table, order in TABLES.items():
            [found[table]] = connection.execute(
                f"select count(*), md5(coalesce(string_agg(md5(row({columns[table]})::text), '' order by {order}), "
                f"'')) from {table}"
            ).fetchall()
    return found


def columns_of(url: str) -> dict[str, str]:
    with psycopg.connect(url) as connection:
        found = {
            table: connection.execute(
                "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute "
                "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
                (table,),
            ).fetchone()[0]
            for table in TABLES
        }
    found["lethelog_vault.data_keys"] = (
        f"tenant, key_id, substr(wrapped, octet_length(wrapped) - {WRAPPED_BYTES - 1})"
    )
    return found


def append(url: str, unit: PreparedUnit) -> None:
    """By the function that the database has."""
    statement = call_statement().replace("select unit, outcome, pos, at, detail, subject", "select outcome")
    with psycopg.connect(url) as connection:
        assert connection.execute(statement.encode(), unit_arrays([unit])).fetchall() == [("ok",)]


def units_of(url: str, tenant: UUID, count: int) -> list[PreparedUnit]:
    """What a log holds, as so many units that another one can store, the claims with the last."""
    with psycopg.connect(url) as connection:
        events = connection.execute(
            "select stream, version, name, event_id, body from lethelog.events where tenant = %s order by position",
            (tenant,),
        ).fetchall()
        keys = connection.execute("select key_id, wrapped from lethelog_vault.data_keys").fetchall()
        claims = connection.execute("select kind, digest, holder from lethelog.claims").fetchall()
    units = [PreparedUnit(tenant, tenant, CommandKey.fresh()) for _ in range(count)]
    for number, event in enumerate(events):
        units[number * count // len(events)].add_event(*event)
    # As they were stored until revision 0012: without the generation that they begin with now.
    units[0].keys = [WrappedKey(key_id, wrapped[-WRAPPED_BYTES:]) for key_id, wrapped in keys]
    for kind, digest, holder in claims:
        units[-1].add_claim(kind, digest, None, holder)
    return units


async def test_f46_every_schema_goes_forward_and_back_and_forward_with_everything_in_it(
    world, empty_url, embedder, clock, tmp_path
):
    from .conftest import opened_world

    made = await lived_in(world)
    await world.catch_up()
    expected = (await world.reading.list(world.caller, {"status": "all", "limit": 100})).memories
    known, tenant = migrations.revisions(), world.caller.tenant
    # Each revision's own function stores something.
    units = units_of(world.database_url, tenant, len(known) + 1)

    move(empty_url, command.upgrade, known[0])
    columns = columns_of(empty_url)
    with psycopg.connect(world.database_url) as there, psycopg.connect(empty_url) as here:
        for table in ("lethelog.directory", "lethelog_vault.tenant_keys"):
            rows = there.execute(f"select {columns[table]} from {table} where tenant = %s", (tenant,)).fetchall()
            for row in rows:
                here.execute(f"insert into {table} values ({', '.join(['%s'] * len(row))})", row)
    for revision in known:
        before = fingerprints(empty_url, columns)
        move(empty_url, command.upgrade, revision)
        assert fingerprints(empty_url, columns) == before, f"forward to {revision}"
        append(empty_url, units.pop(0))
    for unit in units:
        append(empty_url, unit)
    whole = fingerprints(empty_url, columns)
    assert whole["lethelog.events"][0] == len(await world.engine.log.read_page(0, 1_000))
    for revision in reversed(known[:-1]):
        move(empty_url, command.downgrade, revision)
        assert fingerprints(empty_url, columns) == whole, f"back to {revision}"
    migrations.migrate(empty_url)
    assert fingerprints(empty_url, columns) == whole, "and forward again"

    async with opened_world(empty_url, embedder, clock, tmp_path / "erasures.ledger") as upgraded:
        moved = type(world)(**{**vars(upgraded), "caller": world.caller})
        await moved.catch_up()
        found = (await moved.reading.list(moved.caller, {"status": "all", "limit": 100})).memories
        assert [
            one.model_dump(exclude={"position", "recorded_at", "fresh_at", "held_until"}) for one in found
        ] == [one.model_dump(exclude={"position", "recorded_at", "fresh_at", "held_until"}) for one in expected]
        assert {one.id for one in found if one.pinned} == {made["second"], made["expiring"]}
        with pytest.raises(Erased):
            await moved.get(made["erased"])
        waiting = (await moved.reviewing.list(moved.caller, {"status": "proposed"})).proposals
        assert made["open"] in {one.id for one in waiting}
        settings = await moved.engine.tenants.get(tenant, fresh=True)
        assert (settings.judgment, settings.policy.singles_cap, settings.policy_version) == (True, 7, 2)
        again = await moved.commands.remember(moved.caller, {"topic": "t", "content": "lives in lisbon"})
        assert again.deduplicated
        assert (await verify(moved.engine.database)).intact


def test_a_schema_that_only_a_newer_version_knows_is_refused_and_left_alone(database_url):
    with psycopg.connect(database_url) as connection:
        connection.execute("update lethelog.schema_version set version_num = '9999'")
    with pytest.raises(Misconfigured, match="9999"):
        migrations.migrate(database_url)
    assert migrations.schema_revision(database_url) == ("9999", migrations.revisions()[-1])
