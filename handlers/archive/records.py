"""What is on record about archives: which were written and which came in, by opaque ids only."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ...domain.errors import Conflict
from ...domain.events import (
    ArchiveExported,
    ArchiveExportStarted,
    ArchiveImported,
    ArchiveImportStarted,
    Event,
)
from ...streams.ids import new_id
from ...streams.log import Appended, Claim, NewEvent, Unit
from ...streams.payloads import Actor, Envelope
from ..access.caller import Caller
from ..engine import Engine
from ..moments import MOVED_IN

WRITTEN = "export"
"""Kind of the claims that name a tenant's exports, so that they are found without reading the log."""
_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Export:
    """An archive that was written, or begun: a copy that erasure does not reach."""

    archive: UUID
    at: datetime
    actor: Actor
    position: int
    """It holds what was on record up to here."""
    digest: str | None
    """SHA-256 of the file; None where nobody knows whether it was finished."""
    content: bool
    held: frozenset[UUID] | None
    """The memories in it; None for every one on record by then."""

    def may_hold(self, memory_id: UUID, remembered: int) -> bool:
        """Whether a memory that was remembered at a position may stand in it with its text."""
        return self.content and remembered <= self.position and (self.held is None or memory_id in self.held)


class Exports:
    """The record of a tenant's exports."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def start(self, caller: Caller, archive: UUID, started: ArchiveExportStarted) -> int:
        """Say that an archive is being written; before its first byte is."""
        return await append_record(
            self._engine, caller, archive, started, [Claim(WRITTEN, archive.bytes, None, archive)]
        )

    async def finish(self, caller: Caller, archive: UUID, exported: ArchiveExported) -> int:
        """Say that it is whole; before the file gets its name."""
        return await append_record(self._engine, caller, archive, exported)

    async def all(self, tenant: UUID) -> list[Export]:
        """Every export of a tenant, oldest first. For an erasure, which names those that it cannot reach."""
        archives = page = await self._engine.log.claim_holders(tenant, WRITTEN, b"", _PAGE)
        while len(page) == _PAGE:
            page = await self._engine.log.claim_holders(tenant, WRITTEN, page[-1].bytes, _PAGE)
            archives = [*archives, *page]
        streams = await self._engine.log.read_streams(tenant, archives)
        found: list[Export] = []
        for archive, events in streams.items():
            first = events[0]
            assert isinstance(first.event, ArchiveExportStarted)
            done = next((one.event for one in events if isinstance(one.event, ArchiveExported)), None)
            found.append(
                Export(
                    archive=archive,
                    at=first.recorded_at,
                    actor=first.envelope.actor,
                    position=first.event.position,
                    digest=None if done is None else done.digest,
                    content=first.event.content,
                    held=_held(first.event, done),
                )
            )
        return sorted(found, key=lambda one: (one.position, one.archive))


def _held(started: ArchiveExportStarted, done: ArchiveExported | None) -> frozenset[UUID] | None:
    if started.filter is None or done is None or done.held is None:
        return None
    return frozenset(done.held)


class Imports:
    """The record of what came in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def start(self, caller: Caller, archive: UUID, started: ArchiveImportStarted) -> int:
        """Say that an archive begins to come in, unless that was said and it did not end; gives its position."""
        recorded = await self._engine.log.read_stream(caller.tenant, archive)
        if recorded and isinstance(recorded[-1].event, ArchiveImportStarted):
            return recorded[-1].position
        known = any(isinstance(one.event, ArchiveImportStarted) for one in recorded)
        claim = Claim(MOVED_IN, archive.bytes, archive if known else None, archive)
        return await append_record(self._engine, caller, archive, started, [claim])

    async def finish(self, caller: Caller, archive: UUID, imported: ArchiveImported) -> int:
        """Say what came of it."""
        return await append_record(self._engine, caller, archive, imported)


async def append_record(
    engine: Engine, caller: Caller, archive: UUID, event: Event, claims: list[Claim] | None = None
) -> int:
    """Append to an archive's stream; gives the position. Raises `Conflict` where somebody else does so too."""
    recorded = await engine.log.read_stream(caller.tenant, archive)
    settings = await engine.tenants.get(caller.tenant)
    command = new_id()
    outcome = await engine.log.append(
        Unit(
            tenant=caller.tenant,
            subject=archive,
            events=[NewEvent(archive, len(recorded) + 1, event)],
            envelope=Envelope(caller.actor, cause=command, correlation=command, policy=settings.policy_version),
            claims=claims or (),
        )
    )
    if not isinstance(outcome, Appended):
        raise Conflict("another process works with this archive at the same time; wait for it, and try again")
    return outcome.position
