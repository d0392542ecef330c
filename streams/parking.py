"""Parking: a message whose handler failed too often is set aside where an operator finds it.

A parked message says which durable gave up, where the message stands and what kind of error it was; never an
error's text, which may hold content. An event is found again by its position, a task is carried along.
Parking comes before ending the delivery, so a crash between the two parks twice and loses nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from .broker import BrokerSettings, jetstream, translated


@dataclass(frozen=True, slots=True)
class Parked:
    """Why and where from a message was parked."""

    durable: str
    subject: str
    stream: str
    sequence: int
    deliveries: int
    error: str
    """Class of the error, or the reason a handler gave."""
    position: int | None = None
    """Position in the log, for an event."""
    task: Mapping[str, Any] | None = None
    """The task itself; it names ids and holds no content."""

    def to_json(self) -> bytes:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["parked_at"] = datetime.now(UTC).isoformat()
        return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


async def park(client: Client, settings: BrokerSettings, message: Msg, error: str) -> Parked:
    """Publish a message to its durable's parking place. Raises `Unavailable` when that is not acknowledged."""
    about = message.metadata
    parked = Parked(
        durable=about.consumer,
        subject=message.subject,
        stream=about.stream,
        sequence=about.sequence.stream,
        deliveries=about.num_delivered,
        error=error,
        position=_position(message) if about.stream == settings.stream("events") else None,
        task=_task(message) if about.stream == settings.stream("tasks") else None,
    )
    with translated():
        await jetstream(client, settings).publish(
            settings.parked_subject(about.consumer),
            parked.to_json(),
            timeout=settings.answer_timeout,
            stream=settings.stream("parked"),
            headers={"Nats-Msg-Id": f"{about.stream}:{about.sequence.stream}:{about.consumer}"},
        )
    return parked


def _position(message: Msg) -> int | None:
    text = (message.headers or {}).get("Nats-Msg-Id", "")
    return int(text) if text.isdecimal() else None


def _task(message: Msg) -> Mapping[str, Any] | None:
    try:
        return dict(json.loads(message.data))
    except (ValueError, TypeError):
        return None
