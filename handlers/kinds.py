"""What an id is of: the name of its first event says so. An id of another thing is a mistake of its own (F50)."""

from collections.abc import Sequence
from uuid import UUID

from ..domain.errors import WrongKind
from ..streams.log import Log
from ..streams.payloads import RecordedEvent


def kind_of(named: str | Sequence[RecordedEvent]) -> str:
    """The kind of thing that events are of, by the name of the first; empty where there is none."""
    name = named if isinstance(named, str) else named[0].name if named else ""
    return name.partition(".")[0]


def refuse_other_kind(one: UUID, named: str | Sequence[RecordedEvent], wanted: str, **details: object) -> None:
    """Raise `WrongKind` where the id is of something else; ``details`` may name the ``field``."""
    kind = kind_of(named)
    if kind and kind != wanted:
        raise WrongKind.of(one, kind, wanted, **details)


async def refuse_filter(log: Log, tenant: UUID, field: str, one: UUID | None, wanted: str) -> None:
    """Raise `WrongKind` for a filter by an id of something else; asked where nothing was found."""
    if one is not None:
        refuse_other_kind(one, (await log.stream_names(tenant, [one])).get(one, ""), wanted, field=field)
