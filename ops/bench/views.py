"""Read models: catching up with a backlog, and building anew, both without vectors.

Without vectors, since making them and their index takes many times as long as all the rest and is the same work
for whoever does it.
"""

import asyncio
import time
from statistics import median
from typing import Any

from ...handlers.engine import Engine
from ...projections.projection import Projection
from ...projections.rebuild import Rebuilder
from ...projections.runner import ProjectionRunner
from ...streams.database import Connection
from .bench import Bench
from .loading import load
from .no_vectors import NoVectors
from .rounds import alternate
from .row import Row, Target
from .sample import Writer
from .stock_runner import SCHEMA, StockRunner

_TABLES = "copied"


async def catch_up(bench: Bench) -> list[Row]:
    """A backlog into live memory, against the library's ProjectionRunner with the same table."""
    backlog, stock_backlog = bench.pick(20_000, 3_000), bench.pick(1_000, 200)
    rounds = bench.pick(5, 2)
    async with bench.servers.engine(NoVectors()) as engine:
        await _make_stock_table(engine)
        stock = await asyncio.to_thread(StockRunner, engine.database.url)
        try:
            await asyncio.to_thread(stock.measure_starting)
            writer = Writer()
            runner = ProjectionRunner(engine.database, engine.log, engine.tail, engine.live_memory)

            async def by_stock() -> float:
                await asyncio.to_thread(stock.append, writer.texts(stock_backlog))
                return stock_backlog / await asyncio.to_thread(stock.catch_up)

            async def by_runner() -> float:
                head = await load(engine.log, writer, backlog, bench.say)
                began = time.perf_counter()
                await runner.catch_up(head)
                return backlog / (time.perf_counter() - began)

            turns = await alternate({"stock": by_stock, "own": by_runner}, rounds, warm_up=not bench.quick)
            flush = bench.servers.flush_ms()
        finally:
            await asyncio.to_thread(stock.close)
    return [
        Row(
            name="view.catch_up",
            figure=turns.median("own"),
            unit="events/s",
            says=f"live memory, {backlog:,} events behind, all its indexes, full text, past states; no vectors",
            baseline=turns.median("stock"),
            against=f"the library's ProjectionRunner, {stock_backlog:,} events behind, one row per event into a "
            "table of the same shape and indexes",
            target=Target("at least", 25),
            flush_ms=flush,
            n=backlog * rounds,
            bound_by="One interpreter opens, checks and folds each event and makes its row. The server writes it "
            "meanwhile, with full text and indexes, mostly the text, and takes nearly as long.",
            spread=turns.spread("own", "stock"),
        )
    ]


async def rebuild(bench: Bench) -> list[Row]:
    """Live memory from position 0, against a binary COPY of the rows it makes."""
    events = bench.pick(100_000, 6_000)
    rounds = bench.pick(3, 2)
    async with bench.servers.engine(NoVectors()) as engine:
        await load(engine.log, Writer(), events, bench.say)
        rebuilder = Rebuilder(engine.database, engine.log, engine.tail, engine.live_memory)
        built: list[str] = []

        async def by_rebuild() -> float:
            bench.say(f"rebuilding from {events:,} events")
            began = time.perf_counter()
            done = await rebuilder.rebuild()
            taken = time.perf_counter() - began
            built.append(done.schema)
            return taken

        async def by_copy() -> float:
            bench.say("copying the same rows")
            return await _copy(engine, built[-1])

        # Copying needs rows to copy, so the two do not swap places.
        figures: dict[str, list[float]] = {"rebuild": [], "copy": []}
        for _ in range(rounds):
            figures["rebuild"].append(await by_rebuild())
            figures["copy"].append(await by_copy())
        rows = await _count(engine, built[-1])
        flush = bench.servers.flush_ms()
    taken = median(figures["rebuild"])
    ratios = [a / b for a, b in zip(figures["rebuild"], figures["copy"], strict=True)]
    return [
        Row(
            name="view.rebuild",
            figure=taken,
            unit="s",
            says=f"live memory rebuilt from {events:,} events, with full text, every index and switch; no vectors",
            baseline=median(figures["copy"]),
            against=f"COPY in binary of the same {rows:,} rows into empty tables of the same shape, which make "
            "the full text; primary keys, no other index",
            target=Target("at most", 3),
            flush_ms=flush,
            n=events * rounds,
            bound_by="One interpreter opens, checks and folds each event and makes its row, which takes longer "
            "than the server takes to read it and to copy it in.",
            spread=(min(ratios), max(ratios)),
            detail={"events per second": round(events / taken)},
        )
    ]


async def _make_stock_table(engine: Engine) -> None:
    async with engine.database.transaction() as connection:
        await connection.execute(f"create schema {SCHEMA}")
        await engine.live_memory.create_tables(connection, SCHEMA)
        await engine.live_memory.create_indexes(connection, SCHEMA)


async def _count(engine: Engine, schema: str) -> int:
    total = 0
    async with engine.database.connection() as connection:
        for table in engine.live_memory.tables:
            row = await (await connection.execute(f"select count(*) from {schema}.{table}")).fetchone()
            assert row is not None
            total += row[0]
    return total


async def _copy(engine: Engine, schema: str) -> float:
    """Seconds to copy a generation's rows, which are read into memory first, into fresh tables."""
    projection: Projection = engine.live_memory
    async with engine.database.connection() as connection:
        held = [(table, *await _read(connection, schema, table)) for table in projection.tables]
        await connection.execute(f"create schema {_TABLES}")
        await projection.create_tables(connection, _TABLES)
        try:
            began = time.perf_counter()
            async with connection.transaction():
                for table, columns, blocks in held:
                    await _write(
                        connection, f"copy {_TABLES}.{table} ({columns}) from stdin (format binary)", blocks
                    )
            return time.perf_counter() - began
        finally:
            await connection.execute(f"drop schema {_TABLES} cascade")


async def _read(connection: Connection, schema: str, table: str) -> tuple[str, list[bytes]]:
    cursor = await connection.execute(
        "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute "
        "where attrelid = %s::regclass and attnum > 0 and not attisdropped and attgenerated = ''",
        (f"{schema}.{table}",),
    )
    row: Any = await cursor.fetchone()
    columns: str = row[0]
    blocks: list[bytes] = []
    statement = f"copy (select {columns} from {schema}.{table}) to stdout (format binary)"
    async with connection.cursor().copy(statement.encode()) as copy:
        async for block in copy:
            blocks.append(bytes(block))
    return columns, blocks


async def _write(connection: Connection, statement: str, blocks: list[bytes]) -> None:
    async with connection.cursor().copy(statement.encode()) as copy:
        for block in blocks:
            await copy.write(block)
