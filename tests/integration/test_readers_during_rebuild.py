"""A rebuild for another embedding model under readers that never pause: no gap, no half view, no mixture."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from lethelog.projections import runner as runner_module
from lethelog.projections.as_of import AsOf
from lethelog.projections.embedders import Embedder
from lethelog.projections.filters import MemoryFilter
from lethelog.projections.generations import read_models
from lethelog.projections.live_memory import LiveMemory
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.rows import list_rows
from lethelog.projections.search import Search
from lethelog.streams.database import Database

MEMORIES = 40
READERS = 3


class Other(Embedder):
    """Another model, of other dimensions, to which all texts are alike."""

    model = "other@1"
    dimensions = 8

    def embed(self, texts):
        return np.eye(1, self.dimensions, dtype=np.float32).repeat(len(texts), axis=0)


@dataclass(frozen=True)
class Seen:
    """What one round of a reader saw."""

    listed: int
    total: int
    models: tuple[str, ...]
    """Of all rows, read in one transaction."""
    found: dict[str, frozenset[bool]] = field(default_factory=dict)
    """Model that was asked -> whether its vectors counted, over all hits; empty where there was no hit."""


class Reader(threading.Thread):
    """Lists and searches without a pause, on connections and a loop of its own, until it is told to stop."""

    def __init__(self, world, database_url: str, embedders: list[Embedder], changed: threading.Condition) -> None:
        super().__init__(name="reader", daemon=True)
        self._matching = MemoryFilter(world.caller.tenant, AsOf(world.clock.now))
        self._url, self._embedders, self._changed = database_url, embedders, changed
        self.ended = threading.Event()
        self.rounds: list[Seen] = []
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._read())
        except BaseException as error:
            self.failed = error
            with self._changed:
                self._changed.notify_all()

    async def _read(self) -> None:
        database = Database(self._url)
        await database.open()
        try:
            while not self.ended.is_set():
                seen = await self._round(database)
                with self._changed:
                    self.rounds.append(seen)
                    self._changed.notify_all()
        finally:
            await database.close()

    async def _round(self, database: Database) -> Seen:
        async with read_models(database) as connection:
            rows, total = await list_rows(connection, self._matching, MEMORIES, None)
            cursor = await connection.execute("select embedding_model from live_memory group by 1 order by 1")
            models = tuple([model for (model,) in await cursor.fetchall()])
        found: dict[str, frozenset[bool]] = {}
        for embedder in self._embedders:
            hits = await Search(database, embedder).search("memory number", self._matching, MEMORIES)
            found[embedder.model] = frozenset([hit.legs.vector > 0 for hit in hits])
            assert len(hits) == MEMORIES
        return Seen(len(rows), total, models, found)


class Watched(LiveMemory):
    """Waits after each page until every reader has looked at what there is then."""

    def __init__(self, world, embedder: Embedder, looked: Callable[[], None]) -> None:
        super().__init__(world.engine.log, embedder)
        self._looked = looked
        self.pages = 0

    def loading(self, start, target):
        return self

    async def apply(self, connection, schema, page, prepared):
        await super().apply(connection, schema, page, prepared)
        self.pages += 1
        await asyncio.to_thread(self._looked)


async def test_readers_in_threads_see_one_whole_view_of_one_model_throughout_a_rebuild(
    world, embedder, database_url, monkeypatch
):
    monkeypatch.setattr(runner_module, "LARGEST_PAGE", 10)
    for n in range(MEMORIES):
        await world.remember(f"memory number {n}")
    await world.catch_up()
    changed, other = threading.Condition(), Other()
    readers = [Reader(world, database_url, [embedder, other], changed) for _ in range(READERS)]

    def every_reader_looked() -> None:
        with changed:
            before = {reader: len(reader.rounds) for reader in readers}
            # The round that was under way may have begun before: only the one after it looked now.
            assert changed.wait_for(
                lambda: (
                    any(reader.failed for reader in readers)
                    or all(len(reader.rounds) >= before[reader] + 2 for reader in readers)
                ),
                60,
            )

    for reader in readers:
        reader.start()
    try:
        projection = Watched(world, other, every_reader_looked)
        rebuilder = Rebuilder(world.engine.database, world.engine.log, world.engine.tail, projection)
        await rebuilder.rebuild()
        await asyncio.to_thread(every_reader_looked)
    finally:
        for reader in readers:
            reader.ended.set()
        for reader in readers:
            await asyncio.to_thread(reader.join, 30)
    assert [reader.failed for reader in readers] == [None] * READERS
    assert projection.pages > 3
    for reader in readers:
        assert {(seen.listed, seen.total) for seen in reader.rounds} == {(MEMORIES, MEMORIES)}
        # Of one model each time, and of both in the end: the old one until the switch, the new one from then on.
        order = [seen.models for seen in reader.rounds]
        switched = order.index((other.model,))
        assert set(order[:switched]) == {(embedder.model,)}
        assert set(order[switched:]) == {(other.model,)}
        # A search in whose round the switch fell may have seen either, but each search one of them only.
        asked = [tuple(seen.found[one.model] for one in (embedder, other)) for seen in reader.rounds]
        yes, no = frozenset([True]), frozenset([False])
        assert set(asked[: switched - 1]) == {(yes, no)}
        assert set(asked[switched:]) == {(no, yes)}
        assert set(asked[switched - 1]) <= {yes, no}
