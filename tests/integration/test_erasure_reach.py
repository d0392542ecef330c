"""What an erasure reaches and how it is told: from what is new in the log, and by whom texts were seen."""

from collections.abc import Sequence

import pytest
from lethelog.domain.judging import NoVerdict
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.forgetting.requesting import Passes
from lethelog.handlers.operating import workers as operating
from lethelog.handlers.operating.workers import Workers
from lethelog.handlers.sessions.sessions import Sessions
from lethelog.projections import links
from lethelog.streams import directory

from .broker_fixtures import eventually
from .passes import ToldJudge, finish, old, pass_settings, sure, working
from .test_erasure import erase


@pytest.fixture
def erasures(world) -> Erasures:
    return Erasures(world.engine)


@pytest.mark.parametrize("opinion", [sure("archive"), lambda _item: NoVerdict("malformed_reply")])
async def test_the_certificate_names_a_judge_elsewhere_also_one_that_gave_no_usable_answer(
    judging_world, broker, opinion
):
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    judge = ToldJudge(opinion)
    settings = pass_settings(judge)
    async with working(world, broker, settings):
        view = await Passes(world.engine, settings).request(world.caller)
        await finish(world, settings, view, seconds=60)
    never_judged = await world.remember("Lunch is at noon")

    done = await erase(world, Erasures(world.engine), memory_id=stale)

    assert len(judge.calls) > 0
    [told] = done.providers
    assert (told.provider, told.operation, told.calls) == ("told:1", "judging", len(judge.calls))
    assert view.requested_at <= told.first_at <= told.last_at <= done.performed_at
    assert done.certificate["statement"]["providers"][0]["provider"] == "told:1"
    assert (await erase(world, Erasures(world.engine), memory_id=never_judged)).providers == ()


@pytest.fixture
def read(monkeypatch) -> list[object]:
    """Grows by the rows of the log that are read to tell the links, in pages of seven."""
    read: list[object] = []
    unwatched = links.read_rows

    async def watched(*arguments, **keywords) -> Sequence[tuple]:
        rows = await unwatched(*arguments, **keywords)
        read.extend(row[3] for row in rows)
        return rows

    monkeypatch.setattr(links, "read_rows", watched)
    monkeypatch.setattr(links, "PAGE", 7)
    return read


async def test_an_erasure_reads_what_is_new_in_the_log_and_not_all_of_it(world, erasures, read):
    first = await world.remember("one", user_id="ada")
    for n in range(20):
        await world.remember(f"note {n}")
    await erase(world, erasures, memory_id=first)
    assert len(read) > 20, "the first one has all of it to read"
    read.clear()
    second = await world.remember("two", user_id="ada", derived_from=[await world.remember("its source")])
    await world.commands.revise(world.caller, {"memory_id": second, "content": "three"})
    done = await erase(world, erasures, subject="ada")
    assert done.memories == 3, "the one of before is known without being read again"
    assert 0 < len(read) < 16


async def test_the_name_of_a_session_goes_with_its_last_memory_where_they_went_one_by_one(world, erasures):
    memories = [await world.remember(text, session_id="standup") for text in ("one", "two")]
    named: list[bool] = []
    for memory in memories:
        await erase(world, erasures, memory_id=memory)
        known = await world.engine.directory.find(world.caller.tenant, "session", "standup")
        named.append(known is not None)
    assert named == [True, False]


