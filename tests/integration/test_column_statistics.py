"""Nothing that an erasure takes out stands among the planner's statistics, which know nothing of erasures."""

from collections.abc import AsyncGenerator

import psycopg
import pytest
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.runner import ensure_tables
from lethelog.streams.column_statistics import PLANNED

from .test_erasure import erase
from .test_erasure_places import columns

CANARY = "Quedlinburg"
MANY = 12
VALUES = ", ".join(f"stavalues{n}::text" for n in range(1, 6))


@pytest.fixture
async def analysed(database_url) -> AsyncGenerator[psycopg.AsyncConnection]:
    """Looks as a superuser, who sees all statistics."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        yield connection


async def sampled(connection: psycopg.AsyncConnection, text: str) -> set[str]:
    """Columns whose samples hold a text, in any case, once everything is analysed."""
    await connection.execute("analyze")
    cursor = await connection.execute(
        "select n.nspname || '.' || c.relname || '.' || a.attname from pg_statistic s "
        "join pg_class c on c.oid = s.starelid join pg_namespace n on n.oid = c.relnamespace "
        "join pg_attribute a on a.attrelid = c.oid and a.attnum = s.staattnum "
        f"where lower(concat_ws(' ', {VALUES})) like lower(%s)",
        (f"%{text}%",),
    )
    return {name for (name,) in await cursor.fetchall()}


async def remember_many(world) -> None:
    """Many rows that say the same: in scopes of their own, since one scope holds a text once."""
    for n in range(MANY):
        await world.remember(
            CANARY, topic=CANARY, tags=[CANARY], metadata={"where": CANARY}, scope=f"town-{n}", user_id="ada"
        )
    await world.catch_up()


async def test_no_text_of_an_erased_person_stands_in_the_statistics_of_any_generation(world, analysed):
    await remember_many(world)
    await analysed.execute(
        "create table public.control as select content, lexemes from lethelog_views.live_memory"
    )
    controls = {"public.control.content", "public.control.lexemes"}
    assert await sampled(analysed, CANARY) == controls
    assert "lethelog_views.live_memory.scope" in await sampled(analysed, "town-1"), "plans keep what they need"
    engine = world.engine
    await Rebuilder(engine.database, engine.log, engine.tail, engine.live_memory).rebuild()
    assert await sampled(analysed, CANARY) == controls
    assert "live_memory.scope" in str(await sampled(analysed, "town-1"))

    await erase(world, Erasures(engine), subject="ada")

    assert await sampled(analysed, CANARY) == controls


async def test_samples_that_an_earlier_version_let_be_taken_are_gone_once_its_tables_are_looked_at(
    world, analysed
):
    await remember_many(world)
    for column in ("content", "topic", "lexemes", "metadata"):
        await analysed.execute(f"alter table lethelog_views.live_memory alter {column} set statistics -1")
    before = await sampled(analysed, CANARY)
    assert {f"lethelog_views.live_memory.{one}" for one in ("content", "topic", "lexemes")} <= before

    await ensure_tables(world.engine.database, world.engine.projections)

    assert await sampled(analysed, CANARY) == set()


async def test_of_every_column_that_may_hold_text_no_samples_are_taken_but_of_those_that_plans_need(
    world, analysed
):
    looked_at = {name for name in await columns(world) if name.rpartition(".")[2] not in PLANNED}
    cursor = await analysed.execute(
        "select n.nspname || '.' || c.relname || '.' || a.attname from pg_attribute a "
        "join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace "
        "where c.relkind = 'r' and n.nspname like 'lethelog%' and a.attstattarget = 0"
    )
    unsampled = {name for (name,) in await cursor.fetchall()}
    assert looked_at <= unsampled
    assert {f"lethelog_vault.{one}.wrapped" for one in ("data_keys", "tenant_keys")} <= unsampled
    assert "lethelog.directory.sealed" in unsampled
