"""Events as bytes: envelope and clear fields readable, personal text sealed per memory.

Body = format byte 1 · header length (4 bytes, big endian) · header (JSON) · sealed parts, one after another.
The header names each part's key and length, so that whoever holds no key still reads type, times, actors and
ids — and history survives erasure. No constructor runs unchecked: every payload is validated on load.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple
from uuid import UUID

from pydantic import ConfigDict, Field, NonNegativeInt, TypeAdapter
from pydantic_core import from_json

from ..domain.errors import LethelogError
from ..domain.events import Event, event_class
from ..domain.upcasters import upcast
from . import sealing

FORMAT = 1
_FORMAT = bytes((FORMAT,))
ActorKind = Literal["person", "agent", "worker", "system", "importer"]
KeyOf = Callable[[UUID], bytes | None]
"""key id -> data key, or None once it is destroyed; raises for one that is there and does not open."""


class UnreadableEvent(LethelogError):
    """Stored bytes that this version cannot read: damaged, altered, or written by a newer one."""

    code = "unreadable"


class WrittenByNewer(UnreadableEvent):
    """A payload in a schema that only a newer version knows."""

    code = "written_by_newer"


class Actor(NamedTuple):
    """Who did it: kind, and the opaque id of the person, agent or process."""

    kind: ActorKind
    id: UUID


class Origin(NamedTuple):
    """Where an event that was moved in came from (ADR 9)."""

    archive: UUID
    """The archive it came in with."""
    position: int
    """Where it stands in the log that it happened in."""
    recorded_at: datetime
    """When it was recorded first, in the log that it happened in."""


class Envelope(NamedTuple):
    """What every event carries beside its payload (design.md 3)."""

    actor: Actor
    cause: UUID
    """The command or event that led to it."""
    correlation: UUID
    """The command at the beginning of the chain."""
    policy: int | None = None
    """Version of the tenant's policy it was decided under."""
    judge: str | None = None
    """Identity of the judge involved."""
    origin: Origin | None = None
    """Of an event that happened elsewhere; None for one of this log's own."""
    session: UUID | None = None
    """The session run it was made in."""


class RecordedEvent(NamedTuple):
    """One event as the log gives it back."""

    position: int
    tenant: UUID
    stream: UUID
    version: int
    name: str
    event_id: UUID
    recorded_at: datetime
    """When it was put on record: here, or where it came from (`recorded_first`)."""
    envelope: Envelope
    event: Event | None
    """None for a stored name that this version does not know; whoever reads decides by a stated policy. Also where
    the reader did not ask for it."""
    broken: str | None = None
    """Class of the error that kept a body of a known name from being read; such events are only carried where
    the reader asked for them."""

    @property
    def happened_at(self) -> int:
        """Its position in the log that it happened in, which is another one where it was moved in."""
        return self.position if self.envelope.origin is None else self.envelope.origin.position


NOBODY = Envelope(Actor("system", UUID(int=0)), cause=UUID(int=0), correlation=UUID(int=0))
"""The envelope of an event whose own cannot be read."""


def sealed_under(event: Event, stream: UUID) -> dict[UUID, set[str]]:
    """key id -> the fields of this event sealed under it. Fields that hold nothing are left out."""
    own = {field for field in event.SEALED if getattr(event, field) is not None}
    groups = {stream: own} if own else dict[UUID, set[str]]()
    if not event.SEALED_FOR:
        return groups
    for field, names in sorted(event.SEALED_FOR.items()):
        if getattr(event, field) is None:
            continue
        key_id = getattr(event, names)
        if key_id is None:
            raise ValueError(f"{event.NAME}: {field} is given but {names} is not, so nothing can seal it")
        groups.setdefault(key_id, set()).add(field)
    return groups


def envelope_json(envelope: Envelope) -> bytes:
    """An envelope as it stands in a header; the same for every event of a unit."""
    judge = "null" if envelope.judge is None else json.dumps(envelope.judge, ensure_ascii=False)
    cause = str(envelope.cause)
    # A command of a person's own is the beginning of its chain: most are, and writing out an id takes a while.
    correlation = cause if envelope.correlation is envelope.cause else envelope.correlation
    return (
        f'{_origin_json(envelope.origin)}"a":["{envelope.actor.kind}","{envelope.actor.id}"],"c":"{cause}","r":"{correlation}",'
        f'"p":{"null" if envelope.policy is None else envelope.policy},"j":{judge}'
        f"{session_json(envelope.session)}"
    ).encode()


def session_json(session: UUID | None) -> str:
    """Absent where there is none: what was stored before there were sessions would be stored so again."""
    return "" if session is None else f',"i":"{session}"'


def _origin_json(origin: Origin | None) -> str:
    """It comes first, so that `is_moved_in` need not read a header."""
    if origin is None:
        return ""
    return f'"o":["{origin.archive}",{origin.position},"{origin.recorded_at.isoformat()}"],'


def encode(event: Event, envelope: Envelope, *, tenant: UUID, stream: UUID, version: int, key_of: KeyOf) -> bytes:
    """The body of an event. Raises `UnreadableEvent` when a key it needs is destroyed: nothing is written then."""
    said, groups = envelope_json(envelope), sealed_under(event, stream)
    return assemble(event, said, groups, tenant=tenant, stream=stream, version=version, key_of=key_of)


