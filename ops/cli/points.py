"""Points of the log as people give them: a position, or an instant."""

from typing import TYPE_CHECKING

from ...domain.errors import InvalidInput

if TYPE_CHECKING:
    from ..local import Memory


def position_of(memory: "Memory", field: str, text: str | None) -> int | None:
    """The position meant by a number, or by an instant with a zone; None where none was given.

    Raises `InvalidInput` naming the field.
    """
    from datetime import datetime

    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            field, "is neither a position nor an ISO 8601 instant such as 2026-03-01T09:00:00Z"
        ) from None
    if instant.utcoffset() is None:
        raise InvalidInput(field, "has no time zone; write 2026-03-01T09:00:00Z or add an offset such as +01:00")
    return memory.run(memory.asyncio.engine.log.position_at(instant))
