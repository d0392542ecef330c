"""What tamper evidence and sealing cost: the hash chain on append, verifying it, and the seal of a text."""

import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from statistics import median
from uuid import uuid4

import psycopg

from ...streams import audit, payloads, sealing
from ...streams.database import Database
from .append import CALLERS
from .bench import Bench
from .callers import by_tasks
from .loading import append, load, open_log
from .rounds import alternate
from .row import Row
from .sample import Writer, remembered


async def chain(bench: Bench) -> list[Row]:
    """Append with and without the chain, and verifying it."""
    number, rounds = bench.pick(6_400, 640), bench.pick(9, 3)
    async with AsyncExitStack() as stack:
        chained_url = await stack.enter_async_context(bench.servers.database())
        bare_url = await stack.enter_async_context(bench.servers.database())
        _unchain(bare_url)
        chained = await stack.enter_async_context(open_log(chained_url, os.urandom(32)))
        bare = await stack.enter_async_context(open_log(bare_url, os.urandom(32)))
        writer = Writer()

        async def with_chain() -> float:
            driven = await by_tasks(
                writer.texts(number), CALLERS, lambda text: append(chained, writer.remember(text))
            )
            return driven.rate()

        async def without() -> float:
            driven = await by_tasks(
                writer.texts(number), CALLERS, lambda text: append(bare, writer.remember(text))
            )
            return driven.rate()

        turns = await alternate({"with": with_chain, "without": without}, rounds)
        flush = bench.servers.flush_ms()
        bench.say("verifying")
        shared = await _verify(chained_url)
        await load(chained, writer, bench.pick(20_000, 2_000))
        whole = await _verify(chained_url)
        paged = (whole[0] - shared[0], whole[1] - shared[1])
    return [
        Row(
            name="chain.append",
            figure=turns.median("with"),
            unit="events/s",
            says=f"append by {CALLERS} tasks, with row hashes and a root per commit",
            baseline=turns.median("without"),
            against="the same append without hashes and roots, in a database of its own",
            flush_ms=flush,
            n=number * rounds,
            spread=turns.spread("with", "without"),
        ),
        Row(
            name="audit.verify",
            figure=1e6 * whole[1] / whole[0],
            unit="µs/event",
            says="audit verify over the whole log, from reading to comparing",
            n=whole[0],
            detail={
                f"µs/event where {CALLERS} callers shared commits": round(1e6 * shared[1] / shared[0], 2),
                "µs/event in commits of 100 to 400 events": round(1e6 * paged[1] / paged[0], 2),
            },
        ),
    ]


async def seal(bench: Bench) -> list[Row]:
    """The body of an event, sealed, against its plain JSON; no database."""
    times, rounds = bench.pick(20_000, 5_000), bench.pick(9, 3)
    tenant, stream = uuid4(), uuid4()
    [text] = Writer().texts(1)
    event, key = remembered(text), sealing.new_key()
    actor = payloads.Actor("agent", uuid4())
    envelope = payloads.Envelope(actor, cause=uuid4(), correlation=uuid4(), policy=1)

    def body() -> object:
        return payloads.encode(event, envelope, tenant=tenant, stream=stream, version=1, key_of=lambda _: key)

    figures: dict[str, list[float]] = {"sealed": [], "plain": []}
    for _ in range(rounds):
        figures["sealed"].append(_microseconds(body, times))
        figures["plain"].append(_microseconds(event.model_dump_json, times))
    ratios = [a / b for a, b in zip(figures["sealed"], figures["plain"], strict=True)]
    return [
        Row(
            name="seal.encode",
            figure=median(figures["sealed"]),
            unit="µs/event",
            says="an event as it is stored: envelope, clear header, text sealed by AES-256-GCM under a known key",
            baseline=median(figures["plain"]),
            against="the event's fields as plain JSON",
            n=times * rounds,
            spread=(min(ratios), max(ratios)),
        )
    ]


def _microseconds(once: Callable[[], object], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        once()
    return 1e6 * (time.perf_counter() - began) / times


async def _verify(url: str) -> tuple[int, float]:
    """(events, seconds) of verifying the log in a database."""
    database = Database(url)
    await database.open()
    try:
        began = time.perf_counter()
        found = await audit.verify(database)
        taken = time.perf_counter() - began
    finally:
        await database.close()
    assert found.intact, found
    return found.events, taken


_CHAIN = {
    ("sha256(int8send(base + x.o)", "|| x.body)"): "''::bytea",
    ("sha256(before || string_agg", "order by s.position))"): "before",
    ("insert into lethelog.roots", ";"): "",
}
"""What makes the chain in the append function, from its beginning to its end, and what stands there without it."""


def _unchain(url: str) -> None:
    """Take the chain out of a database's append function: everything else stays what the product has."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("select pg_get_functiondef('lethelog.append'::regproc)").fetchone()
        assert row is not None
        text: str = row[0]
        for (start, end), instead in _CHAIN.items():
            before, found, rest = text.partition(start)
            _, closed, after = rest.partition(end)
            if not found or not closed:
                raise AssertionError("the append function is not as this measure knows it; bring it up to date")
            text = before + instead + after
        connection.execute(text.encode())
