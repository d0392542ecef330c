"""Append: what a durable write costs, for many callers at once, for one, and in pages.

Held against the library's own recorder, which is given events that are encoded already and does neither envelope,
sealing, claims, command keys nor a chain.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from ...handlers.operating.background_loop import BackgroundLoop
from ...streams.log import Log
from .bare import BareAppend
from .bench import Bench
from .callers import Driven, by_tasks, by_threads, latency
from .loading import append, open_log
from .rounds import Turn, alternate
from .row import Row, Target
from .sample import Writer
from .stock import StockRecorder, stored_events

CALLERS = 64
PAGE = 500
_WITH_EVERYTHING = "with envelope, sealing, claims, command key and hash chain"
_TASKS_BOUND = (
    "One interpreter makes, seals and packs every event, on one core; the database stores those before them "
    "meanwhile, on another, and takes less long."
)
_THREADS_BOUND = (
    "One interpreter makes, seals and packs every event, and each caller is a thread of it: that it waits, is "
    "woken and gets its turn costs more than half as much again."
)
_ONE_BOUND = (
    "A lone caller waits for the interpreter, a round trip, the database and a flush, one after another: there is "
    "nothing to overlap with or to share."
)
_PAGE_BOUND = (
    "Each event of the page is a new memory with its own data key, seal, claim and hash. The interpreter "
    "makes them before the database stores them, since a page is one unit, and a third of what the database does "
    "is the hash of each row; the baseline hands over encoded bytes and stores nothing else."
)
_STOCK = "the library's PostgresApplicationRecorder"


async def many_callers(bench: Bench) -> list[Row]:
    """64 callers at once: by asyncio, by threads through the bridge, and bare."""
    driven: dict[str, list[Driven]] = {}
    rounds = bench.pick(7, 3)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(bench.servers.database())
        stock = StockRecorder(url, CALLERS)
        stack.callback(stock.close)
        master_key = os.urandom(32)
        log = await stack.enter_async_context(open_log(url, master_key))
        threaded = await stack.enter_async_context(_threaded_log(url, master_key))
        bare = await stack.enter_async_context(BareAppend.open(url))
        writer = Writer()

        def keep(name: str, one: Driven) -> float:
            driven.setdefault(name, []).append(one)
            return one.rate()

        async def by_stock() -> float:
            events = stored_events(bench.pick(1_600, 128))
            return keep("stock", await by_threads(events, CALLERS, lambda one: stock.append([one])))

        async def by_asyncio() -> float:
            texts = writer.texts(bench.pick(9_600, 960))
            return keep("asyncio", await by_tasks(texts, CALLERS, lambda text: append(log, writer.remember(text))))

        async def by_bridge() -> float:
            texts = writer.texts(bench.pick(6_400, 640))
            loop, behind = threaded

            def once(text: str) -> None:
                loop.run(append(behind, writer.remember(text)))

            return keep("threads", await by_threads(texts, CALLERS, once))

        async def by_bare() -> float:
            units = bare.units(bench.pick(9_600, 960))
            return keep("bare", await by_tasks(units, CALLERS, bare.append))

        subjects: dict[str, Turn] = {
            "stock": by_stock,
            "asyncio": by_asyncio,
            "threads": by_bridge,
            "bare": by_bare,
        }
        turns = await alternate(subjects, rounds)
        flush = bench.servers.flush_ms()
    targets = {"asyncio": 8.0, "threads": 4.0, "bare": 15.0}
    bounds = {"asyncio": _TASKS_BOUND, "threads": _THREADS_BOUND, "bare": _TASKS_BOUND}
    says = {
        "asyncio": f"{CALLERS} tasks, one event each, {_WITH_EVERYTHING}",
        "threads": f"{CALLERS} threads through the bridge, one event each, {_WITH_EVERYTHING}",
        "bare": f"{CALLERS} tasks, one event each: order, expected version and shared commit only",
    }
    return [
        Row(
            name=f"append.{CALLERS}.{name}",
            figure=turns.median(name),
            unit="events/s",
            says=says[name],
            baseline=turns.median("stock"),
            against=f"{_STOCK}, {CALLERS} threads",
            target=Target("at least", target),
            flush_ms=flush,
            n=sum(len(one.each) for one in driven[name]),
            bound_by=bounds[name],
            spread=turns.spread(name, "stock"),
            detail={
                **latency(driven[name][-rounds:]),
                **{f"baseline {key}": value for key, value in latency(driven["stock"][-rounds:]).items()},
            },
        )
        for name, target in targets.items()
    ]


async def one_caller(bench: Bench) -> list[Row]:
    """One caller after another: nothing to share a commit with."""
    return await _one_by_one(bench, page=1, turns=bench.pick(150, 40), rounds=bench.pick(15, 4))


async def pages(bench: Bench) -> list[Row]:
    """One caller with pages of 500 events."""
    return await _one_by_one(bench, page=PAGE, turns=bench.pick(4, 1), rounds=bench.pick(15, 4))


async def _one_by_one(bench: Bench, *, page: int, turns: int, rounds: int) -> list[Row]:
    driven: dict[str, list[Driven]] = {"stock": [], "own": []}
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(bench.servers.database())
        stock = StockRecorder(url, 1)
        stack.callback(stock.close)
        log = await stack.enter_async_context(open_log(url, os.urandom(32)))
        writer = Writer()

        async def by_stock() -> float:
            events = [stored_events(page) for _ in range(turns)]
            one = await by_threads(events, 1, stock.append)
            driven["stock"].append(one)
            return one.rate(page)

        async def by_asyncio() -> float:
            texts = [writer.texts(page) for _ in range(turns)]
            one = await by_tasks(texts, 1, lambda some: append(log, writer.remember(*some)))
            driven["own"].append(one)
            return one.rate(page)

        measured = await alternate({"stock": by_stock, "own": by_asyncio}, rounds)
        flush = bench.servers.flush_ms()
    what = "one event at a time" if page == 1 else f"pages of {page} events"
    return [
        Row(
            name="append.one" if page == 1 else f"append.page{page}",
            figure=measured.median("own"),
            unit="events/s",
            says=f"one caller, {what}, {_WITH_EVERYTHING}",
            baseline=measured.median("stock"),
            against=f"{_STOCK}, one caller, {what}",
            target=Target("at least", 1.1 if page == 1 else 2.0),
            flush_ms=flush,
            n=page * sum(len(one.each) for one in driven["own"]),
            bound_by=_PAGE_BOUND if page > 1 else _ONE_BOUND,
            spread=measured.spread("own", "stock"),
            detail=latency(driven["own"][-rounds:]),
        )
    ]


@asynccontextmanager
async def _threaded_log(url: str, master_key: bytes) -> AsyncGenerator[tuple[BackgroundLoop, Log]]:
    """A log in an event loop of its own, as the blocking door has it."""
    loop = BackgroundLoop()
    opened = open_log(url, master_key)
    try:
        log = await asyncio.to_thread(loop.run, opened.__aenter__())
        try:
            yield loop, log
        finally:
            await asyncio.to_thread(loop.run, opened.__aexit__(None, None, None))
    finally:
        await asyncio.to_thread(loop.close)
