"""What differs between two texts, word by word."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Literal, NamedTuple

MOST_WORDS = 3_000
"""Of each text, signs counted; what is longer is read, not compared."""
MOST_PAIRS = 200_000
"""Places of equal words in two texts that are all looked at. Prose of `MOST_WORDS` has fewer; texts that
repeat few words without end have more, and are compared by their rarer ones."""
_WORDS = re.compile(r"(\w+|[^\w\s]|^)(\s*)")


class Piece(NamedTuple):
    """A run of text that both have, or only one of them."""

    kind: Literal["both", "older", "newer"]
    text: str


class _Run(NamedTuple):
    """What the two texts have at one place: the same, or something else each."""

    older: str
    newer: str
    shared: bool


class _Word(NamedTuple):
    """A word or a sign, and the blanks behind it, by which it is not compared."""

    text: str
    blank: str


def word_diff(older: str, newer: str) -> list[Piece] | None:
    """The two texts as one run of pieces; None where they are too long to compare."""
    before, after = _words(older), _words(newer)
    if max(len(before), len(after)) > MOST_WORDS:
        return None
    return [piece for run in _whole(_runs(before, after)) for piece in _told(run)]


def _words(text: str) -> list[_Word]:
    return [_Word(*found) for found in _WORDS.findall(text)]


def _runs(before: Sequence[_Word], after: Sequence[_Word]) -> Iterator[_Run]:
    a, b = 0, 0
    for start, other, size in _in_common([one.text for one in before], [one.text for one in after]):
        if a < start or b < other:
            yield _Run(_text(before[a:start]), _text(after[b:other]), shared=False)
        a, b = start + size, other + size
        for mine, yours in zip(before[start:a], after[other:b], strict=True):
            yield _Run(mine.text, mine.text, shared=True)
            yield _Run(mine.blank, yours.blank, shared=mine.blank == yours.blank)


def _in_common(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Stretches of equal words, in order: where in the one, where in the other, and how many."""
    begin = _equal(before, after)
    end = _equal(before[begin:][::-1], after[begin:][::-1])
    a, b = before[begin : len(before) - end], after[begin : len(after) - end]
    counts = Counter(b)
    rare_only = sum(counts[word] for word in a) > MOST_PAIRS
    yield 0, 0, begin
    for start, other, size in SequenceMatcher(None, a, b, autojunk=rare_only).get_matching_blocks():
        yield begin + start, begin + other, size
    yield len(before) - end, len(after) - end, end


def _equal(before: Sequence[str], after: Sequence[str]) -> int:
    """How many words are equal from the beginning on."""
    return sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(before, after, strict=False)))


def _text(words: Sequence[_Word]) -> str:
    return "".join(word.text + word.blank for word in words)


def _whole(runs: Iterable[_Run]) -> list[_Run]:
    """Runs as long as can be. What is shared and shorter than the changes on both sides of it belongs to them:
    chance words would tear what reads as one change."""
    found: list[_Run] = []
    for run in runs:
        found.append(run)
        if len(found) > 1 and found[-2].shared == run.shared:
            found[-2:] = [_one(found[-2:])]
        if len(found) > 2 and not run.shared and _size(found[-2]) <= min(_size(found[-3]), _size(found[-1])):
            found[-3:] = [_one(found[-3:])]
    return found


def _one(runs: Sequence[_Run]) -> _Run:
    older, newer = ("".join(getattr(run, side) for run in runs) for side in ("older", "newer"))
    return _Run(older, newer, shared=all(run.shared for run in runs))


def _size(run: _Run) -> int:
    return max(len(run.older), len(run.newer))


def _told(run: _Run) -> Iterator[Piece]:
    if run.older == run.newer:
        yield Piece("both", run.older)
        return
    if run.older:
        yield Piece("older", run.older)
    if run.newer:
        yield Piece("newer", run.newer)
