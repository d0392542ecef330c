"""Reading events without keys: everything that is not personal is there, sealed fields stay closed (None)."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from . import payloads
from .payloads import RecordedEvent


async def decode_closed(rows: Iterable[Sequence[object]]) -> list[RecordedEvent]:
    """As `Log.decode`, for whoever has no access to the vault."""
    return [_recorded(row) for row in rows]


def _recorded(row: Sequence[object]) -> RecordedEvent:
    position, tenant, stream, version, name, event_id, recorded_at, content = row
    assert isinstance(position, int) and isinstance(version, int) and isinstance(name, str)
    assert isinstance(tenant, UUID) and isinstance(stream, UUID) and isinstance(event_id, UUID)
    assert isinstance(recorded_at, datetime) and isinstance(content, bytes)
    body = payloads.split(content)
    envelope = payloads.decode_envelope(body)
    return RecordedEvent(
        position=position,
        tenant=tenant,
        stream=stream,
        version=version,
        name=name,
        event_id=event_id,
        recorded_at=payloads.recorded_first(envelope, recorded_at),
        envelope=envelope,
        event=payloads.decode_event(name, body, tenant=tenant, stream=stream, version=version, key_of=_no_key),
    )


def _no_key(key_id: UUID) -> None:
    return None
