"""Deciding many at once: looked at first, each with its own result or all together, and nothing twice."""

from uuid import uuid4

import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import Conflict, InvalidInput, NotFound
from lethelog.handlers.reviewing import deciding
from lethelog.handlers.reviewing.staging import stage
from lethelog.projections.generations import tenant_read_models
from lethelog.streams.log import NewEvent, Unit
from lethelog.streams.payloads import Envelope

from .review_desk import dependency, edge, with_views


async def test_a_preview_says_how_many_and_decides_nothing_and_another_number_decides_nothing(world):
    memories = [await world.remember(f"Deploys go to place {n}") for n in range(3)]
    proposals = [await dependency(world, one) for one in memories]
    head = await world.engine.log.head()
    found = await with_views(world, world.reviewing.preview_many(world.caller, {"kind": "dependency"}))
    assert (found.total, found.totals, found.stale) == (3, {"dependency": 3}, 0)
    assert [one.id for one in found.proposals] == proposals
    with pytest.raises(Conflict, match="3 proposals are found now, not 2"):
        await with_views(
            world,
            world.reviewing.decide_many(world.caller, {"verdict": "accept", "kind": "dependency", "expected": 2}),
        )
    with pytest.raises(InvalidInput):
        await world.reviewing.decide_many(world.caller, {"verdict": "accept", "kind": "dependency"})
    assert await world.engine.log.head() == head


async def test_each_proposal_has_its_own_result_and_a_repeat_decides_nothing_twice(world):
    memories = [await world.remember(f"Deploys go to place {n}") for n in range(3)]
    proposals = [await dependency(world, one) for one in memories]
    await world.commands.pin(world.caller, {"memory_id": memories[1]})  # one moved on
    await world.catch_up()
    steps = []
    command = {"verdict": "accept", "proposal_ids": proposals, "comment": "all old", "key": "k"}
    done = await with_views(
        world, world.reviewing.decide_many(world.caller, command, lambda n, of: steps.append((n, of)))
    )
    assert [(item.proposal_id, item.status, item.reason) for item in done.items] == [
        (proposals[0], "applied", None),
        (proposals[1], "refused", "stale_proposal"),
        (proposals[2], "applied", None),
    ]
    assert (done.counts, steps) == ({"applied": 2, "refused": 1}, [(1, 3), (2, 3), (3, 3)])
    assert [(await world.get(one)).status for one in memories] == ["archived", "active", "archived"]
    head = await world.engine.log.head()
    again = await with_views(world, world.reviewing.decide_many(world.caller, command))
    assert again.counts == done.counts and await world.engine.log.head() == head


async def test_what_nobody_expected_of_one_proposal_loses_the_answer_of_no_other(world, monkeypatch, caplog):
    memories = [await world.remember(f"Deploys go to place {n}") for n in range(3)]
    proposals = [await dependency(world, one) for one in memories]
    await world.catch_up()
    deciding_one = deciding.Deciding.decide_one

    async def once_not(self, caller, decision, **how):
        if decision.proposal_id == proposals[1]:
            raise RuntimeError("canary")
        return await deciding_one(self, caller, decision, **how)

    monkeypatch.setattr(deciding.Deciding, "decide_one", once_not)
    command = {"verdict": "accept", "proposal_ids": proposals, "key": "k"}
    done = await with_views(world, world.reviewing.decide_many(world.caller, command))
    assert [(item.status, item.reason) for item in done.items] == [
        ("applied", None),
        ("failed", "error"),
        ("applied", None),
    ]
    assert "canary" not in done.model_dump_json() and "canary" not in caplog.text and "RuntimeError" in caplog.text
    monkeypatch.undo()
    again = await with_views(world, world.reviewing.decide_many(world.caller, command))
    assert again.counts == {"applied": 3}


async def test_together_means_all_or_none(world):
    memories = [await world.remember(f"Deploys go to place {n}") for n in range(3)]
    proposals = [await dependency(world, one) for one in memories]
    await world.commands.pin(world.caller, {"memory_id": memories[1]})
    await world.catch_up()
    head = await world.engine.log.head()
    command = {"verdict": "accept", "proposal_ids": proposals, "together": True}
    with pytest.raises(Conflict):
        await with_views(world, world.reviewing.decide_many(world.caller, command))
    assert await world.engine.log.head() == head
    rest = {**command, "proposal_ids": [proposals[0], proposals[2]]}
    done = await with_views(world, world.reviewing.decide_many(world.caller, rest))
    assert done.counts == {"applied": 2}
    assert [(await world.get(one)).status for one in memories] == ["archived", "active", "archived"]
    positions = {item.position for item in done.items}
    assert len(positions) == 1, "one unit"


async def test_a_key_goes_with_names_and_nothing_found_decides_nothing(world):
    """A filter finds others at a retry, so a key would promise what it cannot keep."""
    keyed = {"verdict": "accept", "kind": "dependency", "expected": 0}
    with pytest.raises(InvalidInput, match="a key goes with proposal_ids"):
        await world.reviewing.decide_many(world.caller, {**keyed, "key": "k"})
    for together in (False, True):
        done = await with_views(world, world.reviewing.decide_many(world.caller, {**keyed, "together": together}))
        assert (done.counts, done.items) == ({}, ())


