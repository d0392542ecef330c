"""Whose memory a request is about: the one of this process, or that of the credential it shows."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from starlette.requests import Request

if TYPE_CHECKING:
    from ..http.serving import Serving
    from ..memory import AsyncMemory

MEMORIES_KEPT = 10_000


class Doors(Protocol):
    """Finds the memory of a request."""

    async def of(self, request: Request | None) -> "AsyncMemory":
        """The memory; ``request`` is None over stdio. Raises `LethelogError` where it cannot be opened."""
        ...


class OpenedOnce:
    """One memory for all requests, opened while the client still makes itself known."""

    def __init__(self, open_memory: Callable[[], Awaitable["AsyncMemory"]]) -> None:
        self._open = open_memory
        self._opening: asyncio.Future[AsyncMemory] | None = None

    def begin(self) -> "asyncio.Future[AsyncMemory]":
        """Begin to open it, unless that has begun."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
            # Whoever asks for the memory is told; where nobody does, it is no trouble.
            self._opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._opening

    async def of(self, request: Request | None) -> "AsyncMemory":
        """The memory, once it is open. What kept it from opening may pass, so the next request tries again."""
        opening = self.begin()
        try:
            return await asyncio.shield(opening)
        except Exception:
            if self._opening is opening:
                self._opening = None
            raise

    @property
    def opened(self) -> "AsyncMemory | None":
        """The memory, if it is open."""
        opening = self._opening
        ready = opening is not None and opening.done() and not opening.cancelled() and opening.exception() is None
        return opening.result() if opening is not None and ready else None

    async def close(self) -> None:
        """Close what was opened, and give up what is being opened."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        opening.cancel()
        try:
            memory = await opening
        except (Exception, asyncio.CancelledError):
            return
        await memory.close()


class OfBearers:
    """A memory for each credential. It is kept, so that whoever writes reads it back in the next request."""

    def __init__(self, serving: "Serving") -> None:
        self._serving = serving
        self._kept: OrderedDict[str, AsyncMemory] = OrderedDict()

    async def of(self, request: Request | None) -> "AsyncMemory":
        """The memory of the credential that the request was let in with."""
        assert request is not None
        user: Any = request.user
        text: str = user.access_token.token
        if text not in self._kept:
            # Whatever anybody wrote before this moment is in the first read.
            written = await self._serving.engine.log.head()
            memory = self._kept.setdefault(text, self._serving.memory(text))
            memory.position = max(memory.position, written)
        self._kept.move_to_end(text)
        if len(self._kept) > MEMORIES_KEPT:
            self._kept.popitem(last=False)
        return self._kept[text]
