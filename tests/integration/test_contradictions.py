"""Contradictions: both sides kept and flagged, put before an owner, decided on the record (S4; D12, A27)."""

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from lethelog.domain.contradiction import contradiction_id
from lethelog.domain.errors import Conflict, InvalidInput, StaleProposal
from lethelog.handlers.briefing import Briefing
from lethelog.handlers.contradictions.listing import ContradictionListing
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.facts import Facts
from lethelog.handlers.forgetting.open_proposals import take_slot
from lethelog.handlers.forgetting.pass_log import WORKER
from lethelog.handlers.undoing.undoing import Undoing
from lethelog.streams.log import NewEvent, Unit
from lethelog.streams.payloads import Envelope

from .review_desk import conflict_of


async def conflict_verdict(world, older: UUID, newer: UUID) -> UUID:
    """A proposal of a judge that says the two are in conflict."""
    stream = uuid4()
    staged = conflict_of(older, newer)
    await world.engine.log.append(
        Unit(
            tenant=world.caller.tenant,
            subject=stream,
            events=[NewEvent(stream, 1, staged)],
            envelope=Envelope(WORKER, cause=stream, correlation=stream),
            claims=[take_slot(older.bytes + b"conflict", stream)],
        )
    )
    return stream


async def two(world, memory_type: str = "fact") -> tuple[UUID, UUID]:
    """(older, newer) memories that disagree."""
    older = await world.remember("The office is in Berlin", memory_type=memory_type)
    world.clock.forward(days=1)
    return older, await world.remember("The office is in Hamburg", memory_type=memory_type)


async def flagged(world, memory_type: str = "fact") -> tuple[UUID, UUID, UUID]:
    """(older, newer, review) after a conflict verdict was accepted."""
    older, newer = await two(world, memory_type)
    verdict = await conflict_verdict(world, older, newer)
    await world.catch_up()
    await accept(world, verdict)
    [found] = await listed(world)
    return older, newer, found.review


async def accept(world, proposal: UUID, **fields):
    """Accept while the read models keep up."""
    return await keeping_up(world, world.reviewing.accept(world.caller, {"proposal_id": proposal, **fields}))


async def keeping_up(world, work):
    deciding = asyncio.ensure_future(work)
    while not deciding.done():
        await world.catch_up()
        await asyncio.wait([deciding], timeout=0.02)
    return deciding.result()


async def listed(world, **query):
    await world.catch_up()
    return (await ContradictionListing(world.engine).page(world.caller, query)).contradictions


async def test_accepting_a_conflict_changes_no_memory_and_flags_the_pair_before_its_owner(world):
    """A27 and D12: both kept and flagged; no winner without a decision record.

    Contradiction handling; retention accept.
    """
    owner = await world.engine.directory.register(world.caller.tenant, "actor", "ada")
    changes = {"contradiction_owner": owner, "contradiction_days": 14}
    await world.engine.tenants.set_policy(world.caller.tenant, changes, world.caller.actor)
    older, newer = await two(world)
    verdict = await conflict_verdict(world, older, newer)
    before = [await world.get(older), await world.get(newer)]
    decided = await accept(world, verdict)
    assert decided.proposal.status == "applied" and decided.changed == ()
    assert [await world.get(older), await world.get(newer)] == before
    [found] = await listed(world)
    assert found.id == contradiction_id(newer, older)
    assert (found.memory_id, found.related_id, found.status) == (older, newer, "open")
    assert (found.found_by, found.source, found.owner) == ("verdict", verdict, "ada")
    assert found.due_at == world.clock.now + timedelta(days=14) and not found.overdue
    detail = await world.reviewing.show(world.caller, {"proposal_id": found.review})
    assert (detail.proposal.kind, detail.proposal.action, detail.proposal.status) == (
        "contradiction", "settle", "proposed",
    )  # fmt: skip
    assert detail.proposal.details["contradiction"] == str(found.id)


async def test_an_undecided_contradiction_is_overdue_from_its_due_date_on_and_found_by_owner(world):
    owner = await world.engine.directory.register(world.caller.tenant, "actor", "ada")
    changes = {"contradiction_owner": owner, "contradiction_days": 1}
    await world.engine.tenants.set_policy(world.caller.tenant, changes, world.caller.actor)
    await flagged(world)
    assert await listed(world, overdue=True) == ()
    world.clock.forward(days=1)
    assert await listed(world, overdue=True) == (), "due now is not overdue"
    world.clock.forward(seconds=1)
    [found] = await listed(world, overdue=True, owner="person:ada")
    assert found.overdue
    assert await listed(world, owner="grace") == ()


