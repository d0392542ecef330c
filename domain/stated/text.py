"""A text read sentence by sentence, with everything set aside that its writer only quotes.

A statement counts only in the writer's own voice. Quotations, block quotes, code, struck-out text and comments
are blanked out before anything is read (hard negatives "quotations" and "planted claims" of issue 2). Blanking
keeps every offset, so that the sentence a verdict rests on can be quoted exactly. Everything here is linear in
the length of the text, whatever is repeated in it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .lexicon import letters_of, words

CLAIMING = re.compile(
    r"supersed|superced|replac|obsolet|retir|clos|withdr|revo[kc]|rescind|repeal|annul|cancel|abolish|supplant"
    r"|displac|succe|instead|place|lieu|no longer|any ?more|any longer|void|overturn|overrul|revers|invalid"
    r"|substitut|scrap|abandon|discard|terminat|discontinu|drop|end|expire|valid|until|till|gives? way|moot",
    re.IGNORECASE,
)
"""Whether a quoted span could carry a claim. Spans that could not (titles, names) stay readable."""

_STEERING = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}"
    r"\b(?:above|previous|prior|preceding|earlier|all|any|instruct\w+|rules?)\b"
    r"|\b(?:supersede|archive)_older\b|\bkeep_both\b|\b(?:supersede_by|conflict_with)\b|\bs\d+n\d+\b"
    r"|\banswer(?:s|ed)?\b[^.\n]{0,20}\b(?:archive|supersede|keep|conflict|with 1)|\bfor every item\b"
    r"|\bthe judge\b|\bsystem prompt\b|\bas an? (?:ai|language model)\b|\"(?:items|ref|verdict|choice)\"\s*:"
    r"|\bprobability\b[^.\n]{0,12}\b1"
    r"|\b(?:dear|hey|hello|hi|attention|note to(?: the)?|memo to(?: the)?)\W{1,3}"
    r"(?:judge|reviewer|model|assistant|ai|system)\b"
    r"|\b(?:system|administrator|admin|developer) (?:message|note|prompt|notice|instruction)s?\b",
    re.IGNORECASE,
)
_STEERING_WORDS = words(
    """
    ignore disregard forget override older both supersede conflict answer answers answered item judge prompt ai
    language items ref verdict choice probability n reviewer model assistant system administrator admin developer
    """
)

_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})", re.MULTILINE)
_STRUCK = re.compile(r"~~[^~\n]{1,400}~~")
_QUOTE_LINE = re.compile(r"^[ \t]{0,3}>.*$", re.MULTILINE)
_CODE_LINES = re.compile(r"(?:(?<=\n\n)|\A)(?:(?: {4}|\t)[^\n]*\n?)+")
_INLINE_CODE = re.compile(r"`([^`\n]{1,200})`")
_CURLY = {"“": "”", "«": "»", "„": "“”", "‹": "›"}
_CURLY_OPEN = re.compile("[“«„‹]")
_SINGLE_QUOTE = re.compile(r"(?<![\w.])['‘](?!s\b)[^'’\n]{2,300}['’](?!\w)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """Where one sentence stands in its text."""

    start: int
    end: int
    question: bool
    item: bool
    """Whether it is an item of a list."""


def steers(text: str) -> bool:
    """Whether a text speaks to a judge. A memory that tries to steer has no say about another one (F36)."""
    return not _STEERING_WORDS.isdisjoint(letters_of(text)) and _STEERING.search(text) is not None


def without_quotations(text: str, kept: tuple[str, ...] = ()) -> str:
    """The text of the same length with quoted, struck-out and code spans blanked.

    A quoted span stays where it carries no wording of an ending, or is one of the ``kept`` titles: "Replaces
    'Use MongoDB for sessions'" quotes a title, and "Ben wrote 'this replaces PEP 12'" quotes a claim.
    """
    if "```" in text or "~~~" in text:
        text = _blank_fences(text)
    if "<!--" in text:
        text = _blank_comments(text)
    if "~~" in text:
        text = _STRUCK.sub(_blanked, text)
    if ">" in text:
        text = _QUOTE_LINE.sub(_blanked, text)
    if "    " in text or "\t" in text:
        text = _CODE_LINES.sub(_blanked, text)

    def unless_kept(found: re.Match[str]) -> str:
        return found.group() if _may_stay(found.group(), kept) else _blanked(found)

    if "`" in text:
        text = _INLINE_CODE.sub(unless_kept, text)
    if _CURLY_OPEN.search(text):
        text = _blank_curly_quotes(text, kept)
    if '"' in text:
        text = _blank_straight_quotes(text, kept)
    if "'" in text or "‘" in text:
        text = _SINGLE_QUOTE.sub(unless_kept, text)
    return text


def _may_stay(span: str, kept: tuple[str, ...]) -> bool:
    inner = " ".join(re.findall(r"[^\W\d_]+|\d+", span.casefold()))
    return inner in kept or not CLAIMING.search(span)


def _blank(span: str) -> str:
    return re.sub(r"[^\n]", " ", span)


def _blanked(found: re.Match[str]) -> str:
    return _blank(found.group())


def _blank_fences(text: str) -> str:
    parts: list[str] = []
    at, opened = 0, None
    for fence in _FENCE.finditer(text):
        mark = fence.group(1)
        if opened is None:
            parts.append(text[at : fence.start()])
            opened, at = mark, fence.start()
        elif mark[0] == opened[0] and len(mark) >= len(opened):
            parts.append(_blank(text[at : fence.end()]))
            opened, at = None, fence.end()
    parts.append(_blank(text[at:]) if opened else text[at:])
    return "".join(parts)


def _blank_comments(text: str) -> str:
    parts: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0:
        end = text.find("-->", start)
        stop = len(text) if end < 0 else end + 3
        parts += (text[at:start], _blank(text[start:stop]))
        at = stop
    return "".join([*parts, text[at:]])


def _blank_curly_quotes(text: str, kept: tuple[str, ...]) -> str:
    """Blank quoted spans; an unclosed one quotes to the end of its paragraph."""
    parts: list[str] = []
    at = 0
    while (opened := _CURLY_OPEN.search(text, at)) is not None:
        paragraph = text.find("\n\n", opened.end())
        limit = len(text) if paragraph < 0 else paragraph
        closes = [place for mark in _CURLY[opened.group()] if (place := text.find(mark, opened.end(), limit)) >= 0]
        stop = min(closes) + 1 if closes else limit
        span = text[opened.start() : stop]
        parts += (text[at : opened.start()], span if _may_stay(span, kept) else _blank(span))
        at = stop
    return "".join([*parts, text[at:]])


def _blank_straight_quotes(text: str, kept: tuple[str, ...]) -> str:
    """Blank quoted spans of each paragraph; an unpaired mark quotes to the end of its paragraph."""
    paragraphs = re.split(r"(\n[ \t]*\n)", text)
    for index, paragraph in enumerate(paragraphs):
        if '"' not in paragraph:
            continue
        pieces = paragraph.split('"')
        for place in range(1, len(pieces), 2):
            if not _may_stay(pieces[place], kept):
                pieces[place] = _blank(pieces[place])
        paragraphs[index] = '"'.join(pieces)
    return "".join(paragraphs)


_ITEM = r"[-*+•][ \t]|\d{1,3}[.)][ \t]"
_LABEL = r"(?:\*\*|__)?[A-Za-z][A-Za-z _-]{0,30}(?:\*\*|__)?:(?:\*\*|__)?"
_BLOCK_START = re.compile(rf"^[ \t]*(?:(?P<item>{_ITEM})|#{{1,6}}[ \t]|\||{_LABEL}(?:[ \t]|$))")
_ALONE = re.compile(rf"^[ \t]*(?:#{{1,6}}[ \t]|\||{_LABEL}[ \t])")
_STOP = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]*+(?=\s|\Z)|[。！？]")
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|approx|resp|ca|sec|sect|ch|fig|vol|ed|dr|mr|mrs|ms|st|jan|feb|mar|apr|jun|jul|aug|sept?"
    r"|oct|nov|dec|no|nos|nr|p|pp|inc|ltd|al)|\b[A-Z])\.$",
    re.IGNORECASE,
)


def sentences(masked: str) -> Iterator[Sentence]:
    """The sentences of a text, hard-wrapped lines joined; header fields, list items and headings stand alone."""
    for start, end, item in _blocks(masked):
        at = start
        for stop in _STOP.finditer(masked, start, end):
            if stop.end() < end and _abbreviation(masked, at, stop):
                continue
            if masked[at : stop.end()].strip():
                yield Sentence(at, stop.end(), "?" in stop.group() or "？" in stop.group(), item)
            at = stop.end()
        if masked[at:end].strip():
            yield Sentence(at, end, False, item)


def _abbreviation(masked: str, at: int, stop: re.Match[str]) -> bool:
    if stop.group() != ".":
        return False
    found = _ABBREVIATED.search(masked, max(at, stop.start() - 8), stop.end())
    if found is None:
        return False
    word = found.group().lower()
    if word in ("no.", "nos.", "nr."):
        return masked[stop.end() : stop.end() + 3].lstrip()[:1].isdigit()
    return True


def _blocks(masked: str) -> Iterator[tuple[int, int, bool]]:
    start, at, alone, item = 0, 0, False, False
    for line in masked.splitlines(keepends=True):
        blank = not line.strip()
        opens = None if blank else _BLOCK_START.match(line)
        if at > start and (blank or opens is not None or (alone and line[:1] not in " \t")):
            yield start, at, item
            start = at
        if blank:
            start = at + len(line)
        elif start == at:
            alone = _ALONE.match(line) is not None
            item = opens is not None and opens["item"] is not None
        at += len(line)
    if at > start:
        yield start, at, item
