"""The policy by which commitments expire unreviewed, and by which passed reminders are cleared.

behaviour.md 1.14.6, settlement 14, A20. Each event names the policy, and each can be undone. The memory is never
changed. It goes through the read model page by page and decides by the log, so a sweep that was broken off, or
two at once, do nothing twice.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from ...domain.commitment import Commitment, decide_expiry, decide_surfaced
from ...domain.event import Event
from ...projections.commitments import DUE, PRESENT
from ...projections.generations import read_models
from ...streams.ids import new_id
from ...streams.log import Appended, Unit
from ...streams.payloads import Actor, Envelope, UnreadableEvent
from ..engine import Engine
from .riding import Commitments, numbered

SWEEPER = Actor("worker", UUID("3d0f4c5e-1f0a-5b7e-9c42-b1a5d8c3e6f2"))
"""The actor of what the sweep does."""
PAGE = 200
_LOG = logging.getLogger(__name__)
_Found = tuple[datetime, UUID, UUID]
"""(when it was due or to be surfaced, commitment, tenant)."""
_LEGS = {"due_at": "and expired_due is distinct from due_at", "next_surfacing_at": ""}
"""Columns that are gone through, and SQL of what else is demanded."""
_READABLE = "and exists (select from live_memory m where m.tenant = c.tenant and m.memory_id = c.memory_id)"
"""SQL that leaves out what erasures left: nothing more is written about that."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did."""

    expired: int = 0
    surfaced: int = 0


class ExpirySweep:
    """Sweeps the commitments of all tenants."""

    def __init__(self, engine: Engine, grace: timedelta) -> None:
        self._engine = engine
        self._grace = grace
        self._commitments = Commitments(engine.log, engine.directory)

    async def sweep(self) -> Swept:
        """Expire what is overdue by more than the grace, and clear what was to be brought up before now."""
        now = self._engine.clock()
        expired = await self._leg(
            "due_at", now - self._grace, lambda state: decide_expiry(state, now, self._grace)
        )
        surfaced = await self._leg("next_surfacing_at", now, lambda state: decide_surfaced(state, now))
        return Swept(expired, surfaced)

    async def _leg(self, column: str, before: datetime, decide: Callable[[Commitment], list[Event]]) -> int:
        done, last = 0, None
        while True:
            page = await self._page(column, before, last)
            for _, commitment_id, tenant in page:
                try:
                    done += await self._move(tenant, commitment_id, decide)
                except UnreadableEvent as error:
                    # Damaged, or written by a newer version: it stays, and holds no other tenant's up.
                    _LOG.warning("a commitment was left out of a sweep: %s", error.code)
            if len(page) < PAGE:
                return done
            last = page[-1]

    async def _page(self, column: str, before: datetime, last: _Found | None) -> list[_Found]:
        beyond = (
            "" if last is None else f"and (c.{column}, commitment_id, c.tenant) > (%(at)s, %(id)s, %(tenant)s) "
        )
        at, commitment_id, tenant = last or (None, None, None)
        async with read_models(self._engine.database) as connection:
            cursor = await connection.execute(
                f"select c.{column}, commitment_id, c.tenant from commitments c where {PRESENT} and {DUE} "
                f"and c.{column} < %(before)s {_LEGS[column]} {_READABLE} {beyond}"
                f"order by c.{column}, commitment_id, c.tenant limit {PAGE}",
                {"before": before, "at": at, "id": commitment_id, "tenant": tenant},
            )
            return [(row[0], row[1], row[2]) for row in await cursor.fetchall()]

    async def _move(self, tenant: UUID, commitment_id: UUID, decide: Callable[[Commitment], list[Event]]) -> int:
        """1 where it was moved, 0 where there was nothing to do any more, or somebody was quicker."""
        state = await self._commitments.load(tenant, commitment_id)
        events = [] if state is None else decide(state)
        if state is None or not events:
            return 0
        command = new_id()
        settings = await self._engine.tenants.get(tenant)
        envelope = Envelope(SWEEPER, cause=command, correlation=command, policy=settings.policy_version)
        unit = Unit(tenant=tenant, subject=state.id, events=numbered(state, events), envelope=envelope)
        return int(isinstance(await self._engine.log.append(unit), Appended))