async def test_a_policy_that_names_nobody_flags_all_the_same(world):
    await flagged(world)
    [found] = await listed(world)
    assert (found.owner, found.due_at, found.overdue) == (None, None, False)


@pytest.mark.parametrize("holder", ["older", "newer"])
async def test_the_one_that_holds_supersedes_the_other_whichever_is_newer(world, holder: str):
    """Recency alone never decides."""
    older, newer, review = await flagged(world)
    holds, other = (older, newer) if holder == "older" else (newer, older)
    decided = await accept(world, review, holds=holds)
    assert decided.changed == (other,)
    lost = await world.get(other)
    assert (lost.status, lost.superseded_by, lost.content) == ("superseded", holds, lost.content)
    assert (await world.get(holds)).status == "active"
    [found] = await listed(world)
    assert (found.status, found.outcome, found.holds, found.replaces) == ("resolved", "one", holds, other)
    assert found.decided_at is not None
    history = [one.event for one in (await world.reading.history(world.caller, {"memory_id": other})).entries]
    assert "contradiction.flagged" in history and "contradiction.resolved" in history


async def test_accepted_without_one_that_holds_both_stay(world):
    older, newer, review = await flagged(world)
    assert (await accept(world, review)).changed == ()
    assert [(await world.get(one)).status for one in (older, newer)] == ["active", "active"]
    [found] = await listed(world)
    assert (found.status, found.outcome, found.holds) == ("resolved", "both", None)


async def test_rejected_it_is_on_record_that_they_do_not_contradict_each_other(world):
    older, newer, review = await flagged(world)
    await world.reviewing.reject(world.caller, {"proposal_id": review})
    [found] = await listed(world)
    assert (found.status, found.outcome) == ("resolved", "none")
    assert [(await world.get(one)).status for one in (older, newer)] == ["active", "active"]
    with pytest.raises(Conflict):
        await world.reviewing.accept(world.caller, {"proposal_id": review, "holds": older})


async def test_a_memory_of_neither_side_cannot_hold(world):
    _, _, review = await flagged(world)
    stranger = await world.remember("Something else")
    with pytest.raises(InvalidInput) as refused:
        await world.reviewing.accept(world.caller, {"proposal_id": review, "holds": stranger})
    assert refused.value.field == "holds"
    assert (await listed(world))[0].status == "open"


async def test_an_event_is_not_superseded_by_a_decision_either(world):
    older, _, review = await flagged(world, "event")
    with pytest.raises(Conflict, match="event"):
        await world.reviewing.accept(world.caller, {"proposal_id": review, "holds": older})
    assert (await listed(world))[0].status == "open"


async def test_a_decision_on_what_changed_meanwhile_is_refused_and_the_review_stays_open(world):
    older, _, review = await flagged(world)
    await world.commands.archive(world.caller, {"memory_id": older})
    with pytest.raises(StaleProposal):
        await world.reviewing.accept(world.caller, {"proposal_id": review, "holds": older})
    assert (await listed(world))[0].status == "open"


async def test_a_pair_is_flagged_once_whoever_finds_it_again(world):
    older, newer, _ = await flagged(world)
    again = await conflict_verdict(world, newer, older)
    await world.catch_up()
    await accept(world, again)
    assert len(await listed(world)) == 1
    page = await world.reviewing.list(world.caller, {"kind": "contradiction"})
    assert page.total == 1


async def test_two_reviewers_who_accept_two_conflicts_about_one_pair_flag_it_once(world):
    older, newer = await two(world)
    one, other = await conflict_verdict(world, older, newer), await conflict_verdict(world, newer, older)
    await world.catch_up()
    await asyncio.gather(accept(world, one), accept(world, other))
    assert len(await listed(world)) == 1


