"""The hourly passes of all tenants (behaviour.md 1.13)."""

import logging
from datetime import datetime
from uuid import UUID

from ...domain.consolidation import hour_of
from ...domain.errors import LethelogError, NotFound
from ..engine import Engine
from .passes import Consolidations
from .running import Consolidating

_LOG = logging.getLogger(__name__)


class ConsolidationSchedule:
    """Asks for the hour's pass of every tenant, and carries on what stands still; once an hour in each process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: datetime | None = None

    async def look(self) -> None:
        """Do what is due. A tenant whose pass fails is left to the next hour, and holds no other one up."""
        hour = hour_of(self._engine.clock())
        if hour == self._seen:
            return
        for tenant in await self._engine.vault.tenants():
            try:
                await self._run(tenant, hour)
            except LethelogError as error:
                _LOG.warning("a consolidation pass failed with %s; the next hour tries again", error.code)
        self._seen = hour

    async def _run(self, tenant: UUID, hour: datetime) -> None:
        try:
            due = await Consolidations(self._engine).request_scheduled(tenant, hour)
        except NotFound:
            return
        if due is not None:
            await Consolidating(self._engine).run(tenant, due)
