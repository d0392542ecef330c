"""The library's recorder port over this log: the one module of the product that imports ``eventsourcing``.

It lets everything written for that library (subscriptions, projections, its test cases) run on a tenant's part
of this log. Positions are gapless and become visible in order, which is what the port asks for. The state is
given and taken as bytes; sealing is the business of `payloads`.
"""

import time
import uuid
from collections.abc import Sequence
from threading import Thread
from typing import Any
from uuid import UUID

import psycopg
from eventsourcing.persistence import (
    ApplicationRecorder,
    IntegrityError,
    ListenNotifySubscription,
    Notification,
    OperationalError,
    StoredEvent,
)
from psycopg_pool import ConnectionPool

from .append import PreparedUnit, call_statement, unit_arrays
from .database import APPENDER, DOOR, session_options, tenant_statement
from .ids import new_id
from .log import CommandKey

_POLL_SECONDS = 1.0
"""A subscription looks again after this long even if no notification came (engine-notes 1.7)."""


class LogRecorder(ApplicationRecorder):
    """Records and reads one tenant's events. Call `close` when done."""

    def __init__(self, database_url: str, tenant: UUID, *, pool_size: int = 4) -> None:
        self.database_url = database_url
        self._tenant = tenant
        self._appender = _pool(database_url, APPENDER, pool_size)
        self._door = _pool(database_url, DOOR, pool_size)

    def close(self) -> None:
        """Let every connection go."""
        self._appender.close()
        self._door.close()

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int]:
        """Append all of them or none; returns their positions. Raises the library's `IntegrityError` when a
        version is taken or skips ahead, and its `OperationalError` when the database does not answer."""
        if not stored_events:
            return []
        unit = PreparedUnit(self._tenant, _uuid(stored_events[0].originator_id), CommandKey.fresh())
        for stored in stored_events:
            stream = _uuid(stored.originator_id)
            unit.add_event(stream, stored.originator_version, stored.topic, new_id(), stored.state)
        try:
            with self._appender.connection() as connection:
                row = connection.execute(call_statement().encode(), unit_arrays([unit]), prepare=True).fetchone()
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise OperationalError(type(error).__name__) from error
        assert row is not None
        if row[1] != "ok":
            raise IntegrityError(f"stream {row[5]} is at version {row[4]}")
        last: int = row[2]
        return list(range(last - len(stored_events) + 1, last + 1))

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Events of one stream, by version."""
        statement = (
            "select stream, version, name, body from lethelog.events where tenant = %s and stream = %s "
            "and version > %s and version <= %s order by version " + ("desc" if desc else "asc") + " limit %s"
        )
        values = (self._tenant, _uuid(originator_id), gt or 0, 2**62 if lte is None else lte, limit)
        rows = self._select(statement, values)
        return [StoredEvent(stream, version, name, bytes(body)) for stream, version, name, body in rows]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """A page of the tenant's events, by position."""
        after = 0 if start is None else start - 1 if inclusive_of_start else start
        statement = (
            "select position, stream, version, name, body from lethelog.events where tenant = %s "
            "and position > %s and position <= %s and (%s or name = any(%s)) order by position limit %s"
        )
        values = (self._tenant, after, 2**62 if stop is None else stop, not topics, list(topics), limit)
        rows = self._select(statement, values)
        return [
            Notification(
                id=position, originator_id=stream, originator_version=version, topic=name, state=bytes(body)
            )
            for position, stream, version, name, body in rows
        ]

    def max_notification_id(self) -> int | None:
        """The newest position of the tenant; None for an empty log."""
        [(newest,)] = self._select("select max(position) from lethelog.events where tenant = %s", (self._tenant,))
        return newest

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> "LogSubscription":
        """All events after a position, then each as it is stored."""
        return LogSubscription(self, gt=gt, topics=topics)

    def _select(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._door.connection() as connection, connection.transaction():
            connection.execute(tenant_statement(self._tenant).encode())
            return connection.execute(statement.encode(), values).fetchall()


class LogSubscription(ListenNotifySubscription[LogRecorder]):
    """The library's subscription, with LISTEN active before the pull that counts, and a fallback poll."""

    def __init__(self, recorder: LogRecorder, gt: int | None = None, topics: Sequence[str] = ()) -> None:
        super().__init__(recorder=recorder, gt=gt, topics=topics)
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __exit__(self, *args: object, **kwargs: Any) -> None:
        try:
            super().__exit__(*args, **kwargs)
        finally:
            self._listener.join()

    def _listen(self) -> None:
        while not self._has_been_stopped and not self._thread_error:
            try:
                with psycopg.connect(self._recorder.database_url, autocommit=True) as connection:
                    connection.execute("listen lethelog")
                    self._follow(connection)
            except psycopg.Error:
                time.sleep(0.2)

    def _follow(self, connection: psycopg.Connection[Any]) -> None:
        # Whatever was stored between the library's first pull and LISTEN.
        self._has_been_notified.set()
        looked = time.monotonic()
        while not self._has_been_stopped and not self._thread_error:
            for _ in connection.notifies(timeout=0.1, stop_after=1):
                self._has_been_notified.set()
            if time.monotonic() - looked > _POLL_SECONDS:
                self._has_been_notified.set()
                looked = time.monotonic()


def _pool(database_url: str, role: str, size: int) -> ConnectionPool:
    return ConnectionPool(
        database_url,
        min_size=0,
        max_size=size,
        open=True,
        kwargs={"autocommit": True, "options": session_options(role)},
    )


def _uuid(given: UUID | str) -> UUID:
    """Text ids of the library's other styles become stable ids of this log."""
    return given if isinstance(given, UUID) else uuid.uuid5(uuid.NAMESPACE_OID, given)
