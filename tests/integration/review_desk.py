"""What the tests of the review desk share: proposals of a kind, and decisions with the read models kept up beside."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar
from uuid import UUID, uuid4

from lethelog.domain import events as e
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.forgetting.open_proposals import take_slot
from lethelog.handlers.forgetting.pass_log import WORKER
from lethelog.handlers.reviewing.staging import stage
from lethelog.streams.log import NewEvent, Unit
from lethelog.streams.payloads import Actor, Envelope

T = TypeVar("T")


async def staged(world, said: e.Staged):
    envelope = Envelope(world.caller.actor, cause=uuid4(), correlation=uuid4())
    done = await stage(world.engine.log, world.caller.tenant, said, envelope)
    await world.catch_up()
    return done.proposal


async def dependency(world, memory, *, source=None):
    """A proposal to archive a memory."""
    said = e.DependencyStaged(
        memory_id=memory, related_id=uuid4(), seen={memory: 1}, source=source or uuid4(), ended="superseded"
    )
    return await staged(world, said)


async def edge(world, newer, older, kind="supersedes"):
    """A proposal of an edge between two memories."""
    return await staged(world, edge_of(newer, older, kind))


def edge_of(newer, older, kind="supersedes"):
    """The same, before it is in the queue."""
    return e.EdgeStaged(
        memory_id=newer,
        related_id=older,
        seen={newer: 1, older: 1},
        source=uuid4(),
        edge=kind,
        similarity=0.95,
        embedding_model="m/1",
        floor=0.92,
    )


def conflict_of(older, newer):
    """A judge says that the two are in conflict, before it is in the queue."""
    return e.ProposalStaged(
        pass_id=uuid4(),
        ref="p0",
        rule="pair",
        action="conflict",
        memory_id=older,
        related_id=newer,
        judged_pair=(older, newer),
        probability=0.7,
        probabilities={"keep_both": 0.3, "conflict": 0.7},
        judge="told:1",
        model="told-1.0",
        seen={older: 1, newer: 1},
        threshold=0.6,
        verdict_event=uuid4(),
    )


async def said_to_conflict(log, tenant, older, newer) -> UUID:
    """The same in the queue; answers the proposal's id."""
    verdict = uuid4()
    await log.append(
        Unit(
            tenant=tenant,
            subject=verdict,
            events=[NewEvent(verdict, 1, conflict_of(older, newer))],
            envelope=Envelope(WORKER, cause=verdict, correlation=verdict),
            claims=[take_slot(older.bytes + b"conflict", verdict)],
        )
    )
    return verdict


async def with_views(world, work: Awaitable[T]) -> T:
    """The read models are brought up beside, since the work waits for them."""

    async def views() -> None:
        while True:
            await world.catch_up()
            await asyncio.sleep(0.01)

    beside = asyncio.create_task(views())
    try:
        return await work
    finally:
        beside.cancel()


async def decided(world, proposal, verdict="accept"):
    return await with_views(world, getattr(world.reviewing, verdict)(world.caller, {"proposal_id": proposal}))


async def reviewer(world, name: str) -> Caller:
    """Another reviewer of the same tenant."""
    tenant = world.caller.tenant
    return Caller(tenant, Actor("person", await world.engine.directory.register(tenant, "actor", name)))
