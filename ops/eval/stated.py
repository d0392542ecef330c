"""Measure the judge ``stated``: wordings of endings and of non-endings on real links, ends, and real texts.

``python -m lethelog.ops.eval.stated`` writes ``stated.md`` and ``stated.json`` to ``docs/reports``. The data is
not part of this repository; it is read from the folder ``LETHELOG_SHARED_DATA``, or ``shared/data`` beside the
repository. Figures are written, never a sentence of it.

The selection half (`stated_selection` and two earlier held-out halves) selects the thresholds. The held-out half
(`stated_held_out`, and the links of other records) gives each wording class its precision and the report its
figures.
"""

import argparse
import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...domain.intervals import wilson
from ...domain.judging import PairItem, SingleItem
from ...domain.stated.precision import IDENTITY, MEASURED, THRESHOLDS, Measured, probability_of
from ...domain.stated.rule import statements
from ...domain.thresholds import ScoredVerdict, Thresholds, select_thresholds
from . import stated_ends, stated_first_held_out, stated_held_out, stated_second_held_out, stated_selection
from .stated_items import PER_WORDING, READ_AT, Link, half_of, items, links, memory
from .stated_real import RealSet, real_sets
from .stated_report import report

_ROOT = Path(__file__).resolve().parents[2]
_SEEN = (stated_selection, stated_first_held_out, stated_second_held_out)
Ends = Sequence[tuple[str, str, bool]]


@dataclass(slots=True)
class Half:
    """What one half showed."""

    endings: int = 0
    ending_items: int = 0
    found: int = 0
    """Items of endings that became a statement."""
    wordings_found: int = 0
    """Endings found in at least half of their items."""
    non_endings: int = 0
    non_ending_items: int = 0
    false: int = 0
    false_wordings: int = 0
    by_class: dict[str, list[set[str]]] = field(default_factory=dict[str, list[set[str]]])
    """Class -> wordings that rightly made a statement, wordings that wrongly did."""
    verdicts: list[tuple[str, str, bool]] = field(default_factory=list[tuple[str, str, bool]])
    """Action, class, right."""
    ends: int = 0
    ends_found: int = 0
    no_ends: int = 0
    no_ends_false: int = 0

    def note(self, action: str, wording_class: str, wording: str, *, right: bool) -> None:
        self.by_class.setdefault(wording_class, [set(), set()])[0 if right else 1].add(wording)
        self.verdicts.append((action, wording_class, right))

    def measured(self) -> dict[str, Measured]:
        """Precision of each class, its wordings as the sample."""
        return {
            name: Measured(len(right - wrong), len(right | wrong))
            for name, (right, wrong) in sorted(self.by_class.items())
        }


def measure_half(
    half_links: Iterable[Link], endings: Iterable[str], non_endings: Iterable[str], ends: Ends
) -> Half:
    """Put every wording on links of the half, and read every end."""
    half, chosen = Half(), list(half_links)
    for wording in endings:
        found = [_statement(half, item, wording, right=True) for item in items(chosen, wording, PER_WORDING)]
        half.endings += 1
        half.ending_items += len(found)
        half.found += sum(found)
        half.wordings_found += 2 * sum(found) >= len(found)
    for wording in non_endings:
        found = [_statement(half, item, wording, right=False) for item in items(chosen, wording, PER_WORDING)]
        half.non_endings += 1
        half.non_ending_items += len(found)
        half.false += sum(found)
        half.false_wordings += any(found)
    _read_ends(half, ends)
    return half


def _statement(half: Half, item: PairItem, wording: str, *, right: bool) -> bool:
    made = next((s for s in statements(item, READ_AT) if s.option == "supersede_older"), None)
    if made is not None:
        half.note("supersede", made.wording, wording, right=right)
    return made is not None


def _read_ends(half: Half, ends: Ends) -> None:
    at = stated_ends.READ_AT
    for topic, content, ends_here in ends:
        judged = memory(topic, content, at - timedelta(days=900), topic)
        made = next(statements(SingleItem("s0", judged), at), None)
        half.ends += ends_here
        half.no_ends += not ends_here
        half.ends_found += ends_here and made is not None
        half.no_ends_false += not ends_here and made is not None
        if made is not None:
            half.note("archive", made.wording, topic, right=ends_here)
        # The same memory with an end in its fields, passed or not.
        for days, passed in ((-30, True), (30, False)):
            dated = replace(judged, content="No end is stated here.", expires_at=at + timedelta(days=days))
            recorded = next(statements(SingleItem("s0", dated), at), None)
            if recorded is not None:
                half.note("archive", recorded.wording, f"{topic} {days}", right=passed)


