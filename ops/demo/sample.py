"""The sample that ships with the demo: documents, their wording, and the successors that the older ones name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from .documents import Document, oldest_first
from .wording import RememberedDocument, word_all

DOCUMENTS_FILE = "documents.jsonl"
SUPERSEDED_BY_FILE = "superseded_by.jsonl"


@dataclass(frozen=True)
class Sample:
    """``documents`` and ``worded`` go side by side, oldest first. ``superseded_by`` is never shown to the engine.

    It is the older documents' own field: an id to the ids it names as its successors, in or outside the sample.
    """

    documents: tuple[Document, ...]
    worded: tuple[RememberedDocument, ...]
    superseded_by: dict[str, frozenset[str]]

    @property
    def claimed(self) -> frozenset[tuple[str, str]]:
        """(older, newer) for every replacement that a newer text states of a document remembered before it."""
        return frozenset((target, memory.key) for memory in self.worded for target in memory.replaced)

    @property
    def hard_negatives(self) -> frozenset[tuple[str, str]]:
        """(older, newer) where the newer text names the older document and does not replace it."""
        return frozenset((target, memory.key) for memory in self.worded for target in memory.left_standing)


@cache
def load_sample() -> Sample:
    """The shipped sample, worded. Read once; the result is shared and not to be changed."""
    folder = files("lethelog.ops.demo") / "sample"
    return sample_from(
        (folder / DOCUMENTS_FILE).read_text(encoding="utf-8"),
        (folder / SUPERSEDED_BY_FILE).read_text(encoding="utf-8"),
    )


def sample_from(documents_text: str, superseded_by_text: str) -> Sample:
    """The sample in the text of its two files."""
    rows = [json.loads(line) for line in documents_text.splitlines()]
    documents = tuple(oldest_first(_document(row) for row in rows))
    successors = [json.loads(line) for line in superseded_by_text.splitlines()]
    return Sample(
        documents=documents,
        worded=word_all(documents),
        superseded_by={row["id"]: frozenset(row["superseded_by"]) for row in successors},
    )


def document_row(document: Document) -> dict[str, object]:
    """A document as a row of the sample's file: what is empty is left out."""
    row: dict[str, object] = {
        "id": document.id,
        "series": document.series,
        "number": document.number,
        "title": document.title,
        "kind": document.kind,
        "date": document.date,
    }
    links = {"replaces": document.replaces, "updates": document.updates, "requires": document.requires}
    return row | {name: list(targets) for name, targets in links.items() if targets}


def _document(row: Mapping[str, Any]) -> Document:
    return Document(
        id=row["id"],
        series=row["series"],
        number=row["number"],
        title=row["title"],
        kind=row["kind"],
        date=row["date"],
        replaces=tuple(row.get("replaces", ())),
        updates=tuple(row.get("updates", ())),
        requires=tuple(row.get("requires", ())),
    )
