"""Answers that last, each in a place: so many of one caller, of one tenant and in all, at a time."""

from collections import Counter
from collections.abc import AsyncGenerator, Hashable
from typing import Any, Self

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...domain.errors import TooManyStreams, Unavailable
from ..access.caller import Caller
from .settings import HttpSettings


class Places:
    """Streams, replays and archives that are under way."""

    def __init__(self, settings: HttpSettings) -> None:
        self._most = settings.streams
        self._most_each = settings.streams_per_caller
        self._taken: Counter[Hashable] = Counter()

    @property
    def taken(self) -> int:
        """How many are under way."""
        return self._taken[None]

    def take(self, caller: Caller) -> "Place":
        """A place, from now on until it is left. Raises `TooManyStreams`, `Unavailable`."""
        whose = (caller.tenant, caller.actor.id)
        of_tenant = max(1, self._most // 2)
        if self._taken[whose] >= self._most_each:
            raise TooManyStreams(f"{self._most_each} streams and archives of this caller are open; close one")
        if self._taken[None] >= self._most:
            raise Unavailable(f"{self._most} streams and archives are open; try again later")
        if self._taken[caller.tenant] >= of_tenant:
            raise TooManyStreams(f"{of_tenant} streams and archives of this tenant are open; close one")
        return Place(self._taken, (None, caller.tenant, whose))


class Place:
    """One that is taken. Leaving it twice is leaving it once."""

    def __init__(self, taken: Counter[Hashable], counted_as: tuple[Hashable, ...]) -> None:
        self._taken = taken
        self._counted_as = counted_as
        taken.update(counted_as)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Make room."""
        self._taken.subtract(self._counted_as)
        for one in self._counted_as:
            if not self._taken[one]:
                del self._taken[one]
        self._counted_as = ()


class InPlace(Response):
    """An answer that keeps its place until it has ended, however it ends."""

    def __init__(self, answer: Response, place: Place, coming: AsyncGenerator[Any] | None = None) -> None:
        """``coming`` is what the answer is read from; it ends with it."""
        self._answer = answer
        self._place = place
        self._coming = coming
        self.status_code = answer.status_code
        self.raw_headers = answer.raw_headers
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        finally:
            self._place.leave()
            if self._coming is not None:
                await self._coming.aclose()
