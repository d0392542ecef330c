"""Live memory with many past states, written past the log: clustered words and vectors."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import numpy as np

from ...domain.events import MemoryPinned, MemoryRemembered, MemoryUnpinned
from ...domain.memory import evolve
from ...handlers.engine import Engine
from ...projections.embedders import Embedder
from ...projections.embedders.port import Vectors
from ...projections.generations import HOME
from ...projections.memory_past import State
from ...streams.database import Connection, Database

DIMENSIONS = 384
CHANGED = 0.3
"""Share of the events that change a memory which is there; the others remember one."""
CLUSTERS = 2_000
_OWN_WORDS, _WORDS, _VOCABULARY = 8, 12, 20_000
_AT_ONCE = 2_000
_BEGINNING = datetime(2025, 1, 1, tzinfo=UTC)


class Clusters(Embedder):
    """Vectors around a few thousand centres: a text that begins with ``c17`` lies near the 17th."""

    model = "clusters@1"
    dimensions = DIMENSIONS
    quick = True

    def __init__(self) -> None:
        self._centres = np.random.default_rng(7).standard_normal((CLUSTERS, DIMENSIONS)).astype(np.float32)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The same text, the same vector."""
        noise = [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIMENSIONS) for text in texts]
        centres = self._centres[[int(text.split()[0].removeprefix("c")) for text in texts]]
        vectors = (centres + 0.6 * np.array(noise)).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@dataclass(frozen=True)
class Filled:
    """What was written."""

    tenant: UUID
    head: int
    past: int
    """Past states."""
    chance: np.random.Generator

    def queries(self, number: int) -> list[str]:
        """Questions about clusters, in their words."""
        return [
            " ".join([f"c{cluster}", *(f"c{cluster}w{n}" for n in self.chance.integers(0, _OWN_WORDS, 3))])
            for cluster in self.chance.integers(0, CLUSTERS, number)
        ]


async def fill(engine: Engine, memories: int, say: Callable[[str], None] = lambda _: None) -> Filled:
    """Write memories and their past states, and a log of as many positions that holds nothing but its times."""
    chance, tenant = np.random.default_rng(11), uuid4()
    lives = _lives(memories, chance)
    head = max(positions[-1] for positions in lives)
    await _write_log(engine.database.url, tenant, head)
    async with engine.database.connection() as connection:
        await _drop_indexes(connection)
        for begin in range(0, memories, _AT_ONCE):
            say(f"writing {memories:,} memories, {begin:,} so far")
            told = [
                ((tenant, held[0][0].id), held)
                for held in (_states(positions, chance) for positions in lives[begin : begin + _AT_ONCE])
            ]
            texts = [held[0][0].content or "" for _, held in told]
            keys = [key for key, _ in told]
            vectors = dict(zip(keys, engine.embedder.embed(texts).tolist(), strict=True))
            rows = await engine.live_memory.prepared(told, [], vectors)
            async with connection.transaction():
                await engine.live_memory.apply(connection, HOME, (), rows)
        say("building the indexes")
        await connection.execute("set maintenance_work_mem = '1GB'")
        async with connection.transaction():
            await engine.live_memory.create_indexes(connection, HOME)
        await connection.execute("reset maintenance_work_mem")
        await connection.execute(f"vacuum analyze {HOME}.live_memory, {HOME}.memory_past")
        await connection.execute(f"update {HOME}.tracking set position = %s", (head,))
    return Filled(tenant, head, sum(len(positions) - 1 for positions in lives), chance)


def _lives(memories: int, chance: np.random.Generator) -> list[list[int]]:
    """For each memory the positions of its events: it comes to be, and some are changed later, some often."""
    lives: list[list[int]] = []
    position = 0
    while len(lives) < memories:
        position += 1
        if lives and chance.random() < CHANGED:
            lives[int(chance.integers(len(lives)))].append(position)
        else:
            lives.append([position])
    return lives


def _states(positions: Sequence[int], chance: np.random.Generator) -> list[State]:
    """A memory that is pinned and unpinned by turns."""
    cluster = int(chance.integers(CLUSTERS))
    words = [f"c{cluster}", *(f"c{cluster}w{n}" for n in range(_OWN_WORDS))]
    # The more common a word, the more memories hold it.
    words += [f"word{int(n)}" for n in chance.zipf(1.3, _WORDS) % _VOCABULARY]
    memory_id, state = uuid4(), None
    states: list[State] = []
    for turn, position in enumerate(positions):
        at = _recorded_at(position)
        event = (MemoryPinned() if turn % 2 else MemoryUnpinned()) if turn else _remembered(" ".join(words), at)
        state = evolve(state, event, stream=memory_id, version=turn + 1, recorded_at=at)
        states.append((state, position))
    return states


def _remembered(text: str, at: datetime) -> MemoryRemembered:
    return MemoryRemembered(
        memory_type="fact",
        scope="personal",
        topic=text[:60],
        content=text,
        tags=(),
        producer="agent",
        trust="agent",
        occurred_at=at,
    )


def _recorded_at(position: int) -> datetime:
    return _BEGINNING + timedelta(seconds=position)


async def _write_log(url: str, tenant: UUID, head: int) -> None:
    owner = Database(url, size=1, role=None)
    await owner.open()
    async with owner.connection() as connection:
        await connection.execute(
            "insert into lethelog.events "
            "(position, tenant, stream, version, name, event_id, recorded_at, body, hash) "
            "select n, %s, gen_random_uuid(), 1, 'memory.pinned', gen_random_uuid(), "
            "%s + n * interval '1 second', '', '' from generate_series(1, %s) n",
            (tenant, _BEGINNING, head),
        )
        await connection.execute(
            "update lethelog.head set position = %s, recorded_at = %s", (head, _recorded_at(head))
        )
        await connection.execute("vacuum analyze lethelog.events")
    await owner.close()


async def _drop_indexes(connection: Connection) -> None:
    """Those that are cheaper to build after loading."""
    cursor = await connection.execute(
        "select indexname from pg_indexes where schemaname = %s and tablename in ('live_memory', 'memory_past') "
        "and indexname not like '%%_pkey'",
        (HOME,),
    )
    for (index,) in await cursor.fetchall():
        await connection.execute(f"drop index {HOME}.{index}")
