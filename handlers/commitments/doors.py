"""The part of the Python doors that is about commitments."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar, Unpack

from ..access.caller import Caller
from ..arguments import AnyId, CommitmentFields, ResolveFields
from ..engine import Engine
from ..memories import MemoryCommands, Retry
from .listing import CommitmentListing
from .resolving import Resolving
from .views import CommitmentPage, Resolved

T = TypeVar("T")


class AsyncCommitmentDoor:
    """Moving commitments and looking at them."""

    engine: Engine
    position: int
    _commands: MemoryCommands

    async def caller(self) -> Caller:
        """Who calls; whoever has this door says so."""
        raise NotImplementedError

    def _dated(self, given: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        raise NotImplementedError

    async def resolve(
        self, memory_id: AnyId, *, key: str | None = None, **fields: Unpack[ResolveFields]
    ) -> Resolved:
        """Move a memory's commitment: to ``resolved``, or to the ``status`` given (open, waiting, expired).

        Owner, dates and recurrence that are given are set in the same step. A blocker is archived, whatever status
        was asked for. Raises `NotFound` for a memory that carries no commitment, and `InvalidTransition`.
        """
        arguments = {**fields, "memory_id": memory_id}
        resolving = Resolving(self.engine, self._commands)
        resolved = await resolving.resolve(await self.caller(), arguments, Retry(key))
        self.position = max(self.position, resolved.position)
        return resolved

    async def commitments(self, **query: Unpack[CommitmentFields]) -> CommitmentPage:
        """A page of commitments, first what is due first; those of erased memories are not among them."""
        return await CommitmentListing(self.engine).page(await self.caller(), self._dated(query))


class BlockingCommitmentDoor(ABC):
    """The same for programs without asyncio."""

    @property
    @abstractmethod
    def _committing(self) -> AsyncCommitmentDoor:
        """The asyncio door."""

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asyncio door and wait for it."""

    def resolve(self, memory_id: AnyId, *, key: str | None = None, **fields: Unpack[ResolveFields]) -> Resolved:
        """See `AsyncMemory.resolve`."""
        return self.run(self._committing.resolve(memory_id, key=key, **fields))

    def commitments(self, **query: Unpack[CommitmentFields]) -> CommitmentPage:
        """See `AsyncMemory.commitments`."""
        return self.run(self._committing.commitments(**query))
