"""What a demo run found, as numbers: the summary table and ``--json FILE``."""

import json
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...handlers.operating.views import PassView
from .lineage import Lineage


@dataclass
class Report:
    """Grows while the demo runs. Holds counts, ids and seconds, and no text of a memory."""

    source: str = "sample"
    events: int = 0
    memories: int = 0
    deduplicated: int = 0
    passes: int = 0
    candidates: dict[str, int] = field(default_factory=lambda: {"singles": 0, "pairs": 0})
    judged: int = 0
    refused: int = 0
    proposed: dict[str, int] = field(default_factory=dict[str, int])
    dismissed: dict[str, int] = field(default_factory=dict[str, int])
    lineage: dict[str, int] | None = None
    recall: dict[str, float | None] | None = None
    hard_negatives_proposed: int | None = None
    accepted: int = 0
    rejected: int = 0
    revised: int = 0
    rebuild_equal: bool | None = None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    judge: str = ""
    embedding_model: str = ""
    floor: float | None = None

    def add_pass(self, done: PassView, singles: int, pairs: int) -> None:
        """Count one finished pass."""
        self.passes += 1
        self.candidates["singles"] += singles
        self.candidates["pairs"] += pairs
        self.judged += done.judged
        self.refused += done.refused
        self.proposed = dict(Counter(self.proposed) + Counter(done.proposed))
        self.dismissed = dict(Counter(self.dismissed) + Counter(done.dismissed))
        self.judge = done.judge or ""
        self.embedding_model = done.embedding_model or ""
        self.floor = done.floor

    def set_lineage(self, first: Lineage, all_passes: Lineage) -> None:
        """The proposals held against the documents' own fields."""
        self.lineage = {
            "confirmed": all_passes.confirmed,
            "claimed_only": all_passes.claimed_only,
            "contradicted": all_passes.contradicted,
            "older_only": all_passes.older_only,
            "links": all_passes.links,
        }
        self.recall = {"after_first_pass": first.recall, "after_all_passes": all_passes.recall}
        self.hard_negatives_proposed = all_passes.hard_negatives_proposed

    @contextmanager
    def timed(self, stage: str) -> Generator[None]:
        """Add the seconds of a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = round(self.seconds.get(stage, 0.0) + time.perf_counter() - began, 2)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "seconds_total": round(sum(self.seconds.values()), 2)}

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        file.write_text(json.dumps(self.as_dict(), indent=2) + "\n", encoding="utf-8")
