"""Remember, revise, move, the five endings and duplicates, through the real log and read models."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from lethelog.domain.errors import AccessDenied, Conflict, InvalidInput, KeyReused, NotFound, WrongKind
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.memories import Retry
from lethelog.streams.payloads import Actor


async def test_a_memory_round_trips_with_every_field(world):
    source = await world.remember("a source")
    at = world.clock.now
    written = await world.commands.remember(
        world.caller,
        {
            "memory_type": "decision",
            "topic": " Deploys ",
            "content": " Deploys go to Hetzner ",
            "scope": "work",
            "project": "Projekt Ü",
            "tags": ["infra", "日本"],
            "metadata": {"source": {"n": 1}},
            "user_id": "ada",
            "agent_id": "planner",
            "run_id": "r1",
            "session_id": "s1",
            "trust": "agent",
            "producer": "agent",
            "core": True,
            "pinned": True,
            "occurred_at": "2026-02-01T00:00:00+02:00",
            "valid_from": "2026-01-01T00:00:00Z",
            "valid_to": "2026-12-31T00:00:00Z",
            "expires_at": "2027-01-01T00:00:00Z",
            "derived_from": [str(source)],
        },
    )
    await world.catch_up()
    view = await world.get(written.memory.id)
    assert view == written.memory.model_copy(update={"position": view.position})
    assert (view.topic, view.content, view.project, view.tags) == (
        "Deploys",
        "Deploys go to Hetzner",
        "Projekt Ü",
        ("infra", "日本"),
    )
    assert (view.user_id, view.subject, view.agent_id, view.metadata) == (
        "ada",
        "ada",
        "planner",
        {"source": {"n": 1}},
    )
    assert view.occurred_at.isoformat() == "2026-01-31T22:00:00+00:00"
    assert (view.fresh_at, view.version, view.status, view.current) == (view.occurred_at, 1, "active", True)
    assert view.recorded_at >= at - timedelta(days=3650) and view.derived_from == (source,)


async def test_a1_the_same_text_in_the_same_scope_is_the_same_memory_and_in_another_scope_a_new_one(world):
    """A1 as settlement 4 has it. Duplicate guard."""
    first = await world.remember("Uses Vim", memory_type="preference")
    head = await world.engine.log.head()
    again = await world.commands.remember(
        world.caller, {"topic": "other", "content": "  uses   VIM ", "memory_type": "fact"}
    )
    assert (again.memory.id, again.deduplicated, again.changed) == (first, True, False)
    assert await world.engine.log.head() == head
    elsewhere = await world.commands.remember(world.caller, {"topic": "t", "content": "Uses Vim", "scope": "work"})
    assert elsewhere.memory.id != first and not elsewhere.deduplicated


async def test_a2_a_memory_may_be_revised_into_its_own_text(world):
    """A2: predecessor closed, its content identical afterwards, edge from new to old.

    Append-only writes: predecessor content identical after revise.
    """
    first = await world.remember("The office is in Porto")
    revised = await world.commands.revise(world.caller, {"memory_id": first, "content": "The office is in Porto"})
    old = await world.get(first)
    assert (old.status, old.superseded_by, old.edge) == ("superseded", revised.memory.id, "supersedes")
    assert old.content == "The office is in Porto"
    again = await world.commands.remember(world.caller, {"topic": "x", "content": "the office is in porto"})
    assert again.memory.id == revised.memory.id and again.deduplicated


async def test_a3_revising_a_closed_memory_is_a_conflict_that_names_its_successor(world):
    """A3. Revise successor."""
    first = await world.remember("v1")
    second = (await world.commands.revise(world.caller, {"memory_id": first, "content": "v2"})).memory.id
    with pytest.raises(Conflict) as refused:
        await world.commands.revise(world.caller, {"memory_id": first, "content": "v3"})
    assert refused.value.details["successor"] == second


async def test_a4_archived_text_may_be_remembered_again_and_is_linked_to_the_old_one(world):
    """A4 as settlement 4 has it; F10."""
    first = await world.remember("Uses Vim", memory_type="decision")
    await world.commands.archive(world.caller, {"memory_id": first, "reason": "changed editors"})
    world.clock.forward(days=30)
    again = await world.commands.remember(world.caller, {"topic": "editor", "content": "Uses Vim"})
    assert again.memory.id != first and not again.deduplicated
    assert again.memory.earlier == first
    assert (await world.get(first)).status == "archived"


async def test_superseded_and_expired_text_may_be_remembered_again(world):
    """Settlement 4."""
    first = await world.remember("v1")
    await world.commands.revise(world.caller, {"memory_id": first, "content": "v2"})
    assert (await world.commands.remember(world.caller, {"topic": "t", "content": "v1"})).memory.earlier == first
    short = await world.remember("wifi code 1", expires_at=world.clock.now + timedelta(days=1))
    world.clock.forward(days=1)
    again = await world.commands.remember(world.caller, {"topic": "t", "content": "wifi code 1"})
    assert again.memory.id != short and again.memory.earlier == short


async def test_a_memory_may_be_revised_into_the_text_of_one_that_has_expired(world):
    """Settlement 4: an expired memory keeps nobody out of its text."""
    await world.remember("wifi code 1", expires_at=world.clock.now + timedelta(days=1))
    first = await world.remember("wifi code 0")
    world.clock.forward(days=1)
    revised = await world.commands.revise(world.caller, {"memory_id": first, "content": "wifi code 1"})
    assert (revised.memory.status, revised.memory.predecessor) == ("active", first)
    again = await world.commands.remember(world.caller, {"topic": "t", "content": "wifi code 1"})
    assert again.memory.id == revised.memory.id


async def test_restoring_refuses_while_another_memory_holds_the_text(world):
    first = await world.remember("Uses Vim")
    await world.commands.archive(world.caller, {"memory_id": first})
    second = await world.remember("Uses Vim")
    with pytest.raises(Conflict) as refused:
        await world.commands.restore(world.caller, {"memory_id": first})
    assert refused.value.details["holder"] == second
    await world.commands.archive(world.caller, {"memory_id": second})
    assert (await world.commands.restore(world.caller, {"memory_id": first})).memory.status == "active"
    assert (await world.commands.remember(world.caller, {"topic": "t", "content": "Uses Vim"})).memory.id == first


async def test_revise_inherits_filing_and_owners(world):
    """Revise inherits filing: work/projA revised without scope stays work/projA."""
    first = await world.remember(
        "v1", scope="work", project="A", tags=["x"], user_id="ada", memory_type="decision"
    )
    revised = (await world.commands.revise(world.caller, {"memory_id": first, "content": "v2"})).memory
    assert (revised.scope, revised.project, revised.tags, revised.user_id, revised.memory_type) == (
        "work",
        "A",
        ("x",),
        "ada",
        "decision",
    )
    assert revised.predecessor == first


async def test_move_changes_only_filing_and_freshness_and_nothing_when_nothing_changes(world):
    """Move: same values → no event."""
    first = await world.remember("v1", project="A")
    head = await world.engine.log.head()
    same = await world.commands.move(world.caller, {"memory_id": first, "project": "A"})
    assert not same.changed and await world.engine.log.head() == head
    moved = (await world.commands.move(world.caller, {"memory_id": first, "project": "B", "tags": ["t"]})).memory
    assert (moved.project, moved.tags, moved.content, moved.version) == ("B", ("t",), "v1", 2)
    assert moved.fresh_at > moved.occurred_at
    assert (
        await world.commands.move(world.caller, {"memory_id": first, "no_project": True})
    ).memory.project is None


async def test_moving_to_a_scope_moves_the_duplicate_rule_with_it(world):
    first = await world.remember("Uses Vim")
    await world.commands.move(world.caller, {"memory_id": first, "scope": "work"})
    assert (await world.remember("Uses Vim", scope="work")) == first
    assert (await world.remember("Uses Vim")) != first


async def test_reaffirm_moves_freshness_and_neither_content_nor_state_version(world):
    """Reaffirm: review time = now; freshness moves."""
    first = await world.remember("v1")
    before = await world.get(first)
    after = (await world.commands.reaffirm(world.caller, {"memory_id": first})).memory
    assert (after.version, after.content) == (before.version, before.content)
    assert after.fresh_at > before.fresh_at


async def test_f09_refuted_text_comes_back_only_into_quarantine_until_a_person_releases_it(world):
    """F09: NFKC look-alikes, other case and another scope included; the neighbour is still found."""
    first = await world.remember("Orla works at Pell & Co")
    neighbour = await world.remember("Orla lives in Galway")
    await world.commands.refute(world.caller, {"memory_id": first, "reason": "never did"})
    for text, scope in [("Orla works at Pell & Co", "personal"), ("ORLA WORKS AT ＰＥＬＬ & CO", "work")]:
        back = await world.commands.remember(world.caller, {"topic": "job", "content": text, "scope": scope})
        assert back.memory.status == "quarantined"
    assert await world.search("Orla works at Pell") == [neighbour]
    agent = Caller(world.caller.tenant, Actor("agent", uuid4()))
    with pytest.raises(AccessDenied):
        await world.commands.release(agent, {"memory_id": back.memory.id, "reason": "trust me"})
    with pytest.raises(AccessDenied):
        await world.commands.verify(agent, {"memory_id": neighbour})
    released = await world.commands.release(world.caller, {"memory_id": back.memory.id, "reason": "she joined"})
    assert released.memory.status == "active"
    assert back.memory.id in await world.search("Orla works at Pell")


async def test_endings_are_never_shown_unasked_and_each_is_found_by_its_status(world):
    """Settlement 15; the retrievable predicate serves search, list and duplicates alike."""
    ids = {
        status: await world.remember(f"Zebra crossing {status}")
        for status in ("active", "archived", "suppressed", "refuted")
    }
    ids["expired"] = await world.remember(
        "Zebra crossing expired", expires_at=world.clock.now + timedelta(hours=1)
    )
    ids["superseded"] = await world.remember("Zebra crossing superseded")
    successor = (
        await world.commands.revise(
            world.caller, {"memory_id": ids["superseded"], "content": "Zebra crossing successor"}
        )
    ).memory.id
    await world.commands.archive(world.caller, {"memory_id": ids["archived"]})
    await world.commands.refute(world.caller, {"memory_id": ids["refuted"]})
    await world.commands.suppress(
        world.caller, {"memory_id": ids["suppressed"], "plan_id": uuid4(), "approver": "ada", "reason": "plan"}
    )
    world.clock.forward(hours=1)
    found = await world.search("zebra crossing", limit=25)
    assert set(found) == {ids["active"], successor, ids["superseded"]}
    assert found[-1] == ids["superseded"]
    assert set(await world.search("zebra crossing", current=True)) == {ids["active"], successor}
    for status in ("archived", "suppressed", "refuted", "expired", "superseded"):
        assert await world.search("zebra crossing", status=status) == [ids[status]]
        page = await world.reading.list(world.caller, {"status": status})
        assert [m.id for m in page.memories] == [ids[status]] and page.memories[0].status == status
    again = await world.commands.remember(world.caller, {"topic": "t", "content": "Zebra crossing suppressed"})
    assert again.memory.id != ids["suppressed"]


async def test_restore_lifts_every_barrier(world):
    first = await world.remember("Zebra")
    await world.commands.suppress(
        world.caller, {"memory_id": first, "plan_id": uuid4(), "approver": "ada", "reason": "plan"}
    )
    restored = await world.commands.restore(world.caller, {"memory_id": first})
    assert restored.memory.status == "active"
    assert await world.search("zebra") == [first]


async def test_f28_twenty_parallel_remembers_of_one_sentence_make_one_memory(world):
    """F28, with and without one command key."""
    arguments = {"topic": "t", "content": "The launch is on Friday"}
    results = await asyncio.gather(*(world.commands.remember(world.caller, arguments) for _ in range(20)))
    assert len({r.memory.id for r in results}) == 1
    assert sum(not r.deduplicated for r in results) == 1
    keyed = {"topic": "t", "content": "The launch moved to Monday"}
    results = await asyncio.gather(
        *(world.commands.remember(world.caller, keyed, Retry(key="k1")) for _ in range(20))
    )
    assert len({r.memory.id for r in results}) == 1
    assert sum(r.changed for r in results) == 1


async def test_f30_two_revisions_of_one_version_make_one_successor_and_one_conflict(world):
    """F30: the conflict names the current version; exactly one live head."""
    first = await world.remember("v1")
    results = await asyncio.gather(
        *(
            world.commands.revise(
                world.caller, {"memory_id": first, "content": f"v2 by {n}", "expected_version": 1}
            )
            for n in range(2)
        ),
        return_exceptions=True,
    )
    [conflict] = [r for r in results if isinstance(r, Exception)]
    [won] = [r for r in results if not isinstance(r, Exception)]
    assert isinstance(conflict, Conflict)
    assert (conflict.details["current_version"], conflict.details["successor"]) == (2, won.memory.id)
    page = await world.reading.list(world.caller, {"status": "active", "after": await world.catch_up()})
    assert [m.id for m in page.memories] == [won.memory.id]


async def test_a_command_key_answers_the_first_result_and_refuses_another_command(world):
    first = await world.commands.remember(world.caller, {"topic": "t", "content": "x"}, Retry(key="k"))
    again = await world.commands.remember(world.caller, {"topic": "t", "content": "x"}, Retry(key="k"))
    assert (again.memory.id, again.position, again.changed) == (first.memory.id, first.position, False)
    with pytest.raises(KeyReused):
        await world.commands.remember(world.caller, {"topic": "t", "content": "y"}, Retry(key="k"))


async def test_the_key_of_a_command_that_changed_nothing_is_kept_too(world):
    first = await world.remember("x")
    again = await world.commands.remember(world.caller, {"topic": "t", "content": "x"}, Retry(key="k"))
    assert again.deduplicated
    with pytest.raises(KeyReused):
        await world.commands.remember(world.caller, {"topic": "t", "content": "y"}, Retry(key="k"))
    await world.commands.archive(world.caller, {"memory_id": first})
    retried = await world.commands.remember(world.caller, {"topic": "t", "content": "x"}, Retry(key="k"))
    assert (retried.memory.id, retried.changed) == (first, False)


async def test_an_older_expected_version_is_refused_with_both_versions(world):
    first = await world.remember("x")
    await world.commands.pin(world.caller, {"memory_id": first})
    with pytest.raises(Conflict) as refused:
        await world.commands.archive(world.caller, {"memory_id": first, "expected_version": 1})
    assert (refused.value.details["seen_version"], refused.value.details["current_version"]) == (1, 2)
    assert (await world.get(first)).status == "active"


async def test_unknown_and_foreign_ids_answer_alike_and_other_kinds_are_named(world):
    """F50 and behaviour.md 1.1.7."""
    other = await world.another_caller()
    foreign = (await world.commands.remember(other, {"topic": "t", "content": "secret"})).memory.id
    await world.catch_up()
    said = []
    for one in (foreign, uuid4()):
        for call in (world.commands.archive, world.commands.revise):
            arguments = {"memory_id": one} | ({"content": "x"} if call == world.commands.revise else {})
            with pytest.raises(NotFound) as missing:
                await call(world.caller, arguments)
            said.append(str(missing.value).replace(str(one), "ID"))
        with pytest.raises(NotFound) as missing:
            await world.reading.get(world.caller, {"ids": [one]})
        said.append(str(missing.value).replace(str(one), "ID"))
        with pytest.raises(NotFound):
            await world.reading.history(world.caller, {"memory_id": one})
        with pytest.raises(NotFound):
            await world.reviewing.accept(world.caller, {"proposal_id": one})
        with pytest.raises(NotFound):
            await world.commands.remember(world.caller, {"topic": "t", "content": "c", "derived_from": [one]})
    assert len(set(said)) == 1
    mine = await world.remember("mine")
    with pytest.raises(WrongKind):
        await world.reviewing.accept(world.caller, {"proposal_id": mine})
    with pytest.raises(WrongKind):
        await world.commands.archive(world.caller, {"memory_id": world.caller.tenant})
    assert [m.id for m in (await world.reading.list(other, {})).memories] == [foreign]


def _nested(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"topic": "t"}, "content"),
        ({"topic": "t", "content": "   "}, "content"),
        ({"topic": "", "content": "c"}, "topic"),
        ({"topic": "t" * 257, "content": "c"}, "topic"),
        ({"topic": "t", "content": "c" * 2001}, "content"),
        ({"topic": "t", "content": "nul \x00"}, "content"),
        ({"topic": "t", "content": "half \ud83d"}, "content"),
        ({"topic": "t", "content": 7}, "content"),
        ({"topic": "t", "content": "c", "vaild_to": "2026-01-01T00:00:00Z"}, "vaild_to"),
        ({"topic": "t", "content": "c", "expires_at": "2026-01-01"}, "expires_at"),
        ({"topic": "t", "content": "c", "expires_at": "2026-01-01T00:00:00"}, "expires_at"),
        ({"topic": "t", "content": "c", "expires_at": 1_700_000_000}, "expires_at"),
        ({"topic": "t", "content": "c", "scope": "Work"}, "scope"),
        ({"topic": "t", "content": "c", "scope": "work\n"}, "scope"),
        ({"topic": "t", "content": "c", "tags": ["x"] * 33}, "tags"),
        ({"topic": "t", "content": "c", "tags": "infra"}, "tags"),
        ({"topic": "t", "content": "c", "tags": ["x" * 65]}, "tags.0"),
        ({"topic": "t", "content": "c", "metadata": {str(n): n for n in range(17)}}, "metadata"),
        ({"topic": "t", "content": "c", "metadata": {"k": "v" * 5000}}, "metadata"),
        ({"topic": "t", "content": "c", "metadata": {"k": float("nan")}}, "metadata"),
        ({"topic": "t", "content": "c", "metadata": {"k": "\x00"}}, "metadata"),
        ({"topic": "t", "content": "c", "metadata": {"k": _nested(40)}}, "metadata"),
        ({"topic": "t", "content": "c", "metadata": {"k": _nested(400)}}, "metadata"),
        ({"topic": "t", "content": "c", "metadata": {"k": "\ud83d"}}, "metadata"),
        ({"topic": "t", "content": "c", "memory_type": "thought"}, "memory_type"),
        ({"topic": "t", "content": "c", "derived_from": ["not-an-id"]}, "derived_from.0"),
        ({"topic": "t", "content": "c", "derived_from": [str(uuid4())] * 65}, "derived_from"),
        ({"topic": "t", "content": "c", "occurred_at": "2027-01-01T00:00:00Z"}, "occurred_at"),
        ({"topic": "t", "content": "c", "trust": "host"}, "trust"),
        ({"topic": "t", "content": "c", "user_id": "u" * 257}, "user_id"),
    ],
)
async def test_bad_input_names_the_field_changes_nothing_and_repeats_no_content(world, arguments, field):
    head = await world.engine.log.head()
    with pytest.raises(InvalidInput) as refused:
        await world.commands.remember(world.caller, arguments)
    assert refused.value.field == field
    assert "ccccc" not in str(refused.value) and "ttttt" not in str(refused.value)
    assert await world.engine.log.head() == head


async def test_f15_expiry_is_an_instant_compared_as_utc(world):
    """F15: half-open, one second before and at the instant, in search, list and get."""
    first = await world.remember("Zebra pass", expires_at="2026-03-02T00:00:00+13:00")
    world.clock.now = world.clock.now.replace(day=1, hour=10, minute=59, second=59)
    assert await world.search("zebra") == [first]
    world.clock.forward(seconds=1)
    assert await world.search("zebra") == []
    assert (await world.get(first)).status == "expired"
    assert (await world.reading.list(world.caller, {})).total == 0


async def test_f17_a_memory_past_its_own_end_round_trips_and_is_not_current(world):
    """F17."""
    first = await world.remember("Zebra rule", valid_from="2026-01-01T00:00:00Z", valid_to="2026-02-01T00:00:00Z")
    other = await world.remember("Zebra habit")
    view = await world.get(first)
    assert (view.valid_from.isoformat(), view.valid_to.isoformat(), view.current) == (
        "2026-01-01T00:00:00+00:00",
        "2026-02-01T00:00:00+00:00",
        False,
    )
    assert await world.search("zebra rule") == [other, first]
    assert await world.search("zebra rule", current=True) == [other]


async def test_f11_history_is_ordered_timed_and_chained_from_old_to_new(world):
    """F11, F13."""
    first = await world.remember("v1")
    await world.commands.archive(world.caller, {"memory_id": first, "reason": "old"})
    await world.commands.restore(world.caller, {"memory_id": first})
    await world.commands.revise(world.caller, {"memory_id": first, "content": "v2"})
    await world.catch_up()
    entries = (await world.reading.history(world.caller, {"memory_id": first})).entries
    assert [e.event for e in entries] == [
        "memory.remembered",
        "memory.archived",
        "memory.restored",
        "memory.superseded",
    ]
    assert [e.position for e in entries] == sorted(e.position for e in entries)
    assert entries[0].old is None and entries[0].new == "v1"
    assert all(entries[n].old == entries[n - 1].new for n in range(1, 4))
    assert all(e.recorded_at is not None and e.actor.startswith("person") for e in entries)
    assert entries[1].detail["reason"] == "old"


async def test_listing_pages_through_everything_once_and_refuses_a_foreign_cursor(world):
    ids = [
        await world.remember(f"note {n}", occurred_at=world.clock.now - timedelta(days=n % 7)) for n in range(23)
    ]
    await world.catch_up()
    seen, cursor = [], None
    while True:
        page = await world.reading.list(world.caller, {"limit": 5, "cursor": cursor} if cursor else {"limit": 5})
        assert page.total == 23
        seen += [m.id for m in page.memories]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(seen) == sorted(ids)
    first = await world.reading.list(world.caller, {"limit": 5})
    with pytest.raises(InvalidInput) as refused:
        await world.reading.list(world.caller, {"limit": 5, "scope": "work", "cursor": first.next_cursor})
    assert refused.value.field == "cursor"
    with pytest.raises(InvalidInput):
        await world.reading.list(world.caller, {"cursor": "garbage"})


async def test_a_caller_without_the_permission_is_refused(world):
    reader = Caller(world.caller.tenant, Actor("agent", uuid4()), frozenset({"memory:read"}))
    with pytest.raises(AccessDenied):
        await world.commands.remember(reader, {"topic": "t", "content": "c"})
    writer = Caller(world.caller.tenant, Actor("agent", uuid4()), frozenset({"memory:write"}))
    with pytest.raises(AccessDenied):
        await world.commands.remember(
            writer, {"topic": "t", "content": "c", "occurred_at": "2020-01-01T00:00:00Z"}
        )


async def test_a_history_names_projects_as_they_are_called_and_not_once_their_names_are_erased(world):
    memory = await world.remember("v1", project="A")
    await world.commands.move(world.caller, {"memory_id": memory, "project": "B"})
    await world.catch_up()

    async def moved():
        return (await world.reading.history(world.caller, {"memory_id": memory})).entries[-1]

    entry = await moved()
    project = entry.detail["project"]
    assert entry.event == "memory.moved" and entry.names[project] == "B" and "A" in entry.names.values()
    with psycopg.connect(world.database_url, autocommit=True) as connection:
        connection.execute("delete from lethelog.directory where id = %s", (project,))
    world.engine.vault.recollection.forget()
    assert project not in (await moved()).names and (await moved()).detail["project"] == project
