"""Writing an archive: a tenant as it is on record, or the memories that a filter keeps.

Every page is read from the log itself, so what is written is proof and not a read model's opinion, and no more
than a page is held at once. That an archive was written, and which memories it holds, is on record before the file
appears: an erasure names it as a copy that it cannot reach.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from ...domain.errors import InvalidInput
from ...domain.events import ArchiveExported, ArchiveExportStarted, ArchiveFilter
from ...domain.fields import Input, MemoryType, Name, Scope, parse
from ...domain.memory import Memory, evolve
from ...projections.rebuild import Report, silent
from ...streams.directory import NameKind
from ...streams.folding import fold_stream
from ...streams.ids import new_id
from ...streams.payloads import RecordedEvent
from ..access.caller import Caller
from ..engine import Engine
from ..operating.replaying import known_event
from ..operating.views import View
from .contents import KINDS, is_archived, named_by, sealing_memories, to_archived, without
from .file import FORMAT, ArchivedEvent, ArchiveWriter, Header
from .records import Exports

_STREAMS = 200
"""Streams read at once."""
HELD_LIMIT = 10_000
"""Memories of a narrowed archive that its record names; an archive of more counts as one of all."""


_NAMED: dict[str, NameKind] = {
    "project": "project",
    "user_id": "user",
    "agent_id": "agent",
    "run_id": "run",
    "session_id": "session",
    "subject": "subject",
}


class ExportArchive(Input):
    """Which memories to write, and how. What is not given narrows nothing."""

    content: bool = True
    """False for a skeleton: types, times, actors' kinds and ids, without personal text and names."""
    memory_types: tuple[MemoryType, ...] = ()
    scope: Scope | None = None
    project: Name | None = None
    user_id: Name | None = None
    agent_id: Name | None = None
    run_id: Name | None = None
    session_id: Name | None = None
    subject: Name | None = None

    def narrowing(self) -> dict[str, Any]:
        """What narrows it."""
        return self.model_dump(exclude={"content"}, exclude_defaults=True)


class ArchiveWritten(View):
    """What was written."""

    archive: UUID
    file: str
    sha256: str
    memories: int
    events: int
    position: int
    """It holds what was on record up to here."""


