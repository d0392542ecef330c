"""Answers of a what-if."""

from datetime import datetime
from uuid import UUID

from ..analytics.views import Share
from ..operating.views import View


class ActionPrecision(View):
    """Proposals of one action, and how often reviewers agreed."""

    action: str
    proposed: int
    precision: Share
    """Accepted of those that reviewers decided; an acceptance that was undone counts as a rejection."""
    enough: bool
    """Whether so many were decided that the figure says something: at least ten."""


class WouldBe(View):
    """A proposal that there would have been, or would not have been any more."""

    pass_id: UUID
    ref: str
    action: str
    memory_id: UUID
    related_id: UUID | None = None
    probability: float
    decision: str | None = None
    """What a reviewer said to it, where it was there."""


class Asking(View):
    """What asking the other judge took."""

    judge: str
    asked: int
    """Questions that were sent."""
    answered: int
    reused: int
    """Questions this judge had answered before, in a pass or a what-if; they are not asked again."""
    unanswered: dict[str, int]
    """Questions without an answer, by reason: ``changed_meanwhile``, ``erased``, ``not_asked``, …"""
    calls: int
    cost_usd: float | None = None
    stopped: str | None = None
    """Why no more was asked, as a short code; None where everything was that may be."""


class WhatIfReport(View):
    """What recorded questions would have led to. Nothing is proposed by it."""

    id: UUID | None
    """Of the request on record, where another judge was asked; a replay of what is on record leaves none."""
    since: datetime | None
    passes: int
    passes_left_out: int
    """Older passes that were not looked at."""
    questions: int
    """Recorded verdicts that were replayed."""
    thresholds: dict[str, float | None] | None
    """In force in the replay for every pass; None where each pass keeps its own."""
    thresholds_from: str
    """``given``, ``recorded``, ``selected`` for the judge, or ``starting``: the source's values, unselected."""
    recorded: tuple[ActionPrecision, ...]
    replayed: tuple[ActionPrecision, ...]
    unchanged: int
    """Proposals that there were and would have been."""
    appeared: int
    disappeared: int
    appearing: tuple[WouldBe, ...]
    """The first hundred."""
    disappearing: tuple[WouldBe, ...]
    """The first hundred, those that reviewers had accepted first."""
    asking: Asking | None = None
    not_replayed: tuple[str, ...] = ()
    """What the record does not allow to replay, each in a sentence."""
    position: int
