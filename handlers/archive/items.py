"""One thing of an archive that comes in as a whole: a memory, commitment, proposal, pass, verdict or fact with
its events.

What is said in a file is held against the same rules as what is said through a door; an item that breaks one is
refused by itself, with a reason, and the others come in.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Literal
from uuid import UUID

from ...domain import commands as c
from ...domain import events as e
from ...domain.commitment import Commitment, evolve_commitment
from ...domain.errors import InvalidInput
from ...domain.fields import parse
from ...domain.memory import Memory, evolve
from ...domain.memory_rules import CLOCK_SKEW
from ...streams.log import NewEvent
from .contents import KINDS, Register, to_envelope, to_event
from .file import ArchivedEvent

Action = Literal["imported", "continued", "present", "erased", "duplicate", "refused"]
_REASON_LIMIT = 2_000


@dataclass(frozen=True, slots=True)
class Item:
    """The events of one stream, as the file has them."""

    kind: str
    stream: UUID
    lines: tuple[ArchivedEvent, ...]

    @property
    def size(self) -> int:
        """Roughly, in characters of text."""
        return sum(len(str(line.data.get("content", ""))) + 500 for line in self.lines)


@dataclass(frozen=True, slots=True)
class Opened:
    """An item whose events make sense: what each leads to, if it is a memory's or a commitment's."""

    item: Item
    events: tuple[NewEvent, ...]
    states: tuple[Memory, ...] = ()
    commitments: tuple[Commitment, ...] = ()


def items(lines: Iterable[ArchivedEvent], tenant: UUID) -> Iterator[Item]:
    """The streams of an archive, in its order. ``tenant`` is the one that they come into."""
    for stream, group in groupby(lines, key=lambda line: line.stream):
        events = tuple(group)
        kind = events[0].event.partition(".")[0]
        yield Item(kind, stream if isinstance(stream, UUID) else tenant, events)


async def opened(item: Item, archive: UUID, now: datetime, register: Register) -> Opened:
    """Its events. Raises `InvalidInput` for the first thing that is wrong."""
    _check_lines(item, now)
    events = [
        NewEvent(
            item.stream,
            line.version,
            await to_event(line, register),
            line.id,
            await to_envelope(line, archive, register),
        )
        for line in item.lines
    ]
    states = _states(item, events) if item.kind == "memory" else ()
    if item.kind == "proposal" and not isinstance(
        events[0].event, e.ProposalStaged | e.ProposalDismissed | e.Staged
    ):
        raise InvalidInput("event", "a proposal begins with what was staged or dismissed")
    if item.kind == "fact":
        _check_fact(events)
    if item.kind == "contradiction" and not isinstance(events[0].event, e.ContradictionFlagged):
        raise InvalidInput("event", "a contradiction begins with what was flagged")
    if item.kind == "tenant":
        _check_scopes(events)
    for new in events:
        _check_reasons(new.event)
    return Opened(item, tuple(events), states, _commitments(item, events) if item.kind == "commitment" else ())


def _check_lines(item: Item, now: datetime) -> None:
    if item.kind not in KINDS or (item.kind == "tenant") != (item.lines[0].stream == "tenant"):
        raise InvalidInput("event", "is not one that this version imports")
    last = None
    for number, line in enumerate(item.lines, 1):
        if line.event.partition(".")[0] != item.kind:
            raise InvalidInput("event", "is of another kind than the first of its stream")
        if line.version != number:
            raise InvalidInput("version", f"is {line.version} where {number} would follow")
        if line.recorded_at > now + CLOCK_SKEW:
            raise InvalidInput("recorded_at", "lies in the future")
        if last is not None and (line.recorded_at, line.position) <= last:
            raise InvalidInput("recorded_at", "lies before that of the event before it")
        last = (line.recorded_at, line.position)


def _states(item: Item, events: list[NewEvent]) -> tuple[Memory, ...]:
    states: list[Memory] = []
    for line, new in zip(item.lines, events, strict=True):
        if isinstance(new.event, e.MemoryRemembered) != (new.version == 1):
            raise InvalidInput("event", "a memory begins with what was remembered, once")
        _check_fields(new.event)
        before = states[-1] if states else None
        states.append(
            evolve(before, new.event, stream=item.stream, version=new.version, recorded_at=line.recorded_at)
        )
    return tuple(states)


def _commitments(item: Item, events: list[NewEvent]) -> tuple[Commitment, ...]:
    states: list[Commitment] = []
    for line, new in zip(item.lines, events, strict=True):
        if isinstance(new.event, e.CommitmentOpened) != (new.version == 1):
            raise InvalidInput("event", "a commitment begins with what was opened, once")
        before = states[-1] if states else None
        states.append(
            evolve_commitment(
                before, new.event, stream=item.stream, version=new.version, recorded_at=line.recorded_at
            )
        )
        if states[-1].recurrence is not None:
            parse(c.Resolve, {"memory_id": states[-1].memory_id, "recurrence": states[-1].recurrence})
    return tuple(states)


def _check_fields(event: e.Event) -> None:
    """The limits of the input boundary, as they hold for what is said through a door."""
    if isinstance(event, e.MemoryRemembered) and event.content is not None:
        fields = ("memory_type", "scope", "topic", "content", "tags", "metadata", "derived_from")
        parse(c.RememberImported, {name: getattr(event, name) for name in fields})
    elif isinstance(event, e.MemoryRemembered):
        if event.topic is not None or event.tags or event.metadata:
            raise InvalidInput("content", "is missing, and the rest of the text is not")
        parse(c.RememberImported, {"topic": "t", "content": "c", "scope": event.scope})
    elif isinstance(event, e.MemoryMoved):
        said: dict[str, Any] = {"memory_id": UUID(int=0), "scope": event.scope, "tags": event.tags}
        parse(c.Move, said)


def _check_fact(events: list[NewEvent]) -> None:
    first, *later = [new.event for new in events]
    if not isinstance(first, e.FactAsserted) or any(isinstance(one, e.FactAsserted) for one in later):
        raise InvalidInput("event", "a fact begins with what was asserted, once")
    names = ("subject", "predicate", "value")
    texts: dict[str, str | None] = {name: getattr(first, name) for name in names}
    if None in texts.values():
        if any(text is not None for text in texts.values()):
            raise InvalidInput("value", "or another part of the fact is missing, and the rest of it is not")
        texts = dict.fromkeys(names, "erased")
    parse(c.GivenFact, texts | first.model_dump(include={"confidence", "valid_from", "valid_to"}))


def _check_scopes(events: list[NewEvent]) -> None:
    for new in events:
        if (
            isinstance(new.event, e.TenantScopeRegistered | e.TenantRetrievalChanged)
            and new.event.scope is not None
        ):
            parse(c.Move, {"memory_id": UUID(int=0), "scope": new.event.scope})


def _check_reasons(event: e.Event) -> None:
    for field in ("reason", "comment", "quote", "ref", "judge", "model", "policy"):
        said: object = getattr(event, field, None)
        if isinstance(said, str) and len(said) > _REASON_LIMIT:
            raise InvalidInput(f"data.{field}", f"has more than {_REASON_LIMIT} characters")
