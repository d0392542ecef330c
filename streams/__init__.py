"""The log and what carries it: event store, key vault, directory, reader, relay, broker topology, subscriber kit.

The names below are for subscribers; they are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .broker import BrokerSettings as BrokerSettings
    from .handling import Park as Park
    from .handling import Reject as Reject
    from .handling import RetryLater as RetryLater
    from .handling import RetryPolicy as RetryPolicy
    from .payloads import RecordedEvent as RecordedEvent
    from .subscriber_kit import Erased as Erased
    from .subscriber_kit import subscribe as subscribe

_EXPORTS = {
    "BrokerSettings": ".broker",
    "Erased": ".subscriber_kit",
    "Park": ".handling",
    "RecordedEvent": ".payloads",
    "Reject": ".handling",
    "RetryLater": ".handling",
    "RetryPolicy": ".handling",
    "subscribe": ".subscriber_kit",
}

__all__ = ["BrokerSettings", "Erased", "Park", "RecordedEvent", "Reject", "RetryLater", "RetryPolicy", "subscribe"]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
