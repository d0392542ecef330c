"""Waiting until a read model reached a position: one look at the database for all who wait in a process.

Whoever applies a page in the same process tells at once; the looks are for pages that other processes apply.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

Look = Callable[[], Awaitable[int]]
"""Reads the position from the database."""

FIRST_DELAY = 0.001
LONGEST_DELAY = 0.05
"""Seconds between two looks: longer each time while nobody comes and nothing moves."""
TOLD_SECONDS = 1.0
"""So long after this process applied a page itself, looks are as far apart as they get."""


@dataclass(frozen=True, slots=True, eq=False)
class _One:
    position: int
    look: Look
    there: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Waiting:
    """Those who wait for one read model. Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: list[_One] = []
        self._came = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._told_until = 0.0

    async def reached(self, position: int, look: Look) -> None:
        """Return once the read model is there. Raises what ``look`` raises."""
        one = _One(position, look)
        self._waiting.append(one)
        self._came.set()
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_on(), name="lethelog-positions")
        try:
            await one.there
        finally:
            if one in self._waiting:
                self._waiting.remove(one)
            if not self._waiting:
                # Nothing to look for any more.
                self._came.set()

    def tell(self, position: int) -> None:
        """Say that this process brought the read model there."""
        self._told_until = asyncio.get_running_loop().time() + TOLD_SECONDS
        self._let_go(position)

    def _let_go(self, position: int) -> None:
        for one in self._waiting:
            if one.position <= position and not one.there.done():
                one.there.set_result(None)
        self._waiting = [one for one in self._waiting if one.position > position]

    async def _look_on(self) -> None:
        delay = FIRST_DELAY
        try:
            while self._waiting:
                if self._came.is_set():
                    self._came.clear()
                    delay = FIRST_DELAY
                await self._look_for(self._waiting[0])
                if asyncio.get_running_loop().time() < self._told_until:
                    delay = LONGEST_DELAY
                if self._waiting:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(delay):
                            await self._came.wait()
                delay = min(delay * 1.5, LONGEST_DELAY)
        finally:
            self._looking = None

    async def _look_for(self, one: _One) -> None:
        """Look for all with what one of them looks with; where that fails, for whatever reason, it fails alone."""
        try:
            self._let_go(await one.look())
        except Exception as error:
            if not one.there.done():
                one.there.set_exception(error)
            if one in self._waiting:
                self._waiting.remove(one)
            self._came.set()


_EVERYWHERE: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], Waiting]] = WeakKeyDictionary()


def waiting_for(url: str, name: str) -> Waiting:
    """Those in this event loop who wait for a read model of a database."""
    return _EVERYWHERE.setdefault(asyncio.get_running_loop(), {}).setdefault((url, name), Waiting())
