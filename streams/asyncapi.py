"""The AsyncAPI 3 document of what the broker carries, made from the event classes themselves.

The committed copy is ``docs/reference/asyncapi.json``; write it anew with ``python -m lethelog.streams.asyncapi``.
"""

import inspect
import json
import sys
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from faststream.nats import NatsBroker
from faststream.specification import AsyncAPI
from pydantic import BaseModel, ConfigDict, Field, create_model

from ..domain.events import Event, event_class, event_names
from .broker import BrokerSettings
from .cloudevents import SHARDS

CONTRACT = "1"
"""Version of the messages; it moves when a subscriber would have to change."""
_PARAMETERS = {
    "tenant": {"description": "The tenant's opaque id, 32 hexadecimal digits"},
    "shard": {"description": f"0 to {SHARDS - 1}; events of one aggregate share one, which keeps their order"},
}


class _CloudEvent(BaseModel):
    """What every message has; ``data`` and ``type`` differ by event."""

    model_config = ConfigDict(extra="forbid")

    specversion: Literal["1.0"]
    id: UUID = Field(description="The event's id")
    source: str = Field(description="lethelog/ and the tenant's id")
    time: datetime = Field(description="When the log recorded it")
    subject: UUID = Field(description="The aggregate: a memory, a proposal, a pass, …")
    datacontenttype: Literal["application/json"]
    position: int = Field(ge=1, description="Its place in the log; also the message id")
    tenant: UUID
    version: int = Field(ge=1, description="Its place in the aggregate's own stream")
    cause: UUID = Field(description="The command or event that led to it")
    correlation: UUID = Field(description="The command at the beginning of the chain")


def document() -> dict[str, Any]:
    """The document, ready for JSON."""
    settings = BrokerSettings("nats://localhost:4222")
    broker = NatsBroker(settings.url, logger=None)
    for name in event_names():
        cls = event_class(name)
        assert cls is not None
        broker.publisher(
            f"{settings.prefix}.events.{{tenant}}.{{shard}}.{name}",
            title=name,
            description=inspect.cleandoc(cls.__doc__ or ""),
            schema=_message(name, cls),
        )
    specification = AsyncAPI(
        broker,
        title="Lethelog events",
        version=CONTRACT,
        description="Every event of the log as CloudEvents 1.0. Personal text is sealed; its keys are not here.",
    )
    made: dict[str, Any] = specification.to_specification().to_jsonable()
    for channel in made["channels"].values():
        channel["parameters"] = _PARAMETERS
    return made


def _message(name: str, cls: type[Event]) -> type[BaseModel]:
    """CloudEvents message of one event: its clear fields by name, everything else as one sealed body."""
    title = "".join(part.capitalize() for part in name.replace("_", ".").split("."))
    hidden = set(cls.SEALED) | set(cls.SEALED_FOR)
    fields: dict[str, Any] = {
        field: (info.annotation, info) for field, info in cls.model_fields.items() if field not in hidden
    }
    clear = create_model(f"{title}Clear", __doc__=_about(hidden), **fields)
    data = create_model(
        f"{title}Data",
        clear=(clear, ...),
        body=(str, Field(description="Envelope, clear fields and sealed parts as the log holds them, base64")),
    )
    return create_model(
        title,
        __base__=_CloudEvent,
        type=(Literal[name], ...),  # type: ignore[valid-type]
        data=(data, ...),
    )


def _about(hidden: set[str]) -> str:
    return f"Sealed in the body: {', '.join(sorted(hidden))}." if hidden else "Nothing of it is sealed."


def as_text() -> str:
    """The document as it is committed."""
    return json.dumps(document(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(as_text())
