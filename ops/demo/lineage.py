"""Holds the engine's supersede proposals against what the documents of both sides say."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ...domain.errors import InvalidInput
from .sample import Sample

Row = Literal["confirmed", "claimed_only", "contradicted", "older_only"]
_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProposalCheck:
    """One proposal, the row it falls in, and whether the newer text was written as a hard negative for it."""

    older: str
    newer: str
    row: Row
    reason: str
    hard_negative: bool


@dataclass(frozen=True, slots=True)
class Lineage:
    """Every distinct proposal falls in exactly one of four rows.

    - ``confirmed``: the newer document says that it replaces the older, whose own "superseded by" names it.
    - ``claimed_only``: the newer says so, and the older's field is empty.
    - ``contradicted``: neither side says so, or the newer does while the older's field names only others.
    - ``older_only``: the older's field names the newer, whose own facts do not claim it. True, and yet not to
      be had from the newer's text: a judge by rule that proposes it guessed.

    ``recall`` is the share of the links in the sample's texts (a newer document replaces one remembered before
    it) that were proposed: ``found`` of ``links``; None where there are none. A link whose claiming document is
    dated before its target is no part of it: at its date it could not have been said.
    """

    confirmed: int
    claimed_only: int
    contradicted: int
    older_only: int
    found: int
    links: int
    hard_negatives_proposed: int
    details: tuple[ProposalCheck, ...]

    @property
    def recall(self) -> float | None:
        """``found`` / ``links``."""
        return self.found / self.links if self.links else None

    def as_dict(self) -> dict[str, object]:
        """The numbers as JSON-ready data, without the details."""
        return {
            "confirmed": self.confirmed,
            "claimed_only": self.claimed_only,
            "contradicted": self.contradicted,
            "older_only": self.older_only,
            "found": self.found,
            "links": self.links,
            "recall": self.recall,
            "hard_negatives_proposed": self.hard_negatives_proposed,
        }


def compare(proposed: Iterable[tuple[str, str]], sample: Sample) -> Lineage:
    """Compare proposals, each (older, newer) by document id: the older is the one proposed as superseded.

    A pair given twice counts once. The order of the two is the proposal's own; a pair the wrong way round is
    contradicted. An id that is not in the sample is refused.
    """
    replaces = {document.id: frozenset(document.replaces) for document in sample.documents}
    pairs = list(dict.fromkeys(proposed))
    for identifier in (identifier for pair in pairs for identifier in pair):
        if identifier not in replaces:
            raise InvalidInput("proposed", f"{identifier!r} is not a document of the sample")
    hard_negatives = sample.hard_negatives
    details: list[ProposalCheck] = []
    for older, newer in pairs:
        row, reason = _row(newer, older in replaces[newer], sample.superseded_by.get(older, _NOBODY))
        details.append(ProposalCheck(older, newer, row, reason, (older, newer) in hard_negatives))
    rows = Counter(check.row for check in details)
    return Lineage(
        confirmed=rows["confirmed"],
        claimed_only=rows["claimed_only"],
        contradicted=rows["contradicted"],
        older_only=rows["older_only"],
        found=len(sample.claimed.intersection(pairs)),
        links=len(sample.claimed),
        hard_negatives_proposed=sum(check.hard_negative for check in details),
        details=tuple(details),
    )


def _row(newer: str, claimed: bool, successors: frozenset[str]) -> tuple[Row, str]:
    named = newer in successors
    if claimed and named:
        return "confirmed", "both documents say so"
    if claimed and not successors:
        return "claimed_only", "the newer document says so; the older names no successor"
    if claimed:
        return (
            "contradicted",
            f"the newer document says so; the older names {', '.join(sorted(successors))} instead",
        )
    if named:
        return "older_only", "only the older document says so"
    return "contradicted", "neither document says so"