async def test_a_write_refused_because_its_text_was_refuted_flags_both_memories(world):
    refuted = await world.remember("The office is in Hamburg")
    await world.commands.refute(world.caller, {"memory_id": refuted})
    standing = await world.remember("The office is in Berlin")
    for _ in range(2):
        with pytest.raises(Conflict) as told:
            await world.commands.revise(
                world.caller, {"memory_id": standing, "content": "The office is in Hamburg"}
            )
        assert told.value.details["refuted_memory"] == refuted
    [found] = await listed(world)
    assert (found.found_by, found.memory_id, found.related_id) == ("refused_write", standing, refuted)
    with pytest.raises(Conflict):
        await world.reviewing.accept(world.caller, {"proposal_id": found.review, "holds": refuted})
    decided = await accept(world, found.review, holds=standing)
    assert decided.changed == (), "what was refuted has ended already"
    [found] = await listed(world)
    assert (found.outcome, found.holds, found.replaces) == ("one", standing, refuted)


async def test_the_list_pages_through_all_of_its_tenant(world):
    pairs = []
    for number in range(3):
        older = await world.remember(f"The office {number} is in Berlin")
        newer = await world.remember(f"The office {number} is in Hamburg")
        await world.catch_up()
        await accept(world, await conflict_verdict(world, older, newer))
        pairs.append((older, newer))
    await world.catch_up()
    listing = ContradictionListing(world.engine)
    first = await listing.page(world.caller, {"limit": 2})
    second = await listing.page(world.caller, {"limit": 2, "cursor": first.next_cursor})
    assert first.total == second.total == 3 and second.next_cursor is None
    seen = [(one.memory_id, one.related_id) for one in (*first.contradictions, *second.contradictions)]
    assert seen == pairs
    [found] = await listed(world, memory_id=pairs[1][1])
    assert (found.memory_id, found.related_id) == pairs[1]
    assert (await listing.page(await world.another_caller(), {})).total == 0


@pytest.mark.parametrize("which", [0, 1])
async def test_a_pair_of_which_one_was_erased_is_listed_no_more_and_its_review_is_taken_back(world, which: int):
    older, newer, review = await flagged(world)
    erasures = Erasures(world.engine)
    preview = await erasures.preview(world.caller, {"memory_id": (older, newer)[which]})
    done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert done.verified
    await world.catch_up()
    page = await ContradictionListing(world.engine).page(world.caller, {})
    assert (page.contradictions, page.total) == ((), 0)
    shown = await world.reviewing.show(world.caller, {"proposal_id": review})
    assert shown.proposal.status == "withdrawn"


async def test_an_undone_decision_is_put_before_somebody_anew_and_undoing_that_decides_as_before(world):
    older, newer, review = await flagged(world)
    await accept(world, review, holds=older)
    undoing = Undoing(world.engine, world.commands)
    undone = await keeping_up(world, undoing.undo(world.caller, {"proposal_id": review}))
    [found] = await listed(world)
    assert (found.status, found.outcome, found.decided_at) == ("open", None, None)
    assert [(await world.get(one)).status for one in (older, newer)] == ["active", "active"]
    assert found.review != review
    assert not (await world.reviewing.show(world.caller, {"proposal_id": found.review})).proposal.stale
    await keeping_up(world, undoing.undo(world.caller, {"undo_id": undone.id}))
    [again] = await listed(world)
    assert (again.status, again.holds, again.replaces) == ("resolved", older, newer)
    assert (await world.get(newer)).status == "superseded"
    taken_back = await world.reviewing.show(world.caller, {"proposal_id": found.review})
    assert taken_back.proposal.status == "withdrawn"


async def test_after_an_undo_the_other_one_may_be_chosen(world):
    older, newer, review = await flagged(world)
    await accept(world, review, holds=older)
    undoing = Undoing(world.engine, world.commands)
    await keeping_up(world, undoing.undo(world.caller, {"proposal_id": review}))
    [found] = await listed(world)
    await accept(world, found.review, holds=newer)
    [found] = await listed(world)
    assert (found.holds, found.replaces) == (newer, older)
    assert (await world.get(older)).superseded_by == newer


# --- refusing to answer ------------------------------------------------------------------------------------------------


async def refusing(world) -> None:
    changes = {"on_contradiction": "refuse"}
    await world.engine.tenants.set_policy(world.caller.tenant, changes, world.caller.actor)


async def search(world, query: str, **fields):
    await world.catch_up()
    return await world.reading.search(world.caller, {"query": query, **fields})


async def briefed(world, **fields):
    await world.catch_up()
    asked = {"selector": "all", "mode": "full", **fields}
    return await Briefing(world.engine).brief(world.caller, asked)


