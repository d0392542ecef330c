"""Who is logged in: kept in this process only, so that the browser's cookie holds no token.

A cookie is a random name of a session; what is kept goes by its digest. Sessions end by logging out, when nothing
came for `IDLE`, after `LONGEST`, and with their token. A restart ends them all; of several processes behind one
address each has its own, so keep a browser with one of them.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

IDLE = timedelta(hours=8)
LONGEST = timedelta(hours=24)
MOST = 10_000
MOST_EACH = 20
"""Sessions of one caller at a time; the oldest ends when another begins."""


@dataclass
class Session:
    """One browser that showed a token."""

    token: str = field(repr=False)
    whose: UUID
    """The actor's opaque id."""
    ends_at: datetime
    seen_at: datetime
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    position: int = 0
    """The log position of its newest write, which its reads wait for."""
    ended: bool = False
    """Logged out, or dropped; seen by what was begun before, such as a stream."""
    notices: list[str] = field(default_factory=list[str], repr=False)
    """What is told once, on the next page."""

    def over(self, now: datetime) -> bool:
        """Whether it lasts no longer: ended, too old, or nothing came for long."""
        return self.ended or now >= self.ends_at or now - self.seen_at >= IDLE


class Sessions:
    """The sessions of this process, so many at a time."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._kept: dict[bytes, Session] = {}

    def begin(self, token: str, whose: UUID, expires_at: datetime | None) -> str:
        """Begin one; answers what the cookie holds."""
        now = self._clock()
        self._sweep(now, whose)
        ends_at = now + LONGEST if expires_at is None else min(now + LONGEST, expires_at)
        cookie = secrets.token_urlsafe(32)
        self._kept[_digest(cookie)] = Session(token, whose, ends_at, seen_at=now)
        return cookie

    def of(self, cookie: str | None) -> Session | None:
        """The session of a cookie, if it still lasts."""
        if not cookie:
            return None
        session, now = self._kept.get(_digest(cookie)), self._clock()
        if session is None:
            return None
        if session.over(now):
            self.end(cookie)
            return None
        session.seen_at = now
        return session

    def end(self, cookie: str | None) -> None:
        """End it; the cookie is worth nothing from now on."""
        if cookie:
            self._drop([_digest(cookie)])

    def _sweep(self, now: datetime, whose: UUID) -> None:
        self._drop([key for key, one in self._kept.items() if one.over(now)])
        # In the order in which they began.
        own = [key for key, one in self._kept.items() if one.whose == whose]
        self._drop(own[: max(0, len(own) - MOST_EACH + 1)])
        self._drop(list(self._kept)[: max(0, len(self._kept) - MOST + 1)])

    def _drop(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            if (session := self._kept.pop(key, None)) is not None:
                session.ended = True


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode()).digest()
