"""Who holds a text after an import: the claims that the moved memories' last states need (see `handlers.claims`).

At the origin claims changed hands with every event; here only the outcome counts. So the memory that holds a text
now takes it, the last one that ended or was refuted is the one that is remembered as such, and nothing that this
tenant already has is taken over.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from uuid import UUID

from ...domain.apart import Apart, barred_within, refuted_within
from ...domain.memory import Memory, evolve
from ...streams.folding import fold_states
from ...streams.log import Claim, Log
from ..claims import TextClaim, TextClaims, apart_of, holds

_Slot = tuple[TextClaim, bytes]


class TextSlots:
    """The text claims of one unit that holds several memories."""

    def __init__(self, log: Log, tenant: UUID, texts: TextClaims, archive: UUID, now: datetime) -> None:
        self._log = log
        self._tenant = tenant
        self._texts = texts
        self._archive = archive
        self._now = now
        self._found: dict[_Slot, UUID | None] = {}
        self._held: dict[_Slot, UUID | None] = {}
        self._states: dict[UUID, Sequence[Memory]] = {}
        self._origins: dict[UUID, UUID] = {}

    async def look_up(self, memories: Iterable[Sequence[Memory]]) -> None:
        """Ask once who holds the texts of these memories now, in every scope that they were in."""
        slots = list(
            {
                slot
                for states in memories
                for state in states
                if state.content is not None
                for slot in (
                    self._slot("content", state),
                    self._slot("ended", state),
                    *self._refutations(state, barred_within(apart_of(state))),
                    *self._refutations(state, refuted_within(apart_of(state))),
                )
            }
        )
        if slots:
            self._found = dict(zip(slots, await self._log.holders(self._tenant, slots), strict=True))

    async def settle(self, states: Sequence[Memory], before: Memory | None) -> UUID | None:
        """Take what a memory needs, whose states these are, and which was ``before`` here.

        Gives the memory that holds its text already, and takes nothing then.
        """
        after = states[-1]
        if after.content is None:
            return None
        if holds(after) and not await self._take_content(after):
            return await self._holder(self._slot("content", after))
        self._states[after.id] = states
        self._origins[after.id] = self._archive
        if before is not None and holds(before):
            await self._let_go(before, after)
        if not holds(after):
            await self._take_latest(self._slot("ended", after), after.id, _ended_at(states))
        if after.refuted:
            for slot in self._refutations(after, refuted_within(apart_of(after))):
                await self._take_latest(slot, after.id, _turned_at(states, "refuted"))
        await self._release(states)
        return None

    async def refuted_here(self, memory: Memory) -> UUID | None:
        """A memory of this text that the tenant itself refuted or erased: this one comes in quarantined."""
        if memory.content is None or not holds(memory) or memory.quarantined:
            return None
        for slot in self._refutations(memory, barred_within(apart_of(memory))):
            holder = await self._holder(slot)
            if holder is None:
                continue
            if await self._origin(holder) != self._archive or await self._blocks(holder):
                return holder
        return None

    def claims(self) -> list[Claim]:
        """What the unit demands and changes."""
        return [
            Claim(kind, digest, self._found[(kind, digest)], held) for (kind, digest), held in self._held.items()
        ]

    async def _take_content(self, after: Memory) -> bool:
        slot = self._slot("content", after)
        holder = await self._holder(slot)
        if holder in (None, after.id):
            self._held[slot] = after.id
            return True
        if after.expired(self._now):
            return True
        assert holder is not None
        states = await self._load(holder)
        if states and states[-1].expired(self._now):
            self._held[slot] = after.id
            return True
        return False

    async def _let_go(self, before: Memory, after: Memory) -> None:
        slot = self._slot("content", before)
        kept = holds(after) and self._slot("content", after) == slot
        if not kept and await self._holder(slot) == before.id:
            self._held[slot] = None

    async def _take_latest(self, slot: _Slot, memory_id: UUID, at: datetime) -> None:
        kind, _ = slot
        holder = await self._holder(slot)
        if holder is not None and holder != memory_id:
            if kind == "refuted" and await self._blocks(holder):
                return
            states = await self._load(holder)
            theirs = _ended_at(states) if kind == "ended" else _turned_at(states, "refuted")
            if theirs > at:
                return
        self._held[slot] = memory_id

    async def _release(self, states: Sequence[Memory]) -> None:
        """A person said of this text that it is true after all: that ends an earlier refutation of it."""
        memory = states[-1]
        released = [
            later.changed_at
            for earlier, later in pairwise(states)
            if earlier.quarantined and not later.quarantined
        ]
        if not released:
            return
        for slot in self._refutations(memory, barred_within(apart_of(memory))):
            holder = await self._holder(slot)
            if holder in (None, memory.id) or await self._origin(holder) is None or await self._blocks(holder):
                continue
            refuted = await self._load(holder)
            if _turned_at(refuted, "refuted") <= released[-1]:
                await self._lift(refuted[-1])

    async def _lift(self, refuted: Memory) -> None:
        for slot in self._refutations(refuted, refuted_within(apart_of(refuted))):
            if await self._holder(slot) == refuted.id:
                self._held[slot] = None

    async def _origin(self, memory_id: UUID) -> UUID | None:
        """The archive that a memory came in with; None for one of this tenant's own."""
        await self._load(memory_id)
        return self._origins.get(memory_id)

    async def _blocks(self, memory_id: UUID) -> bool:
        """Whether a memory was erased and its digest left to keep its text out: no archive releases that."""
        states = await self._load(memory_id)
        return bool(states) and states[-1].content is None

    async def _load(self, memory_id: UUID) -> Sequence[Memory]:
        if memory_id not in self._states:
            recorded = await self._log.read_stream(self._tenant, memory_id)
            self._states[memory_id] = [state for _, state in fold_states(recorded, evolve)]
            origin = recorded[0].envelope.origin if recorded else None
            if origin is not None:
                self._origins[memory_id] = origin.archive
        return self._states[memory_id]

    async def _holder(self, slot: _Slot) -> UUID | None:
        if slot not in self._held:
            if slot not in self._found:
                [self._found[slot]] = await self._log.holders(self._tenant, [slot])
            self._held[slot] = self._found[slot]
        return self._held[slot]

    def _refutations(self, memory: Memory, within: Iterable[Apart | None]) -> list[_Slot]:
        return [("refuted", digest) for digest in self._texts.refutations(memory.content or "", within)]

    def _slot(self, kind: TextClaim, memory: Memory) -> _Slot:
        return kind, self._texts.digest(kind, memory.scope, memory.content or "", apart_of(memory))


def _ended_at(states: Sequence[Memory]) -> datetime:
    """When it last stopped to keep others of its text out."""
    at = states[0].changed_at
    for earlier, later in pairwise(states):
        if holds(earlier) and not holds(later):
            at = later.changed_at
    return at


def _turned_at(states: Sequence[Memory], flag: str) -> datetime:
    return next((one.changed_at for one in states if getattr(one, flag)), states[-1].changed_at)
