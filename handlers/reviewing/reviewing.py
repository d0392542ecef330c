"""The review desk of one caller's tenant: everything it can be asked for."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ...domain.proposal import Proposal
from ..access.caller import Caller
from ..engine import Engine
from ..memories import MemoryCommands
from ..operating.views import Decided, ProposalDetail, ProposalPage
from .deciding import Deciding
from .digest import Digests, ReviewDigest
from .loading import load_proposal
from .queue import Queue


class Reviewing:
    """See the modules beside this one; every method says what it raises there."""

    def __init__(self, engine: Engine, memories: MemoryCommands) -> None:
        self._engine = engine
        self._queue = Queue(engine)
        self._deciding = Deciding(engine, memories)
        self._digests = Digests(engine)

    async def list(self, caller: Caller, arguments: Mapping[str, Any]) -> ProposalPage:
        """A page of proposals, oldest first, with exact totals per kind."""
        return await self._queue.list(caller, arguments)

    async def show(self, caller: Caller, arguments: Mapping[str, Any]) -> ProposalDetail:
        """A proposal with both memories."""
        return await self._queue.show(caller, arguments)

    async def digest(self, caller: Caller, arguments: Mapping[str, Any]) -> ReviewDigest:
        """What waits, and what came and was decided since a moment."""
        return await self._digests.digest(caller, arguments)

    async def accept(self, caller: Caller, arguments: Mapping[str, Any]) -> Decided:
        """Apply a proposal, against the versions it saw."""
        return await self._deciding.accept(caller, arguments)

    async def reject(self, caller: Caller, arguments: Mapping[str, Any]) -> Decided:
        """Decline a proposal: nothing else changes."""
        return await self._deciding.reject(caller, arguments)

    async def load(self, tenant: UUID, proposal_id: UUID) -> Proposal:
        """The proposal's state from the log. Raises `NotFound` or `WrongKind`."""
        return await load_proposal(self._engine.log, tenant, proposal_id)
