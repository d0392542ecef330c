"""The broker: how to reach it, what its streams and subjects are called, and errors that say what to do.

JetStream carries what the log holds and never is its truth: an emptied broker is filled again from the log.
"""

# The client's own signatures end in untyped keyword arguments.
# pyright: reportUnknownMemberType=false

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Literal

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext

from ..domain.errors import LethelogError, Misconfigured, Unavailable

StreamKind = Literal["events", "tasks", "retries", "parked"]
STREAM_KINDS: tuple[StreamKind, ...] = ("events", "tasks", "retries", "parked")

RECONNECT_SECONDS = 0.2
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Where the broker is and how its streams are kept. The address holds a credential and is never shown."""

    url: str = field(repr=False)
    """``nats://TOKEN@HOST:PORT``; several servers of one cluster are separated by commas."""
    prefix: str = "lethelog"
    """First word of every subject and stream; two installations on one broker differ in it."""
    events_max_age: float = 7 * 24 * 3600
    """Seconds the broker keeps an event; whoever is further behind starts from the log."""
    duplicate_window: float = 120.0
    """Seconds in which a message published again under its id is dropped."""
    replicas: int = 1
    """Copies of each stream in a cluster."""
    answer_timeout: float = 5.0
    """Seconds after which a broker that does not answer is called unavailable."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,40}", self.prefix):
            raise Misconfigured("the broker prefix must be 1 to 41 of a-z, 0-9, _ and -, a letter first")
        if not self.url.strip():
            raise Misconfigured("the broker address is empty; set LETHELOG_BROKER_URL")
        if not 120 <= self.duplicate_window <= self.events_max_age:
            raise Misconfigured(
                "the broker's duplicate window must be 120 seconds or more, and at most its age limit"
            )

    @property
    def servers(self) -> list[str]:
        return [part.strip() for part in self.url.split(",") if part.strip()]

    def stream(self, kind: StreamKind) -> str:
        """Name of a JetStream stream, e.g. ``LETHELOG_EVENTS``."""
        return f"{self.prefix}_{kind}".upper()

    def all_subjects(self, kind: StreamKind) -> str:
        """Every subject of a stream."""
        return f"{self.prefix}.{kind}.>"

    def event_filter(self, name: str = "*") -> str:
        """Subjects of one event name of all tenants; ``memory.*`` and ``*`` are allowed."""
        return f"{self.prefix}.events.*.*.{'>' if name == '*' else name}"

    def task_subject(self, queue: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", queue):
            raise Misconfigured(f"queue {queue!r} must be one word of a-z, 0-9, _ and -")
        return f"{self.prefix}.tasks.{queue}"

    def retry_subject(self, durable: str) -> str:
        return f"{self.prefix}.retries.{durable}"

    def parked_subject(self, durable: str) -> str:
        return f"{self.prefix}.parked.{durable}"

    def dropped_subject(self, durable: str) -> str:
        """Where it stays on record that an operator dropped a parked message."""
        return f"{self.prefix}.parked.{durable}.dropped"


async def connect(
    settings: BrokerSettings,
    *,
    name: str,
    reconnect: bool = True,
    on_lost: Callable[[], Awaitable[None]] | None = None,
    on_error: Callable[[Exception], Awaitable[None]] | None = None,
) -> Client:
    """A connection, or `Unavailable` / `Misconfigured` within the answer timeout.

    With ``reconnect`` it comes back by itself for as long as it takes; without, ``on_lost`` says that it is over.
    """
    options = connection_options(settings, name)
    if on_error is not None:
        options["error_cb"] = on_error
    client = Client()
    try:
        with translated():
            async with asyncio.timeout(settings.answer_timeout):
                # The client tries its first connection for ever when it may reconnect, so that is allowed later.
                await client.connect(**options, disconnected_cb=on_lost, allow_reconnect=False)
    except BaseException:
        # A failed attempt leaves its socket open.
        await close(client)
        raise
    if reconnect:
        keep_reconnecting(client)
    return client


def connection_options(settings: BrokerSettings, name: str) -> dict[str, Any]:
    """What every connection shares, also those made by FastStream."""
    return {
        "servers": settings.servers,
        "name": f"lethelog {name}",
        "error_cb": note_error,
        "connect_timeout": settings.answer_timeout,
        "reconnect_time_wait": RECONNECT_SECONDS,
        "max_reconnect_attempts": 1,
        "ping_interval": 5,
        "max_outstanding_pings": 2,
        "drain_timeout": 5,
    }


def keep_reconnecting(client: Client) -> None:
    """From now on a lost connection is tried again without end, so it is never closed by the client itself."""
    client.options["allow_reconnect"] = True
    client.options["max_reconnect_attempts"] = -1


def jetstream(client: Client, settings: BrokerSettings) -> JetStreamContext:
    """JetStream on this connection; every request of it is bounded by the answer timeout."""
    return client.jetstream(timeout=settings.answer_timeout)


async def note_error(error: Exception) -> None:
    """Connection trouble goes to the log by its kind only."""
    _LOG.debug("broker connection: %s", type(error).__name__)


async def close(client: Client) -> None:
    """Close a connection; one that is broken already is let go."""
    with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
        async with asyncio.timeout(5):
            await client.close()


@contextlib.contextmanager
def translated() -> Generator[None]:
    """The broker's errors as the project's own; they carry kinds and names, no subject and no content."""
    try:
        yield
    except LethelogError:
        raise
    except nats.js.errors.ServiceUnavailableError as error:
        raise Unavailable("the broker's JetStream does not answer; is it enabled and ready?") from error
    except nats.js.errors.APIError as error:
        raise Unavailable(f"the broker answered with an error: {error.description}") from error
    except (nats.errors.Error, OSError, TimeoutError) as error:
        if "authorization" in str(error).lower():
            raise Misconfigured("the broker refuses the credential; check LETHELOG_BROKER_URL") from None
        raise Unavailable(f"the broker does not answer ({type(error).__name__}); is NATS running?") from error
