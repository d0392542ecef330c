"""Rehearsing an erasure on something synthetic: made, found, erased, and found nowhere (behaviour.md 4.5).

It is a real erasure of a real memory, that nobody ever said: three versions with their vectors, a fact, a summary
that follows from them, a proposal with a quoted sentence, a message about it that a consumer parked, all of it
exported, and written out by a replay, as far as the caller may do that.
"""

import contextlib
from collections.abc import Callable
from uuid import UUID, uuid4, uuid5

from pydantic import Field

from ...domain.errors import NotFound
from ...domain.events import CheckedPlace, ProposalStaged
from ...projections.generations import read_models
from ...projections.progress import wait_for
from ...streams.broker import BrokerSettings
from ...streams.ids import new_id
from ...streams.log import NewEvent, Unit
from ...streams.payloads import Envelope
from ..access.caller import Caller
from ..engine import Engine
from ..forgetting.open_proposals import take_slot
from ..memories import MemoryCommands
from ..operating.replaying import Replaying
from ..operating.views import View
from ..reading import Reading
from .erasures import Erasures
from .places import OUT_OF_REACH
from .rehearsed_copies import RehearsedCopies

VERSIONS = 3
WAIT_SECONDS = 30.0
Step = Callable[[str], None]
"""Called with what is done next."""


class RehearsedPlace(View):
    """One place: entries before the erasure and after it."""

    before: int
    after: int
    control: str


class Rehearsal(View):
    """What a rehearsal found."""

    status: str
    """``passed``: it was found by a search and in at least the read models before, and nowhere afterwards."""
    erasure_id: UUID
    memories: int
    found_before: int
    """Hits of a search before the erasure."""
    found_after: int
    places: dict[str, RehearsedPlace]
    remaining: tuple[str, ...] = ()
    """Places that still hold something."""
    not_rehearsed: tuple[str, ...] = ()
    """What could not be part of it here, and why."""
    out_of_reach: dict[str, str] = Field(default_factory=lambda: {one.name: one.why for one in OUT_OF_REACH})


