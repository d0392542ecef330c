"""Flagging a pair, once, together with the review that somebody has to answer (S4; D12)."""

from dataclasses import dataclass, field
from uuid import UUID

from ...domain import events as e
from ...domain.contradiction import (
    Contradiction,
    contradiction_id,
    decide_flag,
    evolve_contradiction,
)
from ...domain.contradiction_events import FoundBy
from ...domain.errors import NotFound
from ...domain.memory import Memory
from ...streams.folding import fold_stream
from ...streams.log import Claim, Log, NewEvent, Unit
from ...streams.payloads import Envelope
from ..engine import Engine
from ..forgetting.open_proposals import take_slot
from ..kinds import refuse_other_kind
from ..reviewing.staging import proposal_of


@dataclass(frozen=True, slots=True)
class Flagged:
    """What a unit appends so that a pair is flagged; nothing where it was before."""

    events: list[NewEvent] = field(default_factory=list[NewEvent])
    claims: list[Claim] = field(default_factory=list[Claim])


async def flag(
    engine: Engine, tenant: UUID, one: Memory, other: Memory, *, found_by: FoundBy, source: UUID
) -> Flagged:
    """The contradiction between two memories, and its review. A pair is flagged once, whoever finds it again."""
    stream = contradiction_id(one.id, other.id)
    if await engine.log.newest_name(tenant, stream) is not None:
        return Flagged()
    policy = (await engine.tenants.get(tenant, fresh=True)).policy
    flagged = decide_flag(one.id, other.id, found_by, source, policy, engine.clock())
    return with_review(stream, 0, [flagged], flagged, (one, other), source)


def with_review(
    stream: UUID,
    version: int,
    events: list[e.Event],
    flagged: e.ContradictionFlagged,
    pair: tuple[Memory, Memory],
    source: UUID,
) -> Flagged:
    """Events of a contradiction, and the review of it in the same unit."""
    review = e.ContradictionStaged(
        memory_id=flagged.memory_id,
        related_id=flagged.related_id,
        seen={memory.id: memory.state_version for memory in pair},
        source=source,
        contradiction=stream,
        found_by=flagged.found_by,
        owner=flagged.owner,
        due_at=flagged.due_at,
    )
    proposal, slot = proposal_of(source, review), review.slot()
    assert slot is not None
    return Flagged(
        [
            *(NewEvent(stream, version + n, event) for n, event in enumerate(events, 1)),
            NewEvent(proposal, 1, review),
        ],
        [take_slot(flagged.memory_id.bytes + slot, proposal)],
    )


async def flag_refused(
    engine: Engine, tenant: UUID, one: Memory, other: Memory, command: UUID, envelope: Envelope
) -> None:
    """Flag the two memories that a refused write named, in a unit of its own."""
    found = await flag(engine, tenant, one, other, found_by="refused_write", source=command)
    if found.events:
        await engine.log.append(
            Unit(
                tenant=tenant,
                subject=found.events[0].stream,
                events=found.events,
                envelope=envelope,
                claims=found.claims,
            )
        )


async def load_contradiction(log: Log, tenant: UUID, stream: UUID) -> Contradiction:
    """Its state from the log. Raises `NotFound` or `WrongKind`."""
    recorded = await log.read_stream(tenant, stream)
    refuse_other_kind(stream, recorded, "contradiction")
    state = fold_stream(recorded, evolve_contradiction)
    if state is None:
        raise NotFound(f"no contradiction {stream}", contradiction_id=stream)
    return state
