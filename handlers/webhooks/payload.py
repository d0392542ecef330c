"""What a webhook says of an event: ids, kind, action, times, position and counts. Never what anybody wrote.

A field is said when its type has no room for text: an id, a number, a moment, or one of a fixed set of words. So a
field that is added later is left out by itself where it could hold a person's words, and a receiver reads those by
the API, with a credential of its own.
"""

import json
import types
from collections.abc import Mapping, Sized
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin
from uuid import UUID

from pydantic_core import to_jsonable_python

from ...domain.events import Event, Staged
from ...streams.payloads import RecordedEvent

TEST = "webhook.test"
"""The type of a message that tells of nothing, to try whether it arrives."""
_MOST_LISTED = 50
"""A longer list of ids is told by its length."""
_COUNTS = frozenset({"proposed", "dismissed"})
"""Numbers by action."""
_PLAIN = (UUID, int, float, bool, datetime, type(None))


def body_of(recorded: RecordedEvent, beginning: Event | None) -> str:
    """The body of a message about an event. ``beginning`` is the first event of its aggregate, where it is known.

    A decision on a proposal says of which kind and action the proposal is, as its beginning has it.
    """
    data: dict[str, Any] = {
        "event_id": recorded.event_id,
        "position": recorded.position,
        "id": recorded.stream,
        "actor": recorded.envelope.actor.kind,
        "cause": recorded.envelope.cause,
        "correlation": recorded.envelope.correlation,
    }
    for event in (beginning, recorded.event):
        if event is not None:
            data |= _about(event)
    if recorded.event is not None:
        data["clear"] = {name: _listed(value) for name, value in _clear(recorded.event).items()}
    return _written(recorded.name, recorded.recorded_at, data)


def body_of_test(at: datetime, webhook: UUID) -> str:
    """The body of a message to try it out."""
    return _written(TEST, at, {"id": webhook})


def sayable_fields(kind: type[Event]) -> frozenset[str]:
    """The fields of an event that a webhook says."""
    return _sayable(kind)


@cache
def _sayable(kind: type[Event]) -> frozenset[str]:
    hidden = {*kind.SEALED, *kind.SEALED_FOR}
    return frozenset(
        name
        for name, field in kind.model_fields.items()
        if name not in hidden and (name in _COUNTS or _has_no_room_for_text(field.annotation))
    )


def _has_no_room_for_text(annotation: Any) -> bool:
    if annotation in _PLAIN:
        return True
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return True
    if origin is Annotated:
        return _has_no_room_for_text(inner[0])
    if origin in (Union, types.UnionType, tuple, list, dict):
        return all(one is Ellipsis or _has_no_room_for_text(one) for one in inner)
    return False


def _about(event: Event) -> dict[str, Any]:
    """Kind and action of a proposal, from the event that put it into the queue."""
    if isinstance(event, Staged):
        return {"kind": event.KIND, "action": event.action}
    said = _clear(event)
    return {name: said[name] for name in ("kind", "action") if name in said}


def _clear(event: Event) -> dict[str, Any]:
    return {name: value for name in sorted(_sayable(type(event))) if (value := getattr(event, name)) is not None}


def _listed(value: Any) -> Any:
    if not isinstance(value, tuple | list | dict):
        return value
    length = len(cast("Sized", value))
    return {"count": length} if length > _MOST_LISTED else cast("object", value)


def _written(kind: str, at: datetime, data: Mapping[str, Any]) -> str:
    message = {"type": kind, "timestamp": at, "data": data}
    return json.dumps(to_jsonable_python(message, inf_nan_mode="null"), separators=(",", ":"))
