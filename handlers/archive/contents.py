"""Which events an archive holds, and how they stand in it: in clear, by outside names."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any
from uuid import UUID

from ...domain.errors import InvalidInput
from ...domain.events import Event, event_class
from ...domain.upcasters import UPCASTERS, upcast
from ...streams.directory import NameKind
from ...streams.payloads import Actor, Envelope, Origin, RecordedEvent
from .file import ArchivedActor, ArchivedEvent

KINDS = ("tenant", "memory", "commitment", "pass", "verdict", "proposal", "fact", "contradiction")
"""First words of the events in an archive, in the order in which it holds them: nothing precedes what seals it."""
LEFT_OUT = {
    "tenant.budget_": "a day's judge calls were paid where they were made",
    "consolidation.": "a pass compares by the embedding model of its own installation; what it proposed comes",
    "token.": "a credential belongs to the installation that issued it",
    "webhook.": "its secret is known to one receiver, which the installation that made it tells; add it here anew",
    "erasure.": "an erasure is proved where it was done; what was erased comes as a skeleton",
    "extraction.": "a text was read where it was; what that proposed comes",
    "undo.": "what was taken back stands in the history of each memory; who asks for more, asks here",
    "whatif.": "what another judge was asked here is no part of any memory's history",
    "session.": "a lease is that of a running program; in which session something was written stands on it",
    "archive.": "a record of copies says nothing about the memories in them",
}
"""Beginnings of the names of events that no archive holds, and why."""

NameOf = Callable[[UUID], str | None]
Register = Callable[[NameKind, str], Awaitable[UUID]]


def is_archived(name: str) -> bool:
    """Whether an archive holds events of this name."""
    return name.partition(".")[0] in KINDS and not name.startswith(tuple(LEFT_OUT))


def named_by(recorded: RecordedEvent) -> set[UUID]:
    """The opaque ids that an event mentions outside names by."""
    event = recorded.event
    given = {getattr(event, field) for field in event.NAMED} if event is not None else set[UUID | None]()
    return {one for one in given if one is not None} | {recorded.envelope.actor.id}


def without(event: Event, hidden: Collection[UUID] | None) -> Event:
    """The event without what is sealed for these memories, or without anything sealed."""
    fields = {
        field
        for field, names in event.SEALED_FOR.items()
        if getattr(event, field) is not None and (hidden is None or getattr(event, names) in hidden)
    }
    if hidden is None:
        fields |= event.SEALED
    return event.model_copy(update=dict.fromkeys(fields)) if fields else event


def sealing_memories(event: Event) -> set[UUID]:
    """The memories that the sealed fields of an event need the keys of, beside the stream's own."""
    return {
        getattr(event, names) for field, names in event.SEALED_FOR.items() if getattr(event, field) is not None
    }


def to_archived(recorded: RecordedEvent, event: Event, version: int, name_of: NameOf) -> ArchivedEvent:
    """An event of the log as a line."""
    data = {name: value for name, value in event.model_dump(mode="json").items() if value is not None}
    for field in event.NAMED:
        one: UUID | None = getattr(event, field)
        if one is not None:
            name = name_of(one)
            data[field] = {"id": str(one)} if name is None else {"name": name}
    actor = recorded.envelope.actor
    name = name_of(actor.id)
    envelope = recorded.envelope
    return ArchivedEvent.model_construct(
        stream="tenant" if recorded.stream == recorded.tenant else recorded.stream,
        version=version,
        event=recorded.name,
        schema_=event.SCHEMA,
        id=recorded.event_id,
        position=recorded.happened_at,
        recorded_at=recorded.recorded_at,
        actor=ArchivedActor(kind=actor.kind, id=actor.id if name is None else None, name=name),
        cause=envelope.cause,
        correlation=envelope.correlation,
        policy=envelope.policy,
        judge=envelope.judge,
        session=envelope.session,
        data=data,
    )


async def to_event(archived: ArchivedEvent, register: Register) -> Event:
    """The payload of a line. Raises `InvalidInput`, naming a field and never repeating what stands in it."""
    cls = event_class(archived.event)
    if cls is None or not is_archived(archived.event):
        raise InvalidInput("event", "is not one that this version imports")
    if archived.schema_ > cls.SCHEMA or any(
        (archived.event, schema) not in UPCASTERS for schema in range(archived.schema_, cls.SCHEMA)
    ):
        raise InvalidInput("schema", "is not one that this version reads", "Upgrade Lethelog")
    data = dict(archived.data)
    _check_texts(data)
    for field, kind in cls.NAMED.items():
        if data.get(field) is not None:
            data[field] = await _inside(field, data[field], kind, register)
    try:
        return cls.model_validate(upcast(archived.event, archived.schema_, data, present=cls.SCHEMA))
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInput(_field_of(error), f"does not make a {archived.event}") from None


async def to_envelope(archived: ArchivedEvent, archive: UUID, register: Register) -> Envelope:
    """The envelope of a line that comes in with an archive."""
    said = archived.actor
    if said.name is not None:
        one = await register("actor", said.name)
    elif said.id is not None:
        one = said.id
    else:
        raise InvalidInput("actor", "has neither a name nor an id")
    return Envelope(
        Actor(said.kind, one),
        archived.cause,
        archived.correlation,
        archived.policy,
        archived.judge,
        Origin(archive, archived.position, archived.recorded_at),
        archived.session,
    )


async def _inside(field: str, said: Any, kind: NameKind, register: Register) -> str:
    if isinstance(said, Mapping):
        name: Any = said.get("name")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        one: Any = said.get("id")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(name, str) and 0 < len(name) <= 256:
            return str(await register(kind, name))
        if isinstance(one, str):
            return one
    raise InvalidInput(field, "must be a name or an id")


def _check_texts(said: Any, depth: int = 0) -> None:
    """Refuse text that no read model could store, wherever it stands."""
    if depth > 40:
        raise InvalidInput("data", "is nested too deep")
    if isinstance(said, str):
        if "\x00" in said:
            raise InvalidInput("data", "holds a NUL character, which cannot be stored")
        try:
            said.encode()
        except UnicodeEncodeError:
            raise InvalidInput("data", "holds half of a surrogate pair, which is not text") from None
    elif isinstance(said, dict):
        for key, value in said.items():  # pyright: ignore[reportUnknownVariableType]
            _check_texts(key, depth)
            _check_texts(value, depth + 1)
    elif isinstance(said, list):
        for value in said:  # pyright: ignore[reportUnknownVariableType]
            _check_texts(value, depth + 1)


def _field_of(error: Exception) -> str:
    errors = getattr(error, "errors", None)
    if errors is None:
        return "data"
    first = errors(include_url=False, include_context=False, include_input=False)[0]
    return "data." + ".".join(str(part)[:40] for part in first["loc"]) if first["loc"] else "data"
