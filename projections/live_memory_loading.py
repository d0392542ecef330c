"""Filling an empty live memory from a long stretch of the log: every row is written once, when it is final.

A memory's states are kept while further events of it are to come, and its rows are copied in with the last of
them, so that nothing is written twice and no stream is read again. Memories that are kept beyond `KEPT` are let
go, and read again when they are needed.
"""

from collections.abc import Sequence

from ..domain.memory import evolve
from ..streams.database import Connection
from ..streams.folding import fold_states
from ..streams.log import Log
from ..streams.payloads import RecordedEvent
from ..streams.portions import portions, uncollected
from .embedders import Embedder
from .live_memory import LiveMemory, Prepared, by_memories, numbered, parted
from .memory_columns import copied, copy_statement
from .memory_past import Held, Key, State, add_staged_past, stage

KEPT = 50_000
"""Memories that are not final yet, in this process at once."""


class LiveMemoryLoading(LiveMemory):
    """Live memory for pages that come one after another from one position to another, each of them once."""

    def __init__(self, log: Log, embedder: Embedder, start: int, target: int) -> None:
        super().__init__(log, embedder)
        self._start = start
        self._target = target
        self._states: dict[tuple[int, int], list[State]] = {}

    async def prepare(self, page: Sequence[RecordedEvent]) -> Prepared:
        by_memory = by_memories(page)
        await self._bring_beginnings(by_memory, page[0].position)
        async for portion in portions(by_memory):
            with uncollected():
                for key, events in portion:
                    self._add_states(key, events)
        last = await self._log.last_of_their_streams(page[0].position, page[-1].position, self._target)
        final: list[Held] = [
            (key, self._states.pop(numbered(key))) for key, events in by_memory if events[-1].position in last
        ]
        while len(self._states) > KEPT:
            del self._states[next(iter(self._states))]
        kept, _ = parted(final)
        vectors = await self._embed([(key, held[-1][0]) for key, held in kept])
        present, past = await self._rows(kept, vectors)
        return Prepared(present, past, {}, [key for key, _ in final])

    async def apply(
        self, connection: Connection, schema: str, page: Sequence[RecordedEvent], prepared: Prepared
    ) -> None:
        if self._start:
            # A loading towards an earlier target may have taken them for final.
            await self._delete(connection, schema, prepared.cleared)
        if prepared.present:
            statement = copy_statement(f"{schema}.live_memory", "embedding", "embedding_model")
            async with connection.cursor() as cursor, cursor.copy(statement) as copy:
                await copy.write(copied(prepared.present))
        if prepared.past:
            await stage(connection, prepared.past)
            await add_staged_past(connection, schema)

    async def _bring_beginnings(self, by_memory: Sequence[tuple[Key, list[RecordedEvent]]], before: int) -> None:
        missing = [one for one in by_memory if one[1][0].version > 1 and numbered(one[0]) not in self._states]
        for key, earlier in (await self._read_beginnings(missing, before)).items():
            self._add_states(key, earlier)

    def _add_states(self, key: Key, events: Sequence[RecordedEvent]) -> None:
        held = self._states.setdefault(numbered(key), [])
        before = held[-1][0] if held else None
        held += [(state, one.position) for one, state in fold_states(events, evolve, before)]
