"""The operator's side of parked messages: they are listed, sent again in order, or dropped.

Sending again puts a message where its consumer finds it and then takes it out of the parking place. A crash
between the two leaves it in both; the consumer that handles it takes it out then, and a second call sends it under
the same id, which the broker drops within its duplicate window. Handlers know an event by its position besides.
"""

# The client's own signatures end in untyped dictionaries.
# pyright: reportUnknownMemberType=false

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import RawStreamMsg

from ..domain.errors import InvalidInput, NotFound
from . import cloudevents
from .broker import BrokerSettings, jetstream, translated
from .cloudevents import Place
from .database import Database
from .pages import EVENT_COLUMNS
from .stored_messages import delete_message, next_message
from .unhandled import BEHIND, TASK_ID

Line = tuple[str, str] | None
DropReason = Literal["handled", "obsolete", "broken", "other"]
"""Why a message is dropped: what it asked for was done otherwise, is no longer wanted, or cannot be done. A fixed
list, since it stays on the broker in clear, where no erasure reaches it."""
PAGE_LIMIT = 500
"""Parked messages a list gives at most at a time."""
_HEADER_ROOM = 1_024


@dataclass(frozen=True, slots=True)
class ParkedMessage:
    """A message that waits for an operator."""

    id: int
    """Its number in the parking place; lists go on after it."""
    consumer: str
    kind: Literal["event", "task", "unreadable"]
    error: str
    """Class of the error or a reason code; ``EarlierParked`` for one that waits behind another."""
    failures: int
    parked_at: str | None
    place: Place | None = None
    """Of an event: its tenant, its aggregate and its position."""
    subject: str = ""
    task: Mapping[str, Any] | None = None
    task_id: str | None = None

    @property
    def sequence(self) -> str | None:
        """What keeps its order: the opaque id of the event's aggregate."""
        return str(self.place.aggregate) if self.place else None

    @property
    def position(self) -> int | None:
        return self.place.position if self.place else None

    @classmethod
    def read(cls, message: RawStreamMsg) -> "ParkedMessage":
        """What a stored message says; ``unreadable`` where it says nothing of the kind."""
        sequence, subject = message.seq or 0, message.subject or ""
        try:
            data = json.loads(message.data or b"")
            place = None
            if "aggregate" in data:
                place = Place(UUID(data["tenant"]), UUID(data["aggregate"]), int(data["position"]))
            return cls(
                sequence,
                str(data["durable"]),
                "task" if data.get("task") is not None else "event",
                str(data["error"]),
                int(data.get("failures", 0)),
                data.get("parked_at"),
                place,
                str(data["subject"]),
                data.get("task"),
                data.get("task_id"),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(sequence, subject.rpartition(".")[2], "unreadable", "Unreadable", 0, None)

    @property
    def line(self) -> "Line":
        """Whom it must not overtake: the messages of its consumer and its sequence."""
        return None if self.place is None else (self.consumer, str(self.place.aggregate))

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; names opaque ids and holds no content."""
        return {
            "id": self.id,
            "consumer": self.consumer,
            "kind": self.kind,
            "error": self.error,
            "failures": self.failures,
            "sequence": self.sequence,
            "position": self.position,
            "parked_at": self.parked_at,
        }


@dataclass(slots=True)
class Resent:
    """What sending again did."""

    sent: int = 0
    left: dict[int, str] = field(default_factory=dict[int, str])
    """Messages that stay, by id, and why: ``event_not_in_log``, ``unreadable``, ``consumer_unknown`` or
    ``earlier_one_stays``."""


async def parked_counts(js: JetStreamContext, settings: BrokerSettings) -> dict[str, int]:
    """How many messages each consumer parked, for those that did."""
    return await _counts(js, settings.stream("parked"), settings.parked_subject(""))


async def retrying_counts(js: JetStreamContext, settings: BrokerSettings) -> dict[str, int]:
    """How many events of each consumer wait to be tried again."""
    return await _counts(js, settings.stream("retries"), settings.retry_subject(""))


async def _counts(js: JetStreamContext, stream: str, prefix: str) -> dict[str, int]:
    with translated():
        try:
            info = await js.stream_info(stream, subjects_filter=">")
        except nats.js.errors.NotFoundError:
            return {}
    counts = {subject.removeprefix(prefix): count for subject, count in (info.state.subjects or {}).items()}
    return {name: count for name, count in sorted(counts.items()) if "." not in name}


class ParkingPlace:
    """The messages that consumers set aside, over one connection."""

    def __init__(self, client: Client, settings: BrokerSettings, database: Database) -> None:
        self._client = client
        self._settings = settings
        self._database = database
        self._js = jetstream(client, settings)
        self._stream = settings.stream("parked")

    async def page(
        self, *, consumer: str | None = None, after: int = 0, limit: int = 100
    ) -> tuple[Sequence[ParkedMessage], int | None]:
        """A page in the order of parking, and the cursor of the next one. Raises `Unavailable`."""
        _demand_limit(limit)
        page: list[ParkedMessage] = []
        async for one in self._from(consumer, after):
            if len(page) == limit:
                return page, page[-1].id
            page.append(one)
        return page, None

    async def retry(
        self,
        *,
        consumer: str | None = None,
        sequence: str | None = None,
        progress: Callable[[int, int], None] = lambda _done, _of: None,
    ) -> Resent:
        """Send messages to their consumers again: all, one consumer's, or one sequence; each sequence in order.

        May be stopped and repeated at any point. Raises `Unavailable`.
        """
        done = Resent()
        chosen = [one async for one in self._from(consumer, 0) if sequence is None or one.sequence == sequence]
        if (consumer or sequence) and not chosen:
            raise NotFound("nothing is parked under that name", consumer=consumer, sequence=sequence)
        while chosen:
            await self._send_all(chosen, done, progress)
            chosen = await self._left_behind({one.line for one in chosen if one.id not in done.left})
        return done

    async def _send_all(
        self, chosen: Sequence[ParkedMessage], done: Resent, progress: Callable[[int, int], None]
    ) -> None:
        stopped = set[Line]()
        in_order = sorted(chosen, key=lambda one: (one.consumer, one.sequence or "", one.position or 0, one.id))
        for number, one in enumerate(in_order):
            progress(number, len(chosen))
            reason = "earlier_one_stays" if one.line in stopped else await self._send(one)
            if reason is None:
                await self._remove(one.id)
                done.sent += 1
                continue
            done.left[one.id] = reason
            if one.line is not None:
                # What stands behind one that stays would overtake it.
                stopped.add(one.line)
        progress(len(chosen), len(chosen))

    async def _left_behind(self, sent: set[Line]) -> list[ParkedMessage]:
        """What was parked behind these sequences while they were being sent, and waits for nothing any more."""
        found = [one async for one in self._from(None, 0) if one.line in sent]
        failed = {one.line for one in found if one.error != BEHIND}
        return [one for one in found if one.line not in failed]

    async def drop(self, number: int, reason: DropReason, ticket: int | None = None) -> ParkedMessage:
        """Take one message out for good; its consumer never handles it, and who looks for it finds why.

        ``ticket`` is the number of what explains it elsewhere. Raises `NotFound` or `Unavailable`.
        """
        with translated():
            try:
                message = await self._js.get_msg(self._stream, seq=number)
            except nats.js.errors.NotFoundError:
                raise NotFound(f"no message {number} is parked", id=number) from None
        found = ParkedMessage.read(message)
        if (message.subject or "") != self._settings.parked_subject(found.consumer):
            raise NotFound(f"no message {number} is parked", id=number)
        why = {"reason": reason, "ticket": ticket, "dropped_at": datetime.now(UTC).isoformat()}
        record = {**found.as_dict(), **why}
        with translated():
            await self._js.publish(
                self._settings.dropped_subject(found.consumer),
                json.dumps(record).encode(),
                timeout=self._settings.answer_timeout,
                stream=self._stream,
                headers={"Nats-Msg-Id": f"dropped:{number}:{found.parked_at}"},
            )
        await self._remove(number)
        return found

    async def dropped(
        self, *, consumer: str | None = None, after: int = 0, limit: int = 100
    ) -> tuple[Sequence[Mapping[str, Any]], int | None]:
        """What was dropped, with its reason, and the cursor of the next page. Raises `Unavailable`."""
        _demand_limit(limit)
        subject = self._settings.dropped_subject(_consumer(consumer))
        page: list[Mapping[str, Any]] = []
        with translated():
            while (found := await next_message(self._js, self._stream, subject, after + 1)) is not None:
                if len(page) == limit:
                    return page, after
                page.append(json.loads(found.data or b"{}"))
                after = found.seq or 0
        return page, None

    async def _from(self, consumer: str | None, after: int) -> AsyncGenerator[ParkedMessage]:
        subject = self._settings.parked_subject(_consumer(consumer))
        with translated():
            while (found := await next_message(self._js, self._stream, subject, after + 1)) is not None:
                read = ParkedMessage.read(found)
                yield read
                after = read.id

    async def _send(self, one: ParkedMessage) -> str | None:
        """Put a message where its consumer finds it; gives the reason where that cannot be."""
        headers = {"Nats-Msg-Id": f"parked:{one.id}:{one.parked_at}"}
        if one.kind == "unreadable" or (one.kind == "event" and one.place is None):
            return "unreadable"
        kind = "tasks" if one.kind == "task" else "retries"
        stream = self._settings.stream(kind)
        with translated():
            try:
                await self._js.consumer_info(stream, one.consumer)
            except nats.js.errors.NotFoundError:
                return "consumer_unknown"
        if one.kind == "task":
            subject, body = one.subject, json.dumps(one.task, ensure_ascii=False, separators=(",", ":")).encode()
            headers[TASK_ID] = one.task_id or ""
        else:
            row = await self._row(one)
            if row is None:
                return "event_not_in_log"
            subject = self._settings.retry_subject(one.consumer)
            body = cloudevents.to_message(row, largest=self._client.max_payload - _HEADER_ROOM)
        with translated():
            await self._js.publish(
                subject, body, timeout=self._settings.answer_timeout, stream=stream, headers=headers
            )
        return None

    async def _row(self, one: ParkedMessage) -> tuple[Any, ...] | None:
        assert one.place is not None
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                f"select {EVENT_COLUMNS} from lethelog.events where position = %s and tenant = %s and stream = %s",
                (one.place.position, one.place.tenant, one.place.aggregate),
            )
            return await cursor.fetchone()

    async def _remove(self, number: int) -> None:
        with translated():
            await delete_message(self._js, self._stream, number)


def _consumer(name: str | None) -> str:
    if name is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise InvalidInput("consumer", "must be a name of A-Z, a-z, 0-9, _ and -", "See: lethelog parked list")
    return name or "*"


def _demand_limit(limit: int) -> None:
    if not 1 <= limit <= PAGE_LIMIT:
        raise InvalidInput("limit", f"must be 1 to {PAGE_LIMIT}")
