"""What becomes of the items of an archive: one unit of the log for those that come in, a reason for the others."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from ...domain import events as e
from ...domain.errors import InvalidInput
from ...domain.memory import Memory
from ...domain.policy import ForgettingPolicy
from ...domain.proposal import Proposal, evolve_proposal
from ...streams.ids import new_id
from ...streams.log import Claim, CommandKey, Limits, NewEvent, Unit
from ...streams.payloads import Envelope
from ..caller import Caller
from ..claims import TextClaims
from ..engine import Engine
from ..forgetting.open_proposals import KIND as OPEN_PROPOSAL
from ..forgetting.open_proposals import open_digest
from ..views import View
from .contents import Register, sealing_memories, without
from .erased import erased
from .items import Action, Item, Opened, opened
from .text_slots import TextSlots


class ImportedItem(View):
    """What became of one memory, proposal, pass or verdict, or of the tenant's settings."""

    kind: str
    id: UUID
    action: Action
    reason: str | None = None
    holder: UUID | None = None
    """The memory here that holds the same text."""


@dataclass(slots=True)
class Plan:
    """One unit, and what becomes of each item of it."""

    unit: Unit
    outcomes: list[ImportedItem] = field(default_factory=list[ImportedItem])


@dataclass(slots=True)
class _Drafted:
    events: list[NewEvent] = field(default_factory=list[NewEvent])
    claims: list[Claim] = field(default_factory=list[Claim])
    new_keys: set[UUID] = field(default_factory=set[UUID])
    outcomes: list[ImportedItem] = field(default_factory=list[ImportedItem])


