"""Answers about how reviewing goes: counts, shares with their intervals, waits, costs. No text, no ids."""

from datetime import datetime
from typing import Literal

from ..operating.views import View

Aspect = Literal["kind", "action", "memory_type", "judge", "threshold"]


class Share(View):
    """A share with its 95 % interval by Wilson."""

    hits: int
    of: int
    share: float | None
    """None where nothing was counted."""
    low: float
    high: float


class Group(View):
    """What became of proposals that have something in common."""

    by: Aspect
    value: str
    """Such as ``archive``; ``none`` where there is nothing to tell, as of a memory that was erased."""
    staged: int
    """Put into the queue in the time asked for, whatever became of them since."""
    open: int
    accepted: int
    rejected: int
    withdrawn: int
    acceptance: Share
    """Accepted of those that a reviewer decided."""
    wait_p50_seconds: float | None
    """How long decided ones had waited; None where none was decided."""
    wait_p90_seconds: float | None


class Reversals(View):
    """Of one kind of proposal: what accepting did, and what of it was taken back and stays so."""

    kind: str
    """Or the policy that acted unreviewed: ``expiry``, ``closer``."""
    undone: Share


class Disagreement(View):
    """Questions that at least two reviewers decided, and those of them that were accepted and rejected.

    A question is a kind, an action, a memory and a related memory: proposals of several passes may ask the same.
    """

    questions: Share


class Reviewer(View):
    """One reviewer's decisions."""

    reviewer: str
    accepted: int
    rejected: int


class Spending(View):
    """Metered calls to one judge for one purpose, from the day's budgets."""

    judge: str
    operation: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    """As the providers stated it; None where none did."""
    unpriced: int
    """Calls whose provider stated no cost."""
    accepted: int
    """Proposals by this judge that were put into the queue in the time asked for and accepted."""
    usd_per_accepted: float | None
    """Everything that was spent on it, also on verdicts that proposed nothing; None where that is unknown."""


class ReviewStats(View):
    """How reviewing went in one tenant."""

    at: datetime
    since: datetime
    open: int
    oldest_open_at: datetime | None
    oldest_open_seconds: float | None
    groups: tuple[Group, ...]
    """Per kind, action, type of memory, judge and threshold; the largest fifty of each."""
    groups_left_out: int
    reversals: tuple[Reversals, ...]
    disagreement: Disagreement
    reviewers: tuple[Reviewer, ...] | None
    """The fifty who decided most; None for callers without ``memory:review``."""
    spending: tuple[Spending, ...]
    spending_since: datetime
    """Budgets are of whole UTC days: the beginning of the first one counted."""
