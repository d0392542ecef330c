"""A desk with two reviewers: what happens at it, each step with what it must and must not change."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from lethelog.domain import events as e
from lethelog.domain.effects import origin_of
from lethelog.domain.errors import Conflict, LethelogError, NotFound, StaleProposal
from lethelog.domain.memory import Memory
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.commitments.expiry import ExpirySweep
from lethelog.handlers.commitments.resolving import Resolving
from lethelog.handlers.consolidation.passes import Consolidations
from lethelog.handlers.consolidation.running import Consolidating
from lethelog.handlers.dependencies.reviews import DependencyReviews
from lethelog.handlers.explaining import Explaining
from lethelog.handlers.forgetting.completion import Completion
from lethelog.handlers.forgetting.judge_worker import JudgeWorker
from lethelog.handlers.forgetting.pass_log import PassReader, load_pass
from lethelog.handlers.forgetting.pass_manager import PassManager
from lethelog.handlers.forgetting.requesting import Passes
from lethelog.handlers.forgetting.settling import Settler
from lethelog.handlers.judges.stated import StatedJudge
from lethelog.handlers.operating.views import ProposalView
from lethelog.handlers.undoing.undoing import Undoing
from lethelog.handlers.undoing.views import UndoView
from lethelog.streams.payloads import Actor
from lethelog.streams.tasks import Task

from .conftest import World
from .desk_reads import Told, agrees, but, everything_read, log_of, one_live_head_per_lineage, restored
from .passes import pass_settings
from .review_desk import reviewer, staged
from .test_fact_proposals import propose as propose_fact

TEXTS = (
    ("PEP 314: Wheel metadata in one table", "Adopted in its time."),
    ("PEP 345: Wheel metadata in a tree", "It replaces PEP 314."),
    ("deploys", "we deploy when the build is green"),
    ("deploys", "when the build is green we deploy"),
    ("report", "Send the report to Orla"),
    ("report", "send  the report to ORLA"),
)
GRACE = timedelta(days=1)
REVIEWERS = ("ada", "bob")


def _live(memory: Memory) -> bool:
    return memory.live


_FITS: dict[str, Callable[[Memory], object]] = {
    "restore": lambda memory: memory.archived,
    "release": lambda memory: memory.quarantined,
}
"""Which memories there is something to do with, where that is not the live ones."""


class Handed:
    """Takes the tasks of a pass, for the worker beside it."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    async def publish_task(self, queue: str, body: Any, msg_id: str) -> bool:
        self.tasks.append(Task(queue, msg_id, dict(body), 1))
        return True

    async def waiting(self, queue: str) -> int:
        return 0


class Followed(World):
    """A world that brings its read models up only where there is something new."""

    seen: int = -1

    async def catch_up(self) -> int:
        head = await self.engine.log.head()
        if head != self.seen:
            self.seen = await super().catch_up()
        return head