async def test_the_names_of_the_sessions_that_only_a_person_had_go_with_the_person(world, erasures):
    sessions = Sessions(world.engine)
    for session, user in (("ada's therapy", "ada"), ("standup", "ada"), ("standup", "bo"), ("nightly", None)):
        given = {"session": session} if user is None else {"session": session, "user": user}
        await sessions.open(world.caller, given)
    await sessions.open(world.caller, {"session": "noted", "user": "ada"})
    await world.remember("Somebody else's", session_id="noted")
    await world.remember("Ada's", user_id="ada", session_id="ada's therapy")

    await erase(world, erasures, subject="ada")

    known = {
        name: await world.engine.directory.find(world.caller.tenant, "session", name) is not None
        for name in ("ada's therapy", "standup", "nightly", "noted")
    }
    assert known == {"ada's therapy": False, "standup": True, "nightly": True, "noted": True}
    await world.catch_up()
    page = await sessions.page(world.caller, {})
    told = {(one.session, one.user) for one in page.sessions}
    assert page.total == 5 and told == {
        (None, None),
        ("standup", None),
        ("standup", "bo"),
        ("nightly", None),
        ("noted", None),
    }


async def test_links_of_an_earlier_version_are_told_anew(world, erasures):
    await world.remember("one", user_id="ada")
    await links.catch_up(world.engine.database, await world.engine.log.head())
    async with world.engine.database.transaction() as connection:
        await connection.execute("alter table lethelog_views.memory_links_told rename to memory_links_position")
        await connection.execute("delete from lethelog_views.memory_links")
    assert (await erase(world, erasures, subject="ada")).memories == 1
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute("select to_regclass('lethelog_views.memory_links_position')")
        assert await cursor.fetchone() == (None,)


async def test_a_worker_tells_the_links_so_that_not_even_the_first_erasure_reads_all_of_the_log(
    world, erasures, read, monkeypatch
):
    source = await world.remember("one", user_id="ada")
    await world.remember("two", derived_from=[source])
    for n in range(20):
        await world.remember(f"note {n}")
    head = await world.engine.log.head()

    async def told() -> bool:
        async with world.engine.database.connection() as connection:
            return await links.read_position(connection) == head

    monkeypatch.setattr(operating, "LINK_SECONDS", 0.01)
    workers = Workers(world.engine, roles=("erasures",))
    await workers.open()
    try:
        await eventually(told, "the links are told up to the head")
    finally:
        await workers.close()
    assert len(read) > 20
    read.clear()
    preview = await erasures.preview(world.caller, {"subject": "ada", "derived": "cascade"})
    assert (preview.memories, read) == (2, [])


@pytest.mark.parametrize("named", ["Jos\u00e9", "Jose\u0301"])
async def test_a_person_is_reached_however_unicode_composes_the_name(world, erasures, named):
    """One keyboard sends a letter and its accent as one character, another one as two."""
    composed, decomposed = "Jos\u00e9", "Jose\u0301"
    written = [
        await world.remember("Likes tea", user_id=composed),
        await world.remember("Likes coffee", user_id=decomposed),
        await world.remember("Is on holiday", subject=decomposed),
    ]
    await world.remember("Likes water", user_id="Jose")
    page = await world.reading.list(world.caller, {"user_id": named, "after": await world.catch_up()})
    assert page.total == 2 and {one.user_id for one in page.memories} == {composed}
    done = await erase(world, erasures, subject=named)
    assert done.memories == len(written)
    assert [
        await world.engine.directory.find(world.caller.tenant, "user", one) for one in (composed, decomposed)
    ] == [
        None,
        None,
    ]
    await world.catch_up()
    assert [one.content for one in (await world.reading.list(world.caller, {})).memories] == ["Likes water"]


async def test_a_name_from_before_names_were_composed_is_found_as_it_was_written(world, monkeypatch):
    registry, tenant, decomposed = world.engine.directory, world.caller.tenant, "Jose\u0301"
    with monkeypatch.context() as before:
        before.setattr(directory, "_composed", lambda name: name)
        one = await registry.register(tenant, "user", decomposed)
    world.engine.vault.forget()
    assert await registry.find(tenant, "user", decomposed) == one
    assert await registry.register(tenant, "user", decomposed) == one
    assert await registry.names(tenant, [one]) == {one: decomposed}
    assert await registry.find(tenant, "user", "Jos\u00e9") is None
