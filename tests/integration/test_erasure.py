"""Erasure: previewed, performed and proved; nothing of it can be read again, by any way there is."""

from uuid import UUID, uuid4

import pytest
from lethelog.domain.errors import AccessDenied, Conflict, Erased, InvalidInput, NotFound
from lethelog.handlers.access.caller import ALL_PERMISSIONS, Caller
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.projections.rebuild import Rebuilder
from lethelog.streams import audit
from lethelog.streams.payloads import Actor

CANARY = "the-canary-sings-in-Quedlinburg"


@pytest.fixture
def erasures(world) -> Erasures:
    return Erasures(world.engine)


async def erase(world, erasures: Erasures, *, re_entry: str = "none", **what):
    """Preview and do it; everything there is must be clean afterwards."""
    await world.catch_up()
    preview = await erasures.preview(world.caller, what)
    done = await erasures.erase(
        world.caller, {"erasure_id": preview.id, "reason": "asked_for", "re_entry": re_entry}
    )
    assert done.verified, done.remaining
    await world.catch_up()
    return done


async def clear_rows(world, text: str) -> list[str]:
    """Every table of the database in which a text stands in clear."""
    found: list[str] = []
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "where c.relkind = 'r' and n.nspname like 'lethelog%'"
        )
        for schema, table in await cursor.fetchall():
            cursor = await connection.execute(
                f"select count(*) from {schema}.{table} t where t::text like %s", (f"%{text}%",)
            )
            [count] = await cursor.fetchone() or (0,)
            if count:
                found.append(f"{schema}.{table}")
    return found


async def same_as_rebuilt(world) -> None:
    for projection in world.engine.projections:
        compared = await Rebuilder(
            world.engine.database, world.engine.log, world.engine.tail, projection
        ).compare()
        assert compared.equal, compared.differences


async def test_an_erased_memory_is_gone_from_every_read_and_leaves_a_skeleton(world, erasures):
    """D10: asked for by an old version, the head goes with it; none is left that could not be reached."""
    first = await world.remember(f"{CANARY} one", user_id="ada")
    written = await world.commands.revise(world.caller, {"memory_id": first, "content": f"{CANARY} two"})
    second = written.memory.id
    other = await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    assert await clear_rows(world, CANARY)

    done = await erase(world, erasures, memory_id=first)

    assert done.memories == 2
    assert await clear_rows(world, CANARY) == []
    for one in (first, second):
        with pytest.raises(Erased):
            await world.get(one)
        with pytest.raises(Erased):
            await world.commands.revise(world.caller, {"memory_id": one, "content": "again"})
        with pytest.raises(Erased):
            await world.commands.pin(world.caller, {"memory_id": one})
        history = await world.reading.history(world.caller, {"memory_id": one})
        assert history.entries[0].event == "memory.remembered"
        assert history.entries[-1].event == "erasure.performed"
        assert CANARY not in history.model_dump_json()
    assert await world.search(CANARY) == [other]
    assert (await world.get(other)).content == "Deploys go to Hetzner"
    await same_as_rebuilt(world)
    assert (await audit.verify(world.engine.database)).intact


async def test_what_follows_from_an_erased_memory_goes_with_it_or_is_listed(world, erasures):
    source = await world.remember(f"{CANARY} source")
    summary = await world.remember(f"{CANARY} summary", derived_from=[source])
    listed = await erasures.preview(world.caller, {"memory_id": source, "derived": "list"})
    assert (listed.memories, listed.derived, listed.left) == (1, 0, (summary,))
    cascading = await erasures.preview(world.caller, {"memory_id": source})
    assert (cascading.memories, cascading.derived, cascading.left) == (2, 1, ())
    done = await erase(world, erasures, memory_id=source, derived="list")
    assert done.left == (summary,)
    assert (await world.get(summary)).content == f"{CANARY} summary"


