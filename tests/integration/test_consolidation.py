"""Consolidation passes: near memories, the mildest edge proposed, decided once and for all (behaviour.md 1.13)."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from lethelog.domain import events as e
from lethelog.domain.consolidation import scheduled_consolidation_id
from lethelog.domain.errors import Conflict, StaleProposal
from lethelog.handlers.consolidation import passes, running
from lethelog.handlers.consolidation.passes import Consolidations, load_consolidation, view_of
from lethelog.handlers.consolidation.running import Consolidating
from lethelog.handlers.consolidation.schedule import ConsolidationSchedule
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.operating.workers import Workers
from lethelog.ops.eval.candidate_sets import rows
from lethelog.projections import near_pairs
from lethelog.streams.handling import RetryLater

DEPLOYS = ("we deploy when the build is green", "when the build is green we deploy")
"""Two memories that say the same, as near as can be to any embedder that adds words up."""


@pytest.fixture
async def desk(world):
    """A world whose tenant compares from a floor that its embedder reaches."""
    await set_policy(world, consolidation_floor=0.9)
    return world


async def set_policy(world, **changes) -> None:
    await world.engine.tenants.set_policy(world.caller.tenant, changes, world.caller.actor)


async def pair(world, newer: str = "fact", older: str = "fact", texts=DEPLOYS, **fields) -> tuple[UUID, UUID]:
    """(newer, older) memories that say the same."""
    first = await world.remember(texts[0], memory_type=older, topic="deploys", **fields)
    world.clock.forward(minutes=1)
    return await world.remember(texts[1], memory_type=newer, topic="deploys", **fields), first


async def consolidate(world):
    """One pass by hand, from request to end."""
    asked = await Consolidations(world.engine).request(world.caller)
    await world.catch_up()
    state = await Consolidating(world.engine).run(world.caller.tenant, asked.id)
    await world.catch_up()
    return view_of(state, 0)


async def proposals(world, **query):
    await world.catch_up()
    return (await world.reviewing.list(world.caller, {"kind": "consolidation", **query})).proposals


async def test_two_near_facts_get_one_extends_proposal_from_the_newer_to_the_older(desk):
    """A13. Consolidation pass: newer→older."""
    newer, older = await pair(desk)
    done = await consolidate(desk)
    [proposal] = await proposals(desk)
    assert (proposal.action, proposal.memory_id, proposal.related_id) == ("extends", newer, older)
    assert proposal.details["similarity"] >= 0.9 and proposal.details["floor"] == 0.9
    assert proposal.details["embedding_model"] == desk.engine.embedder.model
    assert proposal.source == done.id and proposal.judge is None
    assert (done.staged, done.looked_at, done.skipped) == ({"extends": 1}, 1, {})


@pytest.mark.parametrize(
    ("newer", "older", "edges"),
    [
        pytest.param("event", "event", ["extends"], id="A14"),
        pytest.param("event", "preference", [], id="A14, none in common"),
        pytest.param("preference", "preference", ["updates"], id="A15"),
    ],
)
async def test_the_types_say_which_edge_is_proposed(desk, newer: str, older: str, edges: list[str]):
    """Event protection: events only ever get `extends`."""
    await pair(desk, newer, older)
    done = await consolidate(desk)
    assert [one.action for one in await proposals(desk)] == edges
    assert done.skipped == ({} if edges else {"no_common_edge": 1})


async def test_texts_that_differ_in_a_number_get_no_proposal_and_the_run_says_why(desk):
    await pair(desk, texts=("we keep 30 copies of it all", "we keep 90 copies of it all"))
    done = await consolidate(desk)
    assert (done.looked_at, done.skipped, done.staged) == (1, {"number": 1}, {})
    assert await proposals(desk) == ()


async def test_a_rejected_pair_is_never_proposed_again(desk):
    """A16. Settled pairs: any proposal excludes the pair."""
    newer, _ = await pair(desk)
    first = await consolidate(desk)
    [proposal] = await proposals(desk)
    await desk.reviewing.reject(desk.caller, {"proposal_id": proposal.id})
    await desk.commands.reaffirm(desk.caller, {"memory_id": newer})
    second = await consolidate(desk)
    assert second.id != first.id and (second.looked_at, second.staged) == (0, {})
    assert [one.status for one in await proposals(desk)] == ["rejected"]


async def test_a_proposal_changes_no_read_until_it_is_accepted_and_then_the_edge_is_seen(desk):
    newer, older = await pair(desk)
    await desk.catch_up()
    query = {"query": "deploy when green", "limit": 10}
    before = [await desk.get(newer), await desk.get(older)], await desk.reading.search(desk.caller, query)
    await consolidate(desk)
    [proposal] = await proposals(desk)
    after = [await desk.get(newer), await desk.get(older)], await desk.reading.search(desk.caller, query)
    assert after == before
    await desk.reviewing.accept(desk.caller, {"proposal_id": proposal.id})
    seen = await desk.get(newer)
    assert [(link.memory_id, link.edge) for link in seen.links] == [(older, "extends")]
    assert (await desk.get(older)).status == "active"
    history = await desk.reading.history(desk.caller, {"memory_id": newer})
    assert "memory.edge_added" in [entry.event for entry in history.entries]
    hits = (await desk.reading.search(desk.caller, query)).hits
    assert {hit.memory.id: len(hit.memory.links) for hit in hits} == {newer: 1, older: 0}


async def test_a_linked_pair_is_no_candidate_of_any_pass(desk):
    """Settled pairs: any edge, either orientation, excludes the pair."""
    newer, older = await pair(desk)
    await consolidate(desk)
    [proposal] = await proposals(desk)
    await desk.reviewing.accept(desk.caller, {"proposal_id": proposal.id})
    await desk.commands.reaffirm(desk.caller, {"memory_id": newer})
    assert (await consolidate(desk)).looked_at == 0
    near = [near_pairs.Near(newer, older, 0.99)]
    assert await near_pairs.unsaid(desk.engine.database, desk.caller.tenant, near) == []


async def test_accepting_an_updates_edge_closes_the_older_memory(desk):
    newer, older = await pair(desk, "preference", "preference")
    await consolidate(desk)
    [proposal] = await proposals(desk)
    decided = await desk.reviewing.accept(desk.caller, {"proposal_id": proposal.id})
    assert decided.changed == (older,)
    closed = await desk.get(older)
    assert (closed.status, closed.superseded_by, closed.edge) == ("superseded", newer, "updates")


async def test_a_proposal_whose_successor_was_revised_meanwhile_is_stale_and_stays_open(desk):
    """A17, as settlement 6 says it. Accept consolidation."""
    newer, _ = await pair(desk, "preference", "preference")
    await consolidate(desk)
    [proposal] = await proposals(desk)
    await desk.commands.revise(desk.caller, {"memory_id": newer, "content": "we deploy on fridays"})
    with pytest.raises(StaleProposal):
        await desk.reviewing.accept(desk.caller, {"proposal_id": proposal.id})
    [still] = await proposals(desk)
    assert still.status == "proposed" and still.stale


async def test_accepting_where_the_edge_exists_already_applies_the_proposal_and_does_nothing_twice(desk):
    """A18. Accept consolidation: idempotent on existing edge."""
    newer, older = await pair(desk)
    await consolidate(desk)
    [proposal] = await proposals(desk)
    await desk.reviewing.accept(desk.caller, {"proposal_id": proposal.id})
    again = e.EdgeStaged(
        memory_id=newer,
        related_id=older,
        seen=proposal.seen,
        source=UUID(int=5),
        edge="extends",
        similarity=0.99,
        embedding_model="m",
        floor=0.9,
    )
    envelope = running.Envelope(running.WORKER, cause=UUID(int=5), correlation=UUID(int=5))
    staged = await running.stage(desk.engine.log, desk.caller.tenant, again, envelope)
    decided = await desk.reviewing.accept(desk.caller, {"proposal_id": staged.proposal})
    assert decided.proposal.status == "applied" and decided.changed == ()
    names = [one.name for one in await desk.engine.log.read_stream(desk.caller.tenant, newer)]
    assert names.count("memory.edge_added") == 1


async def test_a_pair_with_a_question_of_forgetting_before_a_reviewer_is_left_alone(desk):
    newer, older = await pair(desk)
    conflict = e.DependencyStaged(
        memory_id=newer, related_id=older, seen={newer: 1}, source=UUID(int=6), ended="superseded"
    )
    envelope = running.Envelope(running.WORKER, cause=UUID(int=6), correlation=UUID(int=6))
    await running.stage(desk.engine.log, desk.caller.tenant, conflict, envelope)
    assert (await consolidate(desk)).looked_at == 0


async def test_only_live_memories_of_the_same_tenant_are_compared(desk):
    _, older = await pair(desk)
    await desk.commands.archive(desk.caller, {"memory_id": older})
    other = await desk.another_caller()
    await desk.commands.remember(other, {"content": DEPLOYS[0], "topic": "deploys"})
    assert (await consolidate(desk)).looked_at == 0


async def test_vectors_of_another_model_are_not_compared(desk):
    await pair(desk)
    await desk.catch_up()
    compared = await near_pairs.compare(
        desk.engine.database, desk.caller.tenant, model="another@1", floor=0.0, changed_after=None
    )
    assert compared.near == [] and not compared.whole


async def test_without_a_selected_floor_a_pass_proposes_nothing_and_says_so(world, monkeypatch):
    monkeypatch.setattr(passes, "consolidation_floor_for", lambda model: None)
    await pair(world)
    done = await consolidate(world)
    assert (done.floor, done.floor_from, done.looked_at, done.staged) == (None, "none", 0, {})


async def test_a_pass_takes_the_two_hundred_closest_and_the_next_one_the_rest(desk, monkeypatch):
    monkeypatch.setattr(running, "PAIRS", 2)
    for one in ("alpha", "beta", "gamma"):
        await pair(desk, texts=(f"{one} waits for its {one} turn", f"its {one} turn is what {one} waits for"))
    await set_policy(desk, consolidation_floor=0.75)
    first = await consolidate(desk)
    assert sum(first.staged.values()) == 2
    similar = [one.details["similarity"] for one in await proposals(desk)]
    second = await consolidate(desk)
    assert sum(second.staged.values()) == 1
    assert min(similar) >= min(one.details["similarity"] for one in await proposals(desk))
    assert (await consolidate(desk)).staged == {}


async def test_what_is_told_apart_does_not_hide_what_stands_behind_it(desk, monkeypatch):
    monkeypatch.setattr(running, "PAGE", 1)
    for number in range(3):
        await desk.remember(f"we keep {number} copies of it all", topic="copies")
    await pair(desk, texts=("the cache is warm", "warm is the cache now"))
    await set_policy(desk, consolidation_floor=0.6)
    done = await consolidate(desk)
    assert done.skipped["number"] == 3 and done.staged == {"extends": 1}


async def test_after_a_whole_pass_only_what_changed_is_compared_again(desk):
    await pair(desk)
    first = await consolidate(desk)
    state = await load_consolidation(desk.engine.log, desk.caller.tenant, first.id)
    assert state.selected is not None and state.selected.whole
    compared = await near_pairs.compare(
        desk.engine.database,
        desk.caller.tenant,
        model=desk.engine.embedder.model,
        floor=0.9,
        changed_after=state.selected.position,
    )
    assert compared.near == []
    third = await desk.remember("the build is green when we deploy", topic="deploys", memory_type="fact")
    done = await consolidate(desk)
    assert done.looked_at == 2
    assert {one.memory_id for one in await proposals(desk, source=done.id)} == {third}


async def test_a_pass_that_broke_off_goes_on_where_it_stopped_and_proposes_nothing_twice(desk, monkeypatch):
    await pair(desk)
    asked = await Consolidations(desk.engine).request(desk.caller)
    await desk.catch_up()
    stage = running.stage

    async def staged_and_gone(*arguments):
        await stage(*arguments)
        raise asyncio.CancelledError

    monkeypatch.setattr(running, "stage", staged_and_gone)
    with pytest.raises(asyncio.CancelledError):
        await Consolidating(desk.engine).run(desk.caller.tenant, asked.id)
    monkeypatch.setattr(running, "stage", stage)
    with pytest.raises(Conflict):
        await Consolidations(desk.engine).request(desk.caller)
    state = await Consolidating(desk.engine).run(desk.caller.tenant, asked.id)
    assert state.completed is not None and state.completed.staged == {"extends": 1}
    assert await Consolidating(desk.engine).run(desk.caller.tenant, asked.id) == state
    assert len(await proposals(desk)) == 1


@pytest.mark.parametrize("which", [0, 1])
async def test_a_pass_that_broke_off_proposes_nothing_about_what_was_erased_meanwhile(desk, monkeypatch, which):
    erased = (await pair(desk))[which]
    kept = await pair(
        desk, texts=("when the tape is full we write another one", "we write another one when the tape is full")
    )
    asked = await Consolidations(desk.engine).request(desk.caller)
    await desk.catch_up()

    async def gone(*_arguments):
        raise asyncio.CancelledError

    with monkeypatch.context() as broken, pytest.raises(asyncio.CancelledError):
        broken.setattr(running, "stage", gone)
        await Consolidating(desk.engine).run(desk.caller.tenant, asked.id)
    erasures = Erasures(desk.engine)
    preview = await erasures.preview(desk.caller, {"memory_id": erased})
    done = await erasures.erase(desk.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert done.verified
    state = await Consolidating(desk.engine).run(desk.caller.tenant, asked.id)
    assert state.selected is not None and len(state.selected.pairs) == 2
    assert state.completed is not None and state.completed.staged == {"extends": 1}
    assert [(one.memory_id, one.related_id) for one in await proposals(desk)] == [kept]


async def test_two_processes_at_one_pass_have_one_effect(desk):
    await pair(desk)
    asked = await Consolidations(desk.engine).request(desk.caller)
    await desk.catch_up()
    both = await asyncio.gather(*(Consolidating(desk.engine).run(desk.caller.tenant, asked.id) for _ in range(2)))
    assert both[0].version == both[1].version == 3
    assert len(await proposals(desk)) == 1


async def test_the_schedule_asks_once_an_hour_and_only_where_something_changed(desk, monkeypatch):
    tenant = desk.caller.tenant
    await pair(desk)
    await desk.catch_up()
    consolidations = Consolidations(desk.engine)
    first = await consolidations.request_scheduled(tenant, desk.clock.now)
    assert first == scheduled_consolidation_id(tenant, desk.clock.now)
    with monkeypatch.context() as patch:
        patch.setattr(passes, "PATIENCE", timedelta())
        carried_on = await consolidations.request_scheduled(tenant, desk.clock.now)
        assert carried_on == first, "one that stands still is carried on"
    await desk.catch_up()
    await Consolidating(desk.engine).run(tenant, first)
    await desk.catch_up()
    assert await consolidations.request_scheduled(tenant, desk.clock.now) is None, "this hour had its pass"
    desk.clock.forward(hours=1)
    assert await consolidations.request_scheduled(tenant, desk.clock.now) is None, "nothing changed since"
    await desk.remember("something else altogether")
    await desk.catch_up()
    second = await consolidations.request_scheduled(tenant, desk.clock.now)
    assert second == scheduled_consolidation_id(tenant, desk.clock.now) and second != first


@pytest.mark.parametrize("answer", ["never", "on_write", "on_read"])
async def test_a_policy_that_brings_memories_together_elsewhere_has_no_schedule(desk, answer: str):
    await pair(desk)
    await desk.catch_up()
    await set_policy(desk, consolidation=answer)
    assert await Consolidations(desk.engine).request_scheduled(desk.caller.tenant, desk.clock.now) is None
    await set_policy(desk, consolidation="offline")
    assert await Consolidations(desk.engine).request_scheduled(desk.caller.tenant, desk.clock.now) is not None


async def test_the_hourly_look_runs_every_tenants_pass(desk):
    await pair(desk)
    await desk.catch_up()
    schedule = ConsolidationSchedule(desk.engine)
    workers = Workers(desk.engine, roles=("views",))
    await workers.open()
    try:
        await schedule.look()
    finally:
        await workers.close()
    assert [one.action for one in await proposals(desk)] == ["extends"]
    head = await desk.engine.log.head()
    desk.clock.forward(minutes=10)
    await schedule.look()
    assert await desk.engine.log.head() == head, "an hour is looked at once"


async def test_a_pass_asked_for_by_hand_is_run_by_a_worker_from_the_broker(desk, broker):
    newer, older = await pair(desk)
    workers = Workers(desk.engine, broker=broker, roles=("views", "relay", "consolidation"))
    await workers.open()
    try:
        consolidations = Consolidations(desk.engine)
        found = await consolidations.request(desk.caller, {"key": "once"})
        assert (await consolidations.request(desk.caller, {"key": "once"})).id == found.id
        async with asyncio.timeout(30):
            while found.phase != "completed":
                await asyncio.sleep(0.05)
                found = await consolidations.show(desk.caller, {"pass_id": found.id})
    finally:
        await workers.close()
    assert found.staged == {"extends": 1} and found.trigger == "hand"
    [proposal] = await proposals(desk)
    assert (proposal.memory_id, proposal.related_id) == (newer, older)


async def test_newer_and_older_go_by_when_it_was_said(desk):
    said_later = await desk.remember(DEPLOYS[0], topic="deploys", memory_type="fact")
    imported = {"content": DEPLOYS[1], "topic": "deploys", "memory_type": "fact"}
    at = desk.clock.now - timedelta(days=3)
    said_before = await desk.commands.import_memory(desk.caller, {**imported, "occurred_at": at})
    await consolidate(desk)
    [proposal] = await proposals(desk)
    assert (proposal.memory_id, proposal.related_id) == (said_later, said_before.memory.id)


async def test_no_two_recurring_records_collapse_at_the_selected_floor(world, shared_data):
    """Settlement 11: collapses on data/recurring are 0, on the real records and by a real pass; one pair shows that
    it would have found them."""
    for row in rows(shared_data / "recurring" / "episodes.jsonl"):
        said = {"topic": row["title"] or row["id"], "content": row["text"], "memory_type": "event"}
        await world.commands.import_memory(world.caller, said)
    await world.catch_up()
    first = await consolidate(world)
    assert (first.floor_from, first.recurring_collapses) == ("selected", 0)
    assert first.staged == {}, "every one of them still stands"
    await pair(world, "event", "event", texts=(DEPLOYS[0], DEPLOYS[0] + "!"))
    assert (await consolidate(world)).staged == {"extends": 1}


async def test_a_pass_that_is_at_work_is_left_to_whoever_took_it_up_and_is_computed_once(desk, monkeypatch):
    await pair(desk)
    await desk.catch_up()
    tenant, consolidations = desk.caller.tenant, Consolidations(desk.engine)
    scheduled = await consolidations.request_scheduled(tenant, desk.clock.now)
    assert scheduled is not None
    [requested] = await desk.engine.log.read_stream(tenant, scheduled)
    await desk.catch_up()
    assert await consolidations.request_scheduled(tenant, desk.clock.now) is None, "another process has it"
    with pytest.raises(RetryLater):
        await Consolidating(desk.engine).on_requested(requested)
    assert await proposals(desk) == ()
    monkeypatch.setattr(passes, "PATIENCE", timedelta())  # as after five minutes: that process died
    await Consolidating(desk.engine).on_requested(requested)
    assert [one.action for one in await proposals(desk)] == ["extends"]
    head = await desk.engine.log.head()
    monkeypatch.undo()
    await Consolidating(desk.engine).on_requested(requested)
    assert await desk.engine.log.head() == head, "a second delivery finds it finished"
