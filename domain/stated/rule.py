"""The judge ``stated``: from an item to an answer, by what the memories or their metadata state.

A pair: the newer memory names the older one and says that it ends -> supersede; else the older one's own stated
or recorded end has passed -> archive; else both are kept. A single: the same, asked of each newer neighbour.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from ..judging import Answer, Evidence, Item, JudgedMemory, PairItem, is_guarded, visible
from .atoms import Names
from .claims import Claim, could_claim, find_claim
from .ends import find_stated_end
from .mentions import identity_of
from .precision import probability_of

TRUST_ORDER = {"imported": 0, "agent": 1, "user": 2, "host": 3}
"""A memory may argue only against one of equal or lower trust (judges.md 4.4)."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What is stated about one item: the option, its wording class, and where it was read."""

    option: str
    wording: str
    evidence: Evidence


def answer_item(item: Item, now: datetime) -> Answer:
    """The answer to one item: the first statement whose wording class is precise enough, else keep."""
    options = item.options
    keep = next(iter(options))
    memory = item.older if isinstance(item, PairItem) else item.memory
    if is_guarded(memory) or memory.memory_type == "blocker":
        return _answer(options, keep, keep, 1.0)
    too_weak: tuple[str, float] | None = None
    for statement in statements(item, now):
        probability = probability_of(statement.wording)
        if probability >= 0.5:
            return _answer(options, keep, statement.option, probability, statement.evidence)
        too_weak = too_weak or (statement.option, probability)
    if too_weak is not None:
        return _answer(options, keep, keep, 1.0 - too_weak[1], other=too_weak)
    return _answer(options, keep, keep, 1.0)


def statements(item: Item, now: datetime) -> Iterator[Statement]:
    """Everything stated about an item, the endings by a newer memory first; guards are `answer_item`'s."""
    if isinstance(item, PairItem):
        older, archive = item.older, "archive_older"
        speakers = (("supersede_older", item.newer),)
    else:
        older, archive = item.memory, "archive"
        speakers = tuple((f"supersede_by:{near.ref}", near.memory) for near in item.newer)
    for option, speaker in speakers:
        claim = claim_against(older, speaker, now)
        if claim is not None:
            wording = "titled" if claim.titled else claim.wording
            yield Statement(option, wording, Evidence(claim.quote, speaker.memory_id))
    for name, end in (("expires_at", older.expires_at), ("valid_to", older.valid_to)):
        if end is not None and end <= now:
            yield Statement(archive, "recorded_end", Evidence(f"{name}: {end.isoformat()}", older.memory_id))
    stated = _stated_end(older, now)
    if stated is not None:
        yield Statement(archive, "stated_end", Evidence(stated, older.memory_id))


def claim_against(older: JudgedMemory, newer: JudgedMemory, now: datetime) -> Claim | None:
    """What the newer memory states about the end of the older one, where it has a say at all.

    Events are never superseded (behaviour.md 1.1, 5). Where the older memory says in turn that it replaces the
    newer one, neither is believed.
    """
    if older.memory_type == "event" or newer.occurred_at < older.occurred_at:
        return None
    if TRUST_ORDER.get(newer.trust, -1) < TRUST_ORDER.get(older.trust, len(TRUST_ORDER)):
        return None
    said = (visible(newer.content), visible(newer.topic))
    if not could_claim(said):
        return None
    other = identity_of(older)
    own = identity_of(newer).beside(other)
    claim = find_claim(said, Names(own, other), now)
    if claim is None:
        return None
    reverse = find_claim((visible(older.content), visible(older.topic)), Names(other, own), now)
    return claim if reverse is None else None


def _stated_end(memory: JudgedMemory, now: datetime) -> str | None:
    for text in (visible(memory.content), visible(memory.topic)):
        found = find_stated_end(text, memory, now)
        if found is not None:
            return found.quote
    return None


def _answer(
    options: Mapping[str, str],
    keep: str,
    choice: str,
    probability: float,
    evidence: Evidence | None = None,
    other: tuple[str, float] | None = None,
) -> Answer:
    """An answer over exactly the offered options; mass that is not the choice's is keep's, or ``other``'s."""
    probabilities = dict.fromkeys(options, 0.0)
    probabilities[keep] = 1.0 - probability
    probabilities[choice] = probability
    if other is not None:
        probabilities[other[0]] = other[1]
    return Answer(choice, probabilities, evidence)