class Planner:
    """Plans the units of one import."""

    def __init__(self, engine: Engine, caller: Caller, archive: UUID, register: Register) -> None:
        self._engine = engine
        self._caller = caller
        self._archive = archive
        self._register = register
        self._refused: set[UUID] = set()
        """Memories of the archive that do not come in."""
        self._coming: set[UUID] = set()
        """Memories that come, as far as the log does not hold them yet: in a dry run it never will."""

    async def plan(self, items: Sequence[Item]) -> Plan:
        """What becomes of some items that follow each other, as things stand now."""
        tenant = self._caller.tenant
        # Before anything is read: what is erased from now on must not come in.
        fence = await self._engine.log.fence(tenant)
        drafted = _Drafted()
        present = await self._engine.log.event_ids(tenant, {item.stream for item in items})
        memories = {item.stream for item in items if item.kind == "memory"}
        gone = await erased(self._engine, tenant, memories)
        texts = await TextClaims.of(self._engine.log, self._engine.vault, tenant)
        slots = TextSlots(self._engine.log, tenant, texts, self._archive, self._engine.clock())
        now = await self._engine.log.now()
        for item in items:
            outcome = await self._plan_item(item, present.get(item.stream, []), gone, slots, drafted, now)
            drafted.outcomes.append(outcome)
            if item.kind == "memory":
                self._note(outcome)
        drafted.events = await self._sealable(drafted)
        settings = await self._engine.tenants.get(tenant)
        command = new_id()
        unit = Unit(
            tenant=tenant,
            subject=self._archive,
            events=drafted.events,
            envelope=Envelope(
                self._caller.actor, cause=command, correlation=self._archive, policy=settings.policy_version
            ),
            claims=[*drafted.claims, *slots.claims()],
            command=CommandKey.fresh(),
            new_keys=frozenset(drafted.new_keys),
            limits=_limits(settings.policy, drafted),
            fence=fence,
        )
        return Plan(unit, drafted.outcomes)

    async def _plan_item(
        self,
        item: Item,
        present: list[UUID],
        gone: set[UUID],
        slots: TextSlots,
        drafted: _Drafted,
        now: datetime,
    ) -> ImportedItem:
        def outcome(action: Action, reason: str | None = None, holder: UUID | None = None) -> ImportedItem:
            return ImportedItem(kind=item.kind, id=item.stream, action=action, reason=reason, holder=holder)

        try:
            made = await opened(item, self._archive, now, self._register)
        except InvalidInput as error:
            return outcome("refused", error.message)
        if item.stream in gone:
            skeleton = made.states[-1].content is None
            return outcome("present") if skeleton and _same(item, present) else outcome("erased")
        if item.kind == "tenant":
            return await self._plan_settings(made, outcome("present"), drafted)
        if present and not _same(item, present):
            return outcome("refused", "its id belongs to something else here, or it went another way here")
        if made.states and made.states[-1].content is None and present:
            return outcome("refused", "it was erased where it comes from, and is still here; erase it here, too")
        if len(present) >= len(item.lines):
            return outcome("present")
        if item.kind == "memory":
            holder = await self._plan_memory(made, len(present), slots, drafted)
            if holder is not None:
                return outcome("duplicate", "another memory here holds the same text", holder)
        elif item.kind == "proposal":
            problem = await self._plan_proposal(made, len(present), drafted)
            if problem is not None:
                return outcome("refused", problem)
        drafted.events += made.events[len(present) :]
        if item.kind == "memory" and not present:
            await self._quarantine(made, slots, drafted)
        return outcome("continued" if present else "imported")

    async def _plan_memory(self, made: Opened, present: int, slots: TextSlots, drafted: _Drafted) -> UUID | None:
        """Its text, and its key; the memory that holds the text already, if there is one."""
        before: Memory | None = made.states[present - 1] if present else None
        holder = await slots.settle(made.states, before)
        if holder is None and not present and made.states[-1].content is not None:
            drafted.new_keys.add(made.item.stream)
        return holder

    async def _quarantine(self, made: Opened, slots: TextSlots, drafted: _Drafted) -> None:
        memory = made.states[-1]
        refuted = await slots.refuted_here(memory)
        if refuted is not None:
            event = e.MemoryQuarantined(refuted_memory=refuted)
            drafted.events.append(NewEvent(memory.id, memory.version + 1, event))

    async def _plan_proposal(self, made: Opened, present: int, drafted: _Drafted) -> str | None:
        """The claim of an open one; why it does not come in, if it does not."""
        states = _proposal_states(made)
        now, before = states[-1], states[present - 1] if present else None
        about = {one for one in (now.memory_id, now.related_id) if one is not None}
        if about & self._refused or about - await self._here(about):
            return "it is about a memory that is not here"
        slot = open_digest(now.memory_id, now.action)
        was_open = before is not None and before.status == "proposed"
        if now.status != "proposed" and not was_open:
            return None
        [holder] = await self._engine.log.holders(self._caller.tenant, [(OPEN_PROPOSAL, slot)])
        if now.status != "proposed":
            if holder == now.id:
                drafted.claims.append(Claim(OPEN_PROPOSAL, slot, holder, None))
            return None
        taken = any(claim.kind == OPEN_PROPOSAL and claim.digest == slot for claim in drafted.claims)
        if taken or holder not in (None, now.id):
            return "another proposal of the same kind about this memory is open here"
        drafted.claims.append(Claim(OPEN_PROPOSAL, slot, holder, now.id))
        return None

    async def _plan_settings(self, made: Opened, present: ImportedItem, drafted: _Drafted) -> ImportedItem:
        """The tenant's settings come into a tenant that has made none of its own."""
        tenant = self._caller.tenant
        ids = (await self._engine.log.event_ids(tenant, [tenant]))[tenant]
        own = [new.event_id for new in made.events]
        if own == ids[-len(own) :]:
            return present
        if len(ids) > 1:
            return present.model_copy(
                update={"action": "refused", "reason": "this tenant has settings of its own, which stay in force"}
            )
        drafted.events += [new._replace(version=len(ids) + n) for n, new in enumerate(made.events, 1)]
        return present.model_copy(update={"action": "imported"})

    async def _sealable(self, drafted: _Drafted) -> list[NewEvent]:
        """The events without text that nothing could seal: about memories that were erased, or did not come in."""
        wanted = {one for new in drafted.events for one in sealing_memories(new.event)} - drafted.new_keys
        keys = await self._engine.vault.data_keys(self._caller.tenant, wanted)
        hidden = wanted - set(keys.usable)
        return [new._replace(event=without(new.event, hidden)) for new in drafted.events]

    async def _here(self, ids: set[UUID]) -> set[UUID]:
        names = await self._engine.log.stream_names(self._caller.tenant, ids)
        return {one for one, name in names.items() if name == "memory.remembered"} | (ids & self._coming)

    def _note(self, outcome: ImportedItem) -> None:
        if outcome.action in ("imported", "continued", "present", "erased"):
            self._coming.add(outcome.id)
            self._refused.discard(outcome.id)
        else:
            self._refused.add(outcome.id)
            self._coming.discard(outcome.id)


def _limits(policy: ForgettingPolicy, drafted: _Drafted) -> Limits | None:
    """The bound of live memories holds for what moves in, too; how fast it comes is nobody's writing."""
    return Limits(policy.live_memories, None) if drafted.new_keys and policy.live_memories is not None else None


def _same(item: Item, present: list[UUID]) -> bool:
    """Whether one of the two is the beginning of the other."""
    return all(line.id == one for line, one in zip(item.lines, present, strict=False))


def _proposal_states(made: Opened) -> list[Proposal]:
    states: list[Proposal] = []
    for new, line in zip(made.events, made.item.lines, strict=True):
        state = states[-1] if states else None
        states.append(
            evolve_proposal(state, new.event, stream=new.stream, version=new.version, recorded_at=line.recorded_at)
        )
    return states
