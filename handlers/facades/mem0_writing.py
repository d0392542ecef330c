"""What programs of mem0 write: adding, updating, deleting; every one of it is on record and can be taken back."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any
from uuid import UUID

from ...domain.apart import KEPT
from ...domain.errors import Conflict, InvalidInput
from ...domain.topic import topic_of
from ...projections.as_of import AsOf
from ...projections.live_memory import LiveMemory
from ...projections.progress import wait_for
from ...projections.rows import MemoryRow
from ..access.caller import Caller
from ..engine import Engine
from ..memories import MemoryCommands
from ..operating.views import Written
from . import mem0_arguments as given
from .mem0_reading import Mem0Reading, is_live, kept_of, metadata_of

_ATTEMPTS = 25
_AT_ONCE = 32
_ROUNDS = 10
ADDED, UNCHANGED = "ADD", "NONE"


class Mem0Writing:
    """Writes for one caller at a time."""

    def __init__(self, engine: Engine, reading: Mem0Reading) -> None:
        self._engine = engine
        self._reading = reading
        self._commands = MemoryCommands(engine)

    async def remember(
        self,
        caller: Caller,
        content: str,
        owners: Mapping[str, str],
        metadata: Mapping[str, Any],
        kept: Mapping[str, Any],
        **fields: Any,
    ) -> Written:
        """Write one memory, or find the one of these owners that says the same."""
        day = kept.get("expiration_date")
        return await _refusing(
            self._commands.remember_apart(
                caller,
                {
                    "content": content,
                    "topic": topic_of(content),
                    "metadata": {**metadata, KEPT: {name: one for name, one in kept.items() if one is not None}},
                    "expires_at": given.expires_at(day),
                    **owners,
                    **fields,
                },
            )
        )

    async def update(
        self,
        caller: Caller,
        memory_id: object,
        text: str | None,
        metadata: object,
        expiration_date: object,
        after: int,
    ) -> Written:
        """Write the successor; what is left out stays. Raises `UnknownMemory`."""
        caller.require("memory:write")
        if text is None and metadata is None and expiration_date is given.UNSET:
            raise given.RefusedInput("text", "is missing, and so are metadata and expiration_date")
        said = given.metadata(metadata)
        changed: dict[str, Any] = {}
        if expiration_date is not given.UNSET:
            changed["expiration_date"] = given.expiration(expiration_date)
        for _ in range(_ATTEMPTS):
            head = await self._head(caller, memory_id, after)
            kept = {**kept_of(head), **changed}
            fields: dict[str, Any] = {
                "memory_id": head.memory_id,
                "content": head.content if text is None else text,
                "metadata": {**metadata_of(head), **said, KEPT: kept},
                "expires_at": given.expires_at(kept.get("expiration_date")) if changed else head.expires_at,
                "expected_version": head.state_version,
            }
            if text is not None:
                fields["topic"] = topic_of(text)
            try:
                return await _refusing(self._commands.revise_apart(caller, fields))
            except Conflict as refused:
                if not _moved_on(refused):
                    raise
                after = await self._engine.log.head()
        raise Conflict("the memory keeps changing while it is updated; try again")

    async def delete(self, caller: Caller, memory_id: object, after: int) -> tuple[int, list[UUID]]:
        """Archive a memory; the position, and the events of it. Raises `UnknownMemory`."""
        caller.require("memory:write")
        for _ in range(_ATTEMPTS):
            head = await self._head(caller, memory_id, after)
            try:
                return await self._archive(caller, head.memory_id)
            except Conflict:
                # It was updated meanwhile, or somebody else deleted it.
                after = await self._engine.log.head()
        raise Conflict("the memory keeps changing while it is deleted; try again")

    async def delete_all(
        self, caller: Caller, owners: Mapping[str, Any] | None, after: int
    ) -> tuple[int, list[UUID], int]:
        """Archive all of these owners, or of this facade; gives position, events, and how many are left (F01)."""
        caller.require("memory:write")
        events: list[UUID] = []
        for _ in range(_ROUNDS):
            rows = await self._reading.live(caller, owners, after)
            if not rows:
                return after, events, 0
            for start in range(0, len(rows), _AT_ONCE):
                done = await asyncio.gather(
                    *(self._deleted(caller, row) for row in rows[start : start + _AT_ONCE])
                )
                events += [event for _, found in done for event in found]
                after = max(after, *(position for position, _ in done))
        return after, events, len(await self._reading.live(caller, owners, after))

    async def _deleted(self, caller: Caller, row: MemoryRow) -> tuple[int, list[UUID]]:
        try:
            return await self._archive(caller, row.memory_id)
        except Conflict:
            # It was updated or deleted meanwhile; the next round finds what is there.
            return await self._engine.log.head(), []

    async def _archive(self, caller: Caller, memory_id: UUID) -> tuple[int, list[UUID]]:
        written = await self._commands.archive(caller, {"memory_id": memory_id})
        recorded = await self._engine.log.read_stream(caller.tenant, memory_id) if written.changed else ()
        return written.position, [one.event_id for one in recorded if one.position == written.position]

    async def _head(self, caller: Caller, memory_id: object, after: int) -> MemoryRow:
        if after:
            await wait_for(self._engine.doors, LiveMemory.name, after)
        line = await self._reading.line(caller.tenant, memory_id, AsOf(self._engine.clock()))
        if not line or not is_live(line[-1]):
            raise given.unknown(memory_id)
        return line[-1]


async def _refusing(writing: Awaitable[Written]) -> Written:
    """What was written; what is refused is refused as programs of mem0 expect it."""
    try:
        return await writing
    except InvalidInput as refused:
        raise given.RefusedInput(refused.field, refused.problem) from None


def _moved_on(refused: Conflict) -> bool:
    """Whether somebody was quicker, so that it is worth while to look again."""
    return "current_version" in refused.details and "refuted_memory" not in refused.details


def result(written: Written, **more: Any) -> dict[str, Any]:
    """One entry of what an add answers. ``status`` says it where the memory is not shown to everybody."""
    event = UNCHANGED if written.deduplicated else ADDED
    found = {"id": str(written.memory.id), "memory": written.memory.content, "event": event, **more}
    return found if written.memory.status == "active" else {**found, "status": written.memory.status}


def deleted(message: str, events: Sequence[UUID], remaining: int) -> dict[str, Any]:
    """What a deletion answers."""
    return {
        "message": message,
        "deleted": len(events),
        "remaining": remaining,
        "event_ids": [str(one) for one in events],
    }