def assemble(
    event: Event,
    envelope: bytes,
    groups: Mapping[UUID, set[str]],
    *,
    tenant: UUID,
    stream: UUID,
    version: int,
    key_of: KeyOf,
) -> bytes:
    """`encode`, from an `envelope_json` and what `sealed_under` said, for whoever needed both already."""
    # The serializer itself: `model_dump_json` costs as much again, and makes a string of its bytes.
    to_json = type(event).__pydantic_serializer__.to_json
    parts: list[bytes] = []
    index: list[str] = []
    for key_id, fields in groups.items():
        key = key_of(key_id)
        if key is None:
            raise UnreadableEvent(f"the data key of {key_id} is destroyed; nothing more is written about it")
        text = to_json(event, include=fields)
        part = sealing.seal(key, text, sealing.event_binding(tenant, stream, version, event.NAME, key_id))
        parts.append(part)
        index.append(f'["{key_id}",{len(part)}]')
    clear = to_json(event, exclude=_hidden(type(event)), exclude_none=True)
    header = b'{"s":%d,%b,"k":[%b],"d":%b}' % (event.SCHEMA, envelope, ",".join(index).encode(), clear)
    return b"".join((_FORMAT, len(header).to_bytes(4, "big"), header, *parts))


@cache
def _hidden(kind: type[Event]) -> set[str]:
    """Fields that never stand in the header."""
    return {*kind.SEALED, *kind.SEALED_FOR}


@dataclass(frozen=True, slots=True)
class Header:
    """What stands readable at the beginning of a body; by one letter each, since it stands in every event."""

    __pydantic_config__: ClassVar = ConfigDict(strict=True, hide_input_in_errors=True)

    schema: Annotated[int, Field(alias="s")]
    actor: Annotated[tuple[ActorKind, UUID], Field(alias="a")]
    cause: Annotated[UUID, Field(alias="c")]
    correlation: Annotated[UUID, Field(alias="r")]
    policy: Annotated[int | None, Field(alias="p")]
    judge: Annotated[str | None, Field(alias="j")]
    sealed: Annotated[list[tuple[UUID, NonNegativeInt]], Field(alias="k")]
    """Key and length of each sealed part."""
    clear: Annotated[dict[str, Any], Field(alias="d")]
    """The fields of the payload that are not sealed."""
    origin: Annotated[tuple[UUID, int, datetime] | None, Field(alias="o")] = None
    session: Annotated[UUID | None, Field(alias="i")] = None


_read_header = TypeAdapter(Header).validator.validate_json


class Body(NamedTuple):
    """A body taken apart, not yet opened."""

    header: Header
    parts: tuple[tuple[UUID, bytes], ...]


def split(body: bytes) -> Body:
    """Header and sealed parts. Raises `UnreadableEvent` for another format or damaged bytes."""
    if len(body) < 5 or body[0] != FORMAT:
        raise UnreadableEvent("not an event body of a format this version knows")
    end = 5 + int.from_bytes(body[1:5], "big")
    try:
        header: Header = _read_header(body[5:end])
    except Exception:
        raise _damaged("the header of an event body") from None
    parts: list[tuple[UUID, bytes]] = []
    for key_id, length in header.sealed:
        parts.append((key_id, body[end : end + length]))
        end += length
    if end != len(body):
        raise UnreadableEvent("an event body is shorter or longer than its header says")
    return Body(header, tuple(parts))


def _damaged(what: str) -> UnreadableEvent:
    """Whatever stored bytes do wrong is one error of ours, without a word of what they hold."""
    return UnreadableEvent(f"{what} is damaged; see: lethelog audit verify")


def decode_envelope(body: Body) -> Envelope:
    """The envelope; needs no key."""
    header = body.header
    origin = None if header.origin is None else Origin(*header.origin)
    return Envelope(
        Actor(*header.actor),
        header.cause,
        header.correlation,
        header.policy,
        header.judge,
        origin,
        header.session,
    )


def recorded_first(envelope: Envelope, stored_at: datetime) -> datetime:
    """When an event was put on record: by the log it came from, or by this one, which stored it then.

    Never later than it was stored here, whatever the other's clock said.
    """
    return stored_at if envelope.origin is None else min(envelope.origin.recorded_at, stored_at)


_MOVED_IN = re.compile(rb'\{"s":\d+,"o":')


def is_moved_in(body: bytes) -> bool:
    """Whether a body is that of an event which came in with an archive; told by how its header begins."""
    return _MOVED_IN.match(body, 5) is not None


def decode_event(
    name: str, body: Body, *, tenant: UUID, stream: UUID, version: int, key_of: KeyOf
) -> Event | None:
    """The payload; sealed fields are None where the key is destroyed. None for an unknown name.

    Raises `UnreadableEvent`, and `SealBroken` for a part that does not open under its key.
    """
    cls = event_class(name)
    if cls is None:
        return None
    schema = body.header.schema
    if schema > cls.SCHEMA:
        raise WrittenByNewer(f"{name} is stored in schema {schema}, which a newer version wrote; upgrade Lethelog")
    fields = dict(body.header.clear)
    if not _hidden(cls).isdisjoint(fields):
        # A clear field must never stand in for a sealed one: nothing vouches for it.
        raise UnreadableEvent(f"the header of a {name} holds what only its sealed parts may say")
    try:
        for key_id, part in body.parts:
            key = key_of(key_id)
            if key is None:
                continue
            opened = sealing.unseal(key, part, sealing.event_binding(tenant, stream, version, name, key_id))
            fields.update(from_json(opened))
        if schema < cls.SCHEMA:
            fields = upcast(name, schema, fields, present=cls.SCHEMA)
        return cls.__pydantic_validator__.validate_python(fields)
    except LethelogError:
        raise
    except Exception:
        raise _damaged(f"the payload of a {name}") from None
