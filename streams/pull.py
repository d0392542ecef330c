"""A pull subscription that FastStream can loop over without harm.

FastStream's loop asks again at once after an error. With a durable that is gone, or a connection that is closed,
that is a loop at full speed — in the second case one that never yields, so the whole event loop stands still.
This wrapper takes the place of the subscription, waits first, and says that somebody should look.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable

import nats.errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext

PAUSE_SECONDS = 0.2


class PatientPull:
    """Stands in for a `PullSubscription`."""

    def __init__(self, pull: JetStreamContext.PullSubscription, trouble: Callable[[], None]) -> None:
        self._pull = pull
        self._trouble = trouble

    async def fetch(self, batch: int = 1, timeout: float | None = 5) -> list[Msg]:  # noqa: ASYNC109 - its caller's
        """The next messages. Raises the client's `TimeoutError` for everything else, after a pause if need be."""
        try:
            return await self._pull.fetch(batch=batch, timeout=timeout)
        except nats.errors.TimeoutError:
            raise
        except (nats.errors.Error, OSError, json.JSONDecodeError) as error:
            self._trouble()
            await asyncio.sleep(PAUSE_SECONDS)
            raise nats.errors.TimeoutError from error

    async def unsubscribe(self) -> None:
        """Stop, and give back what arrived meanwhile instead of letting it wait for its ack_wait."""
        with contextlib.suppress(nats.errors.Error, OSError):
            await self._pull.unsubscribe()
        while self._pull.pending_msgs:
            try:
                for message in await self._pull.fetch(timeout=0.05):
                    await message.nak()
            except (nats.errors.Error, OSError):
                break
