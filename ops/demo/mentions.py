"""Which earlier documents each memory of the demo names, and whether it replaces them.

A document that replaces earlier ones says so. As many others name an earlier one and leave it standing: those
that update or require it, and, where these are too few, documents with a similar title, for which the demo itself
adds a sentence that says no more than their header does: that they replace nothing.
"""

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .documents import Document, oldest_first

Relation = Literal["replaces", "updates", "requires", "resembles", "reports", "none"]

SEED = "lethelog-demo-1"
REPORT_SHARE = 2
"""Of the demo's own sentences one in this many cites the claim of a third document, if there is one that fits."""
CITED_OVERLAP = 5.0
"""It fits if its target shares title words of this weight: one rare word or several common ones."""
POOL = 4
"""The demo's own sentences go to a seeded choice among this many times as many of the closest title pairs."""


@dataclass(frozen=True, slots=True)
class Mention:
    """What one memory says of earlier documents. ``left_standing`` are named and not replaced by this one.

    A document may do both: ``relation`` is then "replaces". With "reports", ``claimant`` is the document whose
    claim to replace ``left_standing[0]`` is cited.
    """

    relation: Relation
    replaced: tuple[str, ...] = ()
    left_standing: tuple[str, ...] = ()
    claimant: str | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """Every earlier document in the text that this one does not replace, the cited claimant included."""
        return self.left_standing if self.claimant is None else (*self.left_standing, self.claimant)


def drawn(salt: str, key: str, choices: int) -> int:
    """A choice that depends on the seed and the key alone: the same on every machine and in every order."""
    digest = hashlib.sha256(f"{SEED}:{salt}:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % choices


def plan(documents: Sequence[Document]) -> dict[str, Mention]:
    """One mention per document, decided from what documents say of themselves, never from what is said of them."""
    ordered = oldest_first(documents)
    mentions: dict[str, Mention] = {}
    for series in sorted({document.series for document in ordered}):
        own = [document for document in ordered if document.series == series]
        stated = _stated(own)
        mentions |= stated
        positives = sum(mention.relation == "replaces" for mention in stated.values())
        negatives = sum(mention.relation in ("updates", "requires") for mention in stated.values())
        mentions |= _added(own, stated, positives - negatives)
    return mentions


def _stated(own: Sequence[Document]) -> dict[str, Mention]:
    """The mentions that the documents' own links give. A later document cannot have been named: it is left out."""
    place = {document.id: position for position, document in enumerate(own)}
    replaced_at: dict[str, int] = {}
    mentions: dict[str, Mention] = {}
    for position, document in enumerate(own):
        earlier = {target for target in place if place[target] < position}
        replaced = tuple(target for target in document.replaces if target in earlier)
        relation: Relation = "updates" if document.updates else "requires"
        standing = tuple(
            target
            for target in document.updates or document.requires
            if target in earlier and target not in document.replaces and target not in replaced_at
        )
        if replaced:
            mentions[document.id] = Mention("replaces", replaced, standing)
        elif standing:
            mentions[document.id] = Mention(relation, (), standing)
        else:
            mentions[document.id] = Mention("none")
        for target in replaced:
            replaced_at.setdefault(target, position)
    return mentions


def _added(own: Sequence[Document], stated: Mapping[str, Mention], wanted: int) -> dict[str, Mention]:
    """The demo's own negatives: ``wanted`` documents without links that name the earlier one closest in title."""
    if wanted <= 0:
        return {}
    nearest = _closest_earlier(own)
    titles = {document.id: _words(document.title) for document in own}
    weight = _weights(own)
    place = {document.id: position for position, document in enumerate(own)}
    claims = [(target, document.id) for document in own for target in stated[document.id].replaced]
    free = [
        document
        for document in own
        if document.id in nearest and not (document.replaces or document.updates or document.requires)
    ]
    free.sort(key=lambda document: (-nearest[document.id][0], document.id))
    pool = sorted(free[: wanted * POOL], key=lambda document: drawn("added", document.id, 2**32))
    added: dict[str, Mention] = {}
    for document in pool[:wanted]:
        citable = [
            (_weighed(titles[document.id] & titles[target], weight), place[claimant], target, claimant)
            for target, claimant in claims
            if place[claimant] < place[document.id]
        ]
        overlap, _, target, claimant = max(citable, default=(0.0, 0, "", ""))
        if overlap >= CITED_OVERLAP and drawn("cites", document.id, REPORT_SHARE) == 0:
            added[document.id] = Mention("reports", (), (target,), claimant)
        else:
            added[document.id] = Mention("resembles", (), (nearest[document.id][1],))
    return added


def _words(title: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W\d_]+|\d+", title.lower()))


def _weights(own: Sequence[Document]) -> dict[str, float]:
    """How much a shared title word says: the rarer among these documents, the more."""
    spread = Counter(word for document in own for word in _words(document.title))
    return {word: math.log(len(own) / count) for word, count in spread.items()}


def _weighed(words: Iterable[str], weight: Mapping[str, float]) -> float:
    """Summed in a fixed order and rounded, so that the result is the same on every machine."""
    return round(sum(weight[word] for word in sorted(words)), 6)


def _closest_earlier(own: Sequence[Document]) -> dict[str, tuple[float, str]]:
    """For each document the earlier one whose title shares most with its own, rare words counting more."""
    weight = _weights(own)
    titles = [sorted(_words(document.title)) for document in own]
    total = [_weighed(title, weight) for title in titles]
    holders: defaultdict[str, list[int]] = defaultdict(list)
    found: dict[str, tuple[float, str]] = {}
    for position, title in enumerate(titles):
        shared: defaultdict[int, float] = defaultdict(float)
        for word in title:
            for earlier in holders[word]:
                shared[earlier] += weight[word]
            holders[word].append(position)
        scored = [
            (round(common / (total[position] + total[earlier] - common), 6), earlier)
            for earlier, common in shared.items()
            if common > 0
        ]
        if scored:
            score, earlier = max(scored)
            found[own[position].id] = (score, own[earlier].id)
    return found
