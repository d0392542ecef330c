"""One line of the benchmark: a figure, what it is held against, and whether that is good enough."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked for, of the ratio, or of the figure itself where nothing is compared."""

    bound: Literal["at least", "at most"]
    value: float
    of: Literal["ratio", "figure"] = "ratio"

    def met_by(self, measured: float) -> bool:
        return measured >= self.value if self.bound == "at least" else measured <= self.value


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    ``says`` is what was done, ``against`` what the baseline is; both are printed, so that nobody has to guess
    what a ratio compares.
    """

    name: str
    figure: float
    unit: str
    says: str
    baseline: float | None = None
    """In the same unit."""
    against: str | None = None
    target: Target | None = None
    flush_ms: float | None = None
    """Median flush of the data directory's disk, for figures that contain a durable commit."""
    n: int = 0
    """Operations behind the figure, all rounds together."""
    spread: tuple[float, float] | None = None
    """Lowest and highest ratio of one round; of the figure where nothing is compared."""
    detail: dict[str, Any] = field(default_factory=dict[str, Any])
    """Further figures, by their names."""
    bound_by: str | None = None
    """What keeps the figure from being better, where that is known; printed with a miss."""
    load: float | None = None
    """Load of the machine over the minute in which it was measured; the run fills it in."""

    @property
    def ratio(self) -> float | None:
        """Figure to baseline: for rates the higher the better, for times the lower."""
        return self.figure / self.baseline if self.baseline else None

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None where there is none."""
        if self.target is None:
            return None
        measured = self.figure if self.target.of == "figure" else self.ratio
        return measured is not None and self.target.met_by(measured)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, with rounded figures."""
        target = None if self.target is None else f"{self.target.of} {self.target.bound} {self.target.value:g}"
        return {
            "name": self.name,
            "figure": rounded(self.figure),
            "unit": self.unit,
            "baseline": rounded(self.baseline),
            "ratio": rounded(self.ratio),
            "target": target,
            "met": self.met,
            "flush_ms": rounded(self.flush_ms),
            "n": self.n,
            "spread": None if self.spread is None else [rounded(bound) for bound in self.spread],
            "says": self.says,
            "against": self.against,
            "bound_by": self.bound_by,
            "load": rounded(self.load),
            "detail": self.detail,
        }


def rounded(value: float | None) -> float | None:
    """Four significant digits: more would pretend."""
    return None if value is None else float(f"{value:.4g}")


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