async def test_every_memory_of_a_person_goes_however_many(world, erasures):
    """F01: 257 memories, of which some were moved, archived or revised; others stay."""
    mine = [await world.remember(f"{CANARY} {n}", user_id="ada") for n in range(257)]
    about = await world.remember(f"{CANARY} about her", user_id="bob", subject="ada")
    others = [await world.remember(f"something else {n}", user_id="bob") for n in range(3)]
    await world.commands.archive(world.caller, {"memory_id": mine[3]})
    done = await erase(world, erasures, subject="ada")
    assert done.memories == 258
    assert await clear_rows(world, CANARY) == []
    with pytest.raises(Erased):
        await world.get(about)
    page = await world.reading.list(world.caller, {"status": "all", "limit": 100})
    assert {one.id for one in page.memories} == set(others)
    assert await world.engine.directory.find(world.caller.tenant, "user", "ada") is None
    # Another person of the same name is another person.
    again = await world.remember("a new beginning", user_id="ada")
    assert (await world.get(again)).user_id == "ada"
    await same_as_rebuilt(world)


async def test_what_was_asked_a_moment_ago_is_not_answered_from_memory_after_an_erasure(world, erasures):
    """F04: every cache is warm, and the next question finds nothing; the neighbour is still found."""
    gone = await world.remember(f"The locker of {CANARY} is 4471", user_id="ada", tags=["locker"])
    kept = await world.remember("The locker of Bob is 9", user_id="bob", tags=["locker"])
    await world.catch_up()
    for _ in range(2):
        assert set(await world.search("locker")) == {gone, kept}
        assert (await world.get(gone)).user_id == "ada"
    preview = await erasures.preview(world.caller, {"subject": "ada"})
    await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert await world.search("locker") == [kept]
    page = await world.reading.list(world.caller, {"status": "all", "tags": ["locker"]})
    assert [one.id for one in page.memories] == [kept]
    with pytest.raises(Erased):
        await world.get(gone)


async def test_what_was_written_after_the_preview_goes_too_and_the_answer_says_how_many_more(world, erasures):
    await world.remember(f"{CANARY} one", user_id="ada")
    await world.catch_up()
    preview = await erasures.preview(world.caller, {"subject": "ada"})
    later = await world.remember(f"{CANARY} two", user_id="ada")
    done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert (done.previewed, done.memories) == (1, 2)
    with pytest.raises(Erased):
        await world.get(later)


async def test_a_project_and_a_scope_go_with_what_was_ever_filed_there(world, erasures):
    moved = await world.remember(f"{CANARY} moved", project="Apollo")
    await world.commands.move(world.caller, {"memory_id": moved, "project": "Zeus"})
    inside = await world.remember(f"{CANARY} inside", scope="lab")
    stays = await world.remember("elsewhere", scope="desk")
    assert (await erase(world, erasures, project="Apollo")).memories == 1
    assert (await erase(world, erasures, scope="lab")).memories == 1
    for one in (moved, inside):
        with pytest.raises(Erased):
            await world.get(one)
    assert (await world.get(stays)).content == "elsewhere"
    assert await clear_rows(world, CANARY) == []


async def test_a_whole_tenant_goes_and_cannot_come_back(world, erasures):
    await world.remember(f"{CANARY} all", user_id="ada", project="Apollo")
    other = await world.another_caller()
    theirs = await world.commands.remember(other, {"content": "another tenant's", "topic": "t"})
    done = await erase(world, erasures, tenant=True)
    assert done.certificate is not None
    assert await clear_rows(world, CANARY) == []
    with pytest.raises(Erased):
        await world.remember("a new life")
    [kept] = await world.reading.get(other, {"ids": [theirs.memory.id]})
    assert kept.content == "another tenant's"
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select count(*) from lethelog.directory where tenant = %s", (world.caller.tenant,)
        )
        assert await cursor.fetchone() == (0,)


@pytest.mark.parametrize("re_entry", ["none", "block"])
async def test_a_text_comes_back_as_new_or_quarantined_as_was_chosen(world, erasures, re_entry):
    first = await world.remember(CANARY)
    done = await erase(world, erasures, memory_id=first, re_entry=re_entry)
    assert done.blocked == (re_entry == "block")
    assert done.certificate is not None
    assert done.certificate["statement"]["choices"]["digests_left"] == (re_entry == "block")
    again = await world.remember(CANARY)
    assert again != first
    assert (await world.get(again)).status == ("quarantined" if re_entry == "block" else "active")


async def test_a_refuted_text_leaves_no_digest_unless_that_was_chosen(world, erasures):
    first = await world.remember(CANARY)
    await world.commands.refute(world.caller, {"memory_id": first})
    await erase(world, erasures, memory_id=first)
    assert (await world.get(await world.remember(CANARY))).status == "active"


