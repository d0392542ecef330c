"""The memory that a facade stands on."""

from ...domain.errors import InvalidInput
from ..blocking import BlockingMemory
from ..memory import AsyncMemory


def memory_behind(given: object) -> AsyncMemory:
    """The asyncio door of a memory that this process opened. Raises `InvalidInput` for anything else."""
    found = given.asyncio if isinstance(given, BlockingMemory) else given
    if not isinstance(found, AsyncMemory):
        raise InvalidInput(
            "memory",
            "must be a Memory or an AsyncMemory that was opened here",
            "Over a client of a server there is no such facade; open the memory with Memory.local",
        )
    return found
