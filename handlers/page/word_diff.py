"""What differs between two texts, word by word."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

MOST_WORDS = 1_500
"""Of each text; beyond, comparing takes longer than a page may."""
_PIECES = re.compile(r"\s+|\w+|[^\w\s]")


class Piece(NamedTuple):
    """A run of text that both have, or only one of them."""

    kind: Literal["both", "older", "newer"]
    text: str


def word_diff(older: str, newer: str) -> list[Piece] | None:
    """The two texts as one run of pieces; None where they are too long to compare."""
    before, after = _PIECES.findall(older), _PIECES.findall(newer)
    if max(len(before), len(after)) > 2 * MOST_WORDS:
        return None
    return list(_joined(_pieces(before, after)))


def _pieces(before: list[str], after: list[str]) -> Iterator[Piece]:
    for tag, a, b, c, d in SequenceMatcher(
        None, before, after, autojunk=max(len(before), len(after)) > 200
    ).get_opcodes():
        if tag == "equal":
            yield Piece("both", "".join(before[a:b]))
            continue
        if a < b:
            yield Piece("older", "".join(before[a:b]))
        if c < d:
            yield Piece("newer", "".join(after[c:d]))


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """A blank between two changes belongs to them: it would tear them into single words."""
    waiting: dict[str, str] = {"older": "", "newer": ""}
    for piece in pieces:
        if piece.kind == "both" and (piece.text.strip() or not any(waiting.values())):
            yield from _flushed(waiting)
            yield piece
        elif piece.kind == "both":
            waiting = {kind: text + piece.text for kind, text in waiting.items()}
        else:
            waiting[piece.kind] += piece.text
    yield from _flushed(waiting)


def _flushed(waiting: dict[str, str]) -> Iterator[Piece]:
    older, newer = waiting["older"], waiting["newer"]
    waiting.update(older="", newer="")
    if older == newer:
        if older:
            yield Piece("both", older)
        return
    if older:
        yield Piece("older", older)
    if newer:
        yield Piece("newer", newer)
