"""Words a document's facts as the one line that the demo remembers.

The line holds what the document said at its own date and nothing that became known later: no status, no successor.
Whether a line is a positive or a hard negative is kept beside it for the report, and never reaches the engine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .documents import PROJECTS, Document, Series, oldest_first
from .mentions import Mention, Relation, drawn, plan
from .phrases import (
    ALSO_NAMES,
    LEADS,
    REPLACES,
    REPORTS,
    REQUIRES,
    RESEMBLES,
    SUBJECTS,
    UPDATES,
    Phrase,
    Style,
)

TOPIC_LIMIT = 256
CONTENT_LIMIT = 2_000

Polarity = Literal["positive", "negative", "plain"]

_PHRASES: dict[Relation, Sequence[Phrase]] = {
    "replaces": REPLACES,
    "updates": UPDATES,
    "requires": REQUIRES,
    "resembles": RESEMBLES,
    "reports": REPORTS,
    "none": (Phrase("plain", "{lead}"),),
}
_STYLES: tuple[Style, ...] = ("full", "full", "full", "shared", "hyphen", "lower", "tight")
_OTHER: dict[Series, Series] = {"PEP": "RFC", "RFC": "PEP"}
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class RememberedDocument:
    """One document as a memory: ``topic`` to ``key`` are remembered, the rest is only for the comparison.

    ``key`` is the document's id. ``wording`` names the phrase used. ``replaced`` are the earlier documents that
    the text says it replaces, ``left_standing`` those it names without replacing them.
    """

    topic: str
    content: str
    occurred_at: datetime
    memory_type: Literal["decision"]
    project: str
    key: str
    polarity: Polarity
    wording: str
    replaced: tuple[str, ...] = ()
    left_standing: tuple[str, ...] = ()


def word_all(documents: Sequence[Document]) -> tuple[RememberedDocument, ...]:
    """Every document as a memory, oldest first."""
    ordered = oldest_first(documents)
    mentions = plan(ordered)
    return tuple(word(document, mentions[document.id]) for document in ordered)


def word(document: Document, mention: Mention) -> RememberedDocument:
    """One document as a memory. A seeded hash of the id chooses the phrase: it never depends on the others."""
    phrases = [phrase for phrase in _PHRASES[mention.relation] if _holds(phrase, document)]
    phrase = phrases[drawn("phrase", document.id, len(phrases))]
    content = _render(phrase, document, mention.replaced or mention.left_standing, mention.claimant)
    wording = phrase.name
    if mention.replaced and mention.left_standing:
        also = ALSO_NAMES[drawn("also", document.id, len(ALSO_NAMES))]
        content = f"{_closed(content)} {_render(also, document, mention.left_standing, None)}"
        wording = f"{phrase.name}+{also.name}"
    polarity: Polarity = "positive" if mention.replaced else "negative" if mention.left_standing else "plain"
    return RememberedDocument(
        topic=_cut(f"{document.id} {document.title}", TOPIC_LIMIT),
        content=content,
        occurred_at=document.occurred_at,
        memory_type="decision",
        project=PROJECTS[document.series],
        key=document.id,
        polarity=polarity,
        wording=wording,
        replaced=mention.replaced,
        left_standing=mention.named,
    )


def _holds(phrase: Phrase, document: Document) -> bool:
    """Every PEP has an RFC of the same number; most RFCs have no such PEP, and many are older than all of them."""
    return document.series == "PEP" or "{namesake}" not in phrase.text


def _render(phrase: Phrase, document: Document, named: Sequence[str], claimant: str | None) -> str:
    facts = _facts(document)
    facts["lead"] = LEADS[drawn("lead", document.id, len(LEADS))].format_map(facts)
    facts["subject"] = SUBJECTS[drawn("subject", document.id, len(SUBJECTS))].format_map(facts)
    style = phrase.style or _STYLES[drawn("style", document.id, len(_STYLES))]
    facts["refs"] = _references(document.series, named, style)
    facts["claimant"] = claimant or ""
    facts |= _agreement(document, len(named))
    return phrase.text.format_map(facts)


def _facts(document: Document) -> dict[str, str]:
    kind = f"{document.kind} proposal" if document.series == "PEP" else document.kind
    article = "an" if kind[0] in "AEIOU" else "a"
    return {
        "id": document.id,
        "title": document.title,
        "a_kind": f"{article} {kind}",
        "A_kind": f"{article.capitalize()} {kind}",
        "date": _written_date(document),
    }


def _agreement(document: Document, count: int) -> Mapping[str, str]:
    """The words that agree with how many documents are named, and with what is said of them."""
    other = _OTHER[document.series]
    verb = "updates" if document.updates else "requires"
    plural = count > 1
    return {
        "is": "are" if plural else "is",
        "gives": "give" if plural else "gives",
        "applies": "apply" if plural else "applies",
        "they": "they" if plural else "it",
        "them": "them" if plural else "it",
        "their": "their" if plural else "its",
        "namesake": f"the {other}s of the same numbers" if plural else f"the {other} of the same number",
        "Header": "Replaces" if document.series == "PEP" else "Obsoletes",
        "verb": verb,
        "Verb": verb.capitalize(),
    }


def _references(series: Series, named: Sequence[str], style: Style) -> str:
    """The named documents as people write them: PEP 8, PEPs 7 and 8, PEP-0008, pep 8, RFC793, 793."""
    numbers = [identifier.rpartition(" ")[2] for identifier in named]
    match style:
        case "bare":
            return ", ".join(numbers)
        case "shared":
            return f"{series}{'s' if len(numbers) > 1 else ''} {_listed(numbers)}"
        case "hyphen":
            return _listed([f"{series}-{number:0>4}" for number in numbers])
        case "lower":
            return _listed([f"{series.lower()} {number}" for number in numbers])
        case "tight":
            return _listed([f"{series}{number}" for number in numbers])
        case "full":
            return _listed(list(named))


def _listed(items: Sequence[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def _written_date(document: Document) -> str:
    """The date as it was given or in words. A month stays a month: the first day is only for ordering."""
    if drawn("date", document.id, 2) == 0:
        return document.date
    year, month, *day = document.date.split("-")
    words = f"{_MONTHS[int(month) - 1]} {year}"
    return f"{int(day[0])} {words}" if day else words


def _closed(sentence: str) -> str:
    return sentence if sentence.endswith((".", ")", "?")) else f"{sentence}."


def _cut(text: str, limit: int) -> str:
    """A topic names the document, so a title too long for it is cut there and stays whole in the content."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
