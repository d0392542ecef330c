"""Publishing work: a task is on the broker when `publish_task` returns, once, even if it was sent twice."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nats.aio.client import Client

from ..domain.errors import Unavailable
from .broker import BrokerSettings, close, connect, jetstream, translated

_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Task:
    """A task as its handler gets it. It may come more than once: what it leads to must be keyed by its id."""

    queue: str
    id: str
    body: dict[str, Any]
    delivery: int
    """1 for the first delivery; 1 again after it was put off."""
    put_off: int = 0
    """How often its handler asked for later (`RetryLater`), in whichever process."""


class TaskPublisher:
    """Publishes tasks to the work queue. Use it inside one event loop."""

    def __init__(self, settings: BrokerSettings, *, patience: float = 10.0) -> None:
        """``patience`` is how many seconds a task is tried for."""
        self._settings = settings
        self._patience = patience
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> "TaskPublisher":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await close(client)

    async def publish_task(self, queue: str, body: Mapping[str, Any], msg_id: str) -> bool:
        """Put a task on a queue; False when one with this id is there already or was within two minutes.

        ``body`` names ids and holds no content: it stays on the broker outside the reach of erasure. The same id
        is used for every try, so an unclear answer doubles nothing. Raises `Unavailable` when the broker did not
        acknowledge it in time; the task may then be there or not, and may be published again.
        """
        subject = self._settings.task_subject(queue)
        payload = json.dumps(dict(body), ensure_ascii=False, separators=(",", ":")).encode()
        headers = {"Nats-Msg-Id": f"{queue}:{msg_id}"}
        pauses = iter(_PAUSES)
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    try:
                        return await self._publish(subject, payload, headers)
                    except Unavailable:
                        await asyncio.sleep(next(pauses, _PAUSES[-1]))
        except TimeoutError:
            raise Unavailable(
                f"the broker did not take the task within {self._patience:g} seconds; is NATS running?"
            ) from None

    async def waiting(self, queue: str) -> int:
        """Tasks of a queue that are on the broker and not done. Raises `Unavailable`."""
        subject = self._settings.task_subject(queue)
        client = await self._connected()
        with translated():
            js = jetstream(client, self._settings)
            info = await js.stream_info(self._settings.stream("tasks"), subjects_filter=subject)
        return (info.state.subjects or {}).get(subject, 0)

    async def _publish(self, subject: str, payload: bytes, headers: dict[str, str]) -> bool:
        client = await self._connected()
        with translated():
            acknowledged = await jetstream(client, self._settings).publish(
                subject,
                payload,
                timeout=min(1.0, self._settings.answer_timeout),
                stream=self._settings.stream("tasks"),
                headers=dict(headers),
            )
        return not acknowledged.duplicate

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None or self._client.is_closed:
                self._client = await connect(self._settings, name="tasks")
            return self._client
