"""Undo: what a decision did is taken back as if it had not been, on record, and that can be taken back, too."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import InvalidInput, NotFound, WrongKind
from lethelog.handlers.commitments.expiry import ExpirySweep
from lethelog.handlers.commitments.riding import Commitments
from lethelog.handlers.explaining import Explaining
from lethelog.handlers.undoing import undoing as undoing_module
from lethelog.handlers.undoing.undoing import Undoing
from lethelog.projections.generations import tenant_read_models

from .passes import ToldJudge, old, run_pass, sure
from .review_desk import decided, dependency, edge, reviewer, staged, with_views


@pytest.fixture
def undo(world) -> Undoing:
    return Undoing(world.engine, world.commands)


async def everything_read(world, *memories):
    """What every kind of read says about memories, but for versions, which an undo moves on."""
    found = []
    for one in memories:
        view = await world.get(one)
        found.append(view.model_dump(exclude={"version", "position", "changed_at", "state_version", "as_of"}))
    listed = await world.reading.list(world.caller, {})
    return found, [one.id for one in listed.memories], await world.search("deploys")


async def test_undoing_an_accepted_archive_restores_every_read_and_undoing_that_archives_again(world, undo):
    one = await world.remember("Deploys go to Hetzner", memory_type="decision")
    other = await world.remember("Deploys are done on Monday", memory_type="decision")
    proposal = await dependency(world, one)
    before = await everything_read(world, one, other)
    await decided(world, proposal)
    archived = await everything_read(world, one, other)
    assert archived != before and (await world.get(one)).status == "archived"

    preview = await with_views(world, undo.preview(world.caller, {"proposal_id": proposal}))
    assert (preview.effects, preview.possible) == (1, 1)
    assert (await world.get(one)).status == "archived", "a preview changes nothing"

    done = await with_views(world, undo.undo(world.caller, {"proposal_id": proposal}))
    assert (done.undone, done.refused, done.complete) == (1, 0, True)
    assert await everything_read(world, one, other) == before

    again = await with_views(world, undo.undo(world.caller, {"undo_id": done.id}))
    assert (again.undone, again.refused) == (1, 0)
    assert await everything_read(world, one, other) == archived
    back = await with_views(world, undo.undo(world.caller, {"undo_id": again.id}))
    assert back.undone == 1 and await everything_read(world, one, other) == before


@pytest.mark.parametrize("kind", ["supersedes", "updates", "extends"])
async def test_undoing_an_accepted_edge_restores_every_read(world, undo, kind):
    older = await world.remember("Deploys go to Fly.io", memory_type="fact")
    newer = await world.remember("Deploys go to Hetzner", memory_type="fact")
    proposal = await edge(world, newer, older, kind)
    before = await everything_read(world, newer, older)
    await decided(world, proposal)
    if kind != "extends":
        assert (await world.get(older)).superseded_by == newer
    done = await with_views(world, undo.undo(world.caller, {"proposal_id": proposal}))
    assert (done.undone, done.refused) == (1, 0)
    assert await everything_read(world, newer, older) == before
    state = await world.commands.load(world.caller.tenant, newer)
    assert state.links == ()


async def test_a_proposal_says_that_what_it_did_was_taken_back_by_whom_and_by_which_undo(world, undo):
    taken, kept = [await world.remember(text) for text in ("Deploys go to Fly.io", "Lunch is at noon")]
    proposals = [await dependency(world, one) for one in (taken, kept)]
    for one in proposals:
        await decided(world, one)
    bo = await reviewer(world, "bo")

    async def told():
        await world.catch_up()
        [listed, other] = (await world.reviewing.list(world.caller, {"status": "applied"})).proposals
        shown = (await world.reviewing.show(world.caller, {"proposal_id": proposals[0]})).proposal
        assert (other.undone_at, other.undone_by, other.undo_id) == (None, None, None)
        assert shown == listed
        return shown

    assert (await told()).undone_at is None
    done = await with_views(world, undo.undo(bo, {"proposal_id": proposals[0]}))
    shown = await told()
    assert (shown.status, shown.undone_by, shown.undo_id) == ("applied", "person:bo", done.id)
    assert shown.undone_at is not None and shown.decided_at is not None and shown.undone_at > shown.decided_at
    await with_views(world, undo.undo(world.caller, {"undo_id": done.id}))
    assert (await told()).undo_id is None, "it holds again"


async def test_an_undo_that_is_looked_at_later_names_each_effect_and_what_became_of_it_since(world, undo):
    one, other = await world.remember("Deploys go to Fly.io"), await world.remember("Lunch is at noon")
    source = uuid4()
    proposals = [await dependency(world, memory, source=source) for memory in (one, other)]
    for proposal in proposals:
        await decided(world, proposal)
    await world.remember("Deploys go to Fly.io")
    bo = await reviewer(world, "bo")
    done = await with_views(world, undo.undo(bo, {"pass_id": source, "key": "once"}))
    stays = next(item for item in done.items if item.reason is not None)

    shown = await undo.show(world.caller, {"undo_id": done.id})
    assert (shown.requested_by, shown.undone, shown.refused) == ("person:bo", 1, 1)
    told = [(item.stream, item.proposal_id, item.again, item.reason) for item in shown.items]
    assert told == [(other, proposals[1], False, None), (one, proposals[0], False, "later_history")]
    assert [item.effect for item in shown.items] == [item.effect for item in done.items]
    assert stays.says and shown.items[1].says == "later history stands on it"
    repeated = await with_views(world, undo.undo(bo, {"pass_id": source, "key": "once"}))
    assert [item.effect for item in repeated.items] == [item.effect for item in done.items]

    again = await with_views(world, undo.undo(world.caller, {"undo_id": done.id}))
    back = await with_views(world, undo.undo(world.caller, {"undo_id": again.id}))
    await world.catch_up()
    turned = [(await undo.show(world.caller, {"undo_id": one})).items for one in (done.id, again.id, back.id)]
    assert [(items[0].again, items[0].later_undo) for items in turned] == [
        (False, back.id),
        (True, back.id),
        (False, None),
    ]


async def test_one_live_head_stays_where_later_history_stands_on_an_effect(world, undo):
    """Refused item by item, with the reason; the rest is undone."""
    gone, kept = await world.remember("Deploys go to Fly.io"), await world.remember("Lunch is at noon")
    source = uuid4()
    proposals = [await dependency(world, one, source=source) for one in (gone, kept)]
    for one in proposals:
        await decided(world, one)
    again = await world.remember("Deploys go to Fly.io")  # honest re-learning: the text has another holder now
    preview = await with_views(world, undo.preview(world.caller, {"pass_id": source}))
    assert [(item.stream, item.reason) for item in preview.items] == [(kept, None), (gone, "later_history")]
    assert str(again) in (preview.items[1].says or "")
    done = await with_views(world, undo.undo(world.caller, {"pass_id": source}))
    assert (done.undone, done.refused) == (1, 1)
    assert {(await world.get(one)).status for one in (kept, again)} == {"active"}
    assert (await world.get(gone)).status == "archived"


async def test_an_undo_that_was_interrupted_goes_on_where_it_stopped(world, undo, monkeypatch):
    memories = [await world.remember(f"Deploys go to place {n}") for n in range(6)]
    source = uuid4()
    for one in memories:
        await decided(world, await dependency(world, one, source=source))
    monkeypatch.setattr(undoing_module, "DECISIONS_AT_A_TIME", 2)
    tried = 0
    original = Undoing._undo_one

    async def dies(self, *given, **more):
        nonlocal tried
        tried += 1
        if tried == 4:
            raise ConnectionError("the process died here")
        await original(self, *given, **more)

    monkeypatch.setattr(Undoing, "_undo_one", dies)
    arguments = {"pass_id": source, "key": "once"}
    with pytest.raises(ConnectionError):
        await with_views(world, undo.undo(world.caller, arguments))
    monkeypatch.setattr(Undoing, "_undo_one", original)
    done = await with_views(world, undo.undo(world.caller, arguments))
    assert (done.undone, done.refused, done.complete) == (6, 0, True)
    assert {(await world.get(one)).status for one in memories} == {"active"}
    head = await world.engine.log.head()
    same = await with_views(world, undo.resume(world.caller, {"undo_id": done.id}))
    assert (same.id, same.undone, await world.engine.log.head()) == (done.id, 6, head)


async def test_everything_one_judge_caused_since_a_moment_is_undone_and_nothing_else(judging_world, broker):
    world = judging_world
    undo = Undoing(world.engine, world.commands)
    stale = await old(world, "Deploys go to Fly.io")
    await run_pass(world, broker, ToldJudge(sure("archive", 0.9)))
    [proposal] = (await world.reviewing.list(world.caller, {"status": "proposed"})).proposals
    await decided(world, proposal.id)
    other = await world.remember("Lunch is at noon")
    await decided(world, await dependency(world, other))
    later = (world.engine.clock() + timedelta(days=1)).isoformat()
    assert (await with_views(world, undo.preview(world.caller, {"judge": "told:1", "since": later}))).effects == 0
    done = await with_views(world, undo.undo(world.caller, {"judge": "told-1.0"}))
    assert (done.undone, done.refused) == (1, 0)
    assert ((await world.get(stale)).status, (await world.get(other)).status) == ("active", "archived")
    # A memory that was brought back is not asked about at once again.
    second = await run_pass(world, broker, ToldJudge(sure("archive", 0.9)))
    assert second.items == 0


async def test_every_effect_explains_itself_back_to_a_decision_and_forward_to_its_undo(world, undo):
    one = await world.remember("Deploys go to Hetzner")
    proposal = await dependency(world, one)
    await decided(world, proposal)
    [item] = (await with_views(world, undo.preview(world.caller, {"proposal_id": proposal}))).items
    done = await with_views(world, undo.undo(world.caller, {"effect": item.effect}))
    await world.catch_up()
    explaining = Explaining(world.engine, world.reviewing)
    expected = [
        "memory.remembered",
        "proposal.dependency_staged",
        "proposal.accepted",
        "memory.archived",
        "undo.requested",
        "memory.effect_undone",
    ]
    for about, kind in ((item.effect, "effect"), (proposal, "proposal"), (one, "memory")):
        chain = await explaining.chain(world.caller, {"about": about})
        assert (chain.about, chain.kind, chain.proposals) == (about, kind, (proposal,))
        assert [link.event for link in chain.links] == expected, kind
    with pytest.raises(WrongKind):
        await explaining.chain(world.caller, {"about": done.id})
    with pytest.raises(NotFound):
        await explaining.chain(world.caller, {"about": uuid4()})


async def test_effects_of_another_tenant_are_not_found(world, undo):
    one = await world.remember("Deploys go to Hetzner")
    proposal = await dependency(world, one)
    await decided(world, proposal)
    stranger = await world.another_caller()
    assert (await with_views(world, undo.preview(stranger, {"policy": 1}))).effects == 0
    for verb in (undo.preview, undo.undo):
        for unknown in (proposal, uuid4()):
            with pytest.raises(NotFound, match=f"^proposal_id: no proposal {unknown}$"):
                await with_views(world, verb(stranger, {"proposal_id": unknown}))
    assert (await world.get(one)).status == "archived"
    with pytest.raises(InvalidInput):
        await undo.preview(world.caller, {"proposal_id": proposal, "policy": 1})


async def test_an_expiry_that_nobody_reviewed_is_named_and_undone(world, undo):
    """Settlement 14: a policy acted; it is named on its event, found by no reviewer, and taken back."""
    due = (world.clock.now - timedelta(days=30)).isoformat()
    promise = await world.remember("Send the report", memory_type="commitment", due_at=due)
    await world.catch_up()
    await with_views(world, ExpirySweep(world.engine, timedelta(days=14)).sweep())
    await world.catch_up()
    [effect] = await effects_of(world)
    assert (effect["name"], effect["acted"], effect["proposal_id"]) == ("commitment.transitioned", "expiry", None)
    done = await with_views(world, undo.undo(world.caller, {"effect": effect["effect_id"]}))
    assert (done.undone, done.refused) == (1, 0)
    riding = Commitments(world.engine.log, world.engine.directory)
    present = await riding.of_memory(world.caller.tenant, promise)
    assert present is not None and present.status == "open"
    again = await with_views(world, undo.undo(world.caller, {"undo_id": done.id}))
    present = await riding.of_memory(world.caller.tenant, promise)
    assert again.undone == 1 and present is not None and present.status == "expired"


async def effects_of(world) -> list[dict]:
    async with tenant_read_models(world.engine.doors, world.caller.tenant) as connection:
        cursor = await connection.execute("select effect_id, name, acted, proposal_id from effects")
        return [
            dict(zip(("effect_id", "name", "acted", "proposal_id"), row, strict=True))
            for row in await cursor.fetchall()
        ]


async def test_who_restored_and_archived_it_himself_since_is_not_overruled_by_an_undo(world, undo):
    """Later history: the archive that holds now is not the one that is taken back."""
    one = await world.remember("Deploys go to Hetzner")
    proposal = await dependency(world, one)
    await decided(world, proposal)
    await world.commands.restore(world.caller, {"memory_id": one})
    await world.commands.archive(world.caller, {"memory_id": one})
    done = await with_views(world, undo.undo(world.caller, {"proposal_id": proposal}))
    assert (done.undone, done.refused, done.items[0].reason) == (0, 1, "later_history")
    assert (await world.get(one)).status == "archived"


async def test_an_undo_is_not_undone_where_somebody_archived_and_restored_since(world, undo):
    one = await world.remember("Deploys go to Hetzner")
    proposal = await dependency(world, one)
    await decided(world, proposal)
    first = await with_views(world, undo.undo(world.caller, {"proposal_id": proposal}))
    await world.commands.archive(world.caller, {"memory_id": one})
    await world.commands.restore(world.caller, {"memory_id": one})
    again = await with_views(world, undo.undo(world.caller, {"undo_id": first.id}))
    assert (again.undone, again.refused, again.items[0].reason) == (0, 1, "later_history")
    assert (await world.get(one)).status == "active"


async def test_a_line_of_memories_keeps_its_head_where_an_undo_is_undone(world, undo):
    """The newer one was superseded by the older one since: it supersedes nothing any more."""
    older = await world.remember("Deploys go to Fly.io", memory_type="fact")
    newer = await world.remember("Deploys go to Hetzner", memory_type="fact")
    first = await edge(world, newer, older)
    await decided(world, first)
    taken_back = await with_views(world, undo.undo(world.caller, {"proposal_id": first}))
    said = e.EdgeStaged(
        memory_id=older,
        related_id=newer,
        seen={older: 3, newer: 1},
        source=uuid4(),
        edge="supersedes",
        similarity=0.95,
        embedding_model="m/1",
        floor=0.92,
    )
    await decided(world, await staged(world, said))
    again = await with_views(world, undo.undo(world.caller, {"undo_id": taken_back.id}))
    assert (again.undone, again.refused, again.items[0].reason) == (0, 1, "later_history")
    assert ((await world.get(older)).status, (await world.get(newer)).status) == ("active", "superseded")


async def test_one_effect_is_taken_back_with_what_else_its_decision_did(world, undo):
    """A decision is taken back together or not at all: the commitment goes back with the memory it rode on."""
    older = await world.remember("Send the report", memory_type="commitment")
    newer = await world.remember("Send the report to Orla", memory_type="decision")
    both = [await edge(world, newer, older), await dependency(world, await world.remember("Lunch is at noon"))]
    command = {"verdict": "accept", "proposal_ids": both, "together": True}
    await with_views(world, world.reviewing.decide_many(world.caller, command))
    await world.catch_up()
    found = [one for one in await effects_of(world) if one["proposal_id"] == both[0]]
    assert {one["name"] for one in found} == {"memory.superseded", "commitment.transitioned"}
    for one in found:
        done = await with_views(world, undo.undo(world.caller, {"effect": one["effect_id"]}))
        assert (done.undone, done.refused) == (2, 0), "and nothing of the other proposal"
        riding = Commitments(world.engine.log, world.engine.directory)
        present = await riding.of_memory(world.caller.tenant, older)
        assert present is not None and present.status == "open"
        assert (await world.get(older)).status == "active"
        again = await with_views(world, undo.undo(world.caller, {"undo_id": done.id}))
        assert (again.undone, again.refused) == (2, 0)


@pytest.mark.parametrize("field", ["effect", "proposal_id", "undo_id", "pass_id", "session"])
async def test_an_id_that_is_none_of_what_it_was_given_as_is_refused_by_its_field_and_nothing_is_on_record(
    world, undo, field
):
    """An undo of nothing looked like an undo that was done."""
    memory = await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    head = await world.engine.log.head()
    for verb in (undo.preview, undo.undo):
        with pytest.raises(NotFound, match=f"^{field}: no ") as refused:
            await verb(world.caller, {field: uuid4()})
        assert refused.value.details["field"] == field
        with pytest.raises(WrongKind, match=f"^{field}: {memory} is the id of a memory, not of an? "):
            await verb(world.caller, {field: memory})
    assert await world.engine.log.head() == head


async def test_a_proposal_or_a_source_of_which_nothing_came_is_no_error_and_a_repeat_by_its_key_is_the_same(
    world, undo
):
    memory, source = await world.remember("Deploys go to Hetzner"), uuid4()
    proposal = await dependency(world, memory, source=source)
    for which in ({"proposal_id": proposal}, {"pass_id": source}):
        assert (await with_views(world, undo.preview(world.caller, which))).effects == 0
        done = await with_views(world, undo.undo(world.caller, which))
        assert (done.undone, done.refused, done.complete) == (0, 0, True)
    await decided(world, proposal)
    keyed = {"proposal_id": proposal, "key": "once"}
    done = await with_views(world, undo.undo(world.caller, keyed))
    head = await world.engine.log.head()
    again = await with_views(world, undo.undo(world.caller, keyed))
    assert (again.id, again.undone, again.complete) == (done.id, 1, True)
    assert await world.engine.log.head() == head


async def test_tries_of_one_undo_at_the_same_time_end_alike_and_take_back_once(world, undo, monkeypatch):
    """A retry while the first try still runs: both carry the same undo on, page by page."""
    monkeypatch.setattr(undoing_module, "DECISIONS_AT_A_TIME", 2)
    source = uuid4()
    memories = [await world.remember(f"Deploys go to place {n}") for n in range(5)]
    for one in memories:
        await decided(world, await dependency(world, one, source=source))
    arguments = {"pass_id": source, "key": "once"}
    tries = await with_views(world, asyncio.gather(*(undo.undo(world.caller, arguments) for _ in range(6))))
    assert {(one.id, one.undone, one.refused, one.complete) for one in tries} == {(tries[0].id, 5, 0, True)}
    for one in memories:
        names = [event.name for event in await world.engine.log.read_stream(world.caller.tenant, one)]
        assert names == ["memory.remembered", "memory.archived", "memory.effect_undone"]
    recorded = await world.engine.log.read_stream(world.caller.tenant, tries[0].id)
    assert sum(len(one.event.undone) for one in recorded[1:]) == 5


async def test_what_another_try_of_the_same_undo_takes_back_meanwhile_is_undone_and_not_refused(
    world, undo, monkeypatch
):
    proposal = await dependency(world, await world.remember("Deploys go to Hetzner"))
    await decided(world, proposal)
    changes_of, undo_one, overtaken = Undoing._changes, Undoing._undo_one, []

    async def looked_at(self, by, state, decision, *, again):
        async def overtaking(*given, **more):
            if not overtaken:
                overtaken.append(True)
                await undo_one(undo, by, state, decision, again=again)
            return await changes_of(*given, **more)

        monkeypatch.setattr(Undoing, "_changes", overtaking)
        await undo_one(self, by, state, decision, again=again)

    monkeypatch.setattr(Undoing, "_undo_one", looked_at)
    done = await with_views(world, undo.undo(world.caller, {"proposal_id": proposal}))
    assert overtaken and (done.undone, done.refused, done.complete) == (1, 0, True)
