"""The baseline: the library's own recorder, as it comes."""

from collections.abc import Sequence
from uuid import uuid4

from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg.conninfo import conninfo_to_dict

BODY_BYTES = 430
"""Size of a stored event of the baseline; what Lethelog stores for a memory is larger."""


class StockRecorder:
    """`PostgresApplicationRecorder` with a table of its own in a database. Call `close` when done."""

    def __init__(self, database_url: str, threads: int) -> None:
        given = conninfo_to_dict(database_url)
        self._datastore = PostgresDatastore(
            dbname=str(given["dbname"]),
            host=str(given.get("host") or "localhost"),
            port=str(given.get("port") or 5432),
            user=str(given.get("user") or ""),
            password=str(given.get("password") or ""),
            # A connection for every thread: fewer would let the baseline wait for its own pool.
            pool_size=min(threads, 16),
            max_overflow=max(0, threads - 16),
        )
        self._recorder = PostgresApplicationRecorder(self._datastore, events_table_name="stock_events")
        self._recorder.create_table()

    def close(self) -> None:
        self._datastore.close()

    def append(self, events: Sequence[StoredEvent]) -> None:
        """Durable when it returns."""
        self._recorder.insert_events(events)


def stored_events(number: int) -> list[StoredEvent]:
    """First events of so many streams, encoded already: the baseline is spared envelope, JSON and sealing."""
    return [StoredEvent(uuid4(), 1, "memory.remembered", b"x" * BODY_BYTES) for _ in range(number)]
