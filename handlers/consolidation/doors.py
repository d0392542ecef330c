"""The part of the Python doors that is about consolidation."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from uuid import UUID

from ...domain.errors import InvalidInput, NotCaughtUp
from ..access.caller import Caller
from ..arguments import AnyId
from ..engine import Engine
from .passes import Consolidations
from .views import ConsolidationView

T = TypeVar("T")
Report = Callable[[int, int], None]
_POLL_SECONDS = 0.1


def silent(done: int, of: int) -> None:
    """Reports nothing."""


class AsyncConsolidationDoor:
    """Asking for a consolidation pass and looking at one."""

    engine: Engine
    position: int

    async def caller(self) -> Caller:
        """Who calls; whoever has this door says so."""
        raise NotImplementedError

    async def consolidate(
        self, *, wait_seconds: float | None = None, key: str | None = None, report: Report = silent
    ) -> ConsolidationView:
        """Look for live memories that are near to each other, and propose the mildest edge that both allow.

        It changes no memory: its proposals wait in the review queue. A worker carries it out; with
        ``wait_seconds``, return when it is finished; ``report`` is told how many of the chosen pairs stand in the
        queue. Raises `Conflict` while another one is open, and
        `NotCaughtUp` when it is not finished by then; it goes on all the same.
        """
        if wait_seconds is not None and (
            isinstance(wait_seconds, bool) or not isinstance(wait_seconds, int | float)  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
        ):
            raise InvalidInput("wait_seconds", "must be a number of seconds")
        asked = await Consolidations(self.engine).request(await self.caller(), {"key": key})
        return asked if wait_seconds is None else await self._consolidated(asked.id, wait_seconds, report)

    async def consolidation(self, pass_id: AnyId) -> ConsolidationView:
        """One consolidation pass as it stands."""
        return await Consolidations(self.engine).show(await self.caller(), {"pass_id": pass_id})

    async def _consolidated(self, pass_id: UUID, seconds: float, report: Report) -> ConsolidationView:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (found := await self.consolidation(pass_id)).phase != "completed":
            if loop.time() > deadline:
                raise NotCaughtUp(
                    f"consolidation pass {found.id} is not finished after {seconds:g} s (it is {found.phase}); "
                    "a worker goes on with it (lethelog up)",
                    pass_id=found.id,
                )
            if found.chosen:
                staged = await Consolidations(self.engine).staged(await self.caller(), pass_id)
                report(min(staged, found.chosen), found.chosen)
            await asyncio.sleep(_POLL_SECONDS)
        if found.chosen:
            report(found.chosen, found.chosen)
        self.position = max(self.position, found.position)
        return found


class BlockingConsolidationDoor(ABC):
    """The same for programs without asyncio."""

    @property
    @abstractmethod
    def _consolidating(self) -> AsyncConsolidationDoor:
        """The asyncio door."""

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asyncio door and wait for it."""

    def consolidate(
        self, *, wait_seconds: float | None = None, key: str | None = None, report: Report = silent
    ) -> ConsolidationView:
        """See `AsyncMemory.consolidate`."""
        return self.run(self._consolidating.consolidate(wait_seconds=wait_seconds, key=key, report=report))

    def consolidation(self, pass_id: AnyId) -> ConsolidationView:
        """See `AsyncMemory.consolidation`."""
        return self.run(self._consolidating.consolidation(pass_id))
