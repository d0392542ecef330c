"""From events to the messages that tell a webhook of them."""

from collections.abc import Sequence
from uuid import UUID

from ...domain.events import Event
from ...streams.log import Log
from ...streams.payloads import RecordedEvent
from .deliveries import Message, delivery_id
from .payload import body_of


async def messages_about(log: Log, webhook: UUID, recorded: Sequence[RecordedEvent]) -> list[Message]:
    """One message for each event."""
    begun = await _beginnings(log, recorded)
    return [
        Message(
            delivery_id(webhook, one.event_id),
            one.name,
            one.position,
            body_of(one, None if one.version == 1 else begun.get(one.stream)),
        )
        for one in recorded
    ]


async def _beginnings(log: Log, recorded: Sequence[RecordedEvent]) -> dict[UUID, Event | None]:
    """The first event of each proposal, which says of which kind it is."""
    wanted = {(one.tenant, one.stream) for one in recorded if one.name.startswith("proposal.") and one.version > 1}
    found: dict[UUID, Event | None] = {}
    for tenant in {tenant for tenant, _ in wanted}:
        streams = await log.read_streams(tenant, [stream for owner, stream in wanted if owner == tenant])
        found |= {stream: events[0].event for stream, events in streams.items()}
    return found
