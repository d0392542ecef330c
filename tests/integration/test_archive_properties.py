"""Whatever a tenant lived through, it is the same after moving out and in (F49)."""

import asyncio
import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lethelog.domain.errors import Conflict
from lethelog.handlers.access.caller import Caller
from lethelog.streams.pages import Selection
from lethelog.streams.payloads import Actor

from .archives import body_of, bring_in, export, propose
from .test_archive import seen, told
from .test_archive_erased import erase
from .test_properties import STEPS, TEXTS, Asked, Remembering, Run, Tenant

BEGINNING: list[tuple[Asked, ...]] = [
    (Asked("remember"),),
    (Asked("pin"),),
    (Asked("remember", text=TEXTS[2], days=3),),
    (Asked("revise", target=1, text=TEXTS[3]),),
    (Asked("remember", text=TEXTS[4], scope="work"),),
    (Asked("suppress", target=2),),
    (Asked("remember", text=TEXTS[5], scope="personal"),),
    (Asked("refute", target=4),),
]
PROPOSED = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.sampled_from(["archive", "supersede", "conflict"]),
        st.sampled_from(["stays open", "accept", "reject"]),
    ),
    max_size=4,
    unique_by=lambda one: one[:2],
)


@dataclass
class Lived(Run):
    """One history: a tenant of its own among those of the other examples, and a neighbour that stays behind."""

    async def begin(self) -> None:
        for _ in range(2):
            caller = Caller(uuid4(), Actor("person", uuid4()))
            await self.world.engine.tenants.ensure(caller.tenant, caller.actor)
            self.tenants.append(Tenant(caller))

    @property
    def mine(self) -> Any:
        return replace(self.world, caller=self.tenants[0].caller)

    async def propose(self, proposed: list[tuple[int, str, str]]) -> None:
        ids = self.tenants[0].ids
        taken: set[tuple[UUID, str]] = set()
        for target, action, fate in proposed:
            memory, other = (ids[n % len(ids)] for n in (target, target + 1))
            if memory == other or (memory, action) in taken:
                continue
            taken.add((memory, action))
            proposal = await propose(self.mine, memory, action, None if action == "archive" else other)
            await self.world.catch_up()
            if fate != "stays open":
                decide = getattr(self.world.reviewing, fate)
                # What was decided before may have changed the memory, or taken this one back.
                with contextlib.suppress(Conflict):
                    await decide(self.mine.caller, {"proposal_id": proposal, "comment": "so be it"})


async def everything_read(world: Any, ids: list[UUID], instants: list[Any]) -> dict[str, Any]:
    """What every read says of a tenant, but for positions and opaque ids of one log."""
    said: dict[str, Any] = {"list": await seen(world, ids)}
    for number, instant in enumerate(instants):
        page = await world.reading.list(world.caller, {"status": "all", "limit": 100, "known_at": instant})
        said[f"as of {number}"] = [one.model_dump(exclude={"position", "as_of"}) for one in page.memories]
    for text in TEXTS[::2]:
        found = await world.reading.search(world.caller, {"query": text})
        said[f"search {text}"] = [hit.memory.id for hit in found.hits]
    for one in said["list"]:
        said[f"history {one}"] = await told(world, one)
    queue = await world.reviewing.list(world.caller, {})
    said["queue"] = [
        one.model_dump(exclude={"position", "memory", "related"}, mode="json") for one in queue.proposals
    ]
    return said


async def test_f49_whatever_was_lived_through_is_the_same_after_moving_out_and_in(
    world, elsewhere, tmp_path: Path
):
    remembering = Remembering(world.engine.embedder)
    for place in (world, elsewhere):
        place.engine.live_memory._embedder = place.engine.search._embedder = remembering
    loop = asyncio.get_running_loop()
    kinds: set[str] = set()

    async def holds(
        steps: list[tuple[Asked, ...]], proposed: list[tuple[int, str, str]], erased: int | None, cuts: list[int]
    ) -> None:
        run = Lived(world, world.database_url)
        await run.begin()
        for step in [*BEGINNING, *steps]:
            await run.step(step)
        await run.propose(proposed)
        there = replace(elsewhere, caller=Caller(uuid4(), Actor("person", uuid4())))
        await there.engine.tenants.ensure(there.caller.tenant, there.caller.actor)
        if erased is not None:
            await erase(run.mine, memory_id=run.tenants[0].ids[erased % len(run.tenants[0].ids)])
        first = await export(run.mine, tmp_path / f"{uuid4()}.jsonl")
        assert (await bring_in(there, first)).items == ()
        assert body_of(first) == body_of(await export(there, tmp_path / f"{uuid4()}.jsonl"))
        log = await world.engine.log.read_page(0, 1_000, only=Selection(run.mine.caller.tenant))
        kinds.update(one.name for one in log)
        instants = [log[cut % len(log)].recorded_at for cut in cuts]
        ids = run.tenants[0].ids
        assert await everything_read(run.mine, ids, instants) == await everything_read(there, ids, instants)

    @settings(
        max_examples=4,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(
        steps=STEPS,
        proposed=PROPOSED,
        erased=st.none() | st.integers(0, 7),
        cuts=st.lists(st.integers(0, 200), min_size=3, max_size=3),
    )
    def whatever_was_lived_through(steps: Any, proposed: Any, erased: int | None, cuts: list[int]) -> None:
        asyncio.run_coroutine_threadsafe(holds(steps, proposed, erased, cuts), loop).result(60)

    await asyncio.to_thread(whatever_was_lived_through)
    lived = {"memory.pinned", "memory.suppressed", "memory.refuted", "memory.superseded", "proposal.staged"}
    assert lived | {"proposal.accepted", "proposal.rejected", "erasure.verified"} <= kinds, (
        "the examples are of use"
    )
