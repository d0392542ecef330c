"""Stages a review of every live memory that rests on one that was superseded, refuted or erased.

Told by events from the broker, and found by looking through live memory as well, for what was moved in or never
came through. Both look at how things stand now, and one review of a memory and a source is all there ever is, so
that neither can do it twice. What an erasure takes along is gone, and nobody is asked about it.
"""

import logging
from collections.abc import Sequence
from uuid import UUID

from ...domain import events as e
from ...domain.errors import NotCaughtUp
from ...projections.dependents import Dependent, dependents
from ...projections.progress import wait_for
from ...streams.handling import RetryLater
from ...streams.payloads import Envelope, RecordedEvent, UnreadableEvent
from ..engine import Engine
from ..forgetting.pass_log import WORKER
from ..reviewing.staging import stage

PAGE = 100
"""Memories, or sources, that are looked at at once."""
_FIRST = (UUID(int=0), UUID(int=0))
_LOG = logging.getLogger(__name__)


class DependencyReviews:
    """Any number of processes may stage the same review; it happens once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def on_ended(self, recorded: RecordedEvent) -> None:
        """Review what rests on the memories that an event ended."""
        event = recorded.event
        ended = event.memories if isinstance(event, e.ErasurePerformed) else (recorded.stream,)
        try:
            for name in ("live_memory", "review_queue"):
                await wait_for(self._engine.database, name, recorded.position)
        except NotCaughtUp:
            raise RetryLater(5.0) from None
        for start in range(0, len(ended), PAGE):
            await self._review(recorded.tenant, ended[start : start + PAGE])

    async def sweep(self) -> int:
        """Look through all tenants. Gives how many reviews were staged."""
        staged = 0
        for tenant in await self._engine.vault.tenants():
            try:
                staged += await self._review(tenant, None)
            except UnreadableEvent as error:
                # Damaged, or written by a newer version: it stays, and holds no other tenant's up.
                _LOG.warning("a tenant was left out of the look at dependencies: %s", error.code)
        return staged

    async def _review(self, tenant: UUID, sources: Sequence[UUID] | None) -> int:
        after, staged = _FIRST, 0
        while True:
            page = await dependents(self._engine.database, tenant, sources=sources, after=after, limit=PAGE)
            staged += await self._stage(tenant, page)
            if len(page) < PAGE:
                return staged
            after = (page[-1].memory_id, page[-1].source)

    async def _stage(self, tenant: UUID, found: Sequence[Dependent]) -> int:
        absent = {one.source for one in found if one.ended == "erased"}
        there = await self._engine.log.stream_names(tenant, absent) if absent else {}
        policy = (await self._engine.tenants.get(tenant)).policy_version if found else None
        staged = 0
        for one in found:
            if one.ended == "erased" and one.source not in there:
                # Never of this log: what an archive left out was not erased here.
                continue
            said = e.DependencyStaged(
                memory_id=one.memory_id,
                related_id=one.source,
                seen={one.memory_id: one.state_version},
                source=one.source,
                ended=one.ended,
            )
            envelope = Envelope(WORKER, cause=one.source, correlation=one.source, policy=policy)
            staged += (await stage(self._engine.log, tenant, said, envelope)).staged
        return staged