async def test_an_earlier_memory_of_the_same_text_goes_too(world, erasures):
    first = await world.remember(CANARY)
    await world.commands.archive(world.caller, {"memory_id": first})
    second = await world.remember(CANARY)
    done = await erase(world, erasures, memory_id=second)
    assert done.memories == 2
    with pytest.raises(Erased):
        await world.get(first)


async def test_a_retry_of_the_command_that_wrote_it_does_not_write_it_again(world, erasures):
    from lethelog.handlers.memories import Retry

    arguments = {"content": CANARY, "topic": "t"}
    written = await world.commands.remember(world.caller, arguments, Retry("k1"))
    await erase(world, erasures, memory_id=written.memory.id)
    with pytest.raises(Erased):
        await world.commands.remember(world.caller, arguments, Retry("k1"))
    assert await clear_rows(world, CANARY) == []


async def test_a_preview_changes_nothing_and_needs_the_permission(world, erasures):
    first = await world.remember(CANARY)
    await world.catch_up()
    may_not = Caller(world.caller.tenant, Actor("person", uuid4()), ALL_PERMISSIONS - {"memory:erase"})
    with pytest.raises(AccessDenied):
        await erasures.preview(may_not, {"memory_id": first})
    preview = await erasures.preview(world.caller, {"memory_id": first})
    assert preview.places["data keys"] == preview.places["live_memory"] == 1
    assert (await world.get(first)).content == CANARY
    with pytest.raises(AccessDenied):
        await erasures.erase(may_not, {"erasure_id": preview.id, "reason": "asked_for"})
    assert (await world.get(first)).content == CANARY


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({}, InvalidInput),
        ({"scope": "a", "tenant": True}, InvalidInput),
        ({"memory_id": UUID(int=7)}, NotFound),
        ({"subject": "nobody"}, NotFound),
        ({"project": "nothing"}, NotFound),
    ],
)
async def test_what_cannot_be_erased_is_refused(world, erasures, what, error):
    head = await world.engine.log.head()
    with pytest.raises(error):
        await erasures.preview(world.caller, what)
    assert await world.engine.log.head() == head


async def test_a_reason_is_a_code_and_asking_twice_is_asking_once(world, erasures):
    first = await world.remember(CANARY)
    preview = await erasures.preview(world.caller, {"memory_id": first})
    with pytest.raises(InvalidInput):
        await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "Ada wants it"})
    done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    head = await world.engine.log.head()
    again = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert (again, await world.engine.log.head()) == (done, head)
    with pytest.raises(Conflict):
        await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "another"})
    with pytest.raises(NotFound):
        await erasures.show(await world.another_caller(), {"erasure_id": preview.id})


async def test_erasures_are_listed_newest_first(world, erasures):
    ids = [(await erasures.preview(world.caller, {"scope": "personal"})).id for _ in range(5)]
    page = await erasures.list(world.caller, {"limit": 3})
    assert [one.id for one in page.erasures] == ids[:1:-1]
    rest = await erasures.list(world.caller, {"limit": 3, "cursor": page.next_cursor})
    assert ([one.id for one in rest.erasures], rest.next_cursor) == (ids[1::-1], None)
    assert (await erasures.list(world.caller, {"unfinished": True})).erasures == ()


async def test_the_certificate_names_the_embedders_elsewhere_that_were_given_the_text(world, erasures):
    server = "text-embedding-3-small-1536@openai+windows"
    first = await world.remember(f"{CANARY} one")
    second = (
        await world.commands.revise(world.caller, {"memory_id": first, "content": f"{CANARY} two"})
    ).memory.id
    other = await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    async with world.engine.database.connection() as connection:
        await connection.execute(
            "update lethelog_views.live_memory set embedding_model = %s where memory_id = any(%s)",
            (server, [second, other]),
        )
    recorded = (await world.get(second)).recorded_at
    done = await erase(world, erasures, memory_id=first)
    told = [(one.provider, one.operation, one.calls, one.first_at, one.last_at) for one in done.providers]
    assert told == [(server, "embedding", 1, recorded, recorded)]
    assert done.certificate["statement"]["providers"][0]["provider"] == server
    await world.remember(f"{CANARY} three")
    local = await world.remember(f"{CANARY} four")
    assert (await erase(world, erasures, memory_id=local)).providers == (), "embedded in this process"
