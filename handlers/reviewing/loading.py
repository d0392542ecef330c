"""The state of a proposal, and of the memories that it is about, from the log."""

from collections.abc import Sequence
from uuid import UUID

from ...domain.errors import Conflict, NotFound
from ...domain.memory import Memory
from ...domain.proposal import Proposal, evolve_proposal
from ...streams.folding import fold_stream
from ...streams.log import Log
from ..kinds import refuse_other_kind
from ..memories import MemoryCommands


async def load_proposal(log: Log, tenant: UUID, proposal_id: UUID) -> Proposal:
    """Raises `NotFound` or `WrongKind`; dismissed ones are not found."""
    recorded = await log.read_stream(tenant, proposal_id)
    refuse_other_kind(proposal_id, recorded, "proposal")
    state = fold_stream(recorded, evolve_proposal)
    if state is None or state.status == "dismissed":
        raise NotFound(f"no proposal {proposal_id}", proposal_id=proposal_id)
    return state


async def load_open(log: Log, tenant: UUID, ids: Sequence[UUID]) -> list[Proposal]:
    """Those of these proposals that are open."""
    streams = await log.read_streams(tenant, ids)
    loaded = [fold_stream(recorded, evolve_proposal) for recorded in streams.values()]
    return [one for one in loaded if one is not None and one.status == "proposed"]


async def load_subjects(memories: MemoryCommands, tenant: UUID, proposal: Proposal) -> dict[UUID, Memory]:
    """The memories it rests on. Raises `Conflict` when one is not there any more."""
    loaded = await memories.load_many(tenant, proposal.subjects)
    if len(loaded) != len(proposal.subjects):
        raise Conflict("a memory of this proposal was erased; reject it", proposal_id=proposal.id)
    return loaded
