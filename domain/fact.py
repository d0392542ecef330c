"""The fact aggregate: asserted once and never changed; an accepted one can be taken back.

behaviour.md 1.10, 1.14.3.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from . import events as e
from .commands import GivenFact
from .errors import Conflict, Erased
from .memory import Memory
from .memory_rules import refuse_unless_live


@dataclass(frozen=True, slots=True)
class Fact:
    """State of one fact."""

    id: UUID
    version: int
    memory_id: UUID
    subject: str | None
    """None, as predicate and value, once the memory was erased."""
    predicate: str | None
    value: str | None
    confidence: float | None
    valid_from: datetime
    valid_to: datetime | None
    proposal: UUID | None
    recorded_at: datetime
    undone: bool = False

    def holds_at(self, instant: datetime) -> bool:
        """Whether the instant lies in its window, which is half-open."""
        return self.valid_from <= instant and (self.valid_to is None or instant < self.valid_to)


def evolve_fact(state: Fact | None, event: e.Event, *, stream: UUID, version: int, recorded_at: datetime) -> Fact:
    """The state after one more event of its stream."""
    if isinstance(event, e.FactAsserted):
        return Fact(
            id=stream,
            version=version,
            memory_id=event.memory_id,
            subject=event.subject,
            predicate=event.predicate,
            value=event.value,
            confidence=event.confidence,
            valid_from=event.valid_from,
            valid_to=event.valid_to,
            proposal=event.proposal,
            recorded_at=recorded_at,
        )
    if state is None:
        raise ValueError(f"stream {stream} does not begin with what a fact says")
    undone = not event.again if isinstance(event, e.FactEffectUndone) else state.undone
    return replace(state, version=version, undone=undone)


def decide_facts(memory_id: UUID, facts: tuple[GivenFact, ...], begins: datetime) -> list[e.FactAsserted]:
    """Facts that are said together with their memory; those without a beginning hold since ``begins``."""
    return [
        e.FactAsserted(
            memory_id=memory_id,
            subject=fact.subject,
            predicate=fact.predicate,
            value=fact.value,
            confidence=fact.confidence,
            valid_from=fact.valid_from or begins,
            valid_to=fact.valid_to,
        )
        for fact in facts
    ]


def decide_accepted(said: e.FactStaged, memory: Memory, proposal: UUID, now: datetime) -> e.FactAsserted:
    """The fact that a reviewer accepts; without a beginning it holds from now on (behaviour.md 1.14.3).

    Raises `Conflict` where its memory is no longer live, and `Erased`.
    """
    if said.subject is None or said.predicate is None or said.value is None:
        raise Erased(f"memory {memory.id} was erased, and what was proposed of it", memory_id=memory.id)
    refuse_unless_live(memory, "the source of a fact")
    return e.FactAsserted(
        memory_id=memory.id,
        subject=said.subject,
        predicate=said.predicate,
        value=said.value,
        confidence=said.confidence,
        valid_from=said.valid_from or now,
        valid_to=said.valid_to,
        proposal=proposal,
    )


def decide_undo(state: Fact, *, effect: UUID, undo: UUID, again: bool) -> list[e.Event]:
    """Take an accepted fact back, or with ``again`` put it back; nothing where it already is so.

    ``effect`` is the event id of its ``fact.asserted``. Raises `Conflict` for a fact that nobody decided upon, and
    `Erased`.
    """
    if state.value is None:
        raise Erased(f"memory {state.memory_id} was erased, and its facts with it", memory_id=state.memory_id)
    if state.proposal is None:
        raise Conflict(
            "the fact was said together with its memory and came of no proposal, so there is nothing to undo",
            fact_id=state.id,
        )
    if state.undone != again:
        return []
    return [e.FactEffectUndone(effect=effect, undo=undo, again=again, memory_id=state.memory_id)]
