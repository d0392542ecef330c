"""The consumer's side of an unhandled message: it is moved to the retries, or parked until an operator looks.

A parked message says which durable gave up, which event or task it was and what kind of error it met; never an
error's text, which may hold content. An event is found again by its position, a task is carried along. A message
to be tried again is carried whole, as sealed as it was.
Both come before ending the delivery, so a crash between the two does it twice and loses nothing.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from .broker import BrokerSettings, jetstream, translated
from .cloudevents import place_of

FAILURES, PUT_OFF, DUE = "Lethelog-Failures", "Lethelog-Put-Off", "Lethelog-Due"
"""Headers of a message to be tried again: how often it failed, how often its handler put it off, and from when it
may be tried (seconds since 1970)."""
TASK_ID = "Lethelog-Task-Id"
"""Header of a task that is sent again: its id, since a repeated message id would be dropped."""
BEHIND = "EarlierParked"
"""Why a message was parked that did not fail: an earlier event of its aggregate is parked."""


@dataclass(frozen=True, slots=True)
class Parked:
    """Why and where from a message was parked."""

    durable: str
    subject: str
    stream: str
    sequence: int
    deliveries: int
    """How often it was delivered from that place, put off or not."""
    error: str
    """Class of the error, or the reason a handler gave; `BEHIND` for one that only waits behind another."""
    failures: int = 0
    position: int | None = None
    """Position in the log, for an event."""
    tenant: str | None = None
    aggregate: str | None = None
    """Opaque id of the aggregate, for an event: its later events are parked behind it."""
    task: Mapping[str, Any] | None = None
    """The task itself; it names ids and holds no content."""
    task_id: str | None = None

    def to_json(self) -> bytes:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["parked_at"] = datetime.now(UTC).isoformat()
        return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


async def park(client: Client, settings: BrokerSettings, message: Msg, error: str, failures: int) -> None:
    """Publish a message to its durable's parking place. Raises `Unavailable` when that is not acknowledged."""
    about = message.metadata
    is_task = about.stream == settings.stream("tasks")
    place = None if is_task else place_of(message.data)
    parked = Parked(
        durable=about.consumer,
        subject=message.subject,
        stream=about.stream,
        sequence=about.sequence.stream,
        deliveries=about.num_delivered,
        error=error,
        failures=failures,
        position=place.position if place else None,
        tenant=str(place.tenant) if place else None,
        aggregate=str(place.aggregate) if place else None,
        task=_task(message) if is_task else None,
        task_id=task_id(message) if is_task else None,
    )
    with translated():
        await jetstream(client, settings).publish(
            settings.parked_subject(about.consumer),
            parked.to_json(),
            timeout=settings.answer_timeout,
            stream=settings.stream("parked"),
            headers={"Nats-Msg-Id": _identity(message)},
        )


@dataclass(frozen=True, slots=True)
class SoFar:
    """What a message that is tried again brings along, since the broker counts anew where it comes to."""

    failures: int = 0
    put_off: int = 0
    """How often its handler asked for later."""


async def retry_later(client: Client, settings: BrokerSettings, message: Msg, so_far: SoFar, delay: float) -> None:
    """Move an event to the retries of its durable, and a task to the end of its queue.

    Raises `Unavailable` when that is not acknowledged.
    """
    about = message.metadata
    headers = {
        "Nats-Msg-Id": _identity(message),
        FAILURES: str(so_far.failures),
        PUT_OFF: str(so_far.put_off),
        DUE: f"{time.time() + delay:.3f}",
    }
    stream, subject = settings.stream("retries"), settings.retry_subject(about.consumer)
    if about.stream == settings.stream("tasks"):
        stream, subject = about.stream, message.subject
        headers[TASK_ID] = task_id(message)
    with translated():
        await jetstream(client, settings).publish(
            subject, message.data, timeout=settings.answer_timeout, stream=stream, headers=headers
        )


def so_far(message: Msg) -> SoFar:
    """What became of a message before it came to where it is now."""
    return SoFar(_count(message, FAILURES), _count(message, PUT_OFF))


def _count(message: Msg, header: str) -> int:
    text = (message.headers or {}).get(header, "")
    return int(text) if text.isdecimal() else 0


def due_in(message: Msg) -> float:
    """Seconds until a message may be tried again; 0 or less when it may be now."""
    try:
        return float((message.headers or {}).get(DUE, "0")) - time.time()
    except ValueError:
        return 0.0


def task_id(message: Msg) -> str:
    """The id a task was published under, with its queue."""
    headers = message.headers or {}
    return headers.get(TASK_ID) or headers.get("Nats-Msg-Id", "")


def _identity(message: Msg) -> str:
    """Names a message's stay in one place: the same for each try to move it on, another once it came back."""
    about = message.metadata
    stored = int(about.timestamp.timestamp() * 1e6)
    return f"{about.stream}:{about.sequence.stream}:{stored}:{about.consumer}"


def _task(message: Msg) -> Mapping[str, Any] | None:
    try:
        return dict(json.loads(message.data))
    except (ValueError, TypeError):
        return None