async def told_facts(world, **fields):
    await world.catch_up()
    return await Facts(world.engine).get(world.caller, fields)


async def test_a_flagged_pair_that_is_queried_is_refused_with_both_ids(world):
    """Refuse on contradiction: optional mode, escalate instead of answering (S4)."""
    owner = await world.engine.directory.register(world.caller.tenant, "actor", "ada")
    policy = {"contradiction_owner": owner, "contradiction_days": 14}
    await world.engine.tenants.set_policy(world.caller.tenant, policy, world.caller.actor)
    older, newer, review = await flagged(world, "decision")
    other = await world.remember("The office has a garden", memory_type="decision")
    before = await search(world, "where is the office?")
    assert {hit.memory.id for hit in before.hits} == {older, newer, other} and before.refused == ()
    assert (await briefed(world)).refused == ()

    await refusing(world)
    found = await search(world, "where is the office?")
    assert [hit.memory.id for hit in found.hits] == [other] and found.count == 1
    [refused] = found.refused
    assert set(refused.memories) == {older, newer} and refused.contradiction == contradiction_id(older, newer)
    assert (refused.owner, refused.due_at) == ("ada", (await listed(world))[0].due_at)
    brief = await briefed(world)
    assert [item.id for item in brief.sections["recent_decisions"].items] == [other]
    assert brief.sections["recent_decisions"].count == 1 and brief.refused == (refused,)
    # Whoever looks at the case is told both.
    assert [(await world.get(one)).content for one in (older, newer)] == [
        "The office is in Berlin",
        "The office is in Hamburg",
    ]
    await world.catch_up()
    assert (await world.reading.list(world.caller, {})).total == 3

    await accept(world, review, holds=newer)
    decided = await search(world, "where is the office?", current=True)
    assert {hit.memory.id for hit in decided.hits} == {newer, other} and decided.refused == ()
    assert (await briefed(world)).sections["recent_decisions"].count == 2


async def test_only_what_was_asked_for_is_refused_and_others_take_its_place(world):
    await flagged(world)
    await refusing(world)
    lunch = [await world.remember(f"Lunch is at noon in room {n}") for n in range(3)]
    found = await search(world, "when is lunch?", limit=1)
    assert found.hits[0].memory.id in lunch and found.refused == ()
    found = await search(world, "The office is in Berlin", limit=1)
    assert found.hits[0].memory.id in lunch and len(found.refused) == 1
    assert (await search(world, "office", scope="work")).refused == ()
    assert (await briefed(world, selector="scope", scope="work")).refused == ()


async def test_facts_of_a_pair_that_nobody_decided_are_not_told(world):
    said = {"subject": "office", "predicate": "is in"}
    older, newer = [
        (
            await world.commands.remember(
                world.caller,
                {"topic": "t", "content": f"The office is in {city}", "facts": [said | {"value": city}]},
            )
        ).memory.id
        for city in ("Berlin", "Hamburg")
    ]
    await world.remember("Ada")
    await world.catch_up()
    await accept(world, await conflict_verdict(world, older, newer))
    assert {one.value for one in (await told_facts(world)).facts} == {"Berlin", "Hamburg"}
    await refusing(world)
    page = await told_facts(world, subject="office")
    assert (page.facts, page.total, len(page.refused)) == ((), 0, 1)
    assert (await told_facts(world, subject="garden")).refused == ()


async def test_a_side_that_ended_leaves_the_other_to_answer_and_the_past_is_told_as_it_was(world):
    older, newer, _ = await flagged(world)
    known = await world.engine.log.head()
    await refusing(world)
    assert (await search(world, "office")).hits == ()
    then = await search(world, "office", known_at=known)
    assert {hit.memory.id for hit in then.hits} == {older, newer} and then.refused == ()
    await world.commands.archive(world.caller, {"memory_id": older})
    alone = await search(world, "office")
    assert ([hit.memory.id for hit in alone.hits], alone.refused) == ([newer], ())


async def test_one_tenant_s_mode_and_pairs_are_nobody_else_s(world):
    await flagged(world)
    await refusing(world)
    other = await world.another_caller()
    theirs = await world.commands.remember(other, {"topic": "t", "content": "The office is in Berlin"})
    await world.catch_up()
    found = await world.reading.search(other, {"query": "office"})
    assert ([hit.memory.id for hit in found.hits], found.refused) == ([theirs.memory.id], ())
