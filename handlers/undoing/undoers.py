"""What taking an effect back appends, by the kind of stream that it stands on: one table, as for accepting."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol
from uuid import UUID

from ...domain.commitment import decide_undo as decide_undo_of_commitment
from ...domain.commitment import evolve_commitment
from ...domain.contradiction import evolve_contradiction
from ...domain.errors import Conflict
from ...domain.events import ContradictionResolved, Event, MemoryEdgeAdded, MemorySuperseded
from ...domain.fact import decide_undo as decide_undo_of_fact
from ...domain.fact import evolve_fact
from ...domain.memory import Memory
from ...domain.memory_undo import decide_undo
from ...streams.folding import fold_stream
from ...streams.log import Claim
from ...streams.payloads import RecordedEvent
from ..commitments.riding import CLAIM
from ..contradictions.reopening import closing_again, reopening
from ..engine import Engine
from ..memories import MemoryCommands
from ..reviewing.changes import Changes, StreamChange
from ..reviewing.effects import changes_of_memories
from .selecting import Effect


class Undoer(Protocol):
    """Takes effects on one kind of stream back."""

    async def undo(self, tenant: UUID, effects: Sequence[Effect], undo: UUID, *, again: bool) -> Changes:
        """What is to be appended, newest effect first; with ``again`` they hold once more.

        Raises `Conflict` where later history stands on one of them.
        """
        ...


class OnMemories:
    """Endings and edges of memories."""

    def __init__(self, engine: Engine, memories: MemoryCommands) -> None:
        self._engine = engine
        self._memories = memories

    async def undo(self, tenant: UUID, effects: Sequence[Effect], undo: UUID, *, again: bool) -> Changes:
        streams = list({effect.stream for effect in effects})
        states = await self._memories.load_many(tenant, streams)
        recorded = await self._engine.log.read_streams(tenant, streams)
        changes: dict[UUID, list[Event]] = {}
        for effect in effects:
            if effect.stream not in states:
                raise Conflict("the memory is not there any more", memory_id=effect.stream)
            found = recorded_of(effect, recorded[effect.stream])
            assert found.event is not None
            undone = decide_undo(
                states[effect.stream],
                found.event,
                version=found.version,
                effect_id=effect.id,
                undo=undo,
                again=again,
                other=await self._other(tenant, found.event) if again else None,
            )
            changes.setdefault(effect.stream, []).append(undone)
        return await changes_of_memories(self._engine, tenant, states, changes)

    async def _other(self, tenant: UUID, event: Event) -> Memory | None:
        """The memory that superseded the one of an effect, or that its edge leads to."""
        match event:
            case MemorySuperseded():
                other = event.successor
            case MemoryEdgeAdded():
                other = event.to
            case _:
                return None
        return (await self._memories.load_many(tenant, [other])).get(other)


class OnCommitments:
    """Transitions of commitments, and their going over to another memory."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def undo(self, tenant: UUID, effects: Sequence[Effect], undo: UUID, *, again: bool) -> Changes:
        streams = await self._engine.log.read_streams(tenant, list({effect.stream for effect in effects}))
        changes = Changes()
        for stream, recorded in streams.items():
            state = fold_stream(recorded, evolve_commitment)
            assert state is not None
            events: list[Event] = []
            for effect in (one for one in effects if one.stream == stream):
                found = recorded_of(effect, recorded)
                assert found.event is not None
                undone = decide_undo_of_commitment(
                    state, found.event, version=found.version, effect=effect.id, undo=undo, again=again
                )
                after = state
                for event in undone:
                    after = evolve_commitment(
                        after, event, stream=stream, version=after.version + 1, recorded_at=after.changed_at
                    )
                if after.memory_id != state.memory_id:
                    # The claim says which commitment rides on a memory.
                    changes.claims.append(Claim(CLAIM, state.memory_id.bytes, stream, None))
                    changes.claims.append(Claim(CLAIM, after.memory_id.bytes, None, stream))
                state = after
                events += undone
            changes.streams.append(StreamChange(stream, recorded[-1].version, events))
        return changes


class OnFacts:
    """Facts that were accepted."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def undo(self, tenant: UUID, effects: Sequence[Effect], undo: UUID, *, again: bool) -> Changes:
        streams = await self._engine.log.read_streams(tenant, list({effect.stream for effect in effects}))
        changes = Changes()
        for effect in effects:
            state = fold_stream(streams[effect.stream], evolve_fact)
            assert state is not None
            events = decide_undo_of_fact(state, effect=effect.id, undo=undo, again=again)
            if not events:
                raise Conflict("the fact was taken back or put back since", fact_id=state.id)
            changes.streams.append(StreamChange(effect.stream, state.version, events))
        return changes


class OnContradictions:
    """Decisions about contradictions."""

    def __init__(self, engine: Engine, memories: MemoryCommands) -> None:
        self._engine = engine
        self._memories = memories

    async def undo(self, tenant: UUID, effects: Sequence[Effect], undo: UUID, *, again: bool) -> Changes:
        changes = Changes()
        for effect in effects:
            recorded = await self._engine.log.read_stream(tenant, effect.stream)
            state = fold_stream(recorded, evolve_contradiction)
            said = event_of(effect, recorded)
            assert state is not None and isinstance(said, ContradictionResolved)
            known = {"effect_id": effect.id, "undo": undo}
            if again:
                part = await closing_again(self._engine, tenant, state, said, **known)
            else:
                part = await reopening(self._memories, tenant, state, said, **known)
            changes.streams += part.streams
            changes.claims += part.claims
        return changes


def recorded_of(effect: Effect, recorded: Sequence[RecordedEvent]) -> RecordedEvent:
    """The event that an effect is, with its place. Raises `Conflict` where this version does not know it."""
    found = next((one for one in recorded if one.event_id == effect.id), None)
    if found is None or found.event is None:
        raise Conflict("the effect's event is not known to this version", effect=effect.id)
    return found


def event_of(effect: Effect, recorded: Sequence[RecordedEvent]) -> Event:
    """The event that an effect is. Raises `Conflict` where this version does not know it."""
    found = recorded_of(effect, recorded).event
    assert found is not None
    return found


def undoers(engine: Engine, memories: MemoryCommands) -> Mapping[str, Undoer]:
    """By the first word of an effect's name."""
    table: dict[str, Undoer] = {
        "memory": OnMemories(engine, memories),
        "commitment": OnCommitments(engine),
        "fact": OnFacts(engine),
        "contradiction": OnContradictions(engine, memories),
    }
    return MappingProxyType(table)