class Exporting:
    """Writes archives for one caller's tenant."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def export(
        self,
        caller: Caller,
        path: Path,
        arguments: Mapping[str, Any],
        report: Report = silent,
        *,
        overwrite: bool = False,
    ) -> tuple[ArchiveWritten, int]:
        """Write an archive; it appears under its name once it is whole and on record.

        Gives what was written, and the position of the record. Raises `InvalidInput`, `AccessDenied`,
        `UnreadableEvent` naming the position of an event that cannot be read, and `Misconfigured` for a file that
        cannot be written. Broken off, it leaves no file.
        """
        caller.require("memory:read")
        caller.require("tenant:admin")
        asked = parse(ExportArchive, arguments)
        chosen = await self._filter(caller.tenant, asked)
        upto = await self._engine.log.head()
        header = Header(
            format=FORMAT,
            archive=new_id(),
            product=_version(),
            tenant=caller.tenant,
            position=upto,
            written_at=self._engine.clock(),
            content=asked.content,
            filter=asked.narrowing() or None,
        )
        writer = await asyncio.to_thread(ArchiveWriter, path, header, overwrite=overwrite)
        try:
            exports = Exports(self._engine)
            started = ArchiveExportStarted(position=upto, content=asked.content, filter=chosen)
            await exports.start(caller, header.archive, started)
            held: list[UUID] | None = None if chosen is None else []
            async for events in self._pages(caller.tenant, upto, chosen, report, content=asked.content):
                await asyncio.to_thread(writer.write, events)
                if held is not None:
                    held += [e.stream for e in events if e.event == "memory.remembered" and e.stream != "tenant"]
                    held = held if len(held) <= HELD_LIMIT else None
            digest = await asyncio.to_thread(writer.finish)
            done = ArchiveExported(
                digest=digest,
                memories=writer.memories,
                events=writer.events,
                held=None if held is None else tuple(held),
            )
            position = await exports.finish(caller, header.archive, done)
            await asyncio.to_thread(writer.publish)
        finally:
            writer.discard()
        written = ArchiveWritten(
            archive=header.archive,
            file=str(path),
            sha256=digest,
            memories=writer.memories,
            events=writer.events,
            position=upto,
        )
        return written, position

    async def _filter(self, tenant: UUID, asked: ExportArchive) -> ArchiveFilter | None:
        """What narrows it, by opaque ids. Raises `InvalidInput` for a name that was never used."""
        if not asked.narrowing():
            return None
        directory = self._engine.directory
        ids: dict[str, UUID] = {}
        for field, kind in _NAMED.items():
            name: str | None = getattr(asked, field)
            if name is None:
                continue
            found = await directory.find(tenant, kind, name)
            if found is None:
                raise InvalidInput(field, "names nobody and nothing that is on record")
            ids[kind] = found
        return ArchiveFilter(memory_types=asked.memory_types, scope=asked.scope, **ids)

    async def _pages(
        self, tenant: UUID, upto: int, chosen: ArchiveFilter | None, report: Report, *, content: bool
    ) -> AsyncGenerator[list[ArchivedEvent]]:
        # A narrowed archive holds no passes: each is about memories of every kind. Nor the tenant's settings.
        kinds = KINDS if chosen is None else ("memory", "commitment", "proposal", "fact", "contradiction")
        for number, kind in enumerate(kinds):
            after = 0
            while True:
                # Every kind reads the whole log.
                report(number * upto + after, len(kinds) * upto)
                begun = await self._engine.log.beginnings(
                    tenant, f"{kind}.", after=after, upto=upto, limit=_STREAMS
                )
                if kind == "tenant":
                    begun = [(position, stream) for position, stream in begun if stream == tenant]
                found = await self._engine.log.read_streams(tenant, [stream for _, stream in begun], upto=upto)
                streams = [found[stream] for _, stream in begun]
                yield await self._archived(tenant, streams, chosen, content=content)
                if len(begun) < _STREAMS:
                    break
                after = begun[-1][0]
        report(len(kinds) * upto, len(kinds) * upto)

    async def _archived(
        self, tenant: UUID, streams: list[list[RecordedEvent]], chosen: ArchiveFilter | None, *, content: bool
    ) -> list[ArchivedEvent]:
        streams = [_own_history([one for one in events if is_archived(one.name)]) for events in streams]
        hidden: set[UUID] | None = None if not content else set()
        if chosen is not None:
            streams, outside = await self._narrowed(tenant, streams, chosen)
            hidden = None if hidden is None else outside
        names: Mapping[UUID, str] = {}
        if content:
            mentioned = {one for events in streams for event in events for one in named_by(event)}
            names = await self._engine.directory.names(tenant, mentioned)
        return [
            to_archived(one, without(known_event(one), hidden), version, names.get)
            for events in streams
            for version, one in enumerate(events, 1)
        ]

    async def _narrowed(
        self, tenant: UUID, streams: list[list[RecordedEvent]], chosen: ArchiveFilter
    ) -> tuple[list[list[RecordedEvent]], set[UUID]]:
        """(streams about memories that are kept, other memories that they mention)."""
        about = {events[0].stream: _about(events) for events in streams if events}
        wanted = {one for ids in about.values() for one in ids}
        kept: set[UUID] = set()
        for stream, events in (await self._engine.log.read_streams(tenant, wanted)).items():
            state = fold_stream(events, evolve) if events[0].name == "memory.remembered" else None
            if state is not None and _matches(chosen, state):
                kept.add(stream)
        narrowed = [events for events in streams if events and _subjects(events) <= kept]
        return narrowed, wanted - kept


def _own_history(events: list[RecordedEvent]) -> list[RecordedEvent]:
    """A tenant's settings begin with the newest ``tenant.created``: that of the archive it was moved in with."""
    begins = [number for number, one in enumerate(events) if one.name == "tenant.created"]
    return events[begins[-1] :] if begins else events


def _subjects(events: list[RecordedEvent]) -> set[UUID]:
    """The memories that a stream is about."""
    first = known_event(events[0])
    if events[0].name.startswith("memory."):
        return {events[0].stream}
    if events[0].name.startswith("commitment."):
        # Where it rides now decides; what it left may stay behind.
        return {getattr(known_event(events[-1]), "memory_id")}  # noqa: B009 - each of its events has it
    given = (getattr(first, "memory_id", None), getattr(first, "related_id", None))
    return {one for one in given if one is not None}


def _about(events: list[RecordedEvent]) -> set[UUID]:
    """The memories that a stream is about, and those whose text it quotes."""
    return _subjects(events).union(*(sealing_memories(known_event(one)) for one in events))


def _matches(chosen: ArchiveFilter, memory: Memory) -> bool:
    owners = memory.owners
    present = {
        "scope": memory.scope,
        "project": memory.project,
        "user": owners.user,
        "agent": owners.agent,
        "run": owners.run,
        "session": owners.session,
        "subject": owners.subject,
    }
    asked = chosen.model_dump(exclude={"memory_types"}, exclude_none=True)
    return (not chosen.memory_types or memory.memory_type in chosen.memory_types) and all(
        present[name] == value for name, value in asked.items()
    )


def _version() -> str:
    from importlib.metadata import version

    return version("lethelog")
