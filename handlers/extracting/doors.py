"""The part of the Python doors that reads facts in texts."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, TypeVar

from ..access.caller import Caller
from ..arguments import AnyId
from .by_hand import ExtractingByHand
from .views import ExtractionView

T = TypeVar("T")


class AsyncExtractionDoor:
    """Having a memory read for facts."""

    position: int
    _extracting: ExtractingByHand

    async def caller(self) -> Caller:
        """Who calls; whoever has this door says so."""
        raise NotImplementedError

    async def extract_facts(self, memory_id: AnyId, *, key: str | None = None) -> ExtractionView:
        """Put a memory's text before the extractor that is configured, and propose the facts it reads there.

        It writes no fact: its proposals wait in the review queue. Workers do so for every new memory; this is for
        those from before, or one that was left out. Needs the tenant's opt-in to judging, and counts in its
        budget. ``key`` makes a retry safe.
        """
        found = await self._extracting.extract(await self.caller(), {"memory_id": memory_id, "key": key})
        self.position = max(self.position, found.position)
        return found


class BlockingExtractionDoor(ABC):
    """The same for programs without asyncio."""

    @property
    @abstractmethod
    def _extractor_door(self) -> AsyncExtractionDoor:
        """The asyncio door."""

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asyncio door and wait for it."""

    def extract_facts(self, memory_id: AnyId, *, key: str | None = None) -> ExtractionView:
        """See `AsyncMemory.extract_facts`."""
        return self.run(self._extractor_door.extract_facts(memory_id, key=key))
