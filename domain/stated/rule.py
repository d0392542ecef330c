"""The judge ``stated``: an item is answered only by what the memories or their metadata state."""

from datetime import datetime

from ..judging import Answer, Evidence, Item, JudgedMemory, PairItem, SingleItem, is_guarded, visible
from .atoms import Names
from .claims import Claim, find_claim
from .mentions import identity_of
from .precision import probability_of

_TRUST = {"imported": 0, "agent": 1, "user": 2, "host": 3}


def answer_item(item: Item, now: datetime) -> Answer:
    """The answer to one item."""
    if isinstance(item, PairItem):
        return _answer_pair(item, now)
    return _answer_single(item, now)


def _answer_pair(item: PairItem, now: datetime) -> Answer:
    if is_guarded(item.older) or item.older.memory_type == "blocker":
        return _answer(item, "keep_both", "keep_both", 1.0, None)
    claim = claim_against(item.older, item.newer, now)
    if claim is not None:
        return _proposal(item, "keep_both", "supersede_older", claim, item.newer)
    if item.older.expires_at is not None and item.older.expires_at <= now:
        return _expired(item, "keep_both", "archive_older", item.older)
    return _answer(item, "keep_both", "keep_both", 1.0, None)


def _answer_single(item: SingleItem, now: datetime) -> Answer:
    if "archive" not in item.options:
        return _answer(item, "keep", "keep", 1.0, None)
    for near in item.newer:
        claim = claim_against(item.memory, near.memory, now)
        if claim is not None:
            return _proposal(item, "keep", f"supersede_by:{near.ref}", claim, near.memory)
    if item.memory.expires_at is not None and item.memory.expires_at <= now:
        return _expired(item, "keep", "archive", item.memory)
    return _answer(item, "keep", "keep", 1.0, None)


def claim_against(older: JudgedMemory, newer: JudgedMemory, now: datetime) -> Claim | None:
    """What the newer memory states about the end of the older one, where it has a say at all."""
    if _TRUST.get(newer.trust, -1) < _TRUST.get(older.trust, 4) or newer.occurred_at < older.occurred_at:
        return None
    if older.memory_type == "event":
        return None
    names = Names(identity_of(newer), identity_of(older))
    titles = tuple(" ".join(title) for title in names.older.titles)
    for text in (visible(newer.content), visible(newer.topic)):
        claim = find_claim(text, names, titles, now.year)
        if claim is not None:
            return claim
    return None


def _proposal(item: Item, keep: str, choice: str, claim: Claim, speaker: JudgedMemory) -> Answer:
    probability = probability_of("titled" if claim.titled else claim.wording)
    return _answer(item, keep, choice, probability, Evidence(claim.quote, speaker.memory_id))


def _expired(item: Item, keep: str, choice: str, memory: JudgedMemory) -> Answer:
    assert memory.expires_at is not None
    quote = f"expires_at: {memory.expires_at.isoformat()}"
    return _answer(item, keep, choice, probability_of("metadata_end"), Evidence(quote, memory.memory_id))


def _answer(item: Item, keep: str, choice: str, probability: float, evidence: Evidence | None) -> Answer:
    probabilities = dict.fromkeys(item.options, 0.0)
    probabilities[choice] = probability
    if choice != keep:
        probabilities[keep] = 1.0 - probability
    return Answer(choice, probabilities, evidence)
