"""What finding candidates costs: a first time over everything, and again with 1 % changed.

Measured on a real engine over memories of real texts, said over the last year. Either all of one type, scope and
no project, which is the most work, or spread over four types, two scopes and six projects. A change of 1 % is half
new memories, a quarter revisions, a quarter archived ones. Timed are, by the clock on the wall, what a pass waits
for (the views catching up with the log, which embeds), `refresh` (the neighbour lists) and `select_candidates`.
Remembering is not. Between rounds the tables are vacuumed as autovacuum would.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ...domain.policy import ForgettingPolicy
from ...handlers.engine import Engine
from ...projections.embedders.floors import floor_for
from ...projections.neighbours import clear
from .candidate_store import Record, Store, open_store

FIRST_ROUNDS = 3
SECOND_ROUNDS = 5
"""Few enough that no group's words are counted again meanwhile."""


@dataclass(frozen=True)
class Cost:
    """Seconds of one round, and how many memories' lists were written."""

    catch_up: float
    refresh: float
    select: float
    lists: int


async def measure(engine: Engine, texts: Sequence[tuple[str, str]], n: int, *, spread: bool) -> dict[str, Any]:
    """Medians of the rounds, JSON-ready."""
    store = await open_store(engine)
    chance = random.Random(n)
    records = [_record(number, text, chance, spread) for number, text in enumerate(texts)]
    alive = list((await store.remember(records[:n], catch_up=False)).values())
    views = await _catch_up(store)
    await store.analyze()
    first: list[Cost] = []
    for _ in range(FIRST_ROUNDS):
        await clear(engine.database, store.tenant)
        first.append(await _round(store, views))
    await store.analyze()
    idle = [await _round(store, await _catch_up(store)) for _ in range(FIRST_ROUNDS)]
    second: list[Cost] = []
    upcoming = iter(records[n:])
    for _ in range(SECOND_ROUNDS):
        changes = n // 100
        await store.remember(
            [replace(next(upcoming), said_at=datetime.now(UTC)) for _ in range(changes - changes // 2)]
        )
        ended = [alive.pop(chance.randrange(len(alive))) for _ in range(changes // 2)]
        revised, archived = ended[::2], ended[1::2]
        await asyncio.gather(
            *(
                store.commands.revise(store.caller, {"memory_id": one, "content": next(upcoming).content})
                for one in revised
            ),
            *(store.commands.archive(store.caller, {"memory_id": one}) for one in archived),
        )
        second.append(await _round(store, await _catch_up(store)))
        await store.analyze()
    return {
        "memories": n,
        "layout": "spread" if spread else "one group",
        "first": _median(first),
        "nothing changed": _median(idle),
        "1 % changed": _median(second),
        "ratio": round(_total(second) / _total(first), 4),
        "ratio with views": round(_total(second, views=True) / _total(first, views=True), 4),
    }


async def _catch_up(store: Store) -> float:
    begin = time.perf_counter()
    await store.catch_up()
    return time.perf_counter() - begin


async def _round(store: Store, views: float) -> Cost:
    policy = ForgettingPolicy()
    begin = time.perf_counter()
    report = await store.refresh(policy.pair_neighbours)
    middle = time.perf_counter()
    await store.select(policy, floor_for(store.engine.embedder.model))
    return Cost(views, middle - begin, time.perf_counter() - middle, report.lists_written)


def _total(costs: Sequence[Cost], *, views: bool = False) -> float:
    return statistics.median(cost.refresh + cost.select + views * cost.catch_up for cost in costs)


def _median(costs: Sequence[Cost]) -> dict[str, float]:
    return {
        "catch up ms": round(statistics.median(cost.catch_up for cost in costs) * 1000, 1),
        "refresh ms": round(statistics.median(cost.refresh for cost in costs) * 1000, 1),
        "select ms": round(statistics.median(cost.select for cost in costs) * 1000, 1),
        "lists written": statistics.median(cost.lists for cost in costs),
    }


def _record(number: int, text: tuple[str, str], chance: random.Random, spread: bool) -> Record:
    said_at = datetime.now(UTC) - timedelta(days=365 * chance.random())
    memory_type = chance.choice(("decision", "preference", "fact", "blocker")) if spread else "fact"
    scope = chance.choice(("work", "home")) if spread else "work"
    project = chance.choice((None, "a", "b", "c", "d", "e")) if spread else None
    return Record(str(number), said_at, memory_type, project, *text, scope=scope)
