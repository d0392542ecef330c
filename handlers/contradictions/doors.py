"""The part of the Python doors that is about contradictions."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar, Unpack

from ..access.caller import Caller
from ..arguments import ContradictionFields
from ..engine import Engine
from .listing import ContradictionListing
from .views import ContradictionPage

T = TypeVar("T")


class AsyncContradictionDoor:
    """Looking at pairs that cannot both hold; they are decided as proposals of kind ``contradiction``."""

    engine: Engine

    async def caller(self) -> Caller:
        """Who calls; whoever has this door says so."""
        raise NotImplementedError

    def _dated(self, given: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        raise NotImplementedError

    async def contradictions(self, **query: Unpack[ContradictionFields]) -> ContradictionPage:
        """A page of flagged pairs, the oldest first, with who has to decide, by when, and how others were decided.

        Those of erased memories are not among them.
        """
        return await ContradictionListing(self.engine).page(await self.caller(), self._dated(query))


class BlockingContradictionDoor(ABC):
    """The same for programs without asyncio."""

    @property
    @abstractmethod
    def _contradicting(self) -> AsyncContradictionDoor:
        """The asyncio door."""

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asyncio door and wait for it."""

    def contradictions(self, **query: Unpack[ContradictionFields]) -> ContradictionPage:
        """See `AsyncMemory.contradictions`."""
        return self.run(self._contradicting.contradictions(**query))