class Rehearsing:
    """Rehearses for one caller's tenant. Read models must be kept up to date meanwhile."""

    def __init__(self, engine: Engine, broker: BrokerSettings | None = None) -> None:
        self._engine = engine
        self._broker = broker
        self._commands = MemoryCommands(engine)
        self._reading = Reading(engine)
        self._erasures = Erasures(engine)
        self._replaying = Replaying(engine)

    async def rehearse(self, caller: Caller, step: Step = lambda _what: None) -> Rehearsal:
        """Do all of it, and say in the policy that it passed.

        Raises what its steps raise; what it has made by then is erased all the same.
        """
        caller.require("memory:erase")
        caller.require("memory:write")
        mark = uuid4().hex
        scope = f"rehearsal-{mark[:12]}"
        step("making a memory of three versions, a summary and a proposal")
        first = await self._make(caller, mark, scope)
        replay = f"rehearsal_{mark[:12]}"
        may_replay = "installation:admin" in caller.permissions
        copies = RehearsedCopies(self._engine, self._broker, caller, mark[:12])
        try:
            if may_replay:
                step("writing a replay")
                await self._replaying.into(caller, {"name": replay, "to": await self._engine.log.head()})
            step("exporting it, and parking a message about it")
            await copies.make(first, scope)
            await self._settle()
            vectors = await self._vectors(caller, scope)
            before = await self._search(caller, mark, scope)
            copied = await copies.count()
            step("erasing it and looking into every place")
            preview = await self._erasures.preview(caller, {"memory_id": first, "derived": "cascade"})
            done = await self._erasures.erase(caller, {"erasure_id": preview.id, "reason": "rehearsal"})
            await self._settle()
            after = await self._search(caller, mark, scope)
            brought_back = await copies.count()
            vectors_left = await self._vectors(caller, scope)
        finally:
            await copies.remove()
            if may_replay:
                with contextlib.suppress(NotFound):
                    await self._replaying.drop(caller, replay)
        places = {one.place: _rehearsed(one) for one in done.places} or {
            name: RehearsedPlace(before=count, after=0, control="found_before")
            for name, count in preview.places.items()
        }
        counted = {**copied, "vectors": vectors}
        left = {**brought_back, "vectors": vectors_left}
        places |= {
            name: RehearsedPlace(before=count, after=left[name], control="found_before")
            for name, count in counted.items()
        }
        passed = done.verified and before > 0 and not after and all(counted.values()) and not any(left.values())
        if passed:
            today = self._engine.clock().date()
            await self._engine.tenants.set_policy(caller.tenant, {"rehearsed_on": today}, caller.actor)
        return Rehearsal(
            status="passed" if passed else "failed",
            erasure_id=done.id,
            memories=done.memories,
            found_before=before,
            found_after=after,
            places=places,
            remaining=(*done.remaining, *(name for name, count in left.items() if count)),
            not_rehearsed=(
                *copies.left_out,
                *(() if may_replay else ("replays: this needs the permission installation:admin",)),
            ),
        )

    async def _make(self, caller: Caller, mark: str, scope: str) -> UUID:
        written = await self._commands.remember(
            caller,
            {
                "content": f"rehearsal {mark} version 1",
                "topic": f"rehearsal {mark}",
                "scope": scope,
                "facts": [{"subject": f"rehearsal {mark}", "predicate": "is at", "value": "version 1"}],
            },
        )
        first = latest = written.memory.id
        for version in range(2, VERSIONS + 1):
            revised = await self._commands.revise(
                caller, {"memory_id": latest, "content": f"rehearsal {mark} version {version}"}
            )
            latest = revised.memory.id
        await self._commands.remember(
            caller,
            {
                "content": f"summary of rehearsal {mark}",
                "topic": f"rehearsal {mark}",
                "scope": scope,
                "derived_from": [latest],
            },
        )
        await self._propose(caller, latest, f"rehearsal {mark} version {VERSIONS}")
        return first

    async def _propose(self, caller: Caller, memory: UUID, quote: str) -> None:
        """A proposal that rests on a sentence of the memory."""
        proposal = uuid5(memory, "rehearsal")
        state = (await self._commands.load_many(caller.tenant, [memory]))[memory]
        staged = ProposalStaged(
            pass_id=proposal,
            ref="rehearsal",
            rule="single",
            action="archive",
            memory_id=memory,
            probability=1.0,
            probabilities={"archive": 1.0},
            judge="rehearsal",
            model="rehearsal",
            seen={memory: state.state_version},
            evidence_memory=memory,
            quote=quote,
            threshold=1.0,
            unselected=True,
            verdict_event=proposal,
        )
        command = new_id()
        await self._engine.log.append(
            Unit(
                tenant=caller.tenant,
                subject=proposal,
                events=[NewEvent(proposal, 1, staged)],
                envelope=Envelope(caller.actor, cause=command, correlation=command),
                claims=[take_slot(memory.bytes + staged.action.encode(), proposal)],
            )
        )

    async def _settle(self) -> None:
        head = await self._engine.log.head()
        for projection in self._engine.projections:
            await wait_for(self._engine.database, projection.name, head, seconds=WAIT_SECONDS)

    async def _vectors(self, caller: Caller, scope: str) -> int:
        async with read_models(self._engine.database) as connection:
            cursor = await connection.execute(
                "select count(embedding) from live_memory where tenant = %s and scope = %s", (caller.tenant, scope)
            )
            [found] = await cursor.fetchone() or (0,)
        return found

    async def _search(self, caller: Caller, mark: str, scope: str) -> int:
        found = await self._reading.search(caller, {"query": f"rehearsal {mark}", "scope": scope})
        listed = await self._reading.list(caller, {"scope": scope, "status": "all"})
        return found.count + listed.total


def _rehearsed(one: CheckedPlace) -> RehearsedPlace:
    return RehearsedPlace(before=one.before, after=one.found, control=one.control)
