"""What each way of stating an ending is worth, measured, and from which worth on it is proposed.

``stated`` has no probabilities of its own. A wording class is a way of saying it (`reading.Wording`), naming by
title alone (``titled``), an end recorded in a field (``recorded_end``) or stated in the text (``stated_end``). Its
sample is held-out *wordings*, not the many items one wording makes: twelve items of one sentence form are one
observation. The figures come from ``python -m lethelog.ops.eval.stated``, which reports them with the items behind
them; a test holds them against a fresh run where the data is at hand.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..thresholds import Thresholds

RULE_VERSION = "1"
IDENTITY = f"stated:{RULE_VERSION}"
_Z = 1.959964


@dataclass(frozen=True, slots=True)
class Measured:
    """Held-out wordings of a class that made a proposal, and how many of them rightly so."""

    right: int
    total: int

    @property
    def probability(self) -> float:
        """The lower end of the 95 % Wilson interval of the precision.

        A class with few wordings behind it thus gets a low number by itself: three of three give 0.44, and a
        class below 0.5 proposes nothing.
        """
        if not self.total:
            return 0.0
        share, z2 = self.right / self.total, _Z * _Z
        spread = _Z * math.sqrt(share * (1 - share) / self.total + z2 / (4 * self.total * self.total))
        return (share + z2 / (2 * self.total) - spread) / (1 + z2 / self.total)


MEASURED: Mapping[str, Measured] = MappingProxyType(
    {
        "active": Measured(15, 15),
        "causative": Measured(10, 10),
        "field": Measured(11, 11),
        "in_place": Measured(10, 10),
        "no_longer": Measured(12, 12),
        "nominal": Measured(10, 10),
        "participle": Measured(13, 13),
        "passive": Measured(14, 14),
        "pronoun": Measured(14, 14),
        "purpose": Measured(10, 10),
        "recorded_end": Measured(48, 48),
        "stated_end": Measured(24, 24),
        "titled": Measured(12, 12),
    }
)

THRESHOLDS = Thresholds(IDENTITY, archive=0.5, supersede=0.5, conflict=None)
"""Selected by `thresholds.select_thresholds` on the selection half of the wordings."""


def probability_of(wording: str) -> float:
    """The probability that a verdict of this wording class carries."""
    return MEASURED[wording].probability
