"""What a change of memories means for the commitments that ride on them (behaviour.md 1.8, 1.14.2; A7).

A claim of the log says which commitment rides on a memory: one at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from ...domain import commands as c
from ...domain.commitment import (
    UNSCHEDULED,
    Commitment,
    Schedule,
    decide_carry,
    decide_close,
    decide_open,
    decide_schedule,
    evolve_commitment,
)
from ...domain.errors import InvalidInput
from ...domain.event import Event
from ...domain.fields import MemoryType
from ...domain.memory import Memory
from ...streams.directory import Directory
from ...streams.folding import fold_stream
from ...streams.ids import new_id
from ...streams.log import Claim, Log, NewEvent

CLAIM = "commitment"
"""Kind of the claim; its digest is the memory's id."""
_SCHEDULE = ("owner", "due_at", "next_surfacing_at", "recurrence")


@dataclass(frozen=True, slots=True)
class Riding:
    """What a unit about memories appends for their commitments."""

    events: tuple[NewEvent, ...] = ()
    claims: tuple[Claim, ...] = ()


NOTHING = Riding()


class Commitments:
    """Finds commitments in the log, and says what becomes of them."""

    def __init__(self, log: Log, directory: Directory) -> None:
        self._log = log
        self._directory = directory

    async def load(self, tenant: UUID, commitment_id: UUID) -> Commitment | None:
        """Its state; None for an id that is none."""
        recorded = await self._log.read_stream(tenant, commitment_id)
        if not recorded or recorded[0].name != "commitment.opened":
            return None
        return fold_stream(recorded, evolve_commitment)

    async def of_memory(self, tenant: UUID, memory_id: UUID) -> Commitment | None:
        """The commitment that rides on a memory now."""
        found = await self.id_of(tenant, memory_id)
        return None if found is None else await self.load(tenant, found)

    async def id_of(self, tenant: UUID, memory_id: UUID) -> UUID | None:
        """Its id."""
        [holder] = await self._log.holders(tenant, [(CLAIM, memory_id.bytes)])
        return holder

    async def of_new(self, tenant: UUID, memory_id: UUID, command: c.Remember | c.RememberImported) -> Riding:
        """What a new memory brings."""
        if command.memory_type != "commitment":
            refuse_schedule(command)
            return NOTHING
        return _opened(memory_id, await self.schedule(tenant, command))

    async def of_revision(
        self, tenant: UUID, before: Memory, successor: UUID, successor_type: MemoryType, command: c.Revise
    ) -> Riding:
        """What a revision means: carried, resolved, opened or nothing, by the table of behaviour.md 1.8."""
        present = await self.of_memory(tenant, before.id)
        if successor_type != "commitment":
            refuse_schedule(command)
            return NOTHING if present is None else _closed(present)
        schedule = await self.schedule(tenant, command)
        if present is None:
            return _opened(successor, schedule)
        return _carried(present, successor, schedule)

    async def of_succession(self, tenant: UUID, older: Memory, newer: Memory, proposal: UUID) -> Riding:
        """What it means that an accepted proposal lets one memory supersede another: the commitment goes over to
        the newer one, if that is one without a commitment of its own, or else is resolved (1.14.2)."""
        present = await self.of_memory(tenant, older.id)
        if present is None:
            return NOTHING
        if newer.memory_type == "commitment" and await self.id_of(tenant, newer.id) is None:
            return _carried(present, newer.id, UNSCHEDULED, proposal)
        return _closed(present, proposal)

    async def schedule(
        self, tenant: UUID, command: c.Remember | c.RememberImported | c.Revise | c.Resolve
    ) -> Schedule:
        """What a command sets, by opaque ids."""
        owner = command.owner
        return Schedule(
            owner=None if owner is None else await self._directory.register(tenant, "actor", owner),
            due_at=command.due_at,
            next_surfacing_at=command.next_surfacing_at,
            recurrence=command.recurrence,
        )


def refuse_schedule(command: c.Remember | c.RememberImported | c.Revise | c.Resolve) -> None:
    """Raise `InvalidInput` for what only commitments have."""
    for field in _SCHEDULE:
        if getattr(command, field) is not None:
            raise InvalidInput(field, "is for commitments only", "Leave it out, or give memory_type commitment")


def numbered(state: Commitment, events: Sequence[Event]) -> tuple[NewEvent, ...]:
    """The next events of its stream."""
    return tuple(NewEvent(state.id, state.version + n, event) for n, event in enumerate(events, 1))


def claims_of_change(state: Commitment, memory_id: UUID) -> tuple[Claim, ...]:
    """The claims by which it rides on another memory than before; none where it is the same."""
    if state.memory_id == memory_id:
        return ()
    return (
        Claim(CLAIM, state.memory_id.bytes, state.id, None),
        Claim(CLAIM, memory_id.bytes, None, state.id),
    )


def _opened(memory_id: UUID, schedule: Schedule) -> Riding:
    commitment = new_id()
    events = [NewEvent(commitment, n, event) for n, event in enumerate(decide_open(memory_id, schedule), 1)]
    return Riding(tuple(events), (Claim(CLAIM, memory_id.bytes, None, commitment),))


def _carried(state: Commitment, successor: UUID, schedule: Schedule, proposal: UUID | None = None) -> Riding:
    carried = replace(state, memory_id=successor)
    events = decide_carry(state, successor, proposal) + decide_schedule(carried, schedule)
    return Riding(numbered(state, events), claims_of_change(state, successor))


def _closed(state: Commitment, proposal: UUID | None = None) -> Riding:
    return Riding(numbered(state, decide_close(state, proposal)))
