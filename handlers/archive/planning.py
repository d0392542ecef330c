"""What becomes of the items of an archive: one unit of the log for those that come in, a reason for the others."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ...domain import events as e
from ...domain.errors import InvalidInput
from ...domain.memory import Memory
from ...streams.ids import new_id
from ...streams.log import CommandKey, NewEvent, Unit
from ...streams.payloads import Envelope
from ..access.caller import Caller
from ..claims import TextClaims
from ..engine import Engine
from ..operating.views import View
from ..tenancy.quotas import limits_of
from .commitment_slots import CommitmentSlots
from .contents import Register, sealing_memories, without
from .erased import erased
from .items import Action, Item, Opened, opened
from .proposal_slots import ProposalSlots
from .text_slots import TextSlots


class ImportedItem(View):
    """What became of one memory, commitment, proposal, pass or verdict, or of the tenant's settings."""

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
    slots: TextSlots
    open_slots: ProposalSlots
    rides: CommitmentSlots
    events: list[NewEvent] = field(default_factory=list[NewEvent])
    new_keys: set[UUID] = field(default_factory=set[UUID])
    outcomes: list[ImportedItem] = field(default_factory=list[ImportedItem])
    sources: set[UUID] = field(default_factory=set[UUID])
    """Memories of facts and contradictions that are here."""


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
        present = await self._engine.log.event_ids(tenant, {item.stream for item in items})
        memories = {item.stream for item in items if item.kind == "memory"}
        gone = await erased(self._engine, tenant, memories)
        texts = await TextClaims.of(self._engine.log, self._engine.vault, tenant)
        slots = TextSlots(self._engine.log, tenant, texts, self._archive, self._engine.clock())
        open_slots = ProposalSlots(self._engine.log, tenant)
        rides = CommitmentSlots(self._engine.log, tenant)
        drafted = _Drafted(slots, open_slots, rides)
        all_made = await self._open(items)
        made_well = [made for made in all_made if isinstance(made, Opened)]
        await slots.look_up(made.states for made in made_well)
        await open_slots.look_up(made for made in made_well if made.item.kind == "proposal")
        drafted.sources = await self._present_memories(
            {one for made in made_well if made.item.kind in _RESTING for one in _sources(made)}
        )
        await rides.look_up(made for made in made_well if made.item.kind == "commitment")
        for item, made in zip(items, all_made, strict=True):
            before = present.get(item.stream, [])
            outcome = await self._plan_item(item, made, before, gone, drafted)
            drafted.outcomes.append(outcome)
            if item.kind == "memory":
                self._note(outcome, before)
        drafted.events = await self._sealable(drafted)
        settings = await self._engine.tenants.get(tenant)
        command = new_id()
        texts_held = slots.claims()
        unit = Unit(
            tenant=tenant,
            subject=self._archive,
            events=drafted.events,
            envelope=Envelope(
                self._caller.actor, cause=command, correlation=self._archive, policy=settings.policy_version
            ),
            claims=[*open_slots.claims(), *rides.claims(), *slots.claims()],
            command=CommandKey.fresh(),
            new_keys=frozenset(drafted.new_keys),
            # How fast it comes is nobody's writing.
            limits=limits_of(settings.policy, (), texts_held),
            fence=fence,
        )
        return Plan(unit, drafted.outcomes)

    async def _open(self, items: Sequence[Item]) -> list[Opened | InvalidInput]:
        """Each item, or what is wrong with it."""
        now = await self._engine.log.now()
        found: list[Opened | InvalidInput] = []
        for item in items:
            try:
                found.append(await opened(item, self._archive, now, self._register))
            except InvalidInput as error:
                found.append(error)
        return found

    async def _plan_item(
        self,
        item: Item,
        made: Opened | InvalidInput,
        present: list[UUID],
        gone: set[UUID],
        drafted: _Drafted,
    ) -> ImportedItem:
        def outcome(action: Action, reason: str | None = None, holder: UUID | None = None) -> ImportedItem:
            return ImportedItem(kind=item.kind, id=item.stream, action=action, reason=reason, holder=holder)

        if isinstance(made, InvalidInput):
            return outcome("refused", made.message)
        if item.stream in gone:
            skeleton = made.states[-1].content is None
            if not skeleton or not _same(item, present):
                return outcome("erased")
            if present:
                return outcome("present")
        if item.kind == "tenant":
            return await self._plan_settings(made, outcome("present"), drafted)
        if present and not _same(item, present):
            return outcome("refused", "its id belongs to something else here, or it went another way here")
        if made.states and made.states[-1].content is None and present:
            return outcome("refused", "it was erased where it comes from, and is still here; erase it here, too")
        if len(present) >= len(item.lines):
            return outcome("present")
        if item.kind == "memory":
            holder = await self._plan_memory(made, len(present), drafted)
            if holder is not None:
                return outcome("duplicate", "another memory here holds the same text", holder)
        elif item.kind in ("proposal", "commitment"):
            settling = drafted.rides if item.kind == "commitment" else drafted.open_slots
            problem = settling.settle(made, len(present), coming=self._coming, refused=self._refused)
            if problem is not None:
                return outcome("refused", problem)
        elif item.kind in _RESTING and not self._is_here(made, drafted):
            return outcome("refused", "it is of a memory that is not here")
        drafted.events += made.events[len(present) :]
        if item.kind == "memory" and not present:
            await self._quarantine(made, drafted)
        return outcome("continued" if present else "imported")

    async def _plan_memory(self, made: Opened, present: int, drafted: _Drafted) -> UUID | None:
        """Its text, and its key; the memory that holds the text already, if there is one."""
        before: Memory | None = made.states[present - 1] if present else None
        holder = await drafted.slots.settle(made.states, before)
        if holder is None and not present and made.states[-1].content is not None:
            drafted.new_keys.add(made.item.stream)
        return holder

    async def _quarantine(self, made: Opened, drafted: _Drafted) -> None:
        memory = made.states[-1]
        refuted = await drafted.slots.refuted_here(memory)
        if refuted is not None:
            event = e.MemoryQuarantined(refuted_memory=refuted)
            drafted.events.append(NewEvent(memory.id, memory.version + 1, event))

    async def _present_memories(self, ids: set[UUID]) -> set[UUID]:
        names = await self._engine.log.stream_names(self._caller.tenant, ids) if ids else {}
        return {one for one, name in names.items() if name == "memory.remembered"}

    def _is_here(self, made: Opened, drafted: _Drafted) -> bool:
        """Whether the memories that a fact or a contradiction is about are here, or come."""
        return all(
            one not in self._refused and (one in self._coming or one in drafted.sources) for one in _sources(made)
        )

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

    def _note(self, outcome: ImportedItem, before: Sequence[UUID]) -> None:
        """What was erased before it ever came here is not here, not even as a skeleton."""
        if outcome.action in ("imported", "continued", "present") or (outcome.action == "erased" and before):
            self._coming.add(outcome.id)
            self._refused.discard(outcome.id)
        else:
            self._refused.add(outcome.id)
            self._coming.discard(outcome.id)


_RESTING = ("fact", "contradiction")
"""Kinds that come only with the memories that they are about."""


def _sources(made: Opened) -> set[UUID]:
    """The memory that a fact was read in; the two that contradict each other."""
    first = made.events[0].event
    if isinstance(first, e.ContradictionFlagged):
        return {first.memory_id, first.related_id}
    assert isinstance(first, e.FactAsserted)
    return {first.memory_id}


def _same(item: Item, present: list[UUID]) -> bool:
    """Whether one of the two is the beginning of the other."""
    return all(line.id == one for line, one in zip(item.lines, present, strict=False))
