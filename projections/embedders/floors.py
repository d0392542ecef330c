"""Per model, the cosine below which a candidate pair is noise and not worth a judge's time.

Rank does the work: a memory is compared with its 3 to 5 nearest newer ones, and cosines of different models are on
different scales, so no number carries over. A floor only cuts the tail, for memories that have nothing near them.

How those of the shipped models were chosen (``ops/eval/embedders.py``, figures in ``docs/reports/embedders.md``):
each record of three real sets emits its 3 nearest newer ones, by the fused rank of vector and words; the floor is
the largest cosine, rounded down to two decimals, that loses at most 2 % of the true supersessions among them in
any of the sets. It cuts a sixth of what is emitted. It need not carry over to other texts: chosen without the
decision records, MiniLM's would be 0.53 and lose 13 % of theirs.

0.82 was chosen by others for ``text-embedding-3-large`` and belongs to that model alone: with it, the two shipped
here would lose more than eight in ten of the true pairs.
"""

from typing import NamedTuple

_MEASURED = {
    "wordllama-l2-supercat-256@0.4.0+mean1.chars1": 0.38,
    "all-MiniLM-L6-v2-int8-384@1.0.0+windows1-126.chars1": 0.38,
}
"""By full identity: with other weights or another rule the cosines move, and the floor has to be chosen anew."""

_STATED = {"text-embedding-3-large": 0.82}
"""By name, as their users published them."""


def floor_for(model: str) -> float:
    """The floor of the embedder with this identity; 0.0, which leaves all to rank, where none is known."""
    name = model.partition("@")[0].rpartition("-")[0]
    return _MEASURED.get(model, _STATED.get(name, 0.0))


class ConsolidationFloor(NamedTuple):
    """From which cosine on two memories are near enough for an edge between them to be proposed."""

    floor: float
    recurring_collapses: int | None
    """Pairs of recurring records, all of which still stand, that get through at this floor; None if unmeasured."""


_CONSOLIDATION = {
    "wordllama-l2-supercat-256@0.4.0+mean1.chars1": ConsolidationFloor(0.95, 0),
    "all-MiniLM-L6-v2-int8-384@1.0.0+windows1-126.chars1": ConsolidationFloor(0.94, 0),
}
"""By full identity, as ``ops/eval/consolidation.py`` selects them; figures: ``docs/reports/consolidation.md``."""

_CONSOLIDATION_STATED = {"text-embedding-3-large": ConsolidationFloor(0.92, None)}


def consolidation_floor_for(model: str) -> ConsolidationFloor | None:
    """The floor of consolidation for the embedder with this identity; None, by which nothing is proposed, where
    none was selected (settlement 11)."""
    name = model.partition("@")[0].rpartition("-")[0]
    return _CONSOLIDATION.get(model) or _CONSOLIDATION_STATED.get(name)
