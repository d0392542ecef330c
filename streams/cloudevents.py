"""What the broker carries: CloudEvents 1.0 in JSON, with the same ciphertext as the log (design.md 6).

Personal text is never in clear on the broker; whoever may read it unwraps it through `open_message`.
"""

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from . import payloads
from .payloads import RecordedEvent

SHARDS = 16
"""Events of one aggregate share a shard, which keeps their order while consumers compete."""


def subject_of(prefix: str, tenant: UUID, stream: UUID, name: str) -> str:
    """``<prefix>.events.<tenant>.<shard>.<event name>``; never a memory id (design.md 6)."""
    return f"{prefix}.events.{tenant.hex}.{stream.int % SHARDS}.{name}"


def to_message(row: tuple[Any, ...], *, largest: int | None = None) -> bytes:
    """A row of the event table as a CloudEvents message; needs no key.

    An event larger than the broker takes (``largest`` bytes) goes without its body: the message then says so, and
    whoever needs the body reads it from the log at that position.
    """
    message = _message(row, with_body=True)
    return message if largest is None or len(message) <= largest else _message(row, with_body=False)


def _message(row: tuple[Any, ...], *, with_body: bool) -> bytes:
    position, tenant, stream, version, name, event_id, recorded_at, body = row
    try:
        taken_apart = payloads.split(bytes(body))
        envelope, clear = payloads.decode_envelope(taken_apart), taken_apart.header.clear
    except payloads.UnreadableEvent:
        # Whoever can read it may; a body of another kind must not hold up everything behind it.
        envelope, clear = payloads.NOBODY, {}
    return json.dumps(
        {
            "specversion": "1.0",
            "id": str(event_id),
            "source": f"lethelog/{tenant}",
            "type": name,
            "time": recorded_at.isoformat(),
            "subject": str(stream),
            "datacontenttype": "application/json",
            "position": position,
            "tenant": str(tenant),
            "version": version,
            "cause": str(envelope.cause),
            "correlation": str(envelope.correlation),
            "data": {
                "clear": clear if with_body else {},
                "body": base64.b64encode(bytes(body)).decode() if with_body else None,
            },
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()


def read_message(message: bytes | Mapping[str, Any]) -> tuple[Any, ...]:
    """The row a message was made of. Raises `UnreadableEvent` for anything else."""
    try:
        data: Mapping[str, Any] = json.loads(message) if isinstance(message, bytes) else message
        if data["data"]["body"] is None:
            raise payloads.UnreadableEvent("this event is larger than the broker takes; read it from the log")
        return (
            int(data["position"]),
            UUID(data["tenant"]),
            UUID(data["subject"]),
            int(data["version"]),
            str(data["type"]),
            UUID(data["id"]),
            datetime.fromisoformat(data["time"]),
            base64.b64decode(data["data"]["body"], validate=True),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise payloads.UnreadableEvent("not a message of this log") from error


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event stands: in the log, and in whose stream."""

    tenant: UUID
    aggregate: UUID
    position: int


def place_of(message: bytes) -> Place | None:
    """Where the event of a message stands; None for a message that is none of the log's."""
    try:
        data = json.loads(message)
        return Place(UUID(data["tenant"]), UUID(data["subject"]), int(data["position"]))
    except (ValueError, KeyError, TypeError):
        return None


Decode = Callable[[list[Sequence[object]]], Awaitable[list[RecordedEvent]]]
"""`Log.decode`: rows to events, with the keys that still exist."""


async def open_message(message: bytes | Mapping[str, Any], decode: Decode) -> RecordedEvent:
    """The event a message carries, opened with the keys that still exist."""
    events = await decode([read_message(message)])
    return events[0]
