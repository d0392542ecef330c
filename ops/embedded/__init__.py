"""Embedded servers: PostgreSQL with pgvector and a NATS broker in one data directory, started on demand.

``join`` starts them or shares those that run, and they stop by themselves when nobody uses them any more.
Nothing is downloaded, no container is needed: the programs come from the wheels of ``lethelog[local]``. Linux
only; elsewhere name servers of your own with ``LETHELOG_DATABASE_URL`` and ``LETHELOG_BROKER_URL``.
"""

import sys

from ...domain.errors import Misconfigured

if sys.platform != "linux":
    raise Misconfigured(
        "The embedded servers run on Linux only. Name servers of your own with LETHELOG_DATABASE_URL and "
        "LETHELOG_BROKER_URL."
    )

from ..folders import default_data_dir
from .client import EmbeddedServers, join
from .control import ServerStatus, are_up, discard, hold, status, stop, superuser_url
from .state import ServerState

__all__ = [
    "EmbeddedServers",
    "ServerState",
    "ServerStatus",
    "are_up",
    "default_data_dir",
    "discard",
    "hold",
    "join",
    "status",
    "stop",
    "superuser_url",
]
