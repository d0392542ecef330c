"""The part of `lethelog parked` that concerns read models: events they could not apply."""

from typing import TYPE_CHECKING, Any

from ...domain.errors import InvalidInput
from .session import VIEWS

if TYPE_CHECKING:
    from ...projections.parked_retry import Report, Retried
    from ..local import Memory


def identity(name: str, position: int) -> str:
    """How the list names a parked event."""
    return f"{name}-{position}"


def place_of(text: str) -> tuple[str, int] | None:
    """(read model, position) that an id names; None for the id of something else."""
    name, _, position = text.rpartition("-")
    if name not in VIEWS or not position.isdecimal() or len(position) > 18:
        return None
    return name, int(position)


def checked(name: str | None) -> str | None:
    """A read model's name as given. Raises `InvalidInput`."""
    if name is not None and name not in VIEWS:
        raise InvalidInput("read_model", "is no read model", f"There are: {', '.join(VIEWS)}")
    return name


def listed(memory: "Memory", name: str | None, after: tuple[str, int], limit: int) -> list[dict[str, Any]]:
    """A page of parked events, in the columns of the list."""
    from ...projections.parked import list_parked

    async def look() -> list[dict[str, Any]]:
        async with memory.asyncio.engine.database.connection() as connection:
            found = await list_parked(connection, name=name, after=after, limit=limit)
        return [
            {
                "id": identity(one.read_model, one.position),
                "where": one.read_model,
                "consumer": None,
                "position": one.position,
                "event": one.event,
                "sequence": str(one.stream),
                "error": one.error,
                "failures": one.attempts,
                "parked_at": one.parked_at.isoformat(),
            }
            for one in found
        ]

    return memory.run(look())


def retried(
    memory: "Memory", names: tuple[str, ...], sequence: str | None, report: "Report"
) -> "dict[str, Retried]":
    """Try the parked events of these read models again."""
    return {name: memory.run(memory.asyncio.retry_parked(name, stream=sequence, report=report)) for name in names}
