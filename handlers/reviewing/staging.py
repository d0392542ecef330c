"""Putting a proposal into the queue once, by an id that follows from what it is about and a claim on its slot."""

from typing import NamedTuple
from uuid import UUID, uuid5

from ...domain import events as e
from ...streams.log import UNFENCED, Appended, CommandKey, Log, NewEvent, Unfenced, Unit
from ...streams.payloads import Envelope
from ..forgetting.open_proposals import take_slot


class Staging(NamedTuple):
    """What came of it."""

    proposal: UUID
    staged: bool
    """False where it stands on record already, in whatever status, or another one of its kind is open."""


def proposal_of(source: UUID, said: e.Staged) -> UUID:
    """The id of what a source proposes: asking again gives the same one."""
    related = said.related_id or UUID(int=0)
    rest = (said.slot() or b"").hex()
    return uuid5(source, f"{said.KIND}:{said.memory_id}:{related}:{rest}")


async def stage(
    log: Log,
    tenant: UUID,
    said: e.Staged,
    envelope: Envelope,
    *,
    fence: UUID | Unfenced | None = UNFENCED,
) -> Staging:
    """Stage a proposal; a second time, or while its slot is taken, nothing is appended.

    ``fence`` is `Log.fence` of before anything was read that its texts rest on.
    """
    stream = proposal_of(said.source, said)
    slot = said.slot()
    claims = [] if slot is None else [take_slot(said.memory_id.bytes + slot, stream)]
    outcome = await log.append(
        Unit(
            tenant=tenant,
            subject=stream,
            events=[NewEvent(stream, 1, said)],
            envelope=envelope,
            claims=claims,
            command=CommandKey(uuid5(stream, said.NAME).bytes, b""),
            fence=fence,
        )
    )
    return Staging(stream, isinstance(outcome, Appended))
