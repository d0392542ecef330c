"""What recorded questions would have led to under other thresholds, another policy or another judge.

Pure: from what was asked, said and decided to what would have been proposed, and how often reviewers had agreed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID, uuid5

from .judging import Action

ACTIONS: tuple[Action, ...] = ("archive", "supersede", "conflict")
"""What is ever proposed by a verdict."""
Decision = Literal["accepted", "rejected"]


@dataclass(frozen=True, slots=True)
class Said:
    """What a judge says to a question."""

    action: Action
    memory_id: UUID
    related_id: UUID | None
    probability: float


@dataclass(frozen=True, slots=True)
class Asked:
    """One recorded question of a pass, and what became of it."""

    pass_id: UUID
    ref: str
    at: datetime
    """When its verdict was settled."""
    said: Said
    staged: bool
    """Whether the verdict became a proposal."""
    decision: Decision | None = None
    """What a reviewer said; an acceptance that was undone counts as a rejection."""
    closed_at: datetime | None = None
    """When the proposal was decided or withdrawn; None while it is open."""


@dataclass(frozen=True, slots=True)
class Would:
    """A proposal that there would have been."""

    asked: Asked
    said: Said

    @property
    def real(self) -> bool:
        """Whether there is this very proposal."""
        was = self.asked.said
        same = (was.action, was.related_id) == (self.said.action, self.said.related_id)
        return self.asked.staged and same

    @property
    def decision(self) -> Decision | None:
        """What a reviewer said about it; None where nobody decided just this."""
        return self.asked.decision if self.real else None


@dataclass(frozen=True, slots=True)
class Precision:
    """How often reviewers agreed to what is proposed for one action."""

    action: Action
    proposed: int
    decided: int
    accepted: int


Clears = Callable[[Asked, Said], bool]
"""Whether a verdict is sure enough to be proposed."""


def replay(answers: Iterable[tuple[Asked, Said]], clears: Clears) -> list[Would]:
    """The proposals there would have been, in the order of the record.

    As in passes, one proposal at a time is open about a memory and an action (F32): a later one would not have
    been staged while an earlier one was open. One that never was has no decision, and stays open.
    """
    proposed: list[Would] = []
    holders: dict[tuple[UUID, Action], Would] = {}
    for asked, said in sorted(answers, key=lambda pair: (pair[0].at, str(pair[0].pass_id), pair[0].ref)):
        if said.action == "keep" or not clears(asked, said):
            continue
        slot = (said.memory_id, said.action)
        holder = holders.get(slot)
        if holder is not None and _open_at(holder, asked.at):
            continue
        would = Would(asked, said)
        holders[slot] = would
        proposed.append(would)
    return proposed


def recorded(questions: Iterable[Asked]) -> list[Would]:
    """The proposals there were."""
    return [Would(one, one.said) for one in questions if one.staged]


def precision(proposals: Sequence[Would]) -> tuple[Precision, ...]:
    """Per action, against the decisions that reviewers took."""
    return tuple(
        Precision(
            action=action,
            proposed=sum(one.said.action == action for one in proposals),
            decided=sum(one.said.action == action and one.decision is not None for one in proposals),
            accepted=sum(one.said.action == action and one.decision == "accepted" for one in proposals),
        )
        for action in ACTIONS
    )


def threshold_of(action: Action, own: Mapping[str, float | None], other: Mapping[str, float]) -> float | None:
    """The threshold of an action where some are replaced."""
    return other.get(action, own.get(action))


def whatif_verdict_id(pass_id: UUID, ref: str, judge: str) -> UUID:
    """Stream of what another judge says to a recorded question: it is asked once, by whichever what-if."""
    return uuid5(pass_id, f"whatif:{ref}:{judge}")


def _open_at(would: Would, moment: datetime) -> bool:
    closed = would.asked.closed_at if would.real else None
    return closed is None or closed > moment
