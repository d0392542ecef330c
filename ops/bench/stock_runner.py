"""The baseline of read models: the library's own projection runner, into a table of the same shape."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID, uuid4

from eventsourcing.application import Application
from eventsourcing.domain import DomainEvent
from eventsourcing.persistence import Tracking
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.conninfo import conninfo_to_dict

SCHEMA = "stock_view"
"""Where the table of live memory's shape stands, with all its indexes."""
_WAIT_SECONDS = 600
_AT_ONCE = 100
"""Events the library is given to store at once; with a thousand it was seen waiting for its database for ever."""


@dataclass(frozen=True)
class Remembered(DomainEvent):
    """The same memory as Lethelog's sample, as the library stores events: a dataclass, in JSON, not sealed."""

    tenant: UUID
    topic: str
    content: str


class _App(Application[UUID]):
    name = "memory"
    env: ClassVar[dict[str, str]] = {}


class _View(PostgresTrackingRecorder):
    """Writes a row and the position in one transaction."""

    def remember(self, event: Remembered, tracking: Tracking) -> None:
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(_UPSERT, _row(event, tracking), prepare=True)


class _Live(Projection[_View]):
    name = "live"

    def process_event(  # pyright: ignore[reportIncompatibleVariableOverride] - the library dispatches by type
        self, domain_event: Any, tracking: Tracking
    ) -> None:
        self.view.remember(domain_event, tracking)


class StockRunner:
    """An application of the library in a database, and its runner, which starts anew for each backlog."""

    def __init__(self, database_url: str) -> None:
        given = conninfo_to_dict(database_url)
        self._env = {
            "PERSISTENCE_MODULE": "eventsourcing.postgres",
            "POSTGRES_DBNAME": str(given["dbname"]),
            "POSTGRES_HOST": str(given.get("host") or "localhost"),
            "POSTGRES_PORT": str(given.get("port") or 5432),
            "POSTGRES_USER": str(given.get("user") or ""),
            "POSTGRES_PASSWORD": str(given.get("password") or ""),
        }
        self._app = _App(env=self._env)
        self._tenant = uuid4()
        self._starting = 0.0

    def close(self) -> None:
        self._app.close()

    def append(self, texts: list[str]) -> None:
        """Store a memory of each text."""
        for start in range(0, len(texts), _AT_ONCE):
            self._app.save(*map(self._remembered, texts[start : start + _AT_ONCE]))

    def _remembered(self, text: str) -> Remembered:
        return Remembered(uuid4(), 1, datetime.now(UTC), tenant=self._tenant, topic=text[:60], content=text)

    def catch_up(self) -> float:
        """Seconds until the view holds all there is, less what starting and stopping alone takes."""
        return self._run() - self._starting

    def measure_starting(self) -> None:
        """Run once with nothing to do."""
        self._starting = self._run()

    def _run(self) -> float:
        began = time.perf_counter()
        with ProjectionRunner(
            application_class=_App, projection_class=_Live, view_class=_View, env=self._env
        ) as runner:
            runner.wait(self._app.recorder.max_notification_id(), timeout=_WAIT_SECONDS)
            return time.perf_counter() - began


_VALUES: dict[str, str] = {
    "tenant": "%(tenant)s",
    "memory_id": "%(memory_id)s",
    "version": "%(version)s",
    "state_version": "%(version)s",
    "position": "%(position)s",
    "memory_type": "'fact'",
    "scope": "'personal'",
    "topic": "%(topic)s",
    "content": "%(content)s",
    "tags": """'["infra", "review"]'""",
    "producer": "'agent'",
    "trust": "'agent'",
    "core": "false",
    "pinned": "false",
    "verified": "false",
    "occurred_at": "%(at)s",
    "recorded_at": "%(at)s",
    "changed_at": "%(at)s",
    "fresh_at": "%(at)s",
    "derived_from": "'[]'",
    "links": "'{}'",
    "archived": "false",
    "suppressed": "false",
    "refuted": "false",
    "quarantined": "false",
}
_UPSERT: Any = (
    f"insert into {SCHEMA}.live_memory ({', '.join(_VALUES)}) values ({', '.join(_VALUES.values())}) "
    "on conflict (tenant, memory_id) do update set "
    + ", ".join(f"{name} = excluded.{name}" for name in _VALUES if name not in ("tenant", "memory_id"))
)


def _row(event: Remembered, tracking: Tracking) -> dict[str, Any]:
    return {
        "tenant": event.tenant,
        "memory_id": event.originator_id,
        "version": event.originator_version,
        "position": tracking.notification_id,
        "topic": event.topic,
        "content": event.content,
        "at": event.timestamp,
    }
