"""What other systems left behind, taken over as the words of an importer (docs/reference/archive.md).

These are ordinary commands of this log: said by an importer, trusted as imported, dated as the other system dates
them, and under the same rules as what is said through a door. What has no place here is listed and never dropped
silently; a second time changes nothing.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from ...domain import commands as c
from ...domain.errors import Erased, InvalidInput, KeyReused, LethelogError
from ...domain.fields import parse
from ...projections.rebuild import Report, silent
from ...streams.log import KeyTaken
from ...streams.payloads import Actor
from ..access.caller import Caller
from ..claims import TextClaims
from ..command_keys import command_key
from ..engine import Engine
from ..memories import MemoryCommands, Retry
from ..operating.views import View
from .mcp_memory import read_mcp_memory
from .mem0 import read_mem0
from .recognising import pointer
from .said_elsewhere import Found, LeftOut, Remark, SaidElsewhere

ForeignFormat = Literal["mem0", "mcp-memory"]
_READ: Mapping[ForeignFormat, Callable[[Path], list[Found]]] = {
    "mem0": read_mem0,
    "mcp-memory": read_mcp_memory,
}
LISTED = 1_000
_STAYS_ERASED = "it was taken over before and erased here since; it stays so"
_CHANGED_THERE = (
    "it was taken over before with another text or other fields; revise that memory, or take over its history, too"
)


class ForeignItem(View):
    """What became of one memory of the other system."""

    source: str
    """Which: an id of the other system's, or where it stands in the file."""
    action: Literal["imported", "present", "duplicate", "erased", "refused", "left_out"]
    reason: str | None = None
    memory_id: UUID | None = None
    """The memory that holds its text here."""


class ForeignRemark(View):
    """A part of a memory, or of many, that has no place here."""

    source: str
    says: str


class ForeignResult(View):
    """What came in, or would, and what did not and why."""

    format: ForeignFormat
    sha256: str
    dry_run: bool
    counts: dict[str, int]
    """What became of it → how many memories of the file."""
    items: tuple[ForeignItem, ...]
    """Those that did not come in as they were; in a dry run those that would, too. At most `LISTED`."""
    remarks: tuple[ForeignRemark, ...]
    """At most `LISTED`."""
    remarks_count: int
    position: int | None
    """Position of the log that reads can wait for; None where nothing is here by it."""


@dataclass(slots=True)
class _Tally:
    dry_run: bool
    counts: Counter[str] = field(default_factory=Counter[str])
    items: list[ForeignItem] = field(default_factory=list[ForeignItem])
    remarks: list[ForeignRemark] = field(default_factory=list[ForeignRemark])

    def add(self, one: ForeignItem) -> None:
        self.counts[one.action] += 1
        if len(self.items) < LISTED and (self.dry_run or one.action not in ("imported", "present")):
            self.items.append(one)


class TakingOver:
    """Takes over files of other systems for one caller's tenant."""

    def __init__(self, engine: Engine, commands: MemoryCommands) -> None:
        self._engine = engine
        self._commands = commands

    async def take_over(
        self, caller: Caller, source: ForeignFormat, path: Path, report: Report = silent, *, dry_run: bool = False
    ) -> ForeignResult:
        """Take over a file. Raises `InvalidInput` for a format that is not known and a file that is not of it."""
        caller.require("memory:import")
        if source not in tuple(_READ):
            raise InvalidInput("source", f"must be one of {', '.join(_READ)}")
        said = await asyncio.to_thread(_read, source, path)
        digest = await asyncio.to_thread(_digest, path)
        importer = caller
        if not dry_run:
            name = await self._engine.directory.register(caller.tenant, "actor", source)
            importer = replace(
                caller, actor=Actor("importer", name), permissions=caller.permissions | {"memory:write"}
            )
        tally, position = _Tally(dry_run), 0
        for number, one in enumerate(said, 1):
            if isinstance(one, Remark):
                tally.remarks.append(ForeignRemark(source=one.source, says=one.says))
            elif isinstance(one, LeftOut):
                tally.add(ForeignItem(source=one.source, action="left_out", reason=one.reason))
            elif dry_run:
                tally.add(await self._foresee(caller, one))
            else:
                item, at = await self._bring(importer, one)
                tally.add(item)
                position = max(position, at)
            report(number, len(said))
        return ForeignResult(
            format=source,
            sha256=digest,
            dry_run=dry_run,
            counts=dict(tally.counts),
            items=tuple(tally.items),
            remarks=tuple(tally.remarks[:LISTED]),
            remarks_count=len(tally.remarks),
            position=position or None,
        )

    async def _bring(self, importer: Caller, one: SaidElsewhere) -> tuple[ForeignItem, int]:
        """Remember the first version and revise it into each later one; (what became of it, position)."""
        memory_id, position, changed = None, 0, False
        try:
            for number, version in enumerate(one.versions):
                retry = Retry(f"{one.key}:{number}")
                if memory_id is None:
                    written = await self._commands.import_memory(importer, version, retry)
                    if written.deduplicated:
                        return _item(
                            one, "duplicate", "a memory here holds the same text", written.memory.id
                        ), written.position
                else:
                    arguments = {**version, "memory_id": memory_id}
                    written = await self._commands.revise_imported(importer, arguments, retry)
                memory_id = written.memory.id
                changed = changed or written.changed
                position = max(position, written.position)
        except Erased:
            return _item(one, "erased", _STAYS_ERASED, memory_id), position
        except KeyReused:
            return _item(one, "refused", _CHANGED_THERE, memory_id), position
        except LethelogError as error:
            return _item(one, "refused", error.message, memory_id), position
        return _item(one, "imported" if changed else "present", None, memory_id), position

    async def _foresee(self, caller: Caller, one: SaidElsewhere) -> ForeignItem:
        engine, first = self._engine, one.versions[0]
        try:
            commands = [parse(c.RememberImported, version) for version in one.versions]
            key = await command_key(engine.vault, caller.tenant, commands[0], f"{one.key}:0")
        except LethelogError as error:
            return _item(one, "refused", error.message)
        earlier = await engine.log.find_command(caller.tenant, key)
        if earlier is not None:
            loaded = await self._commands.load_many(caller.tenant, [earlier.subject])
            if any(memory.erased for memory in loaded.values()):
                return _item(one, "erased", _STAYS_ERASED)
            if isinstance(earlier, KeyTaken):
                return _item(one, "refused", _CHANGED_THERE)
            return _item(one, "present")
        texts = await TextClaims.of(engine.log, engine.vault, caller.tenant)
        holder = (await texts.holders(commands[0].scope or "personal", first["content"])).content
        if holder is not None:
            return _item(one, "duplicate", "a memory here holds the same text", holder)
        return _item(one, "imported")


def _item(
    one: SaidElsewhere, action: Any, reason: str | None = None, memory_id: UUID | None = None
) -> ForeignItem:
    return ForeignItem(source=one.source, action=action, reason=reason, memory_id=memory_id)


def _read(source: ForeignFormat, path: Path) -> list[Found]:
    try:
        return _READ[source](path)
    except InvalidInput as error:
        looks = pointer(path)
        if not looks or f"the format {source}" in looks:
            raise
        raise InvalidInput(error.field, error.problem, looks) from None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
