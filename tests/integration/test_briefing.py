"""Briefing and handoff: mandatory selector, exact counts, the one stale rule, any moment (behaviour.md 1.12)."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from lethelog.domain.errors import InvalidInput
from lethelog.domain.policy import ForgettingPolicy
from lethelog.handlers.briefing import BRIEFING, EXCERPT, HANDOFF, Briefing
from lethelog.handlers.commitments.resolving import Resolving
from lethelog.projections.candidates import select_candidates
from lethelog.projections.neighbours import refresh

MOMENT = timedelta(microseconds=1)


async def brief(world, selector: str = "all", **asked: Any):
    await world.catch_up()
    return await Briefing(world.engine).brief(world.caller, {"selector": selector, **asked})


async def ids(world, section: str, selector: str = "all", **asked: Any) -> list[UUID]:
    view = await brief(world, selector, sections=[section], section_limit=100, **asked)
    assert view.sections[section].count == len(view.sections[section].items)
    return [one.id for one in view.sections[section].items]


async def test_30_decisions_are_counted_and_3_told(world):
    """briefing selector: 30 decisions, brief → count 30, 3 items, hasMore true."""
    made = [await world.remember(f"decision {n}", memory_type="decision") for n in range(30)]
    view = await brief(world)
    section = view.sections["recent_decisions"]
    assert (section.count, len(section.items), section.has_more) == (30, 3, True)
    assert [one.id for one in section.items] == made[:-4:-1], "the latest recorded first"
    full = await brief(world, mode="full")
    assert (full.sections["recent_decisions"].count, len(full.sections["recent_decisions"].items)) == (30, 25)
    exact = await brief(world, section_limit=30)
    assert (exact.sections["recent_decisions"].has_more, exact.sections["blockers"].count) == (False, 0)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({}, "selector"),
        ({"selector": "everything"}, "selector"),
        ({"selector": "scope"}, "input"),
        ({"selector": "all", "scope": "work"}, "input"),
        ({"selector": "project"}, "input"),
        ({"selector": "scope_project", "scope": "work"}, "input"),
        ({"selector": "scope", "scope": "work", "include_unscoped": True}, "input"),
        ({"selector": "all", "section_limit": 0}, "section_limit"),
        ({"selector": "all", "section_limit": 101}, "section_limit"),
        ({"selector": "all", "sections": []}, "sections"),
        ({"selector": "all", "sections": ["decisions"]}, "sections.0"),
        ({"selector": "all", "generated_for": "grace"}, "input"),
    ],
)
async def test_there_is_no_briefing_without_saying_what_about(world, asked, field):
    with pytest.raises(InvalidInput) as refused:
        await Briefing(world.engine).brief(world.caller, asked)
    assert refused.value.field == field


async def test_a_briefing_of_the_first_day_of_the_calendar_tells_nothing(world):
    await world.remember("Deploys go to Hetzner", memory_type="decision")
    for moment in ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00-23:59"):
        view = await brief(world, known_at=moment)
        assert {name: one.count for name, one in view.sections.items()} == dict.fromkeys(BRIEFING, 0)


async def test_a_section_that_is_not_asked_for_is_absent_and_not_zero(world):
    view = await brief(world, sections=["preferences"])
    assert set(view.sections) == {"preferences"} and view.sections["preferences"].count == 0
    assert tuple((await brief(world)).sections) == BRIEFING
    assert tuple((await brief(world, mode="handoff")).sections) == HANDOFF


async def test_a_scope_and_a_project_narrow_together_and_include_unscoped_adds_what_has_none(world):
    filed = {
        (scope, project): await world.remember(
            f"{scope} {project}", memory_type="decision", scope=scope, **({"project": project} if project else {})
        )
        for scope in ("work", "garden")
        for project in ("site", "other", None)
    }

    async def found(selector: str, **asked: Any) -> set[tuple[str, str | None]]:
        told = await ids(world, "recent_decisions", selector, **asked)
        return {name for name, one in filed.items() if one in told}

    assert await found("scope", scope="work") == {("work", "site"), ("work", "other"), ("work", None)}
    assert await found("project", project="site") == {("work", "site"), ("garden", "site")}
    both = {"scope": "work", "project": "site"}
    assert await found("scope_project", **both) == {("work", "site")}
    assert await found("scope_project", **both, include_unscoped=True) == {("work", "site"), ("work", None)}
    unknown = both | {"project": "never named"}
    assert await found("scope_project", **unknown) == set()
    assert await found("scope_project", **unknown, include_unscoped=True) == {("work", None)}
    echoed = (await brief(world, "scope_project", **both, include_unscoped=True)).selector
    assert (echoed.kind, echoed.scope, echoed.project, echoed.include_unscoped) == (
        "scope_project",
        "work",
        "site",
        True,
    )


async def test_f04_what_was_put_away_is_in_no_briefing_from_then_on(world):
    """F04; live predicate: archived and superseded rows absent from briefing."""
    made = {n: await world.remember(f"decision {n}", memory_type="decision") for n in range(5)}
    assert len(await ids(world, "recent_decisions")) == 5
    there = await world.engine.log.head()
    await world.commands.archive(world.caller, {"memory_id": made[0]})
    await world.commands.refute(world.caller, {"memory_id": made[1]})
    revised = await world.commands.revise(world.caller, {"memory_id": made[2], "content": "decision 2 anew"})
    plan = {"plan_id": UUID(int=1), "approver": "ada", "reason": "plan"}
    await world.commands.suppress(world.caller, {"memory_id": made[3], **plan})
    assert await ids(world, "recent_decisions") == [revised.memory.id, made[4]]
    assert await ids(world, "recent_decisions", known_at=there) == [made[n] for n in (4, 3, 2, 1, 0)]


async def test_a21_at_the_boundary_a_memory_is_not_stale_and_a_moment_later_it_is(world):
    """A21: freshness exactly now − 30 d → not stale (strict less-than)."""
    one = await world.remember("Uses Python 3.8", memory_type="decision")
    fresh = (await world.get(one)).fresh_at
    world.clock.now = fresh + timedelta(days=30)
    assert await ids(world, "stale_candidates") == []
    view = await brief(world)
    assert not view.sections["recent_decisions"].items[0].stale
    world.clock.now += MOMENT
    assert await ids(world, "stale_candidates") == [one]
    [item] = (await brief(world)).sections["recent_decisions"].items
    assert (item.stale, item.age_days) == (True, 30), "F26: said at the time of reading, with its age"


async def test_stale_candidates_are_those_of_the_pass_oldest_first(world):
    """stale rule: decision, preference, blocker, fact; freshness < now − 30 d; oldest first."""
    kinds = ("decision", "preference", "blocker", "fact", "note", "event", "pattern", "commitment")
    start = world.clock.now
    made = [
        await world.remember(f"{kind} {n}", memory_type=kind, occurred_at=start - timedelta(days=50 - n))
        for n, kind in enumerate(kinds * 2)
    ]
    await world.remember("a fresh decision", memory_type="decision", occurred_at=start - timedelta(days=29))
    head = await world.catch_up()
    policy = ForgettingPolicy()
    database, tenant = world.engine.database, world.caller.tenant
    await refresh(database, tenant, upto_position=head, neighbours=3)
    selected = await select_candidates(database, tenant, policy, now=start, floor=1.1)
    told = await ids(world, "stale_candidates")
    assert told == [made[n] for n in (0, 1, 2, 3, 8, 9, 10, 11)]
    # The pass asks about no blocker without a newer neighbour, as the later one is.
    assert {item.memory_id for item in selected.items} == set(told) - {made[10]}
    await world.commands.reaffirm(world.caller, {"memory_id": made[0]})
    assert made[0] not in await ids(world, "stale_candidates")


async def test_f25_being_read_makes_nothing_fresh(world):
    """F25: only reaffirm and revise move freshness."""
    one = await world.remember("Current version is 2.0.12", memory_type="fact")
    world.clock.now = (await world.get(one)).fresh_at + timedelta(days=30) + MOMENT
    for _ in range(20):
        assert one in await world.search("current version")
        await brief(world, mode="handoff", sections=["stale_candidates"])
    assert await ids(world, "stale_candidates") == [one]
    await world.commands.reaffirm(world.caller, {"memory_id": one})
    assert await ids(world, "stale_candidates") == []


async def test_excerpts_are_of_600_characters_at_most_their_mark_included(world):
    long = "w" * 1_500
    await world.remember(long, topic="long", memory_type="preference")
    await world.remember("x" * EXCERPT, topic="just so", memory_type="preference")
    items = (await brief(world, mode="handoff")).sections["preferences"].items
    assert [one.excerpt for one in items] == ["x" * 600, "w" * 599 + "…"]
    assert [one.excerpt for one in (await brief(world)).sections["preferences"].items] == [None, None]
    assert (await brief(world, mode="full")).sections["preferences"].items[1].excerpt == "w" * 599 + "…"
    handed = await brief(world, mode="handoff", generated_for="grace")
    assert (handed.generated_for, handed.mode, handed.generated_at) == ("grace", "handoff", world.clock.now)


async def test_a_briefing_of_a_moment_is_the_one_that_was_given_then(world):
    """known_at and valid_at: equal to what was said when the log ended there."""
    given: list[tuple[int, Any]] = []
    memory = None
    for n in range(6):
        if n == 3:
            await world.commands.archive(world.caller, {"memory_id": memory})
        elif n == 4:
            await world.engine.tenants.set_policy(
                world.caller.tenant, {"stale_window_days": 10}, world.caller.actor
            )
        else:
            occurred = world.clock.now - timedelta(days=12 * n)
            memory = await world.remember(f"decision {n}", memory_type="decision", occurred_at=occurred)
        head = await world.catch_up()
        world.clock.now = await world.engine.log.recorded_at(head)
        given.append((head, await brief(world, mode="full")))
    world.clock.now += timedelta(days=400)
    for head, then in given:
        for known_at in (head, await world.engine.log.recorded_at(head)):
            again = await brief(world, mode="full", known_at=known_at)
            assert again.sections == then.sections, head
            assert again.as_of is not None and again.as_of.position == head
    assert given[3][1].sections["stale_candidates"].count != given[4][1].sections["stale_candidates"].count


async def test_what_held_at_an_instant_is_told_although_it_was_superseded_since(world):
    start = world.clock.now - timedelta(days=5)
    first = await world.remember("Deploys go to Heroku", memory_type="decision", occurred_at=start)
    then = await world.commands.revise(
        world.caller,
        {"memory_id": first, "content": "Deploys go to Hetzner", "valid_from": start + timedelta(days=2)},
    )
    assert await ids(world, "recent_decisions", valid_at=start) == [first]
    assert await ids(world, "recent_decisions", valid_at=start + timedelta(days=2)) == [then.memory.id]
    assert await ids(world, "recent_decisions", valid_at=start - MOMENT) == []
    assert await ids(world, "recent_decisions") == [then.memory.id]


async def test_f20_an_older_statement_that_arrives_late_says_of_what_day_it_is(world):
    """F20: it is told by when it was recorded, with the day that it is of, and holds at that day only."""
    day = timedelta(days=1)
    moved = await world.remember("Kiran moved to Electronic City", memory_type="decision")
    occurred = world.clock.now - 5 * day
    late = await world.remember("Kiran lives in Whitefield", memory_type="decision", occurred_at=occurred,
                                valid_from=occurred, valid_to=world.clock.now)  # fmt: skip
    assert await ids(world, "recent_decisions") == [moved]
    assert await ids(world, "recent_decisions", valid_at=world.clock.now - day) == [late]


async def test_another_tenant_is_told_nothing(world):
    await world.remember("a decision", memory_type="decision")
    await world.catch_up()
    view = await Briefing(world.engine).brief(await world.another_caller(), {"selector": "all"})
    assert {section.count for section in view.sections.values()} == {0}


async def promise(world, text: str, due: timedelta | None = None, surfacing: timedelta | None = None, **said: Any):
    times = {"due_at": due, "next_surfacing_at": surfacing}
    dated = {name: world.clock.now + span for name, span in times.items() if span is not None}
    return await world.remember(text, memory_type="commitment", **dated, **said)


async def test_commitments_are_told_by_when_they_surface_and_overdue_ones_counted_apart(world):
    """overdue = open or waiting commitment on a live memory with due_at < now (strict); a query of its own."""
    day = timedelta(days=1)
    late = await promise(world, "send the report", -day, owner="ada")
    later = await promise(world, "call Grace", 2 * day)
    some_day = await promise(world, "sort the shelf")
    surfacing = await promise(world, "water the plants", 9 * day, timedelta(hours=1))
    done = await promise(world, "pay the bill", -day)
    away = await promise(world, "book the room", -day)
    await Resolving(world.engine, world.commands).resolve(world.caller, {"memory_id": done, "status": "resolved"})
    waiting = await promise(world, "hear from Bo", -2 * day)
    await Resolving(world.engine, world.commands).resolve(
        world.caller, {"memory_id": waiting, "status": "waiting"}
    )
    await world.commands.archive(world.caller, {"memory_id": away})
    assert await ids(world, "commitments") == [surfacing, waiting, late, later, some_day]
    assert await ids(world, "overdue") == [waiting, late]
    view = await brief(world, section_limit=1)
    assert (view.sections["commitments"].count, view.sections["overdue"].count) == (5, 2)
    [item] = view.sections["overdue"].items
    assert item.commitment is not None
    assert (item.id, item.commitment.status, item.commitment.overdue) == (waiting, "waiting", True)
    told = (await brief(world, mode="handoff")).sections["commitments"].items
    owners = {one.id: one.commitment.owner for one in told if one.commitment is not None}
    assert owners[late] == "ada" and owners[waiting] is None


async def test_a_commitment_is_overdue_a_moment_after_its_due_date_and_not_at_it(world):
    one = await promise(world, "send the report", timedelta(days=1))
    world.clock.forward(days=1)
    assert await ids(world, "overdue") == []
    world.clock.now += MOMENT
    assert await ids(world, "overdue") == [one]
    head = await world.catch_up()
    await Resolving(world.engine, world.commands).resolve(world.caller, {"memory_id": one, "status": "resolved"})
    assert await ids(world, "commitments") == [] and await ids(world, "overdue") == []
    assert await ids(world, "commitments", known_at=head) == [one], "it was still to be done then"
