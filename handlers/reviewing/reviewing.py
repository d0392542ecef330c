"""The review desk of one caller's tenant: everything it can be asked for."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ...domain.proposal import Proposal
from ..access.caller import Caller
from ..engine import Engine
from ..memories import MemoryCommands
from ..operating.views import BulkDecided, BulkPreview, Decided, ProposalDetail, ProposalPage
from .bulk import Bulk, Report, silent
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
        self._bulk = Bulk(engine, self._queue, self._deciding)

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

    async def preview_many(self, caller: Caller, arguments: Mapping[str, Any]) -> BulkPreview:
        """Which open proposals a filter finds."""
        return await self._bulk.preview(caller, arguments)

    async def decide_many(
        self, caller: Caller, arguments: Mapping[str, Any], report: Report = silent
    ) -> BulkDecided:
        """Accept or reject many, each on its own or all together."""
        return await self._bulk.decide(caller, arguments, report)

    async def load(self, tenant: UUID, proposal_id: UUID) -> Proposal:
        """The proposal's state from the log. Raises `NotFound` or `WrongKind`."""
        return await load_proposal(self._engine.log, tenant, proposal_id)
