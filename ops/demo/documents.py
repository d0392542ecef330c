"""What a standards document says of itself: the facts the demo words, and when it was said."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

Series = Literal["PEP", "RFC"]

PROJECTS: dict[Series, str] = {"PEP": "python-enhancement-proposals", "RFC": "request-for-comments"}


@dataclass(frozen=True, slots=True)
class Document:
    """One entry of an index, with the links that the document itself states and none that others state of it.

    ``date`` is a day ("2005-04-28") or, in the RFC index, a month ("1999-06"). ``replaces``, ``updates`` and
    ``requires`` hold ids such as "PEP 314"; they may name documents that the sample does not hold.
    """

    id: str
    series: Series
    number: int
    title: str
    kind: str
    date: str
    replaces: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()

    @property
    def occurred_at(self) -> datetime:
        """When it was said: its date at midnight UTC, a month taken as its first day, plus one second per number.

        The seconds are no fact of the source. They give the documents of one date distinct instants in the order
        of their numbers, which is the order their editors gave them.
        """
        day = self.date if len(self.date) == 10 else f"{self.date}-01"
        return datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(seconds=self.number)


def oldest_first(documents: Iterable[Document]) -> list[Document]:
    """The order in which the demo remembers: by instant, then by id where two series share one."""
    return sorted(documents, key=lambda document: (document.occurred_at, document.id))
