"""Publishing events to the broker over one connection: many in flight, acknowledged as a contiguous prefix."""

# The client's own signatures end in untyped dictionaries.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import nats.errors
import nats.js.errors
from nats.js import JetStreamContext

from ..domain.errors import LethelogError, Unavailable
from . import cloudevents
from .broker import BrokerSettings, translated
from .payloads import is_moved_in
from .stored_messages import created_at

PAGE = 1000
IN_FLIGHT = 4000
"""Events published and not yet acknowledged; more gain nothing (engine-notes 2.2)."""
_HEADER_ROOM = 1_024
"""Bytes of a payload that headers may take."""


class Trouble:
    """What goes wrong with a connection while messages are on their way.

    The client tells a refused asynchronous publish to its error callback only and leaves its future open for ever,
    so whoever waits for an acknowledgement has to wait for this as well.
    """

    def __init__(self) -> None:
        self.happened = asyncio.Event()
        self._error: Exception | None = None

    async def on_lost(self) -> None:
        self.happened.set()

    async def on_error(self, error: Exception) -> None:
        if isinstance(error, nats.js.errors.Error):
            self._error = self._error or error
            self.happened.set()

    def raise_if_any(self) -> None:
        """Raises `Unavailable`."""
        if self._error is not None:
            with translated():
                raise self._error
        if self.happened.is_set():
            raise Unavailable("the connection to the broker is lost")


class EventPublisher:
    """Publishes pages of events over one connection."""

    def __init__(
        self,
        js: JetStreamContext,
        settings: BrokerSettings,
        created: str,
        position: int,
        last_seq: int,
        max_payload: int,
    ) -> None:
        self._js = js
        self._largest = max_payload - _HEADER_ROOM
        self._settings = settings
        self._stream = settings.stream("events")
        self._expected = last_seq
        self._proven = False
        self._on_the_way: deque[tuple[int, asyncio.Future[Any]]] = deque()
        self.created = created
        self.position = position
        self.published = position

    async def publish(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Send a page. At most `IN_FLIGHT` are unacknowledged then, which is what the client allows.

        The first event of a connection goes alone: what is wrong with the stream itself shows there, and not as
        the refusal of everything behind it. Raises `Unavailable`.
        """
        if not self._proven:
            rows = await self._prove(rows)
        with translated():
            async with asyncio.timeout(self._settings.answer_timeout * 2):
                for row in rows:
                    if is_moved_in(row[-1]):
                        self._pass_over(row[0])
                        continue
                    answer = await self._js.publish_async(**self._message(row))
                    self._expected += 1
                    self._on_the_way.append((row[0], answer))
                    self.published = row[0]

    async def _prove(self, rows: Sequence[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
        """Send the first event there is alone; gives those behind it."""
        for number, row in enumerate(rows):
            if not is_moved_in(row[-1]):
                await self._publish_first(row)
                return rows[number + 1 :]
            self._pass_over(row[0])
        return ()

    def _pass_over(self, position: int) -> None:
        """History that was moved in is no news: it is not sent (ADR 9), and counts as acknowledged."""
        self.published = position
        if not self._on_the_way:
            self.position = position
            return
        passed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        passed.set_result(None)
        self._on_the_way.append((position, passed))

    async def _publish_first(self, row: tuple[Any, ...]) -> None:
        with translated():
            try:
                await self._js.publish(**self._message(row), timeout=self._settings.answer_timeout)
            except nats.errors.TimeoutError:
                raise Unavailable(
                    f"the broker answers but does not store events in {self._stream}; after a full disk it does "
                    "so again only once it was restarted"
                ) from None
        self._expected += 1
        self.position = self.published = row[0]
        self._proven = True

    def _message(self, row: tuple[Any, ...]) -> dict[str, Any]:
        position, tenant, stream, _, name, *_ = row
        return {
            "subject": cloudevents.subject_of(self._settings.prefix, tenant, stream, name),
            "payload": cloudevents.to_message(row, largest=self._largest),
            "stream": self._stream,
            "headers": {
                "Nats-Msg-Id": str(position),
                "Nats-Expected-Last-Sequence": str(self._expected),
            },
        }

    async def demand_same_stream(self) -> None:
        """Raises `Unavailable` when the stream was deleted or made anew."""
        with translated():
            if created_at(await self._js.stream_info(self._stream)) != self.created:
                raise Unavailable("the stream of events was made anew")

    def abandon(self) -> None:
        """Let go of what is unacknowledged; the next session sends it again."""
        for _, answer in self._on_the_way:
            if answer.done() and not answer.cancelled():
                answer.exception()
            else:
                answer.cancel()

    async def acknowledged(self, at_most: int, trouble: Trouble) -> LethelogError | None:
        """Wait until at most so many are unacknowledged; `position` then is the acknowledged prefix.

        Gives what went wrong instead of raising it, so that the prefix can be stored first.
        """
        losing = asyncio.create_task(trouble.happened.wait())
        try:
            while self._on_the_way:
                position, answer = self._on_the_way[0]
                if not answer.done():
                    if len(self._on_the_way) <= at_most:
                        break
                    await asyncio.wait(
                        (answer, losing),
                        timeout=self._settings.answer_timeout,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    if not answer.done():
                        trouble.raise_if_any()
                        raise Unavailable("the broker stopped acknowledging events")
                with translated():
                    answer.result()
                self._on_the_way.popleft()
                self.position = position
        except LethelogError as error:
            return error
        finally:
            losing.cancel()
        return None
