"""Which memories an erasure reaches, told from the log itself: every one there is, however many (F01).

Read models are not asked: they may be behind, or have set something aside. What links memories, and whose they
are, stands readable in their events.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from ...domain.events import Derived, ErasureKind, MemoryMoved, MemoryRemembered, ProviderCall, VerdictRecorded
from ...streams import payloads
from ...streams.database import Database
from ...streams.pages import Selection, read_rows

_PAGE = 2_000
_NAMES = (MemoryRemembered.NAME, MemoryMoved.NAME, VerdictRecorded.NAME)
_LOCAL_JUDGES = ("stated", "none")
LEFT_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for. ``target`` is a memory, or the opaque id of a person or a project."""

    kind: ErasureKind
    target: UUID | None
    scope: str | None
    derived: Derived


@dataclass(frozen=True, slots=True)
class Targets:
    """What an erasure reaches."""

    memories: tuple[UUID, ...]
    derived: int
    """How many of them only follow from what was asked for."""
    left: tuple[UUID, ...]
    """Memories that follow from these and stay."""
    names: frozenset[UUID]
    """Opaque ids that only these memories used: runs and sessions, whose names go with them."""


@dataclass(slots=True)
class Links:
    """What the log up to a position says about memories: whose they are and what they follow from."""

    position: int = 0
    unreadable: int = 0
    """Events that may be about anybody, since they cannot be read."""
    since: dict[UUID, int] = field(default_factory=dict[UUID, int])
    """At which position each memory was remembered."""
    said_of: dict[UUID, set[UUID | str]] = field(default_factory=dict[UUID, "set[UUID | str]"])
    """Persons, projects and scopes that each memory was ever filed under."""
    lines: dict[UUID, list[UUID]] = field(default_factory=lambda: defaultdict(list))
    """Revisions, and earlier memories of the same text, both ways."""
    derived: dict[UUID, list[UUID]] = field(default_factory=lambda: defaultdict(list))
    """Memories that follow from each."""
    passing: dict[UUID, tuple[UUID, ...]] = field(default_factory=dict[UUID, tuple[UUID, ...]])
    """Runs and sessions of each memory."""
    judged: list[tuple[str, datetime, frozenset[UUID]]] = field(
        default_factory=list[tuple[str, datetime, frozenset[UUID]]]
    )
    """Verdicts of judges elsewhere: who, when, and which memories were shown."""

    async def read(self, database: Database, tenant: UUID, upto: int) -> None:
        """Go on to a position of the log."""
        async for position, name, stream, at, clear in _clear_events(database, tenant, self.position, upto):
            if clear is None:
                self.unreadable += name != VerdictRecorded.NAME
            elif name == VerdictRecorded.NAME:
                self._add_verdict(at, clear)
            else:
                self.since.setdefault(stream, position)
                self._add_filing(stream, clear)
                if name == MemoryRemembered.NAME:
                    self._add_memory(stream, clear)
        self.position = upto

    def reached(self, asked: Asked) -> Targets:
        """Everything an erasure of this reaches; with ``cascade`` also what follows from it, and so on."""
        asked_for = self._lineages(self._seeds(asked))
        everything = set(asked_for)
        while asked.derived == "cascade":
            further = self._lineages(self._following(everything)) - everything
            if not further:
                break
            everything |= further
        left = self._following(everything) - everything
        staying = {one for memory, used in self.passing.items() if memory not in everything for one in used}
        names = {one for memory in everything for one in self.passing.get(memory, ())} - staying
        return Targets(
            tuple(sorted(everything)), len(everything) - len(asked_for), tuple(sorted(left)), frozenset(names)
        )

    def around(self, memories: tuple[UUID, ...]) -> Targets:
        """These alone, and what follows from them and stays."""
        return Targets(memories, 0, tuple(sorted(self._following(set(memories)) - set(memories))), frozenset())

    def providers(self, memories: Iterable[UUID]) -> tuple[ProviderCall, ...]:
        """To whom these were shown, and when."""
        reached = set(memories)
        times: dict[str, list[datetime]] = defaultdict(list)
        for judge, at, shown in self.judged:
            if not reached.isdisjoint(shown):
                times[judge].append(at)
        return tuple(
            ProviderCall(provider=judge, operation="judging", calls=len(at), first_at=min(at), last_at=max(at))
            for judge, at in sorted(times.items())
        )

    def _seeds(self, asked: Asked) -> set[UUID]:
        if asked.kind == "tenant":
            return set(self.said_of)
        if asked.kind == "memory":
            return {one for one in (asked.target,) if one is not None and one in self.said_of}
        wanted = asked.scope if asked.kind == "scope" else asked.target
        return {memory for memory, said in self.said_of.items() if wanted in said}

    def _lineages(self, seeds: set[UUID]) -> set[UUID]:
        return _closed(seeds, self.lines)

    def _following(self, memories: set[UUID]) -> set[UUID]:
        return {follower for one in memories for follower in self.derived.get(one, ())}

    def _add_filing(self, memory: UUID, clear: dict[str, Any]) -> None:
        said = self.said_of.setdefault(memory, set())
        said.add(clear["scope"])
        said.update(UUID(clear[name]) for name in ("subject", "user", "project") if clear.get(name))

    def _add_memory(self, memory: UUID, clear: dict[str, Any]) -> None:
        for name in ("predecessor", "earlier"):
            if clear.get(name):
                other = UUID(clear[name])
                self.lines[memory].append(other)
                self.lines[other].append(memory)
        for other in clear.get("derived_from", ()):
            self.derived[UUID(other)].append(memory)
        used = tuple(UUID(clear[name]) for name in ("run", "session") if clear.get(name))
        if used:
            self.passing[memory] = used

    def _add_verdict(self, at: datetime, clear: dict[str, Any]) -> None:
        judge = str(clear["judge"])
        if not judge.startswith(_LOCAL_JUDGES):
            self.judged.append((judge, at, frozenset(map(UUID, clear["seen"]))))


def _closed(seeds: set[UUID], links: dict[UUID, list[UUID]]) -> set[UUID]:
    found, waiting = set(seeds), list(seeds)
    while waiting:
        for other in links.get(waiting.pop(), ()):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


async def _clear_events(
    database: Database, tenant: UUID, after: int, upto: int
) -> AsyncGenerator[tuple[int, str, UUID, datetime, dict[str, Any] | None]]:
    """The readable fields of a tenant's events that link memories; None for those that cannot be read."""
    only = Selection(tenant, names=_NAMES)
    while True:
        async with database.connection() as connection:
            rows: Sequence[tuple[Any, ...]] = await read_rows(
                connection, after, _PAGE, upto=upto, only=only, columns="position, name, stream, recorded_at, body"
            )
        for position, name, stream, at, body in rows:
            try:
                clear = payloads.split(body).header.clear
            except payloads.UnreadableEvent:
                clear = None
            yield position, name, stream, at, clear
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]
