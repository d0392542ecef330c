"""Reads of the past: what was on record at a moment (``known_at``), and what was true at one (``valid_at``)."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest
from lethelog.domain.errors import Erased, InvalidInput, NotCaughtUp, NotFound
from lethelog.domain.events import MemoryPinned
from lethelog.domain.ranking import Weights
from lethelog.handlers import as_of as handlers_as_of
from lethelog.handlers import explaining as handlers_explaining
from lethelog.handlers.memory import AsyncMemory
from lethelog.handlers.reviewing import queue as handlers_queue
from lethelog.projections import progress
from lethelog.projections.runner import ProjectionRunner
from lethelog.streams.log import NewEvent, Unit
from lethelog.streams.payloads import Envelope

from .passes import ToldJudge, pass_settings, run_pass, sure, working

MOMENT = timedelta(microseconds=1)
DAY = timedelta(days=1)
DAYS = [datetime(2026, 2, day, 9, tzinfo=UTC) for day in range(1, 11)]
"""DAYS[0] is day 1."""


async def got(world, memory_id: UUID, **times):
    [view] = await world.reading.get(world.caller, {"ids": [memory_id], **times})
    return view


async def listed(world, **asked) -> list[UUID]:
    return [one.id for one in (await world.reading.list(world.caller, asked)).memories]


async def found(world, query: str, **asked) -> list[UUID]:
    return [hit.memory.id for hit in (await world.reading.search(world.caller, {"query": query, **asked})).hits]


def runner(world) -> ProjectionRunner:
    engine = world.engine
    return ProjectionRunner(engine.database, engine.log, engine.tail, engine.live_memory)


async def recorded_at(world, position: int) -> datetime:
    instant = await world.engine.log.recorded_at(position)
    assert instant is not None
    return instant


# --- what was on record -----------------------------------------------------------------------------------------

ENDINGS = {
    "archived": ("archive", {}),
    "suppressed": ("suppress", {"plan_id": uuid4(), "approver": "ada", "reason": "plan"}),
    "refuted": ("refute", {}),
    "superseded": ("revise", {"content": "The office is in Turin"}),
}


@pytest.mark.parametrize("status", ENDINGS)
async def test_an_ending_is_seen_from_its_own_moment_on_and_not_before(world, status):
    """Half-open in both ways of saying when: by position and by instant."""
    memory_id = await world.remember("The office is in Porto")
    verb, fields = ENDINGS[status]
    start = await world.engine.log.head() + 1  # a revision is two events of one instant
    await getattr(world.commands, verb)(world.caller, {"memory_id": memory_id, **fields})
    position = await world.catch_up()
    instant = await recorded_at(world, position)
    for before, after in ((position - 1, position), (instant - MOMENT, instant)):
        then, later = await got(world, memory_id, known_at=before), await got(world, memory_id, known_at=after)
        assert (then.status, then.superseded_by, then.held_until) == ("active", None, None)
        assert then.version + 1 == later.version and later.status == status
        assert memory_id in await listed(world, known_at=before, status="active")
        assert await listed(world, known_at=before, status=status) == []
        assert await listed(world, known_at=after, status=status) == [memory_id]
        assert memory_id in await found(world, "office in Porto", known_at=before, status="active")
        assert memory_id not in await found(world, "office in Porto", known_at=after, status="active")
        assert (then.as_of.position, later.as_of.position) in ((position - 1, position), (start - 1, position))
    assert (later.as_of.known_at, later.as_of.valid_at) == (instant, None)


async def test_quarantine_and_release_are_seen_from_their_moments_on(world):
    first = await world.remember("Orla works at Pell")
    await world.commands.refute(world.caller, {"memory_id": first})
    back = await world.commands.remember(world.caller, {"topic": "t", "content": "Orla works at Pell"})
    released = await world.commands.release(world.caller, {"memory_id": back.memory.id, "reason": "she does"})
    await world.catch_up()
    seen = [
        (await got(world, back.memory.id, known_at=position)).status
        for position in (back.position - 1, back.position, released.position)
    ]
    assert seen == ["active", "quarantined", "active"]
    assert await listed(world, known_at=back.position) == []
    assert await listed(world, known_at=released.position) == [back.memory.id]


async def test_restores_pins_verifications_and_moves_are_undone_in_the_past(world):
    memory_id = await world.remember("Deploys go to Hetzner", tags=["ops"])
    steps = {}
    for verb, fields in (
        ("archive", {}),
        ("restore", {}),
        ("pin", {}),
        ("verify", {}),
        ("move", {"scope": "work", "tags": ["infra"], "project": "site"}),
        ("pin", {"pinned": False}),
    ):
        written = await getattr(world.commands, verb)(world.caller, {"memory_id": memory_id, **fields})
        steps[f"un{verb}" if fields.get("pinned") is False else verb] = written.position
    await world.catch_up()
    seen = {}
    for step, position in steps.items():
        view = await got(world, memory_id, known_at=position)
        seen[step] = (view.status, view.pinned, view.verified, view.scope, view.project, view.tags)
    assert seen == {
        "archive": ("archived", False, False, "personal", None, ("ops",)),
        "restore": ("active", False, False, "personal", None, ("ops",)),
        "pin": ("active", True, False, "personal", None, ("ops",)),
        "verify": ("active", True, True, "personal", None, ("ops",)),
        "move": ("active", True, True, "work", "site", ("infra",)),
        "unpin": ("active", False, True, "work", "site", ("infra",)),
    }
    before, after = steps["verify"], steps["move"]
    for narrowed in ({"scope": "work"}, {"project": "site"}, {"tags": ["infra"]}):
        assert await listed(world, known_at=before, **narrowed) == []
        assert await found(world, "deploys", known_at=before, **narrowed) == []
        assert await listed(world, known_at=after, **narrowed) == [memory_id]
        assert await found(world, "deploys", known_at=after, **narrowed) == [memory_id]
    for narrowed in ({"scope": "personal"}, {"no_project": True}, {"tags": ["ops"]}):
        assert await listed(world, known_at=before, **narrowed) == [memory_id]
        assert await listed(world, known_at=after, **narrowed) == []


async def test_nothing_recorded_later_is_seen_by_any_read(world):
    early = await world.commands.remember(world.caller, {"topic": "t", "content": "The first note"})
    await world.commands.pin(world.caller, {"memory_id": early.memory.id})
    later = await world.remember("The second note")
    await world.catch_up()
    then = early.position
    assert await listed(world, known_at=then, status="all") == [early.memory.id]
    assert await found(world, "note", known_at=then, status="all") == [early.memory.id]
    said = await world.reading.history(world.caller, {"memory_id": early.memory.id, "known_at": then})
    assert [entry.event for entry in said.entries] == ["memory.remembered"]
    assert said.as_of.position == then
    for unknown in (later, uuid4()):
        for read in (
            world.reading.get(world.caller, {"ids": [unknown], "known_at": then}),
            world.reading.history(world.caller, {"memory_id": unknown, "known_at": then}),
        ):
            with pytest.raises(NotFound, match=f"no memory {unknown} on record at position {then}$"):
                await read
    assert set(await listed(world, status="all")) == {early.memory.id, later}
    assert await listed(world, known_at=await recorded_at(world, 1) - MOMENT, status="all") == []


async def test_another_tenants_past_is_as_closed_as_its_present(world):
    memory_id = await world.remember("Deploys go to Hetzner")
    pinned = await world.commands.pin(world.caller, {"memory_id": memory_id})
    other = await world.another_caller()
    await world.catch_up()
    for position in range(1, pinned.position + 1):
        asked = {"known_at": position, "status": "all"}
        assert (await world.reading.list(other, asked)).total == 0
        assert (await world.reading.search(other, {"query": "deploys", **asked})).count == 0
        with pytest.raises(NotFound):
            await world.reading.get(other, {"ids": [memory_id], "known_at": position})
    assert await listed(world, known_at=pinned.position - 1) == [memory_id]


async def test_f15_expiry_goes_by_the_moment_that_is_asked_for(world):
    """F15: whatever the offset it was given in, from the very instant and not before."""
    world.clock.now = datetime.now(UTC)
    expires = world.clock.now + timedelta(milliseconds=500)
    given = expires.astimezone(datetime.strptime("+13:00", "%z").tzinfo).isoformat()
    memory_id = await world.remember("Guest code is 4711", expires_at=given)
    other = await world.remember("something else")
    while await recorded_at(world, await world.engine.log.head()) <= expires:
        await world.commands.reaffirm(world.caller, {"memory_id": other})
    await world.catch_up()
    assert memory_id in await listed(world, known_at=expires - MOMENT)
    assert memory_id in await found(world, "guest code", known_at=expires - MOMENT)
    assert (await got(world, memory_id, known_at=expires - MOMENT)).status == "active"
    assert memory_id not in await listed(world, known_at=expires)
    assert memory_id not in await found(world, "guest code", known_at=expires)
    assert (await got(world, memory_id, known_at=expires)).status == "expired"
    assert await listed(world, known_at=expires, status="expired") == [memory_id]


async def test_the_text_of_a_destroyed_key_is_in_no_past_either(world, database_url):
    gone, kept = await world.remember("zq-canary-77 is the code"), await world.remember("the code of the door")
    for memory_id in (gone, kept):
        await world.commands.pin(world.caller, {"memory_id": memory_id})
    before = await world.catch_up()
    assert set(await found(world, "code", known_at=before - 1)) == {gone, kept}
    with psycopg.connect(database_url) as connection:
        connection.execute("delete from lethelog_vault.data_keys where key_id = %s", (gone,))
    world.engine.vault._keys.clear()
    envelope = Envelope(world.caller.actor, cause=uuid4(), correlation=uuid4())
    await world.engine.log.append(Unit(world.caller.tenant, gone, [NewEvent(gone, 3, MemoryPinned())], envelope))
    await world.catch_up()
    for position in (before - 2, before - 1, before):
        assert await found(world, "code", known_at=position, status="all") == [kept]
        assert await listed(world, known_at=position, status="all") == [kept]
        with pytest.raises(Erased):
            await got(world, gone, known_at=position)


async def test_pages_of_the_past_stay_put_while_writes_go_on(world):
    """The cursor belongs to its moment, and nothing written meanwhile comes in or falls out."""
    expected = [await world.remember(f"note number {n}") for n in range(7)]
    then = await world.catch_up()
    seen, cursor = [], None
    while True:
        page = await world.reading.list(
            world.caller, {"known_at": then, "limit": 3, **({"cursor": cursor} if cursor else {})}
        )
        seen += [one.id for one in page.memories]
        assert page.total == 7 and page.as_of.position == then
        cursor = page.next_cursor
        if cursor is None:
            break
        await world.remember(f"written meanwhile, after {len(seen)}")
        await world.commands.archive(world.caller, {"memory_id": expected[len(seen) - 1]})
        await world.commands.archive(world.caller, {"memory_id": expected[0]})
        await world.catch_up()
        for other in ({"known_at": then + 1}, {}, {"known_at": then, "valid_at": "2026-03-01T00:00:00Z"}):
            with pytest.raises(InvalidInput, match="cursor"):
                await world.reading.list(world.caller, {**other, "limit": 3, "cursor": cursor})
    assert sorted(seen) == sorted(expected) and len(seen) == 7


async def test_a_read_waits_until_its_moment_is_in_the_read_model(world, monkeypatch):
    written = await world.commands.remember(world.caller, {"topic": "t", "content": "the newest"})
    asked = asyncio.create_task(world.reading.list(world.caller, {"known_at": written.position}))
    view = runner(world)
    assert (await view.position()) < written.position and not asked.done()
    await world.catch_up()
    assert [one.id for one in (await asked).memories] == [written.memory.id]

    unread = await world.commands.pin(world.caller, {"memory_id": written.memory.id})
    waiting = handlers_as_of.wait_for

    async def briefly(database, name, position):
        await waiting(database, name, position, seconds=0.3)

    monkeypatch.setattr(handlers_as_of, "wait_for", briefly)
    with pytest.raises(NotCaughtUp, match=f"did not reach position {unread.position}"):
        await world.reading.list(world.caller, {"known_at": unread.position})
    monkeypatch.undo()
    assert (await got(world, written.memory.id, known_at=written.position)).pinned is False


# --- what was true ----------------------------------------------------------------------------------------------


async def test_f17_a_window_round_trips_and_counts_half_open(world):
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    memory_id = await world.remember("The fair is on", valid_from=start.isoformat(), valid_to=end.isoformat())
    await world.catch_up()
    view = await got(world, memory_id)
    assert (view.valid_from, view.valid_to, view.current) == (start, end, False)
    for instant, held in ((start - MOMENT, False), (start, True), (end - MOMENT, True), (end, False)):
        assert (await listed(world, valid_at=instant) == [memory_id]) is held
        assert (await found(world, "fair", valid_at=instant) == [memory_id]) is held
        if held:
            assert (await got(world, memory_id, valid_at=instant)).as_of.valid_at == instant
        else:
            with pytest.raises(NotFound, match=f"no memory {memory_id} that held at "):
                await got(world, memory_id, valid_at=instant)


async def test_what_held_then_is_not_ranked_last_because_of_a_later_closing(world):
    """Without valid_at the superseded one comes last and flagged; at the time it held it is the answer.

    Superseded flag: superseded row is returned last with flag true.
    """
    world.clock.now = DAYS[0]
    porto = await world.remember("The office is in Porto")
    world.clock.now = DAYS[5]
    turin = (
        await world.commands.revise(world.caller, {"memory_id": porto, "content": "The new office is in Turin"})
    ).memory.id
    await world.catch_up()
    asked = {"query": "the office is in Porto", "valid_at": DAYS[3]}
    [hit] = (await world.reading.search(world.caller, asked)).hits
    assert (hit.memory.id, hit.superseded, hit.memory.superseded_by) == (porto, True, turin)
    assert hit.score > 0 and hit.memory.held_until == DAYS[5]
    assert await found(world, "the office is in Porto", valid_at=DAYS[5]) == [turin]
    assert await found(world, "the office is in Porto") == [turin, porto]


async def test_both_times_together_say_what_was_held_true_then(world):
    """A closing recorded later does not reach back into what was known."""
    world.clock.now = DAYS[0]
    porto = await world.remember("The office is in Porto")
    before = await world.engine.log.head()
    world.clock.now = DAYS[8]
    moved = {"memory_id": porto, "content": "The office is in Turin", "valid_from": DAYS[3].isoformat()}
    turin = (await world.commands.revise(world.caller, moved)).memory.id
    after = await world.catch_up()
    assert await listed(world, known_at=before, valid_at=DAYS[6]) == [porto]
    assert await listed(world, known_at=after, valid_at=DAYS[6]) == [turin]
    assert await listed(world, known_at=after, valid_at=DAYS[2]) == [porto]
    assert await listed(world, known_at=after, valid_at=DAYS[3]) == [turin]


async def test_f20_a_note_that_arrives_late_keeps_its_own_time(judging_world, broker):
    """F20: it is paired as the older side, does not become current, and both are shown with their labels."""
    world = judging_world
    day = [datetime.now(UTC) - n * DAY for n in range(130, 100, -1)]

    async def said(content: str, on: int) -> UUID:
        return await world.remember(content, memory_type="fact", occurred_at=day[on].isoformat())

    newer = await said("Kiran moved to Electronic City", on=5)
    late = await said("Kiran lives in Whitefield", on=1)
    await world.catch_up()
    before = await world.engine.log.head()
    await run_pass(world, broker, ToldJudge(sure("supersede")))
    [proposal] = (await world.reviewing.list(world.caller, {})).proposals
    assert (proposal.memory_id, proposal.related_id) == (late, newer)
    async with working(world, broker, pass_settings(ToldJudge()), roles={"views"}):
        await world.reviewing.accept(world.caller, {"proposal_id": proposal.id})
    await world.catch_up()

    assert await found(world, "where does Kiran live", current=True) == [newer]
    assert await listed(world, current=True) == [newer]
    assert await found(world, "where does Kiran live") == [newer, late]
    view = await got(world, late)
    assert (view.status, view.current, view.superseded_by) == ("superseded", False, newer)
    assert (view.occurred_at, view.held_until) == (day[1], day[5])
    for on, held in ((0, []), (1, [late]), (4, [late]), (5, [newer]), (20, [newer])):
        assert await listed(world, valid_at=day[on]) == held
        assert await found(world, "where does Kiran live", valid_at=day[on]) == held
    assert sorted(await found(world, "Kiran", known_at=before, current=True)) == sorted([newer, late])
    told = (await world.reading.history(world.caller, {"memory_id": late})).entries
    closing = next(entry for entry in told if entry.event == "memory.superseded")
    assert closing.detail["successor"] == str(newer)
    assert datetime.fromisoformat(closing.detail["held_until"]) == day[5]


# --- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"known_at": 0}, "known_at"),
        ({"known_at": -3}, "known_at"),
        ({"known_at": True}, "known_at"),
        ({"known_at": 1.0}, "known_at"),
        ({"known_at": 2**63}, "known_at"),
        ({"known_at": 10**6}, "known_at"),
        ({"known_at": "yesterday"}, "known_at"),
        ({"known_at": "2026-03-01"}, "known_at"),
        ({"known_at": datetime(2026, 3, 1)}, "known_at"),
        ({"known_at": "9999-01-01T00:00:00Z"}, "known_at"),
        ({"valid_at": "2026-03-01"}, "valid_at"),
        ({"valid_at": datetime(2026, 3, 1)}, "valid_at"),
        ({"valid_at": 1}, "valid_at"),
        ({"valid_at": ""}, "valid_at"),
        ({"vaild_at": "2026-03-01T00:00:00Z"}, "vaild_at"),
        ({"as_of": 1}, "as_of"),
        ({"known_at": 1, "after": 2}, "after"),
    ],
)
async def test_f17_no_time_is_accepted_and_dropped(world, given, field):
    """On every read, nothing is guessed: the field and the fix are named."""
    memory_id = await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    reading, caller = world.reading, world.caller
    for read in (
        reading.search(caller, {"query": "deploys", **given}),
        reading.list(caller, given),
        reading.get(caller, {"ids": [memory_id], **given}),
        reading.history(caller, {"memory_id": memory_id, **given}),
    ):
        with pytest.raises(InvalidInput) as refused:
            await read
        assert refused.value.field == field


async def test_times_that_exclude_each_other_are_refused(world):
    memory_id = await world.remember("Deploys go to Hetzner")
    head = await world.catch_up()
    after = (await recorded_at(world, head) + MOMENT).isoformat()
    for asked, field in (
        ({"current": True, "valid_at": DAYS[0]}, "current"),
        ({"known_at": head, "recorded_after": after}, "recorded_after"),
    ):
        for read in (world.reading.list(world.caller, asked), found(world, "deploys", **asked)):
            with pytest.raises(InvalidInput) as refused:
                await read
            assert refused.value.field == field
    with pytest.raises(InvalidInput, match="valid_at: is no time of a history"):
        await world.reading.history(world.caller, {"memory_id": memory_id, "valid_at": DAYS[0]})


async def test_the_python_door_passes_every_time_on_and_drops_none(world):
    """Its own writes it waits for in reads of the present; a read of the past waits for its moment alone."""
    door = AsyncMemory(world.engine, world.caller, pass_settings(ToldJudge()))
    said = (await door.remember("Deploys go to Hetzner")).memory
    await world.catch_up()
    archived = await door.archive(said.id)
    then, on = said.position, said.occurred_at
    assert archived.position == door.position > then
    assert (await door.get(said.id, known_at=then, valid_at=on)).status == "active"
    assert [one.status for one in await door.get_many([said.id], known_at=then)] == ["active"]
    for page in (await door.list(known_at=then), await door.list(known_at=then, valid_at=on)):
        assert [one.status for one in page.memories] == ["active"]
    assert (await door.search("deploys", known_at=then, valid_at=on)).count == 1
    assert (await door.search("deploys", known_at=then, valid_at=on - MOMENT)).count == 0
    assert len((await door.history(said.id, known_at=then)).entries) == 1
    await world.catch_up()
    assert (await door.get(said.id)).status == "archived" and (await door.list()).total == 0
    for read in (
        door.get(said.id, vaild_at=on),
        door.list(vaild_at=on),
        door.search("deploys", vaild_at=on),
        door.history(said.id, vaild_at=on),
    ):
        with pytest.raises(InvalidInput, match="vaild_at: unknown field"):
            await read
    with pytest.raises(InvalidInput, match="valid_at: is no time of a history"):
        await door.history(said.id, valid_at=on)


async def test_f17_the_python_door_waits_for_the_position_it_is_given_on_every_read(world, monkeypatch):
    """Also beyond its own writes; what is no position is refused by name, at once."""
    door = AsyncMemory(world.engine, world.caller, pass_settings(ToldJudge()))
    said = (await door.remember("Deploys go to Hetzner")).memory
    head = await world.catch_up()
    # On record, and in no read model yet.
    await world.remember("Lunch is at noon")
    reads = {
        "search": lambda **given: door.search("deploys", **given),
        "list": door.list,
        "get": lambda **given: door.get(said.id, **given),
        "get_many": lambda **given: door.get_many([said.id], **given),
        "history": lambda **given: door.history(said.id, **given),
        "proposals": door.proposals,
        "proposal": lambda **given: door.proposal(said.id, **given),
        "explain": lambda **given: door.explain(said.id, **given),
    }
    waiting = progress.wait_for

    async def briefly(database, name, position):
        await waiting(database, name, position, seconds=0.3)

    for module in (handlers_as_of, handlers_queue, handlers_explaining):
        monkeypatch.setattr(module, "wait_for", briefly)
    for name, read in reads.items():
        for given in ("nonsense", -1, True, 1.5):
            with pytest.raises(InvalidInput) as refused:
                await read(after=given)
            assert refused.value.field == "after", (name, given)
        with pytest.raises(NotCaughtUp, match=f"did not reach position {head + 1} within"):
            await read(after=head + 1)
        if name not in ("proposal", "explain"):
            assert await read(after=head) == await read(after=1) == await read()
    # Its own writes are waited for all the same.
    own = (await door.pin(said.id)).position
    with pytest.raises(NotCaughtUp, match=f"did not reach position {own} within"):
        await door.list(after=1)


async def test_a_position_may_be_written_as_text(world):
    """As a command line gives it."""
    memory_id = await world.remember("Deploys go to Hetzner")
    head = await world.catch_up()
    assert await listed(world, known_at=str(head)) == await listed(world, known_at=f" 0{head} ") == [memory_id]


async def test_digits_that_may_be_a_date_are_not_taken_for_a_position(world):
    """Nor are digits of other scripts; eight that are no date, and numbers that are no text, are positions."""
    await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    for given, says in (
        ("20260301", "may be a date or a position"),
        ("20269999", "is beyond the end of the log"),
        ("020260301", "is beyond the end of the log"),
        (20260301, "is beyond the end of the log"),
        ("٣", "is not an ISO 8601 instant"),
        ("9" * 5000, "is not a position"),
    ):
        with pytest.raises(InvalidInput, match=f"known_at: {says}"):
            await world.reading.list(world.caller, {"known_at": given})


async def test_the_clock_of_another_machine_may_be_a_little_ahead(world):
    memory_id = await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    now = datetime.now(UTC) + timedelta(milliseconds=50)
    assert await listed(world, known_at=now) == [memory_id]


# --- the same rows, by the index ----------------------------------------------------------------------------------


async def test_a_search_of_the_past_by_the_indexes_finds_what_comparing_everything_finds(world, database_url):
    """Both tables by their vector and full-text indexes, and the plan says so."""
    from lethelog.projections.as_of import AsOf
    from lethelog.projections.filters import MemoryFilter
    from lethelog.projections.generations import tenant_read_models
    from lethelog.projections.half_vector import HalfVector
    from lethelog.projections.legs import Asked
    from lethelog.projections.search import Search
    from lethelog.streams.database import Database

    ids = [await world.remember(f"service {n} runs in region {n % 7} with {n * 3} replicas") for n in range(130)]
    for memory_id in ids[::2]:
        await world.commands.pin(world.caller, {"memory_id": memory_id})
    then = await world.engine.log.head()
    for n, memory_id in enumerate(ids[:65]):
        await (world.commands.archive if n % 3 else world.commands.verify)(world.caller, {"memory_id": memory_id})
    await world.catch_up()
    with psycopg.connect(database_url, autocommit=True) as connection:
        for setting in ("enable_sort", "enable_seqscan"):
            connection.execute(
                f"do $$ begin execute format('alter database %I set {setting} = off', current_database()); end $$"
            )
        # Few rows are read quicker by whom they belong to.
        connection.execute(
            "drop index lethelog_views.live_memory_changes, lethelog_views.live_memory_filing, "
            "lethelog_views.live_memory_recency, lethelog_views.memory_past_span"
        )
        connection.execute("vacuum analyze lethelog_views.live_memory, lethelog_views.memory_past")
    planned = Database(database_url)
    await planned.open()
    indexed = Search(planned.doors, world.engine.embedder, exact_up_to=0, index_share=0.0)
    matching = MemoryFilter(world.caller.tenant, AsOf(await recorded_at(world, then), then))
    said: list[str] = []
    query = "which service runs in region 3"
    exact = await world.engine.search.search(query, matching, 10)
    found_by_index = await indexed.search(query, matching, 10)
    assert [(hit.row, hit.score) for hit in found_by_index] == [(hit.row, hit.score) for hit in exact]
    assert len(exact) == 10 and {hit.row.archived for hit in exact} == {False}
    vector = HalfVector(np.full(world.engine.embedder.dimensions, 0.1, np.float32))
    both = frozenset({"live_memory", "memory_past"})
    words, vectors = Weights(vector=0.0, topic=0.0), Weights(text=0.0, topic=0.0)
    async with tenant_read_models(planned.doors, world.caller.tenant) as connection:
        for asked in (
            Asked("xylophone", None, world.engine.embedder.model, matching, 50, words),
            Asked("xylophone", vector, world.engine.embedder.model, matching, 50, vectors, both),
        ):
            plan = await connection.execute(f"explain {asked.statement()}", asked.values())
            said.append("\n".join(line for (line,) in await plan.fetchall()))
    await planned.close()
    for plan, indexes in zip(
        said,
        (("live_memory_lexemes", "memory_past_lexemes"), ("live_memory_vectors", "memory_past_vectors")),
        strict=True,
    ):
        assert all(index in plan for index in indexes), plan
