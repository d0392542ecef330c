"""Which verdicts become proposals (behaviour.md 1.16, 1.17)."""

from lethelog.domain.thresholds import (
    ScoredVerdict,
    no_thresholds,
    select_threshold,
    select_thresholds,
    starting_thresholds,
)

A30 = [
    (0.97, 1), (0.96, 1), (0.94, 1), (0.93, 1), (0.92, 1), (0.91, 1), (0.90, 1), (0.89, 1), (0.88, 1), (0.87, 1),
    (0.86, 1), (0.83, 0), (0.78, 1), (0.72, 1), (0.66, 0), (0.55, 1),
]  # fmt: skip


def verdicts(pairs, action="archive"):
    return [ScoredVerdict(action, probability, bool(right)) for probability, right in pairs]


def test_a24_a_single_is_proposed_at_the_threshold_and_dismissed_just_below():
    """A24."""
    thresholds = starting_thresholds("judge")
    assert thresholds.clears("archive", 0.85)
    assert not thresholds.clears("archive", 0.8499)


def test_a25_a_conflict_is_proposed_from_sixty_percent_on():
    """A25."""
    assert starting_thresholds("judge").clears("conflict", 0.60)
    assert not starting_thresholds("judge").clears("conflict", 0.5999)


def test_keep_is_never_a_proposal():
    assert not starting_thresholds("judge").clears("keep", 1.0)


def test_starting_values_are_marked_unselected_and_no_thresholds_propose_nothing():
    """Settlement 12."""
    assert starting_thresholds("judge").selected is False
    none = no_thresholds("judge")
    assert not any(none.clears(action, 1.0) for action in ("archive", "supersede", "conflict"))


def test_a30_the_lowest_threshold_that_is_pure_enough_is_chosen():
    """A30: 0.85. Threshold selection."""
    assert select_threshold("archive", verdicts(A30)) == 0.85


def test_a31_fewer_than_ten_proposals_disable_the_action():
    """A31."""
    assert select_threshold("archive", verdicts(A30[2:])) is None


def test_conflict_needs_less_precision_than_archive():
    pairs = [(0.9, 1)] * 8 + [(0.9, 0)] * 2
    assert select_threshold("conflict", verdicts(pairs, "conflict")) == 0.50
    assert select_threshold("archive", verdicts(pairs)) is None


def test_each_action_is_selected_by_its_own_verdicts():
    chosen = select_thresholds("judge", verdicts(A30) + verdicts([(0.7, 1)] * 10, "supersede"))
    assert (chosen.judge_identity, chosen.archive, chosen.supersede, chosen.conflict) == (
        "judge",
        0.85,
        0.50,
        None,
    )
    assert chosen.selected
