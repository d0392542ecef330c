"""A digest counts exactly what waits, per kind and action, and what came and was decided since a moment."""

import json
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

from lethelog.domain.events import EdgeStaged, ProposalStaged
from lethelog.handlers.forgetting.open_proposals import take_slot
from lethelog.streams.log import NewEvent, Unit
from lethelog.streams.payloads import Envelope

STAGED = json.loads((Path(__file__).parents[1] / "unit" / "event_samples" / "proposal.staged.1.json").read_text())


async def stage(world, event: ProposalStaged | EdgeStaged) -> UUID:
    proposal, cause = uuid4(), uuid4()
    slot = event.slot() if isinstance(event, EdgeStaged) else event.action.encode()
    unit = Unit(
        world.caller.tenant,
        proposal,
        [NewEvent(proposal, 1, event)],
        Envelope(world.caller.actor, cause, cause),
        claims=[take_slot(event.memory_id.bytes + slot, proposal)],
    )
    await world.engine.log.append(unit)
    return proposal


async def archiving(world, text: str) -> tuple[UUID, UUID]:
    """(a memory, an open proposal to archive it)"""
    memory = await world.remember(text)
    said = {
        **STAGED,
        "action": "archive",
        "memory_id": memory,
        "related_id": None,
        "judged_pair": None,
        "evidence_memory": memory,
        "seen": {memory: 1},
    }
    return memory, await stage(world, ProposalStaged.model_validate(said))


async def an_edge(world) -> UUID:
    newer, older = await world.remember(f"newer {uuid4()}"), await world.remember(f"older {uuid4()}")
    event = EdgeStaged(
        memory_id=newer, related_id=older, seen={newer: 1, older: 1}, source=uuid4(), edge="extends", similarity=0.9,
        embedding_model="m", floor=0.5,
    )  # fmt: skip
    return await stage(world, event)


async def test_what_waits_is_counted_per_kind_and_action_with_what_is_stale_and_oldest(judging_world):
    world = judging_world
    _, first = await archiving(world, "Deploys go to Hetzner")
    memory, _ = await archiving(world, "Backups go to tape")
    _, rejected = await archiving(world, "Mail goes to a list")
    edge = await an_edge(world)
    await world.catch_up()
    await world.reviewing.reject(world.caller, {"proposal_id": rejected})
    await world.commands.pin(world.caller, {"memory_id": memory})
    await world.catch_up()
    found = await world.reviewing.digest(world.caller, {})
    assert (found.total, found.stale) == (3, 1)
    assert [(one.kind, one.action, one.count, one.stale, one.oldest) for one in found.waiting] == [
        ("retention", "archive", 2, 1, first),
        ("consolidation", "extends", 1, 0, edge),
    ]
    assert found.oldest_at == found.waiting[0].oldest_at < found.waiting[1].oldest_at
    told = {
        one.id: one.stale for one in (await world.reviewing.list(world.caller, {"status": "proposed"})).proposals
    }
    assert sum(told.values()) == found.stale and len(told) == found.total, "as the list of proposals tells it"
    handled = {(one.kind, one.action): (one.came, one.accepted, one.rejected) for one in found.handled}
    assert handled == {("retention", "archive"): (3, 0, 1), ("consolidation", "extends"): (1, 0, 0)}
    of_kind = await world.reviewing.digest(world.caller, {"kind": "consolidation"})
    assert of_kind.total == 1 and len(of_kind.handled) == 1


async def test_what_came_and_was_decided_before_is_not_counted_and_what_waits_is(judging_world):
    world = judging_world
    _, accepted = await archiving(world, "Deploys go to Hetzner")
    _, waiting = await archiving(world, "Backups go to tape")
    await world.catch_up()
    await world.reviewing.accept(world.caller, {"proposal_id": accepted})
    await world.catch_up()
    lately = await world.reviewing.digest(world.caller, {})
    assert [(one.came, one.accepted, one.rejected, one.withdrawn) for one in lately.handled] == [(2, 1, 0, 0)]
    world.clock.now += timedelta(days=3)
    later = await world.reviewing.digest(world.caller, {})
    assert later.handled == () and later.total == 1 and later.waiting[0].oldest == waiting
    since = await world.reviewing.digest(world.caller, {"since": world.clock.now - timedelta(days=4)})
    assert since.handled == lately.handled
    other = await world.another_caller()
    nothing = await world.reviewing.digest(other, {})
    assert (nothing.total, nothing.oldest_at, nothing.waiting, nothing.handled) == (0, None, (), ())
