"""What a read model is: a name, a version, the events it wants, and how a page of them becomes rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..streams.database import Connection
from ..streams.payloads import RecordedEvent


@dataclass(frozen=True, slots=True)
class ClearText:
    """What of a table says in clear what memories said, and how that goes without leaving another row behind than
    a rebuild would make: there their sealed fields read as nothing."""

    table: str
    about: str
    """SQL condition on rows that are about ``%(memories)s`` (ids, an array of uuid); ``%(texts)s`` are the same as
    texts."""
    clear: str = "true"
    """SQL condition on rows that still say something."""
    becomes: str | None = None
    """What an update sets; None where the row goes."""
    model: str | None = None
    """The column that names the embedding model which was given the text."""


class Projection(Protocol):
    """A read model, built from the log and rebuildable from it at any time.

    All its tables stand in ``schema``, one copy (`generations.Generation`) in each.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Changes whenever the same events would give other rows; a stored other version demands a rebuild."""
        ...

    @property
    def wants(self) -> frozenset[str]:
        """Stored names of the events it reads; the others only move its position.

        A name of the same namespace (``memory.``) that this version does not know stalls it (ADR 5).
        """
        ...

    @property
    def tables(self) -> tuple[str, ...]:
        """Its tables, without schema; what comparison goes through."""
        ...

    @property
    def clear_texts(self) -> tuple[ClearText, ...]:
        """Everything in its tables that an erasure must take out."""
        ...

    @property
    def stream_column(self) -> str:
        """The column of each of its tables that names the stream whose events made the row."""
        ...

    def loading(self, start: int, target: int) -> "Projection":
        """What applies the pages from one position to another, one after another, each once, to a copy that nobody
        reads; itself, if nothing is faster.

        What it wrote needs to be right once the target is reached. It may have written up to ``start`` before,
        towards another target.
        """
        ...

    async def create_tables(self, connection: Connection, schema: str) -> None:
        """Make the tables, without the indexes that are cheaper to build after loading."""
        ...

    async def create_indexes(self, connection: Connection, schema: str) -> None: ...

    async def prepare(self, page: Sequence[RecordedEvent]) -> Any:
        """Whatever takes long (embedding, reading streams), before the transaction is opened."""
        ...

    async def apply(
        self, connection: Connection, schema: str, page: Sequence[RecordedEvent], prepared: Any
    ) -> None:
        """Write a page's rows, set-based, inside the transaction that also moves the position.

        Applying the same page again must change nothing.
        """
        ...
