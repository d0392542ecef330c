"""Which commitment rides on which memory after an import: one at most, and none on a memory that is not here."""

from collections.abc import Collection, Iterable
from uuid import UUID

from ...streams.log import Claim, Log
from ..commitments.riding import CLAIM
from .items import Opened


class CommitmentSlots:
    """The claims of riding commitments of one unit."""

    def __init__(self, log: Log, tenant: UUID) -> None:
        self._log = log
        self._tenant = tenant
        self._here: set[UUID] = set()
        self._found: dict[UUID, UUID | None] = {}
        self._held: dict[UUID, UUID | None] = {}

    async def look_up(self, commitments: Iterable[Opened]) -> None:
        """Ask once which memories of these commitments are here, and what rides on them."""
        memories = list({state.memory_id for made in commitments for state in made.commitments})
        if not memories:
            return
        names = await self._log.stream_names(self._tenant, memories)
        self._here = {one for one, name in names.items() if name == "memory.remembered"}
        holders = await self._log.holders(self._tenant, [(CLAIM, one.bytes) for one in memories])
        self._found = dict(zip(memories, holders, strict=True))

    def settle(
        self, made: Opened, present: int, *, coming: Collection[UUID], refused: Collection[UUID]
    ) -> str | None:
        """Take what a commitment needs, of which ``present`` events are here; why it does not come in, if it does
        not. ``coming`` and ``refused`` are memories of the archive that do and do not come in."""
        memory_id = made.commitments[-1].memory_id
        if memory_id in refused or (memory_id not in self._here and memory_id not in coming):
            return "it rides on a memory that is not here"
        if self._holder(memory_id) not in (None, made.item.stream):
            return "another commitment rides on this memory here"
        before = made.commitments[present - 1].memory_id if present else memory_id
        if before != memory_id and self._holder(before) == made.item.stream:
            self._held[before] = None
        self._held[memory_id] = made.item.stream
        return None

    def claims(self) -> list[Claim]:
        """What the unit demands and changes."""
        return [Claim(CLAIM, one.bytes, self._found[one], held) for one, held in self._held.items()]

    def _holder(self, memory_id: UUID) -> UUID | None:
        return self._held.get(memory_id, self._found[memory_id])