def halves(data: Path) -> tuple[Half, Half]:
    """The selection half and the held-out half, measured."""
    found = links(data)
    selection = measure_half(
        [link for link in found if half_of(link) == "selection"],
        tuple(wording for half in _SEEN for wording in half.ENDINGS),
        tuple(wording for half in _SEEN for wording in half.NON_ENDINGS),
        stated_ends.SEEN,
    )
    held_out = measure_half(
        [link for link in found if half_of(link) == "held out"],
        stated_held_out.ENDINGS,
        stated_held_out.NON_ENDINGS,
        stated_ends.HELD_OUT,
    )
    return selection, held_out


def selected(selection: Half) -> Thresholds:
    """Thresholds by the pre-registered rule, on the selection half, at the worth each class was measured at."""
    return select_thresholds(
        IDENTITY,
        [
            ScoredVerdict("archive" if action == "archive" else "supersede", probability_of(name), right)
            for action, name, right in selection.verdicts
        ],
    )


def figures(data: Path) -> dict[str, Any]:
    """Everything the report says."""
    selection, held_out = halves(data)
    return {
        "identity": IDENTITY,
        "python": platform.python_version(),
        "links": len(links(data)),
        "earlier_runs": [dict(stated_first_held_out.RUN), dict(stated_second_held_out.RUN)],
        "earlier_ends": [dict(run) for run in stated_ends.EARLIER_RUNS],
        "selection": _summary(selection),
        "held_out": _summary(held_out),
        "classes": {name: _class_row(m) for name, m in held_out.measured().items()},
        "thresholds": {
            "archive": THRESHOLDS.archive,
            "supersede": THRESHOLDS.supersede,
            "conflict": THRESHOLDS.conflict,
        },
        "matches_constants": held_out.measured() == dict(MEASURED) and selected(selection) == THRESHOLDS,
        "real": {name: _real_row(found) for name, found in real_sets(data).items()},
    }


def _share(hits: int, n: int) -> dict[str, float | int]:
    low, high = wilson(hits, n)
    return {
        "hits": hits,
        "n": n,
        "share": round(hits / n, 4) if n else 0.0,
        "low": round(low, 4),
        "high": round(high, 4),
    }


def _summary(half: Half) -> dict[str, Any]:
    proposals = [(action, right) for action, name, right in half.verdicts if probability_of(name) >= 0.5]
    supersedes = [right for action, right in proposals if action == "supersede"]
    archives = [right for action, right in proposals if action == "archive"]
    return {
        "recall_items": _share(half.found, half.ending_items),
        "recall_wordings": _share(half.wordings_found, half.endings),
        "false_items": _share(half.false, half.non_ending_items),
        "false_wordings": _share(half.false_wordings, half.non_endings),
        "precision_supersede": _share(sum(supersedes), len(supersedes)),
        "precision_archive": _share(sum(archives), len(archives)),
        "ends_found": _share(half.ends_found, half.ends),
        "ends_false": _share(half.no_ends_false, half.no_ends),
    }


def _class_row(measured: Measured) -> dict[str, Any]:
    return {**_share(measured.right, measured.total), "probability": round(measured.probability, 4)}


def _real_row(found: RealSet) -> dict[str, int]:
    return {
        "pairs": found.pairs,
        "supersede": found.superseded,
        "confirmed": found.confirmed,
        "singles": found.singles,
        "archive": found.archived,
    }


def data_folder() -> Path:
    """Where the shared data is, or would be."""
    return Path(os.environ.get("LETHELOG_SHARED_DATA") or _ROOT.parent / "shared" / "data")


def main(arguments: list[str] | None = None) -> int:
    """Write the report; skipped, with a line saying so, where the data is not at hand."""
    parser = argparse.ArgumentParser(prog="python -m lethelog.ops.eval.stated", description=__doc__)
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "reports", help="folder of the report")
    out: Path = parser.parse_args(arguments).out
    data = data_folder()
    if not (data / "lineage" / "rfc_index.jsonl").is_file():
        print(f"skipped: no data in {data}; set LETHELOG_SHARED_DATA to where lineage/rfc_index.jsonl is")
        return 0
    found = figures(data)
    out.mkdir(parents=True, exist_ok=True)
    (out / "stated.md").write_text(report(found), "utf-8")
    (out / "stated.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(report(found))
    if not found["matches_constants"]:
        print("domain/stated/precision.py holds other figures:", found["classes"], found["thresholds"])
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
