"""What a judge says about one question, as events hold it."""

from typing import ClassVar, Literal, Self
from uuid import UUID

from pydantic import model_validator

from .event import Event
from .judging import Action


class Judgment(Event):
    """What a verdict says, shared by the verdict itself and the proposal it leads to."""

    pass_id: UUID
    ref: str
    rule: Literal["single", "pair"]
    """Which candidate stream asked the question."""
    action: Action
    memory_id: UUID
    related_id: UUID | None = None
    judged_pair: tuple[UUID, UUID] | None = None
    probability: float
    probabilities: dict[str, float]
    judge: str
    """Identity of the judge; thresholds belong to it."""
    model: str
    seen: dict[UUID, int]
    """State version of every memory shown, by id."""
    evidence_memory: UUID | None = None
    quote: str | None = None
    """The sentence the verdict rests on; sealed under the memory it was read in."""

    SEALED_FOR: ClassVar[dict[str, str]] = {"quote": "evidence_memory"}

    @model_validator(mode="after")
    def _related_stands_where_it_must(self) -> Self:
        """A related memory stands exactly on supersede and conflict (A26)."""
        if (self.action in ("supersede", "conflict")) != (self.related_id is not None):
            raise ValueError(f"related_id must {'not ' if self.related_id else ''}be given for {self.action}")
        return self
