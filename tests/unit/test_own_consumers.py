"""Which consumers of events are this program's own, and so no subscribers that an erasure waits for."""

from lethelog.handlers.erasure.acknowledgments import OWN_CONSUMERS
from lethelog.handlers.operating.workers import ALL_ROLES, durables_of_roles
from lethelog.streams.broker import BrokerSettings


def test_every_consumer_of_events_of_our_own_roles_is_known_as_one():
    durables = durables_of_roles(BrokerSettings("nats://127.0.0.1:1"), ALL_ROLES, "judge:1")
    assert {one.name for one in durables if one.stream == "events"} == OWN_CONSUMERS
