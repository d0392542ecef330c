"""Tenants are made by hand, policy first, under names that are not mistaken for each other."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest
from lethelog.domain.errors import Conflict, InvalidInput, LethelogError, NotFound
from lethelog.handlers.tenancy.tenancy import Tenancy
from lethelog.ops.local import open_caller
from lethelog.ops.settings import Settings
from lethelog.streams.directory import INSTALLATION

TABLES = ("lethelog.directory", "lethelog_vault.tenant_keys", "lethelog.events", "lethelog.commands")


@pytest.fixture
def tenancy(world) -> Tenancy:
    return Tenancy(world.engine)


async def rows(world) -> dict[str, int]:
    found: dict[str, int] = {}
    async with world.engine.database.connection() as connection:
        for table in TABLES:
            cursor = await connection.execute(f"select count(*) from {table}")
            [found[table]] = await cursor.fetchone()
    return found


async def test_a_tenant_begins_with_its_policy_and_nothing_precedes_it(world, tenancy: Tenancy):
    made = await tenancy.create(world.caller, {"name": "acme", "policy": {"pairs_cap": 7, "owner": "person:ada"}})
    first = (await world.engine.log.read_stream(made.id, made.id))[0]
    assert (first.name, first.version) == ("tenant.created", 1)
    assert first.event.policy["pairs_cap"] == 7
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select name from lethelog.events where tenant = %s order by position limit 1", (made.id,)
        )
        assert await cursor.fetchone() == ("tenant.created",)
    owner = UUID(first.event.policy["owner"])
    assert await world.engine.directory.names(made.id, [owner]) == {owner: "ada"}
    assert "bound" in made.unanswered, "an owner alone bounds nothing"


async def test_naming_a_tenant_that_is_not_there_makes_nothing(world, tenancy: Tenancy, tmp_path: Path):
    await tenancy.create(world.caller, {"name": "acme"})
    settings = Settings.load(data_dir=tmp_path, tenant="acme", actor="person:ada")
    assert (await open_caller(world.engine, settings)).tenant == (await tenancy.by_name("acme")).id
    before = await rows(world)
    for misspelt in ("acmee", "Acme", "acme%", "acm_"):
        with pytest.raises(NotFound, match="lethelog tenant create"):
            await open_caller(world.engine, Settings.load(data_dir=tmp_path, tenant=misspelt, actor="person:bob"))
    assert await rows(world) == before


async def test_only_the_default_tenant_comes_with_the_first_open(world, tmp_path: Path):
    settings = Settings.load(data_dir=tmp_path, actor="person:ada")
    first, second = await asyncio.gather(*(open_caller(world.engine, settings) for _ in range(2)))
    assert first == second
    names = [one.name for one in await world.engine.log.read_stream(first.tenant, first.tenant)]
    assert names == ["tenant.created"]


async def test_a_name_is_one_in_every_form_of_its_letters(world, tenancy: Tenancy):
    made = await tenancy.create(world.caller, {"name": "Cafe\u0301"})
    assert (await tenancy.show(world.caller, {"name": "Caf\u00e9"})).id == made.id


@pytest.mark.parametrize("other", ["ACME", "аcme", "acmé", "acme\u200b"])
async def test_a_name_that_looks_like_another_is_refused_unless_it_is_meant(world, tenancy: Tenancy, other: str):
    made = await tenancy.create(world.caller, {"name": "acme"})
    before = await rows(world)
    with pytest.raises(InvalidInput, match="--allow-lookalike") as refused:
        await tenancy.create(world.caller, {"name": other})
    assert refused.value.field == "name" and other not in str(refused.value)
    assert await rows(world) == before
    meant = await tenancy.create(world.caller, {"name": other, "allow_lookalike": True})
    assert meant.id != made.id and (await tenancy.by_name("acme")).id == made.id


async def test_a_name_is_taken_once_however_many_make_it_at_once(world, tenancy: Tenancy):
    outcomes = await asyncio.gather(
        *(tenancy.create(world.caller, {"name": name}) for name in ("acme", "acme", "ACME", "Acme")),
        return_exceptions=True,
    )
    refused = [one for one in outcomes if isinstance(one, LethelogError)]
    assert len(refused) == 3 and all(isinstance(one, Conflict | InvalidInput) for one in refused)
    page = await tenancy.list(world.caller, {})
    assert len(page.tenants) == 1


async def test_a_wrong_policy_is_refused_before_anything_is_made(world, tenancy: Tenancy):
    before = await rows(world)
    for policy, field in (
        ({"pairs_cap": -1, "owner": "ada"}, "pairs_cap"),
        ({"unknown": 1}, "unknown"),
        ({"owner": 7}, "owner"),
        ({"at_cap": "drop"}, "at_cap"),
        ({"residues": ["attic"]}, "residues.0"),
    ):
        with pytest.raises(InvalidInput) as refused:
            await tenancy.create(world.caller, {"name": "acme", "policy": policy})
        assert refused.value.field == field
    assert await rows(world) == before


async def test_what_was_cut_short_after_the_name_is_made_by_the_next_try(world, tenancy: Tenancy):
    named = await world.engine.directory.register(INSTALLATION, "tenant", "acme")
    assert await tenancy.find("acme") is None
    assert (await tenancy.list(world.caller, {})).tenants == ()
    assert (await tenancy.create(world.caller, {"name": "acme"})).id == named


async def test_the_list_has_every_tenant_once_page_by_page(world, tenancy: Tenancy):
    made = {(await tenancy.create(world.caller, {"name": f"tenant {letter}"})).id for letter in "abcdefg"}
    seen, cursor = [], None
    while True:
        page = await tenancy.list(world.caller, {"limit": 3, "cursor": cursor})
        seen += [one.id for one in page.tenants]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert len(seen) == 7 and set(seen) == made


async def test_a_memory_expires_as_the_policy_bounds_it_unless_it_is_kept(world):
    await world.engine.tenants.set_policy(world.caller.tenant, {"ttl_days": 10}, world.caller.actor)
    bounded, pinned, core = (
        await world.remember("bounded"),
        await world.remember("pinned", pinned=True),
        await world.remember("core", core=True),
    )
    stated = await world.remember("stated", expires_at="2030-01-01T00:00:00Z")
    assert await world.search("bounded") and (await world.get(stated)).expires_at.year == 2030
    successor = await world.commands.revise(
        world.caller, {"memory_id": await world.remember("to be revised"), "topic": "t", "content": "revised"}
    )
    assert successor.memory.expires_at == (await world.get(bounded)).expires_at
    assert [(await world.get(one)).expires_at for one in (pinned, core)] == [None, None]
    world.clock.forward(days=10)
    assert [(await world.get(one)).status for one in (bounded, pinned, core)] == ["expired", "active", "active"]


async def test_a_report_measures_the_pace_where_the_policy_states_none(world):
    from lethelog.handlers.tenancy.policies import Policies

    policies = Policies(world.engine)
    world.clock.now = (await world.engine.tenants.get(world.caller.tenant)).created_at
    empty = await policies.report(world.caller)
    assert (empty.figures, empty.growth, empty.live_memories) == ("none", {}, 0)
    assert empty.notes[0].startswith("Nothing in this store forgets")
    for number in range(20):
        await world.remember(f"{number:02} " + "x" * 1021, topic=f"{number:024}")
    await world.catch_up()
    world.clock.forward(days=10)
    report = await policies.report(world.caller)
    assert (report.figures, report.writes_per_day, report.live_memories) == ("measured", 2.0, 20)
    assert report.average_kb == 1024 / 1024 + 24 / 1024
    assert report.growth[365].items == 730
    await policies.change(
        world.caller, {"expected_writes_per_day": 40, "expected_average_kb": 2.5, "ttl_days": 90}
    )
    await policies.change(world.caller, {"live_memories": 2_000, "owner": "person:ada"})
    stated = await policies.report(world.caller)
    assert (stated.figures, stated.growth[365].items, stated.caps["max_items"].day) == ("stated", 3_600, 50)
    assert stated.policy["owner"] == "ada"
    assert set(stated.unanswered) == {
        "consolidation",
        "contradiction_procedure",
        "residue_list",
        "erasure_rehearsal",
    }
