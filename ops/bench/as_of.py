"""Searching the past: what a search at ``known_at`` costs against one of the present, and whether it finds all.

The tables are filled with clustered vectors and words, since embedding so many texts takes longer than all the
rest. What is measured is the whole read, from its arguments to the views it answers with.
"""

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from ...handlers.access.caller import Caller
from ...handlers.engine import Engine
from ...handlers.reading import Reading
from ...projections.search import Search
from ...streams.payloads import Actor
from .bench import Bench
from .past import DIMENSIONS, Clusters, fill
from .rounds import Turn, alternate
from .row import Row, Target, quantile

_TIMES = {"recent": 0.98, "half": 0.5, "early": 0.1}
"""Share of the log that was on record at the moments that are asked for."""
_LIMIT = 10


async def as_of(bench: Bench) -> list[Row]:
    """A search at three moments of the past against one of the present, in one run."""
    memories, rounds = bench.pick(100_000, 1_000), bench.pick(9, 2)
    async with bench.servers.engine(Clusters()) as engine:
        filled = await fill(engine, memories, bench.say)
        caller = Caller(filled.tenant, Actor("agent", filled.tenant))
        await engine.tenants.ensure(caller.tenant, caller.actor)
        reading = Reading(engine)
        moments = {"live": None} | {name: max(1, int(share * filled.head)) for name, share in _TIMES.items()}
        took: dict[str, list[float]] = {name: [] for name in moments}

        def turn(name: str, known_at: int | None) -> Turn:
            async def run() -> float:
                each = [await _timed(reading, caller, query, known_at) for query in filled.queries(10)]
                took[name] += each
                return median(each)

            return run

        turns = await alternate({name: turn(name, known_at) for name, known_at in moments.items()}, rounds)
        bench.say("comparing with exact searches")
        recalls = {
            name: await _recall(engine, caller, filled.queries(bench.pick(20, 5)), known_at)
            for name, known_at in moments.items()
        }
    of = f"{memories:,} memories of {DIMENSIONS} dimensions, {filled.past:,} past states; one search after another"
    rows = [
        Row(
            name=f"as_of.{name}",
            figure=turns.median(name),
            unit="ms",
            says=f"search as on record when {share:.0%} of the log was written, {of}",
            baseline=turns.median("live"),
            against="the same search of the present",
            target=Target("at most", 3.0),
            n=len(took[name]),
            spread=turns.spread(name, "live"),
            detail={
                "p99 ms": round(quantile(took[name], 0.99), 2),
                "baseline p99 ms": round(quantile(took["live"], 0.99), 2),
                f"recall@{_LIMIT} against exact": recalls[name],
                f"baseline recall@{_LIMIT} against exact": recalls["live"],
            },
        )
        for name, share in _TIMES.items()
    ]
    return [
        *rows,
        Row(
            name="as_of.recall",
            figure=min(recalls[name] for name in _TIMES),
            unit="",
            says=f"recall@{_LIMIT} of searches of the past, the lowest of {len(_TIMES)} moments",
            baseline=recalls["live"],
            against="the same searches of the present; both against comparing every vector",
            target=Target("at least", 1.0, of="figure"),
        ),
    ]


async def _timed(reading: Reading, caller: Caller, query: str, known_at: int | None) -> float:
    """Milliseconds of one search."""
    began = time.perf_counter()
    await reading.search(caller, _asked(query, known_at))
    return 1_000 * (time.perf_counter() - began)


async def _recall(engine: Engine, caller: Caller, queries: Sequence[str], known_at: int | None) -> float:
    """Share of the best that a search which compares every vector finds, and this one too."""
    reading, exact = Reading(engine), Reading(engine)
    exact._search = Search(engine.doors, engine.embedder, exact_up_to=10**9)  # pyright: ignore[reportPrivateUsage]
    shared = best = 0
    for query in queries:
        asked = _asked(query, known_at)
        wanted = {hit.memory.id for hit in (await exact.search(caller, asked)).hits}
        shared += len(wanted & {hit.memory.id for hit in (await reading.search(caller, asked)).hits})
        best += len(wanted)
    return shared / best if best else 1.0


def _asked(query: str, known_at: int | None) -> dict[str, Any]:
    asked: dict[str, Any] = {"query": query, "limit": _LIMIT}
    return asked if known_at is None else {**asked, "known_at": known_at}
