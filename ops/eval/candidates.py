"""Measures candidate selection on real supersessions: what it finds, what it costs, and what a judge does with it.

Run as ``python -m lethelog.ops.eval.candidates``; takes some minutes and writes ``candidates.md`` and
``candidates.json`` to ``docs/reports``. Everything goes through a real engine: remember, live memory, `refresh`,
`select_candidates`. It reads data that is not part of this repository, from ``LETHELOG_SHARED_DATA`` or
``../shared/data`` beside it, and writes figures only, never a sentence of it.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from ...domain.errors import LethelogError, Misconfigured
from ...domain.intervals import wilson
from ...domain.policy import ForgettingPolicy
from ...handlers.engine import Engine
from ...handlers.judges.stated import StatedJudge
from ...projections.embedders import Embedder, open_embedder
from ...projections.embedders.floors import floor_for
from ...projections.nearest import PRODUCT_WEIGHTS, Weights
from . import candidate_timing
from .candidate_fusion import reciprocal_ranks
from .candidate_report import report
from .candidate_sets import lineage, recurring, texts
from .candidate_store import Record, Store, fresh_engine, open_store

NEAREST = (1, 3, 5)
EMBEDDERS = ("wordllama", "minilm")
METHODS: dict[str, Weights] = {
    "vector and words": PRODUCT_WEIGHTS,
    "vector only": Weights(1, 0),
    "words only": Weights(0, 1),
}
SWEEP = (Weights(2, 1), Weights(1, 1), Weights(1, 2), Weights(1, 3), Weights(1, 4))
RUNS_SHOWN = (1, 3, 10)

_ROOT = Path(__file__).resolve().parents[2]
Pairs = Sequence[tuple[UUID, UUID]]


async def measure(data: Path) -> dict[str, Any]:
    """All figures of the report, JSON-ready."""
    figures: dict[str, Any] = {
        "python": platform.python_version(),
        "blas threads": os.environ.get("OPENBLAS_NUM_THREADS", "as many as cores"),
        "cores": os.cpu_count(),
        "candidates": {},
    }
    for name in EMBEDDERS:
        try:
            opened = open_embedder(name)
        except Misconfigured as missing:
            _say(f"{name} is left out: {missing}")
            continue
        with opened as embedder:
            async with fresh_engine(embedder) as engine:
                _say(f"{name}: real supersessions")
                figures["candidates"][name] = await _candidates(engine, embedder, lineage(data))
                if name == EMBEDDERS[0]:
                    _say("recurring series")
                    figures["recurring"] = await _recurring(engine, embedder, data)
                    _say("timing")
                    some = texts(data)
                    figures["timing"] = [
                        await candidate_timing.measure(engine, some, n, spread=spread)
                        for n in (2_000, 10_000)
                        for spread in (False, True)
                    ]
    return figures


async def _candidates(engine: Engine, embedder: Embedder, sets: dict[str, list[Record]]) -> dict[str, Any]:
    floor = floor_for(embedder.model)
    figures: dict[str, Any] = {"model": embedder.model, "floor": floor, "sets": {}}
    hits: dict[str, dict[str, list[bool]]] = {}
    for title, records in sets.items():
        store = await open_store(engine)
        made = await store.remember(records)
        true = [(made[one.id], made[other]) for one in records for other in one.successors if other in made]
        entry: dict[str, Any] = {"records": len(records), "pairs": len(true), "methods": {}, "sweep": {}}
        for method, weights in METHODS.items():
            await store.refresh(max(NEAREST), weights)
            lists = await store.pair_lists()
            entry["methods"][method] = _found(lists, true, None)
            if weights == PRODUCT_WEIGHTS:
                entry["methods"][f"{method}, floor {floor:.2f}"] = _found(lists, true, floor)
        entry["methods"]["reciprocal rank fusion"] = _found(await reciprocal_ranks(store), true, None)
        hits[title] = {}
        for weights in SWEEP:
            await store.refresh(max(NEAREST), weights)
            found = await store.pair_lists()
            key = f"{weights.vector}:{weights.words}"
            hits[title][key] = [_rank(found, pair, None) <= 3 for pair in true]
            entry["sweep"][key] = sum(hits[title][key])
        await store.refresh(max(NEAREST))
        entry["runs"] = await _runs(store, true, floor)
        figures["sets"][title] = entry
        _say(f"  {title}: {entry['methods']['vector and words']}")
    figures["held out"] = _held_out(hits)
    return figures


def _found(lists: Mapping[UUID, Sequence[tuple[UUID, float]]], true: Pairs, floor: float | None) -> dict[str, Any]:
    """Recall of true pairs and pairs emitted per true pair, for each number of nearest."""
    shares: dict[str, Any] = {"n": len(true)}
    for nearest in NEAREST:
        hits = sum(_rank(lists, pair, floor) <= nearest for pair in true)
        emitted = sum(
            sum(floor is None or cosine >= floor for _, cosine in listed[:nearest]) for listed in lists.values()
        )
        low, high = wilson(hits, len(true))
        shares[f"R@{nearest}"] = [round(x, 3) for x in (hits / len(true), low, high)]
        shares[f"emitted@{nearest}"] = round(emitted / len(true), 1)
    return shares


def _rank(
    lists: Mapping[UUID, Sequence[tuple[UUID, float]]], pair: tuple[UUID, UUID], floor: float | None
) -> float:
    for place, (newer, cosine) in enumerate(lists.get(pair[0], ()), 1):
        if newer == pair[1]:
            return place if floor is None or cosine >= floor else float("inf")
    return float("inf")


def _held_out(hits: dict[str, dict[str, list[bool]]]) -> dict[str, Any]:
    """Per set: the weights that find most within rank 3 on the other sets, and what they find here."""
    titles = [title for title in hits if not title.endswith("as typed")]
    chosen: dict[str, Any] = {}
    for title in titles:
        others = Counter[str]()
        for other in titles:
            if other != title:
                others.update({key: sum(found) for key, found in hits[other].items()})
        best = max(others, key=lambda key: (others[key], key == "1:2"))
        chosen[title] = {"weights": best, "R@3": round(sum(hits[title][best]) / len(hits[title][best]), 3)}
    return chosen


async def _runs(store: Store, true: Pairs, floor: float) -> dict[str, Any]:
    """Which share of the true pairs was asked about after so many runs of the default policy, all answered."""
    asked: set[tuple[UUID, UUID]] = set()
    after: dict[str, float] = {}
    judge, policy = StatedJudge(), ForgettingPolicy()
    runs = 0
    while items := (selection := await store.select(policy, floor)).items:
        await store.judge(judge, selection)
        asked |= {(item.memory_id, item.newer[0]) for item in items if item.kind == "pair"}
        runs += 1
        if runs in RUNS_SHOWN:
            after[str(runs)] = _share(asked, true)
    return {"runs": runs, "pairs asked": len(asked), "after": after, "after all": _share(asked, true)}


def _share(asked: set[tuple[UUID, UUID]], true: Pairs) -> float:
    return round(sum(pair in asked for pair in true) / len(true), 3)


async def _recurring(engine: Engine, embedder: Embedder, data: Path) -> dict[str, Any]:
    """What the judge `stated` says to every question there is about series in which every item still stands."""
    figures: dict[str, Any] = {}
    policy = ForgettingPolicy(singles_cap=10_000, pairs_cap=10_000)
    for memory_type in ("event", "note", "fact", "decision", "preference"):
        store = await open_store(engine)
        await store.remember(recurring(data, memory_type))
        await store.refresh(policy.pair_neighbours)
        verdicts: Counter[str] = Counter()
        cosines: list[float] = []
        while (selection := await store.select(policy, floor_for(embedder.model))).items:
            verdicts.update(event.action for event in await store.judge(StatedJudge(), selection))
            cosines += [item.similarity[0] for item in selection.items if item.kind == "pair"]
        figures[memory_type] = {
            "pairs": len(cosines),
            "pairs at 0.82 or more": sum(cosine >= 0.82 for cosine in cosines),
            "asked": verdicts.total(),
            "verdicts": dict(verdicts),
            "collapses": verdicts["archive"] + verdicts["supersede"],
        }
    return figures


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the report. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Measure candidate selection on real supersessions.")
    parser.add_argument("--data", type=Path, help="folder of the shared data; default ../shared/data")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "reports", help="where the report goes")
    given = parser.parse_args(arguments)
    data = given.data or Path(os.environ.get("LETHELOG_SHARED_DATA") or _ROOT.parent / "shared" / "data")
    if not data.is_dir():
        _say(f"the shared data is not at {data}; give --data or set LETHELOG_SHARED_DATA")
        return 2
    try:
        figures = asyncio.run(measure(data))
    except LethelogError as error:
        _say(f"{error.code}: {error}")
        return 1
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "candidates.json").write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", "utf-8")
    (given.out / "candidates.md").write_text(report(figures), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