@dataclass
class Desk:
    """One example: a tenant of its own in a world that all examples share."""

    world: Any
    decided: dict[UUID, tuple[str, str]] = field(default_factory=dict)
    """proposal -> who decided it, and how."""
    undos: list[UUID] = field(default_factory=list)
    reviewers: dict[str, Caller] = field(default_factory=dict)

    @classmethod
    async def begin(cls, world) -> "Desk":
        caller = Caller(uuid4(), Actor("person", uuid4()))
        world.clock.now = datetime.now(UTC)
        tenants = world.engine.tenants
        await tenants.ensure(caller.tenant, caller.actor)
        await tenants.set_judgment(caller.tenant, True, caller.actor)
        await tenants.set_policy(caller.tenant, {"consolidation_floor": 0.9}, caller.actor)
        desk = cls(Followed(**vars(world) | {"caller": caller}))
        desk.reviewers = {name: await reviewer(desk.world, name) for name in REVIEWERS}
        return desk

    # --- what people say ------------------------------------------------------------------------------------------

    async def remember(
        self, text: int, kind: str, *, due: bool = False, ends: bool = False, on: int | None = None
    ) -> None:
        topic, content = TEXTS[text]
        said: dict[str, Any] = {"topic": topic, "content": content, "memory_type": kind}
        if kind == "commitment" and due:
            said["due_at"] = self.world.clock.now + timedelta(days=5)
            said["next_surfacing_at"] = self.world.clock.now + timedelta(days=2)
        if ends:
            said["valid_to"] = self.world.clock.now + timedelta(days=10)
        if on is not None and (source := await self._memory(on)) is not None:
            said["derived_from"] = [source]
        if kind == "fact":
            said["facts"] = [{"subject": "we", "predicate": "said", "value": content}]
        await self._unless_refused(self.world.commands.remember(self.world.caller, said))
        self.world.clock.now += timedelta(minutes=1)

    async def revise(self, which: int, text: int, kind: str) -> None:
        if (one := await self._memory(which)) is not None:
            said = {"memory_id": one, "content": TEXTS[text][1], "memory_type": kind}
            await self._unless_refused(self.world.commands.revise(self.world.caller, said))

    async def change(self, verb: str, which: int) -> None:
        if (one := await self._memory(which, _FITS.get(verb, _live))) is not None:
            said = {"memory_id": one} | ({"reason": "so it is"} if verb == "release" else {})
            await self._unless_refused(getattr(self.world.commands, verb)(self.world.caller, said))

    async def resolve(self, which: int, status: str) -> None:
        if (one := await self._memory(which, lambda memory: memory.memory_type == "commitment")) is not None:
            resolving = Resolving(self.world.engine, self.world.commands)
            said = {"memory_id": one, "status": status}
            await self._unless_refused(resolving.resolve(self.world.caller, said))

    async def jump(self, days: float, *, expires: bool) -> None:
        """The clock jumps, and what was promised may expire; that changes no memory."""
        self.world.clock.now += timedelta(days=days)
        if expires:
            await self.world.catch_up()
            sweep = ExpirySweep(self.world.engine, GRACE)
            await self._changes_nothing(sweep.sweep(), "commitments", "briefing")

    # --- what only proposes ---------------------------------------------------------------------------------------

    async def forget(self) -> None:
        """A forgetting pass with the judge that goes by a stated rule, from request to end."""
        await self._changes_nothing(self._forget())

    async def consolidate(self) -> None:
        await self._changes_nothing(self._consolidate())

    async def review_dependents(self) -> None:
        await self._changes_nothing(DependencyReviews(self.world.engine).sweep())

    async def propose(self, kind: str, which: int, other: int) -> None:
        one, two = await self._memory(which), await self._memory(other)
        if one is not None and two is not None and (one != two or kind in ("archive", "fact")):
            await self._changes_nothing(self._propose(kind, one, two))

    async def _forget(self) -> None:
        world, engine, tenant = self.world, self.world.engine, self.world.caller.tenant
        ready = pass_settings(StatedJudge())
        asked = await Passes(engine, ready).request(world.caller)
        handed = Handed()
        manager, worker = PassManager(engine, ready, handed), JudgeWorker(engine, ready)
        await self._beside(manager.resume(tenant, await load_pass(engine.log, tenant, asked.id)))
        for task in handed.tasks:
            await worker.handle(task)
        for recorded in await log_of(world):
            if isinstance(recorded.event, e.VerdictRecorded) and recorded.event.pass_id == asked.id:
                await manager.on_verdict(recorded)
        ending = Completion(engine, PassReader(engine.log), Settler(engine.log), manager.resume)
        assert await ending.look(tenant, asked.id), "the pass is over"

    async def _consolidate(self) -> None:
        engine, tenant = self.world.engine, self.world.caller.tenant
        asked = await Consolidations(engine).request(self.world.caller)
        await self._beside(Consolidating(engine).run(tenant, asked.id))

    async def _propose(self, kind: str, one: UUID, other: UUID) -> None:
        states = await self.world.commands.load_many(self.world.caller.tenant, [one, other])
        seen = {memory: state.state_version for memory, state in states.items()}
        if kind == "fact":
            await propose_fact(self.world, one)
        elif kind == "archive":
            archive = {"memory_id": one, "related_id": uuid4(), "source": uuid4(), "ended": "superseded"}
            await staged(self.world, e.DependencyStaged(seen={one: seen[one]}, **archive))
        else:
            about = {"memory_id": one, "related_id": other, "seen": seen, "source": uuid4()}
            said = {"edge": kind, "similarity": 0.95, "embedding_model": "m/1", "floor": 0.92}
            await staged(self.world, e.EdgeStaged(**about, **said))

    async def _changes_nothing(self, work: Coroutine[Any, Any, Any], *reads: str) -> Any:
        """Whatever the work does, no read says anything else than before, but for ``reads``."""
        before = await everything_read(self.world)
        done = await work
        assert but(await everything_read(self.world), *reads) == but(before, *reads)
        return done

    # --- what reviewers decide ------------------------------------------------------------------------------------

    async def open_proposals(self) -> list[ProposalView]:
        await self.world.catch_up()
        asked = {"status": "proposed", "limit": 100}
        return list((await self.world.reviewing.list(self.world.caller, asked)).proposals)

    async def decide(self, who: str, number: int, verdict: str, *, holds: bool = False) -> None:
        """A decision is final, whoever tries again, and a rejection changes no memory."""
        if (proposal := await self._one(number)) is None:
            return
        said = _decision(proposal, verdict, holds)
        work = self._decide(who, verdict, said)
        done = await (self._changes_nothing(work, "contradictions") if verdict == "reject" else work)
        if done is None:
            assert proposal.id in {one.id for one in await self.open_proposals()}, "refused, so it is open still"
            return
        self.decided[proposal.id] = (who, verdict)
        again = self._decide(*(("bob", "accept") if who == "ada" else ("ada", "reject")), said)
        assert await self._changes_nothing(again) is None

    async def both_decide(self, number: int, verdicts: tuple[str, str]) -> None:
        """At the same time: one of them decides, or nobody where it cannot be done."""
        if (proposal := await self._one(number)) is None:
            return
        said = _decision(proposal, "reject", False)
        both = zip(REVIEWERS, verdicts, strict=True)
        outcomes = await asyncio.gather(*(self._decide(who, verdict, said) for who, verdict in both))
        [*those] = [n for n, done in enumerate(outcomes) if done is not None]
        assert len(those) <= 1, "a proposal is decided once"
        for n in those:
            self.decided[proposal.id] = (REVIEWERS[n], verdicts[n])

    async def decide_many(self, who: str, verdict: str, *, together: bool) -> None:
        waiting = [one.id for one in (await self.open_proposals())[:6]]
        if not waiting:
            return
        said = {"verdict": verdict, "proposal_ids": waiting, "together": together, "comment": "all of them"}
        work = self._beside(self.world.reviewing.decide_many(self.reviewers[who], said))
        try:
            done = await work
        except Conflict:
            assert together and waiting == [one.id for one in (await self.open_proposals())[:6]]
            return
        for item in done.items:
            if item.status in ("applied", "rejected"):
                self.decided[item.proposal_id] = (who, verdict)

    async def decide_and_take_back(self, who: str, number: int, *, holds: bool, stays: bool) -> None:
        """An undo restores every read, and the undo of it every read of the decision."""
        if (proposal := await self._one(number)) is None:
            return
        before = restored(await everything_read(self.world))
        if await self._decide(who, "accept", _decision(proposal, "accept", holds)) is None:
            return
        self.decided[proposal.id] = (who, "accept")
        after = restored(await everything_read(self.world))
        done = await self._undo({"proposal_id": proposal.id})
        assert done.refused == 0
        if not done.undone:
            # It put something on record, and did nothing to take back.
            assert but(after, "contradictions") == but(before, "contradictions")
            return
        assert restored(await everything_read(self.world)) == before
        again = await self._undo({"undo_id": done.id})
        assert (again.undone, again.refused) == (done.undone, 0)
        assert restored(await everything_read(self.world)) == after
        if not stays:
            await self._undo({"undo_id": again.id})
            assert restored(await everything_read(self.world)) == before

    async def undo(self, selector: str, number: int) -> None:
        """Whatever is taken back, every read is as if it had never been; what is not says why."""
        if (said := await self._selector(selector, number)) is None:
            return
        preview = await self._beside(self._undoing.preview(self.world.caller, {**said, "limit": 100}))
        done = await self._undo(said)
        assert done.complete and done.undone + done.refused == preview.effects
        for item in done.items:
            assert item.reason is None or (item.reason == "later_history" and item.says)
        await self.agrees()

    async def _undo(self, said: dict[str, Any]) -> UndoView:
        done = await self._beside(self._undoing.undo(self.world.caller, said))
        self.undos.append(done.id)
        return done

    @property
    def _undoing(self) -> Undoing:
        return Undoing(self.world.engine, self.world.commands)

    async def _selector(self, selector: str, number: int) -> dict[str, Any] | None:
        if selector == "reviewer":
            return {"reviewer": REVIEWERS[number % 2]} if self.decided else None
        effects = Told.of(await log_of(self.world)).effects
        promised = [one.event_id for one in effects.values() if one.name == "commitment.transitioned"]
        choices: dict[str, list[UUID]] = {
            "effect": list(effects),
            "promise": promised,
            "proposal_id": list(self.decided),
            "pass_id": [proposal.source for proposal in await self._proposals()],
            "undo_id": self.undos,
        }
        found = choices[selector]
        name = "effect" if selector == "promise" else selector
        return {name: found[-1 - number % len(found)]} if found else None

    async def _proposals(self) -> list[ProposalView]:
        await self.world.catch_up()
        return list((await self.world.reviewing.list(self.world.caller, {"limit": 100})).proposals)

    # --- what must hold -------------------------------------------------------------------------------------------

    async def agrees(self) -> None:
        """What one decision did is taken back together or not at all, and every read is as the history says."""
        told = Told.of(await log_of(self.world))
        fates: dict[UUID, set[bool]] = {}
        for effect in told.effects.values():
            origin = origin_of(effect.event)
            assert origin is not None
            fates.setdefault(origin.proposal or effect.event_id, set()).add(effect.event_id in told.undone)
        assert all(len(fate) == 1 for fate in fates.values())
        await agrees(self.world, told)

    async def check(self) -> Counter[str]:
        """Everything that must hold at the end. Gives how often which event was put on record."""
        log = await log_of(self.world)
        told = Told.of(log)
        await agrees(self.world, told)
        one_live_head_per_lineage(told)
        decisions = Counter(one.stream for one in log if one.name in ("proposal.accepted", "proposal.rejected"))
        assert decisions == Counter(dict.fromkeys(self.decided, 1)), "decided once, and by whoever was told so"
        for one in log:
            if one.envelope.actor.kind == "worker" and one.name.startswith(("memory.", "commitment.", "fact.")):
                assert one.event_id in told.effects or one.name == "commitment.scheduled", "nobody decided that"
        for effect in told.effects.values():
            await self._explains_itself(effect, undone=effect.event_id in told.undone)
        return Counter(f"{one.name}{' again' if getattr(one.event, 'again', False) else ''}" for one in log)

    async def _explains_itself(self, effect: Any, *, undone: bool) -> None:
        explaining = Explaining(self.world.engine, self.world.reviewing)
        chain = await explaining.chain(self.world.caller, {"about": effect.event_id})
        origin = origin_of(effect.event)
        assert origin is not None and effect.event_id in {link.event_id for link in chain.links}
        if origin.proposal is None:
            assert effect.event.policy.startswith("commitment_expiry")
        else:
            who, verdict = self.decided[origin.proposal]
            decided = {(link.event, link.actor) for link in chain.links}
            assert (f"proposal.{verdict}ed", f"person:{who}") in decided
        taken_back = [link.detail for link in chain.links if link.event.endswith(".effect_undone")]
        of_this = [detail["again"] for detail in taken_back if detail["effect"] == str(effect.event_id)]
        assert undone == (of_this != [] and not of_this[-1])

    # --- how it is asked ------------------------------------------------------------------------------------------

    async def _memory(self, number: int, fits: Callable[[Memory], object] = _live) -> UUID | None:
        """One of the memories that something can be done with, counted from the one that was touched last."""
        log = await log_of(self.world)
        touched = {one.stream: one.position for one in log}
        found = [one.id for one in Told.of(log).memories.values() if fits(one)]
        found.sort(key=lambda one: -touched[one])
        return found[number % len(found)] if found else None

    async def _one(self, number: int) -> ProposalView | None:
        """One of the open proposals, counted from the newest."""
        waiting = await self.open_proposals()
        return waiting[-1 - number % len(waiting)] if waiting else None

    async def _decide(self, who: str, verdict: str, said: dict[str, Any]) -> Any:
        said = said if verdict == "accept" else {"proposal_id": said["proposal_id"]}
        work = getattr(self.world.reviewing, verdict)(self.reviewers[who], said)
        return await self._unless_refused(self._beside(work))

    async def _beside(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The read models are brought up beside, since the work waits for them."""
        doing = asyncio.ensure_future(work)
        while not doing.done():
            await self.world.catch_up()
            await asyncio.wait([doing], timeout=0.01)
        return doing.result()

    async def _unless_refused(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await work
        except LethelogError as refused:
            assert isinstance(refused, Conflict | NotFound | StaleProposal), refused
            return None


def _decision(proposal: ProposalView, verdict: str, holds: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"proposal_id": proposal.id}
    if holds and verdict == "accept" and proposal.kind == "contradiction":
        said["holds"] = proposal.memory_id
    return said
