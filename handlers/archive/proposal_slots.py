"""Which proposals are open after an import: one of a kind about a memory, none about a memory that is not here."""

from collections.abc import Collection, Iterable
from uuid import UUID

from ...domain.proposal import Proposal, evolve_proposal
from ...streams.log import Claim, Log
from ..forgetting.open_proposals import KIND
from .items import Opened


class ProposalSlots:
    """The claims of open proposals of one unit."""

    def __init__(self, log: Log, tenant: UUID) -> None:
        self._log = log
        self._tenant = tenant
        self._here: set[UUID] = set()
        self._found: dict[bytes, UUID | None] = {}
        self._held: dict[bytes, UUID | None] = {}

    async def look_up(self, proposals: Iterable[Opened]) -> None:
        """Ask once which memories of these proposals are here, and which proposals are open."""
        states = [_states(made)[-1] for made in proposals]
        if not states:
            return
        names = await self._log.stream_names(self._tenant, {one for state in states for one in _about(state)})
        self._here = {one for one, name in names.items() if name == "memory.remembered"}
        slots = [slot for slot in {state.slot for state in states} if slot is not None]
        holders = await self._log.holders(self._tenant, [(KIND, slot) for slot in slots])
        self._found = dict(zip(slots, holders, strict=True))

    def settle(
        self, made: Opened, present: int, *, coming: Collection[UUID], refused: Collection[UUID]
    ) -> str | None:
        """Take or let go what a proposal needs, of which ``present`` events are here; why it does not come in, if
        it does not. ``coming`` and ``refused`` are memories of the archive that do and do not come in."""
        states = _states(made)
        now, before = states[-1], states[present - 1] if present else None
        about = _about(now)
        if not about.isdisjoint(refused) or about - self._here - set(coming):
            return "it is about a memory that is not here"
        slot = now.slot
        if slot is None:
            # Its texts are not here, so nothing can be the same.
            return None
        holder = self._held.get(slot, self._found[slot])
        if now.status != "proposed":
            if before is not None and before.status == "proposed" and holder == now.id:
                self._held[slot] = None
            return None
        if holder not in (None, now.id):
            return "another proposal of the same kind about this memory is open here"
        self._held[slot] = now.id
        return None

    def claims(self) -> list[Claim]:
        """What the unit demands and changes."""
        return [Claim(KIND, slot, self._found[slot], held) for slot, held in self._held.items()]


def _about(proposal: Proposal) -> set[UUID]:
    return {one for one in (proposal.memory_id, proposal.related_id) if one is not None}


def _states(made: Opened) -> list[Proposal]:
    states: list[Proposal] = []
    for new, line in zip(made.events, made.item.lines, strict=True):
        state = states[-1] if states else None
        states.append(
            evolve_proposal(state, new.event, stream=new.stream, version=new.version, recorded_at=line.recorded_at)
        )
    return states
