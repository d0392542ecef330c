"""Series of records and their numbers: "PEP 345", "ADR-0005", "decision no. 12"."""

import re
from collections.abc import Iterable

from .lexicon import MONTHS, words

Key = tuple[str, str]
"""A series ("pep") and a number without leading zeros ("345")."""

DOCUMENT_SERIES = words(
    """
    pep rfc adr eip erc bip rep xep cip nep jep kep dep tep mep gep aip lip slip sip std bcp fyi iso iec ieee
    pdr ddr tdr madr rfd rfp prd issue ticket bug task story pr
    """
)
GENERIC_SERIES = words(
    """
    decision record proposal document doc memo memorandum entry item standard specification spec note memory
    policy rule guideline directive order regulation resolution circular bulletin procedure runbook minute
    """
)
"""Nouns that number records in their own right ("Decision 12") or stand for a record of the writer's series."""
_NUMBER_WORDS = frozenset({"no", "nr", "nos", "number", "numbers", "№"})
_NOT_SERIES = MONTHS | words(
    """
    http https tls ssl utf sha md ip ipv sql html css xml json cpu gpu ram usb pm am utc gmt est cet pst q
    fy h v ver version python java section sections part chapter appendix paragraph clause page line step
    phase sprint day in of on at to by the from since until for with and or about over under than
    """
)
_PLURAL = {"policies": "policy", "entries": "entry", "memories": "memory", "memoranda": "memorandum"}
NUMBER = r"\d{1,6}(?:[.-]\d{1,6}){0,2}[a-z]{0,4}"
_LEAD = re.compile(
    r"^[\W_]*(?:(?:decision|new|accepted|adopted|approved|proposed|final|title|record)\s*:\s*)?"
    r"(?P<series>[^\W\d_]{1,24})[\s_#:№-]{0,3}(?:(?:no|nr|number)\b\.?\s*)?(?P<number>" + NUMBER + r")"
    r"(?![\w%])(?P<after>\s*[:.,;()\[\]–—|-]|\s*$|\s)",
    re.IGNORECASE,
)
MENTION = re.compile(r"(?<![\w-])(?P<series>[A-Za-z]{2,12})[\s_#-]{0,2}(?P<number>" + NUMBER + r")(?![\w%])")


def plain_number(text: str) -> str:
    """A number without leading zeros, its parts kept: "0005" -> "5", "2024-003" -> "2024-3"."""
    return "-".join(part.lstrip("0") or "0" for part in re.split(r"[.-]", text.lower()))


def series_name(word: str, also: Iterable[str] = ()) -> tuple[str, bool] | None:
    """The series a word stands for and whether it is a plural, or None where it is no series word."""
    lower = word.lower()
    if lower in also or lower in DOCUMENT_SERIES or lower in GENERIC_SERIES:
        return lower, False
    if lower in _PLURAL:
        return _PLURAL[lower], True
    if lower[-1] == "s" and ((stem := lower[:-1]) in also or stem in DOCUMENT_SERIES or stem in GENERIC_SERIES):
        return stem, True
    if lower in _NOT_SERIES:
        return None
    if word.isascii() and word.isupper() and 2 <= len(word) <= 8:
        return lower, False
    if len(word) >= 4 and word[-1] == "s" and word[:-1].isupper() and lower[:-1] not in _NOT_SERIES:
        return lower[:-1], True
    return None


def is_number_word(word: str) -> bool:
    """Whether a word only announces a number ("no.", "number")."""
    return word in _NUMBER_WORDS


def leading_key(text: str) -> tuple[Key, int] | None:
    """A key at the very start of a text, and where it ends."""
    found = _LEAD.match(text)
    if found is None:
        return None
    word = found["series"]
    known = series_name(word)
    if known is None:
        # An unknown word is a series only where a mark sets the number off as a label: "Beschluss 12: …".
        if (
            word.lower() in _NOT_SERIES
            or len(word) < 3
            or found["after"].strip() not in (":", "–", "—", "-", "|", ".")
        ):
            return None
        known = (word.lower(), False)
    return (known[0], plain_number(found["number"])), found.end("number")
