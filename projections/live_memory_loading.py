"""Filling an empty live memory from a long stretch of the log: every row is written once, when it is final.

A memory's states are kept while further events of it are to come, and its rows are copied in with the last of
them, so that nothing is written twice and no stream is read again. Memories that are kept beyond `KEPT` are let
go, and read again when they are needed.
"""

from collections.abc import Sequence
from itertools import pairwise

from ..domain.memory import evolve
from ..streams.database import Connection
from ..streams.folding import fold_states
from ..streams.log import Log
from ..streams.payloads import RecordedEvent
from .embedders import Embedder
from .live_memory import LiveMemory, Prepared, vector_literal
from .memory_columns import COLUMNS, copy_line
from .memory_past import Key, State

KEPT = 50_000
"""Memories that are not final yet, in this process at once."""


class LiveMemoryLoading(LiveMemory):
    """Live memory for pages that come one after another from one position to another, each of them once."""

    def __init__(self, log: Log, embedder: Embedder, start: int, target: int) -> None:
        super().__init__(log, embedder)
        self._start = start
        self._target = target
        self._states: dict[Key, list[State]] = {}

    async def prepare(self, page: Sequence[RecordedEvent]) -> Prepared:
        by_memory: dict[Key, list[RecordedEvent]] = {}
        for event in page:
            by_memory.setdefault((event.tenant, event.stream), []).append(event)
        await self._bring_beginnings(by_memory, page[0].position)
        for key, events in by_memory.items():
            self._add_states(key, events)
        final: dict[Key, list[State]] = {}
        last = [events[-1] for events in by_memory.values()]
        for event in await self._log.last_of_their_streams(last, self._target):
            key = (event.tenant, event.stream)
            final[key] = self._states.pop(key)
        while len(self._states) > KEPT:
            del self._states[next(iter(self._states))]
        return Prepared(final, await self._embed([(key, held[-1][0]) for key, held in final.items()]))

    async def apply(
        self, connection: Connection, schema: str, page: Sequence[RecordedEvent], prepared: Prepared
    ) -> None:
        kept = {key: held for key, held in prepared.states.items() if held[-1][0].content is not None}
        if self._start:
            # A loading towards an earlier target may have taken them for final.
            await self._delete(connection, schema, list(prepared.states))
        if not kept:
            return
        lines: list[str] = []
        for key, held in kept.items():
            vector = prepared.vectors.get(key)
            embedded = (None, None) if vector is None else (vector_literal(vector), self._embedder.model)
            lines.append(copy_line(key[0], *held[-1], *embedded))
        await _copy(connection, f"{schema}.live_memory", ("embedding", "embedding_model"), lines)
        past = [
            copy_line(tenant, *state, str(until))
            for (tenant, _), held in kept.items()
            for state, (_, until) in pairwise(held)
        ]
        if past:
            await _load_past(connection, schema, past)

    async def _bring_beginnings(self, by_memory: dict[Key, list[RecordedEvent]], before: int) -> None:
        missing = {key: events for key, events in by_memory.items() if key not in self._states}
        for key, earlier in (await self._read_beginnings(missing, before)).items():
            self._add_states(key, earlier)

    def _add_states(self, key: Key, events: Sequence[RecordedEvent]) -> None:
        held = self._states.setdefault(key, [])
        before = held[-1][0] if held else None
        held += [(state, one.position) for one, state in fold_states(events, evolve, before)]


async def _load_past(connection: Connection, schema: str, lines: Sequence[str]) -> None:
    """Past states, with the vector and the words of the present ones, which stand already."""
    await connection.execute(
        f"create temp table past_states ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())}, "
        "until_position bigint) on commit drop"
    )
    await _copy(connection, "past_states", ("until_position",), lines)
    derived = ("embedding", "embedding_model", "lexemes")
    await connection.execute(
        f"insert into {schema}.memory_past ({', '.join((*COLUMNS, *derived))}, until_position) "
        f"select {', '.join(f'p.{name}' for name in COLUMNS)}, {', '.join(f'm.{name}' for name in derived)}, "
        f"p.until_position from past_states p join {schema}.live_memory m using (tenant, memory_id)"
    )


async def _copy(connection: Connection, table: str, further: Sequence[str], lines: Sequence[str]) -> None:
    statement = f"copy {table} ({', '.join((*COLUMNS, *further))}) from stdin"
    async with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        await copy.write("".join(lines))
