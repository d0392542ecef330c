"""Selects the floor of consolidation per shipped embedder, and reports what gets through (settlement 11).

Run as ``python -m lethelog.ops.eval.consolidation``; takes some minutes and writes ``consolidation.md`` and
``consolidation.json`` to ``docs/reports``. It reads data that is not part of this repository, from
``LETHELOG_SHARED_DATA`` or ``../shared/data`` beside it, and writes figures only, never a sentence of it.

A pair *gets through* when its cosine reaches the floor and nothing that `differences` looks at tells its texts
apart, so that an edge would be proposed. Two sets say what must not:

* recurring records, every one of which still stands, with their titles and without: a pair of them that gets
  through is a *collapse*;
* facts, no two of which say the same: a pair of them that gets through is *false*.

The floor is the lowest cosine of two decimals at which both are nothing. What it is worth is counted on lines of
instruction files that their authors reworded: the share of (before, after) that gets through.
"""

import argparse
import json
import math
import os
import platform
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...domain.differences import Said, differences, read
from ...domain.errors import Misconfigured
from ...domain.fields import normalised
from ...projections.embedders import Embedder, open_embedder
from ...projections.live_memory import embedded_text
from .candidate_sets import rows

EMBEDDERS = ("wordllama", "minilm")
FACTS = 3_000
LOWEST = 0.7
"""No floor below this one is looked for."""
_ROOT = Path(__file__).resolve().parents[2]
Text = tuple[str, str]
"""Topic and content."""


def measure(data: Path) -> dict[str, Any]:
    """All figures of the report, JSON-ready."""
    figures: dict[str, Any] = {"python": platform.python_version(), "embedders": {}}
    for name in EMBEDDERS:
        try:
            opened = open_embedder(name)
        except Misconfigured as missing:
            _say(f"{name} is left out: {missing}")
            continue
        with opened as embedder:
            figures["embedders"][name] = _measure(embedder, data)
            _say(f"{name}: {figures['embedders'][name]}")
    return figures


def _measure(embedder: Embedder, data: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"model": embedder.model, "sets": {}}
    highest = LOWEST
    for title, texts in must_not(data).items():
        near, through = _pairs(embedder, texts)
        highest = max([highest, *through])
        found["sets"][title] = {
            "records": len(texts),
            "pairs": len(texts) * (len(texts) - 1) // 2,
            f"pairs at {LOWEST} or more": near,
            "of these not told apart": len(through),
            "highest cosine of those": round(max(through), 3) if through else None,
        }
    floor = math.floor(highest * 100 + 1) / 100 if highest > LOWEST else LOWEST
    found["floor"] = floor
    found["reworded"] = _reworded(embedder, reworded(data), floor)
    return found


def must_not(data: Path) -> dict[str, list[Text]]:
    """The sets no pair of which may get through."""
    episodes = rows(data / "recurring" / "episodes.jsonl")
    facts = {normalised(row["text"]): row["text"] for row in rows(data / "factconsolidation" / "facts.jsonl")}
    chosen = random.Random(11).sample(sorted(facts.values()), FACTS)
    return {
        "recurring": [(row["title"] or row["id"], row["text"]) for row in episodes],
        "recurring, without titles": [("note", row["text"]) for row in episodes],
        "facts": [("fact", text) for text in chosen],
    }


def reworded(data: Path) -> list[tuple[Text, Text]]:
    """Lines of instruction files before and after their authors changed them."""
    history = rows(data / "agent_memory" / "instruction_files_history.jsonl")
    return [
        (("section", row["old"]), ("section", row["new"])) for row in history if row.get("old") and row.get("new")
    ]


def _pairs(embedder: Embedder, texts: Sequence[Text]) -> tuple[int, list[float]]:
    """(how many pairs are at the lowest floor or above, the cosines of those that nothing tells apart)."""
    vectors, said = _vectors(embedder, texts), [_said(one) for one in texts]
    near, through = 0, list[float]()
    for place in range(1, len(texts)):
        cosines = vectors[:place] @ vectors[place]
        for other in np.flatnonzero(cosines >= LOWEST).tolist():
            near += 1
            if not differences(said[place], said[other]):
                through.append(float(cosines[other]))
    return near, through


def _reworded(embedder: Embedder, pairs: Sequence[tuple[Text, Text]], floor: float) -> dict[str, Any]:
    before, after = zip(*pairs, strict=True)
    cosines = (_vectors(embedder, before) * _vectors(embedder, after)).sum(axis=1)
    alike = np.array([not differences(_said(one), _said(other)) for one, other in pairs])
    return {
        "pairs": len(pairs),
        "not told apart": int(alike.sum()),
        "get through": int((alike & (cosines >= floor)).sum()),
    }


def _said(text: Text) -> Said:
    return read("\n".join(text))


def _vectors(embedder: Embedder, texts: Sequence[Text]) -> Any:
    made = np.asarray(embedder.embed([embedded_text(*one) for one in texts]), np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def report(figures: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [
        "# Floors of consolidation, measured",
        "",
        "Written by `python -m lethelog.ops.eval.consolidation`. A pair gets through when its cosine reaches the "
        "floor and the texts differ in no number, date, name or negation. The floor is the lowest cosine of two "
        f"decimals, from {LOWEST} on, at which no pair of these sets gets through. Python {figures['python']}.",
    ]
    for name, found in figures["embedders"].items():
        lines += ["", f"## {name}", "", f"`{found['model']}`, floor **{found['floor']:.2f}**", ""]
        lines += [
            f"| set | records | pairs | at {LOWEST} or more | of these not told apart | their highest cosine |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for title, one in found["sets"].items():
            lines.append("| " + " | ".join([title, *("–" if v is None else str(v) for v in one.values())]) + " |")
        known = found["reworded"]
        lines += [
            "",
            f"Of {known['pairs']} lines that their authors reworded, {known['not told apart']} are not told apart "
            f"from what they were before, and {known['get through']} get through.",
        ]
    return "\n".join(lines) + "\n"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the report. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Select the floors of consolidation on real data.")
    parser.add_argument("--data", type=Path, help="folder of the shared data; default ../shared/data")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "reports", help="where the report goes")
    given = parser.parse_args(arguments)
    data = given.data or Path(os.environ.get("LETHELOG_SHARED_DATA") or _ROOT.parent / "shared" / "data")
    if not data.is_dir():
        _say(f"the shared data is not at {data}; give --data or set LETHELOG_SHARED_DATA")
        return 2
    figures = measure(data)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "consolidation.json").write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    (given.out / "consolidation.md").write_text(report(figures), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
