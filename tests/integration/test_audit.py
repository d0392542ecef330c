"""The hash chain finds whatever a superuser did to the stored rows (design.md 4)."""

from uuid import uuid4

import psycopg
import pytest
from lethelog.streams.audit import Checkpoint, checkpoint, verify


async def written(world, count: int = 12) -> None:
    for n in range(count):
        await world.remember(f"memory number {n}")


def tamper(database_url: str, *statements: str) -> None:
    """As whoever owns the server can: triggers off, then anything."""
    with psycopg.connect(database_url) as connection:
        connection.execute("set session_replication_role = replica")
        for statement in statements:
            connection.execute(statement)


async def test_an_untouched_log_is_intact_and_fully_checked(world):
    await written(world)
    found = await verify(world.engine.database)
    head = await world.engine.log.head()
    assert found.intact and (found.events, found.upto) == (head, head)
    assert found.commits == head  # every write here was a commit of its own


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("update lethelog.events set body = body || 'x' where position = 6", "row_altered"),
        ("update lethelog.events set name = 'memory.archived' where position = 6", "row_altered"),
        (
            "update lethelog.events set recorded_at = recorded_at + interval '1 us' where position = 6",
            "row_altered",
        ),
        ("update lethelog.events set tenant = gen_random_uuid() where position = 6", "row_altered"),
        ("update lethelog.events set hash = sha256('x') where position = 6", "row_altered"),
        ("delete from lethelog.events where position = 6", "position_missing"),
        ("update lethelog.roots set chain = sha256('x') where position = 6", "rows_do_not_fit_their_root"),
    ],
)
async def test_the_first_place_that_does_not_fit_is_named(world, database_url, statement, problem):
    await written(world)
    tamper(database_url, statement)
    found = await verify(world.engine.database)
    assert found.finding is not None
    assert (found.finding.problem, found.finding.position, found.finding.commit) == (problem, 6, 6)


async def test_a_verification_begins_with_the_commit_that_holds_the_position_it_is_given(world, database_url):
    """Inclusive, as everywhere: the tampered position is checked when it is named, and not from the next one on."""
    await written(world)
    head = await world.engine.log.head()
    tamper(database_url, "update lethelog.events set body = body || 'x' where position = 6")
    for first in (1, 5, 6):
        finding = (await verify(world.engine.database, first=first)).finding
        assert finding is not None and finding.position == 6
    rest = await verify(world.engine.database, first=7)
    assert rest.intact and rest.events == head - 6


async def test_two_swapped_rows_are_found(world, database_url):
    await written(world)
    tamper(
        database_url,
        "update lethelog.events set position = -1 where position = 6",
        "update lethelog.events set position = 6 where position = 7",
        "update lethelog.events set position = 7 where position = -1",
    )
    found = await verify(world.engine.database)
    assert found.finding is not None and (found.finding.problem, found.finding.position) == ("row_altered", 6)


async def test_a_row_altered_together_with_its_hash_breaks_its_root(world, database_url):
    await written(world)
    tamper(
        database_url,
        "update lethelog.events e set body = body || 'x' where position = 6",
        "update lethelog.events e set hash = lethelog.row_hash(position, tenant, stream, version, name, event_id, recorded_at, body) where position = 6",
    )
    found = await verify(world.engine.database)
    assert found.finding is not None and (found.finding.problem, found.finding.commit) == (
        "rows_do_not_fit_their_root",
        6,
    )


async def test_an_inserted_row_is_found(world, database_url):
    await written(world)
    head = await world.engine.log.head()
    tamper(
        database_url,
        f"insert into lethelog.events select {head + 1}, tenant, gen_random_uuid(), 1, name, event_id, recorded_at, body, hash from lethelog.events where position = 6",
    )
    found = await verify(world.engine.database)
    assert found.finding is not None and (found.finding.problem, found.finding.position) == (
        "root_missing",
        head + 1,
    )


async def test_a_shortened_log_is_found_by_its_head_and_a_perfectly_shortened_one_by_a_checkpoint(
    world, database_url, tmp_path
):
    await written(world)
    file = tmp_path / "checkpoint.json"
    (await checkpoint(world.engine.database)).write(file)
    tamper(
        database_url,
        "delete from lethelog.events where position > 8",
        "delete from lethelog.roots where position > 8",
    )
    found = await verify(world.engine.database)
    assert found.finding is not None and found.finding.problem == "head_differs"
    tamper(
        database_url,
        "update lethelog.head set position = 8, chain = (select chain from lethelog.roots where position = 8)",
    )
    assert (await verify(world.engine.database)).intact
    found = await verify(world.engine.database, known=Checkpoint.read(file))
    assert found.finding is not None and found.finding.problem == "checkpoint_differs"


async def test_a_checkpoint_still_holds_after_more_was_written(world, tmp_path):
    await written(world)
    kept = await checkpoint(world.engine.database)
    await world.remember("one more")
    assert (await verify(world.engine.database, known=kept)).intact
    later = await verify(world.engine.database, first=kept.position + 1, known=kept)
    assert later.intact and later.events == 1


async def test_erasing_by_destroying_keys_does_not_break_the_chain(world, database_url):
    await written(world)
    tamper(database_url, "delete from lethelog_vault.data_keys")
    assert (await verify(world.engine.database)).intact


async def test_units_that_shared_a_commit_share_a_root(world):
    import asyncio

    await asyncio.gather(*(world.remember(f"together {n} {uuid4()}") for n in range(40)))
    found = await verify(world.engine.database)
    assert found.intact and found.commits < found.events


@pytest.mark.parametrize(
    "statement", ["update lethelog.roots set chain = ''", "delete from lethelog.roots", "truncate lethelog.roots"]
)
async def test_roots_refuse_to_be_changed(world, database_url, statement):
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.Error, match="append-only"):
        connection.execute(statement)


async def test_a_log_from_before_the_chain_is_covered_by_one_root(servers):
    """Migrating forward hashes what is there; going back and forward again loses nothing."""
    from pathlib import Path

    from alembic import command
    from alembic.config import Config
    from lethelog.ops import migrations
    from sqlalchemy import create_engine

    name = f"migrated_{uuid4().hex}"
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    url = servers.database_url(name)
    migrations.migrate(url)

    def move(direction: str, to: str) -> None:
        engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url))
        with engine.begin() as bound:
            config = Config()
            config.set_main_option("script_location", str(Path(migrations.__file__).parent))
            config.attributes["connection"] = bound
            getattr(command, direction)(config, to)
        engine.dispose()

    move("downgrade", "0002")
    with psycopg.connect(url) as connection:
        for n in range(3):
            connection.execute(
                "select * from lethelog.append(array[gen_random_uuid()], array[%s::bytea], array[''::bytea], array[gen_random_uuid()], "
                "array[1], array[gen_random_uuid()], array[1::bigint], array['x'], array[gen_random_uuid()], array[''::bytea], "
                "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
                (bytes([n]),),
            )
    move("upgrade", "head")
    from lethelog.streams.database import Database

    database = Database(url)
    await database.open()
    found = await verify(database)
    await database.close()
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)")
    assert found.intact and (found.events, found.commits) == (3, 1)
