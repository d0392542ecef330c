"""Which verdicts become proposals: thresholds per action, selected for exactly one judge identity.

behaviour.md 1.17 (rule), settlement 12 (who may propose), A24, A25, A30, A31.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .judging import Action

SWEEP = tuple(round(0.50 + 0.05 * step, 2) for step in range(10))
"""0.50 to 0.95 in steps of 0.05."""
MINIMUM_PROPOSALS = 10
REQUIRED_PRECISION: Mapping[str, float] = MappingProxyType({"archive": 0.97, "supersede": 0.97, "conflict": 0.80})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Probability from which each action is proposed; None = the action proposes nothing.

    ``selected`` is False for the source's starting values, and every proposal made under them says so.
    """

    judge_identity: str
    archive: float | None
    supersede: float | None
    conflict: float | None
    selected: bool = True

    def for_action(self, action: Action) -> float | None:
        """The threshold of an action; keep has none."""
        return None if action == "keep" else getattr(self, action)

    def clears(self, action: Action, probability: float) -> bool:
        """Whether a verdict becomes a proposal: not keep, and probability ≥ threshold (A24, A25)."""
        threshold = self.for_action(action)
        return threshold is not None and probability >= threshold


def starting_thresholds(judge_identity: str) -> Thresholds:
    """The source's starting values, which an operator may set explicitly; proposals are marked unselected."""
    return Thresholds(judge_identity, archive=0.85, supersede=0.85, conflict=0.60, selected=False)


def no_thresholds(judge_identity: str) -> Thresholds:
    """For a judge whose thresholds were never selected: it proposes nothing."""
    return Thresholds(judge_identity, archive=None, supersede=None, conflict=None)


@dataclass(frozen=True, slots=True)
class ScoredVerdict:
    """A non-keep verdict on a labelled item: was it right, and how probable did the judge call it?"""

    action: Action
    probability: float
    correct: bool


def select_threshold(action: Action, verdicts: Iterable[ScoredVerdict]) -> float | None:
    """The lowest swept threshold whose precision reaches the bar over at least ten proposals (A30, A31).

    None when no threshold qualifies: the action then proposes nothing.
    """
    of_action = [v for v in verdicts if v.action == action]
    for threshold in SWEEP:
        proposed = [v for v in of_action if v.probability >= threshold]
        if len(proposed) < MINIMUM_PROPOSALS:
            return None
        if sum(v.correct for v in proposed) / len(proposed) >= REQUIRED_PRECISION[action]:
            return threshold
    return None


def select_thresholds(judge_identity: str, verdicts: Iterable[ScoredVerdict]) -> Thresholds:
    """Thresholds of every action by the pre-registered rule."""
    scored = list(verdicts)
    return Thresholds(
        judge_identity,
        archive=select_threshold("archive", scored),
        supersede=select_threshold("supersede", scored),
        conflict=select_threshold("conflict", scored),
    )
