"""One HTTP client for models elsewhere: deadline, retries, bounds, and a log without content (judges.md 4.3, 4.4).

Only what may pass by itself is tried again: 408, 429, 5xx and failures of the connection, except 501 and 505,
which say that the server will never do it (llama.cpp answers 501 for a model that is no decision model). A
reply with status 200 is never asked again here, however bad its body: it was billed, and whoever asks bounds how
often that is tried.

State, answers and key never reach a log line or an error.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2

from ...domain.errors import LethelogError
from .endpoint import Endpoint
from .systemone import error_type, readable_request_id

FIRST_PAUSE = 0.5
LONGEST_BACKOFF = 5.0
JITTER = 0.25
"""By how much of itself a pause may grow at random, so that many workers do not return at once."""
NEVER = frozenset({501, 505})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply with status 200."""

    body: bytes
    too_large: bool
    """The body passed the bound; ``body`` holds its beginning only."""
    attempts: int
    request_id: str | None


@dataclass(frozen=True, slots=True)
class _Raw:
    status: int
    headers: Mapping[str, str]
    body: bytes
    too_large: bool


class Transport:
    """Posts bodies to one endpoint. Belongs to the event loop that first uses it.

    ``transport``, ``sleep``, ``clock``, ``chance`` and ``now`` are the outside world, given so that tests can
    stand in for it.
    """

    def __init__(
        self,
        settings: Endpoint,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._clock = clock
        self._chance = chance
        self._now = now
        # No redirect is followed: it would carry key and state to a host nobody configured. No timeout of the
        # client's own: its timeouts restart with every byte, so a trickling server would outlast the deadline.
        # What goes to a server on this machine stays on it: proxies of the environment are for other hosts.
        self._client = httpx2.AsyncClient(
            transport=transport,
            headers=settings.headers,
            timeout=None,
            follow_redirects=False,
            trust_env=not settings.is_local,
        )

    async def post(self, body: bytes) -> HttpReply:
        """Send a body and return the reply with status 200.

        Raises the endpoint's ``UNAVAILABLE`` when attempts or time are used up, and its ``REJECTED`` for every
        other status.
        """
        ends = self._clock() + self._settings.deadline
        attempt = 0
        while True:
            attempt += 1
            status: int | None = None
            hint: float | None = None
            outcome = await self._attempt(body, min(self._settings.timeout, max(0.0, ends - self._clock())))
            if isinstance(outcome, str):
                fault = outcome
            elif outcome.status == 200:
                request_id = _request_id(outcome.headers)
                return HttpReply(outcome.body, outcome.too_large, attempt, request_id)
            else:
                status = outcome.status
                if not is_retryable(status):
                    raise _rejection(self._settings, status, error_type(outcome.body))
                fault, hint = f"status {status}", retry_after(outcome.headers, self._now())
            pause = self._pause(attempt, hint)
            out_of_time = self._clock() + pause >= ends or (hint or 0.0) > self._settings.max_wait
            if attempt >= self._settings.max_attempts or out_of_time:
                raise self._settings.UNAVAILABLE(
                    f"The {self._settings.NOUN} at {self._settings.host} did not answer ({fault}, "
                    f"attempts: {attempt}). {self._settings.AFTERWARDS}",
                    status=status,
                    fault=fault,
                    attempts=attempt,
                    retry_after=hint,
                )
            logger.info(
                "%s call failed: %s, attempt %d, next in %.2f s", self._settings.NOUN, fault, attempt, pause
            )
            await self._sleep(pause)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _attempt(self, body: bytes, seconds: float) -> _Raw | str:
        """One exchange, or the name of what went wrong with the connection.

        The client's exceptions are turned into names here, because they carry the request, key and all.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(body)
        except TimeoutError:
            return "timeout"
        except (httpx2.RequestError, httpx2.StreamError, httpx2.InvalidURL) as problem:
            return type(problem).__name__

    async def _exchange(self, body: bytes) -> _Raw:
        limit = self._settings.max_reply_bytes
        async with self._client.stream("POST", self._settings.url, content=body) as response:
            received = bytearray()
            async for chunk in response.aiter_bytes():
                received += chunk
                if len(received) > limit:
                    break
            return _Raw(response.status_code, response.headers, bytes(received[:limit]), len(received) > limit)

    def _pause(self, attempt: int, hint: float | None) -> float:
        """Seconds until the next attempt: the server's wish, or a doubling pause; jitter only ever adds."""
        backoff = min(FIRST_PAUSE * 2 ** (attempt - 1), LONGEST_BACKOFF, self._settings.max_wait)
        base = backoff if hint is None else hint
        return base * (1.0 + JITTER * self._chance())


def is_retryable(status: int) -> bool:
    """Whether a status may pass by itself (judges.md 4.4, rate limit and outage)."""
    return status in (408, 429) or (status >= 500 and status not in NEVER)


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds the server asks to wait: ``retry-after-ms`` first, then ``retry-after`` as seconds or HTTP date.

    None where neither is there or makes sense; a date gone by is 0.
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1_000
    text = headers.get("retry-after")
    seconds = _seconds(text)
    if seconds is not None or text is None:
        return seconds
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - now).total_seconds())


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _request_id(headers: Mapping[str, str]) -> str | None:
    return readable_request_id(headers.get("x-typesafe-request-id") or headers.get("x-request-id"))


def _rejection(settings: Endpoint, status: int, kind: str | None) -> LethelogError:
    named = f", {kind}" if kind else ""
    return settings.REJECTED(
        f"The {settings.NOUN} refused the request: status {status}{named}. {_fix(settings, status)}",
        status=status,
        error_type=kind,
    )


def _fix(settings: Endpoint, status: int) -> str:
    prefix = settings.PREFIX
    if status in settings.FIXES:
        return settings.FIXES[status]
    if 300 <= status < 400:
        return f"Redirects are not followed; set {prefix}_URL to where it leads."
    fixes = {
        401: f"Check {prefix}_KEY.",
        402: "The account has no credit left.",
        403: f"Check {prefix}_KEY and what its account may use.",
    }
    return fixes.get(status, f"Check {prefix}_URL, {prefix}_PATH and {prefix}_MODEL.")