async def test_together_a_sibling_of_two_is_withdrawn_once_and_a_repeat_is_the_same(world):
    older, newer = await world.remember("Deploys go to Fly.io"), await world.remember("Deploys go to Hetzner")
    both = [await dependency(world, one) for one in (older, newer)]
    sibling = await edge(world, newer, older)
    command = {"verdict": "accept", "proposal_ids": both, "together": True, "key": "once"}
    done = await with_views(world, world.reviewing.decide_many(world.caller, command))
    assert [item.withdrawn for item in done.items] == [(sibling,), ()]
    assert [(await world.get(one)).status for one in (older, newer)] == ["archived", "archived"]
    head = await world.engine.log.head()
    again = await with_views(world, world.reviewing.decide_many(world.caller, command))
    assert again.counts == done.counts and await world.engine.log.head() == head


async def test_two_proposals_that_change_one_memory_do_not_go_together(world):
    older, newer = await world.remember("Deploys go to Fly.io"), await world.remember("Deploys go to Hetzner")
    one, other = await dependency(world, older), await edge(world, newer, older)
    head = await world.engine.log.head()
    command = {"verdict": "accept", "proposal_ids": [one, other], "together": True}
    with pytest.raises(Conflict, match="decide them one by one"):
        await with_views(world, world.reviewing.decide_many(world.caller, command))
    assert await world.engine.log.head() == head
    # One by one the second is found withdrawn by the first (settlement 6).
    each = await with_views(world, world.reviewing.decide_many(world.caller, {**command, "together": False}))
    assert [item.status for item in each.items] == ["applied", "refused"]
    assert each.items[0].withdrawn == (other,)


async def test_an_id_that_is_no_open_proposal_is_refused_on_its_own(world):
    one = await dependency(world, await world.remember("Deploys go to Hetzner"))
    command = {"verdict": "reject", "proposal_ids": [uuid4(), one]}
    done = await with_views(world, world.reviewing.decide_many(world.caller, command))
    assert [(item.status, item.reason) for item in done.items] == [("refused", "not_found"), ("rejected", None)]


async def test_a_page_holds_25_of_30_with_the_total_and_a_cursor_and_dismissed_ones_are_never_listed(world):
    """Proposal listing: 30 proposed + 5 dismissed → 25 items, total 30, cursor."""
    memories = [await world.remember(f"Deploys go to place {n}") for n in range(35)]
    tenant, envelope = world.caller.tenant, Envelope(world.caller.actor, cause=uuid4(), correlation=uuid4())
    for one in memories[:30]:
        said = {
            "memory_id": one,
            "related_id": uuid4(),
            "seen": {one: 1},
            "source": uuid4(),
            "ended": "superseded",
        }
        await stage(world.engine.log, tenant, e.DependencyStaged(**said), envelope)
    kept = []
    for one in memories[30:]:
        about = {"pass_id": uuid4(), "ref": "s0", "rule": "single", "memory_id": one, "seen": {one: 1}}
        verdict = {"action": "archive", "probability": 0.84, "probabilities": {"archive": 0.84, "keep": 0.16}}
        by = {"judge": "told:1", "model": "told-1", "verdict_event": uuid4()}
        dismissed = e.ProposalDismissed(**about, **verdict, **by, reason="below_threshold")
        kept.append(uuid4())
        await world.engine.log.append(Unit(tenant, kept[-1], [NewEvent(kept[-1], 1, dismissed)], envelope))
    await world.catch_up()
    first = await world.reviewing.list(world.caller, {})
    assert (len(first.proposals), first.total, first.totals) == (25, 30, {"dependency": 30})
    rest = await world.reviewing.list(world.caller, {"cursor": first.next_cursor})
    assert (len(rest.proposals), rest.total, rest.next_cursor) == (5, 30, None)
    listed = [one.memory_id for one in (*first.proposals, *rest.proposals)]
    assert listed == memories[:30], "oldest first, each once"
    async with tenant_read_models(world.engine.doors, tenant) as connection:
        cursor = await connection.execute("select count(*) from review_queue where status = 'dismissed'")
        assert await cursor.fetchone() == (5,), "they are on record all the same"
    with pytest.raises(NotFound):
        await world.reviewing.show(world.caller, {"proposal_id": kept[0]})
    for limit in (0, 101):
        with pytest.raises(InvalidInput):
            await world.reviewing.list(world.caller, {"limit": limit})


async def test_an_id_of_another_kind_is_refused_on_its_own(world):
    memories = [await world.remember(f"Deploys go to place {n}") for n in range(2)]
    first, last = [await dependency(world, one) for one in memories]
    command = {"verdict": "reject", "proposal_ids": [first, memories[0], last]}
    done = await with_views(world, world.reviewing.decide_many(world.caller, command))
    assert [item.status for item in done.items] == ["rejected", "refused", "rejected"]
    assert done.items[1].reason == "wrong_kind" and "is the id of a memory" in (done.items[1].says or "")


async def test_rejecting_many_waits_for_the_read_models_once_and_not_for_each(world, monkeypatch):
    """Ten thousand of them would otherwise take as many round trips of the views."""
    proposals = [await dependency(world, await world.remember(f"Deploys go to place {n}")) for n in range(4)]
    waited = []

    async def noted(_database, name, position, **_more):
        waited.append((name, position))

    monkeypatch.setattr(deciding, "wait_for", noted)
    done = await world.reviewing.decide_many(world.caller, {"verdict": "reject", "proposal_ids": proposals})
    assert done.counts == {"rejected": 4}
    assert waited == [("review_queue", done.position), ("live_memory", done.position)]
