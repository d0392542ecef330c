"""A text read as sentences of tokens, with everything set aside that its writer only quotes.

A statement counts only in the writer's own voice. Quotations, block quotes, code, struck-out text and comments
are blanked out before anything is read (hard negatives "quotations" and "planted claims" of issue 2). Blanking
keeps every offset, so that the sentence a verdict rests on can be quoted exactly.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

CUE_STEM = re.compile(
    r"supersed|replac|obsolet|retir|clos|withdr|revo[kc]|rescind|repeal|annul|cancel|abolish|supplant|displac"
    r"|succe|instead|place|lieu|no longer|any ?more|any longer|void|overturn|overrul|revers|invalid|substitut"
    r"|scrap|abandon|discard|terminat|expire|valid|until",
    re.IGNORECASE,
)
"""Cheap test of a quoted span: could it carry a claim? Spans that could not (titles, names) stay readable."""

_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})", re.MULTILINE)
_COMMENT = re.compile(r"<!--(?:(?!-->).){0,4000}-->", re.DOTALL)
_STRUCK = re.compile(r"~~[^~\n]{1,400}~~")
_QUOTE_LINE = re.compile(r"^[ \t]{0,3}>.*$", re.MULTILINE)
_CODE_LINE = re.compile(r"(?:(?<=\n\n)|\A)(?:(?: {4}|\t)[^\n]*\n?)+")
_INLINE_CODE = re.compile(r"`([^`\n]{1,200})`")
_CURLY_QUOTE = re.compile(r"“[^”]{0,600}(?:”|\Z)|«[^»]{0,600}(?:»|\Z)|„[^“”]{0,600}(?:[“”]|\Z)")
_SINGLE_QUOTE = re.compile(r"(?<![\w.])['‘](?!s\b)[^'’\n]{2,300}['’](?!\w)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """Where one sentence stands in its text."""

    start: int
    end: int
    question: bool
    first: bool
    """Whether it opens its text, which is where a record says what it is."""


def without_quotations(text: str, kept: tuple[str, ...] = ()) -> str:
    """The text of the same length with quoted, struck-out and code spans blanked.

    A quoted span stays where it carries no wording of an ending, or is one of the ``kept`` titles: "Replaces
    'Use MongoDB for sessions'" quotes a title, and "Ben wrote 'this replaces PEP 12'" quotes a claim.
    """
    if "```" in text or "~~~" in text:
        text = _blank_fences(text)
    if "<!--" in text:
        text = _COMMENT.sub(_blanked, text)
    if "~~" in text:
        text = _STRUCK.sub(_blanked, text)
    if ">" in text:
        text = _QUOTE_LINE.sub(_blanked, text)
    if "    " in text or "\t" in text:
        text = _CODE_LINE.sub(_blanked, text)

    def unless_kept(found: re.Match[str]) -> str:
        span = found.group()
        inner = " ".join(span.strip("`\"'“”‘’«»„ ").casefold().split())
        if inner in kept or not CUE_STEM.search(span):
            return span
        return " " * len(span)

    if "`" in text:
        text = _INLINE_CODE.sub(unless_kept, text)
    if any(mark in text for mark in "“«„"):
        text = _CURLY_QUOTE.sub(unless_kept, text)
    if '"' in text:
        text = _blank_straight_quotes(text, kept)
    if "'" in text or "‘" in text:
        text = _SINGLE_QUOTE.sub(unless_kept, text)
    return text


def _blanked(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found.group())


def _blank_fences(text: str) -> str:
    parts: list[str] = []
    at, opened = 0, None
    for fence in _FENCE.finditer(text):
        mark = fence.group(1)
        if opened is None:
            parts.append(text[at : fence.start()])
            opened, at = mark, fence.start()
        elif mark[0] == opened[0] and len(mark) >= len(opened):
            parts.append(re.sub(r"[^\n]", " ", text[at : fence.end()]))
            opened, at = None, fence.end()
    rest = text[at:]
    parts.append(re.sub(r"[^\n]", " ", rest) if opened else rest)
    return "".join(parts)


def _blank_straight_quotes(text: str, kept: tuple[str, ...]) -> str:
    """Blank quoted spans of each paragraph; an unpaired mark quotes to the end of its paragraph."""
    paragraphs = re.split(r"(\n[ \t]*\n)", text)
    for index, paragraph in enumerate(paragraphs):
        if '"' not in paragraph:
            continue
        pieces = paragraph.split('"')
        for place in range(1, len(pieces), 2):
            piece = pieces[place]
            if " ".join(piece.casefold().split()) not in kept and CUE_STEM.search(piece):
                pieces[place] = re.sub(r"[^\n]", " ", piece)
        paragraphs[index] = '"'.join(pieces)
    return "".join(paragraphs)


_BLOCK_START = re.compile(
    r"^[ \t]*(?:[-*+•][ \t]|\d{1,3}[.)][ \t]|#{1,6}[ \t]|\||(?:\*\*|__)?[A-Za-z][A-Za-z _-]{0,30}(?:\*\*|__)?:(?:\*\*|__)?(?:[ \t]|$))"
)
_ALONE = re.compile(r"^[ \t]*(?:#{1,6}[ \t]|\||(?:\*\*|__)?[A-Za-z][A-Za-z _-]{0,30}(?:\*\*|__)?:(?:\*\*|__)?[ \t])")
_STOP = re.compile(r"[.!?…]+[\"'”’»)\]*_]*(?=\s|\Z)|[。！？]")
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|approx|resp|ca|sec|sect|ch|fig|vol|ed|dr|mr|mrs|ms|st|jan|feb|mar|apr|jun|jul|aug|sept?"
    r"|oct|nov|dec|no|nos|nr|p|pp|inc|ltd|al)|\b[A-Z])\.$",
    re.IGNORECASE,
)


def sentences(masked: str) -> Iterator[Sentence]:
    """The sentences of a text, hard-wrapped lines joined; header fields, list items and headings stand alone."""
    first = True
    for start, end in _blocks(masked):
        at = start
        for stop in _STOP.finditer(masked, start, end):
            if stop.end() < end and _abbreviation(masked, at, stop, end):
                continue
            if masked[at : stop.end()].strip():
                yield Sentence(at, stop.end(), "?" in stop.group() or "？" in stop.group(), first)
                first = False
            at = stop.end()
        if masked[at:end].strip():
            yield Sentence(at, end, False, first)
            first = False


def _abbreviation(masked: str, at: int, stop: re.Match[str], end: int) -> bool:
    if stop.group() != ".":
        return False
    found = _ABBREVIATED.search(masked, max(at, stop.start() - 8), stop.end())
    if found is None:
        return False
    word = found.group().lower()
    if word in ("no.", "nos.", "nr."):
        return masked[stop.end() : stop.end() + 3].lstrip()[:1].isdigit()
    return True


def _blocks(masked: str) -> Iterator[tuple[int, int]]:
    start, at, alone = 0, 0, False
    for line in masked.splitlines(keepends=True):
        blank = not line.strip()
        indented = line[:1] in " \t"
        opens = _BLOCK_START.match(line) is not None
        if blank or (opens and at > start) or (alone and not indented):
            if at > start:
                yield start, at
            start = at
        if blank:
            start = at + len(line)
            alone = False
        elif opens or start == at:
            alone = _ALONE.match(line) is not None
        at += len(line)
    if at > start:
        yield start, at
