"""The broker's streams and durable consumers as they should be: made, compared and brought up to date.

Clients create a durable only when it is absent and never update it (engine-notes 2.1), so this is the one place
that decides what they look like. It is idempotent; run it at start from as many processes as there are.
"""

# The client's own signatures end in untyped keyword arguments.
# pyright: reportUnknownMemberType=false

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from ..domain.errors import Misconfigured
from .broker import STREAM_KINDS, BrokerSettings, StreamKind, close, connect, jetstream, translated

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Durable:
    """A durable pull consumer."""

    name: str
    stream: StreamKind
    filter_subjects: tuple[str, ...]
    ack_wait: float = 30.0
    """Seconds after which a delivery that was neither acknowledged nor put off comes again."""
    max_ack_pending: int = 1000
    """Deliveries that may be open in all processes together; 1 keeps strict order."""
    max_deliver: int = UNLIMITED
    """The server's own limit. Left open: there it keeps the message and tells nobody (engine-notes 2.4)."""
    start: Literal["all", "new"] = "all"
    """Where a durable made for the first time begins."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something `Topology.ensure` did."""

    kind: Literal["created", "updated"]
    what: str
    fields: tuple[str, ...] = ()


class Topology:
    """The streams, and the durables a caller needs."""

    def __init__(self, settings: BrokerSettings, durables: Sequence[Durable] = ()) -> None:
        self._settings = settings
        self._durables = tuple(durables)

    async def ensure(self, client: Client | None = None) -> list[Change]:
        """Create what is missing, update what drifted; says what it did.

        Raises `Unavailable` when the broker does not answer, `Misconfigured` for a difference that no update can
        mend (the message names the way out) or a durable that the broker refuses.
        """
        changes: list[Change] = []
        async with self._jetstream(client) as js:
            for kind in STREAM_KINDS:
                changes += await self._ensure_stream(js, kind)
            for durable in self._durables:
                changes += await self._ensure_durable(js, durable)
        return changes

    async def drift(self, client: Client | None = None) -> list[str]:
        """What differs from what should be, one sentence each; empty when all is well. Changes nothing."""
        found: list[str] = []
        async with self._jetstream(client) as js:
            for kind in STREAM_KINDS:
                name = self._settings.stream(kind)
                present = await _stream_config(js, name)
                if present is None:
                    found.append(f"stream {name} is missing")
                else:
                    differing = _differing(present, self._stream_fields(kind))
                    found += [f"stream {name} differs in {field}" for field in differing]
            for durable in self._durables:
                stream = self._settings.stream(durable.stream)
                config = await _durable_config(js, stream, durable.name)
                if config is None:
                    found.append(f"durable {durable.name} of {stream} is missing")
                else:
                    differing = _differing(config, _durable_fields(durable))
                    found += [f"durable {durable.name} of {stream} differs in {field}" for field in differing]
        return found

    @asynccontextmanager
    async def _jetstream(self, client: Client | None) -> AsyncGenerator[JetStreamContext]:
        used = client or await connect(self._settings, name="topology", reconnect=False)
        try:
            with translated():
                yield jetstream(used, self._settings)
        finally:
            if client is None:
                await close(used)

    def _stream_fields(self, kind: StreamKind) -> dict[str, Any]:
        work = kind in ("tasks", "retries")
        return {
            "subjects": [self._settings.all_subjects(kind)],
            "retention": RetentionPolicy.WORK_QUEUE if work else RetentionPolicy.LIMITS,
            "storage": StorageType.FILE,
            "max_age": self._settings.events_max_age if kind == "events" else 0.0,
            "duplicate_window": self._settings.duplicate_window,
            "num_replicas": self._settings.replicas,
            # With no limit on size nothing is discarded silently; were one set, publishers would be told.
            "discard": DiscardPolicy.OLD if kind == "events" else DiscardPolicy.NEW,
            # An emptied stream must be a new stream: that is how the relay knows to fill it again.
            "deny_purge": kind == "events",
        }

    async def _ensure_stream(self, js: JetStreamContext, kind: StreamKind) -> list[Change]:
        name = self._settings.stream(kind)
        wanted = self._stream_fields(kind)
        present = await _stream_config(js, name)
        if present is None:
            with _refusals(f"stream {name}"):
                await js.add_stream(StreamConfig(name=name, **wanted))
            return [Change("created", f"stream {name}")]
        differing = _differing(present, wanted)
        if not differing:
            return []
        _demand_changeable(
            f"stream {name}", differing, ("retention", "storage"), "delete the stream and start again"
        )
        with _refusals(f"stream {name}"):
            await js.update_stream(present.evolve(**{field: wanted[field] for field in differing}))
        return [Change("updated", f"stream {name}", differing)]

    async def _ensure_durable(self, js: JetStreamContext, durable: Durable) -> list[Change]:
        stream = self._settings.stream(durable.stream)
        what = f"durable {durable.name} of {stream}"
        wanted = _durable_fields(durable)
        present = await _durable_config(js, stream, durable.name)
        if present is None:
            with _refusals(what):
                await js.add_consumer(
                    stream, ConsumerConfig(name=durable.name, durable_name=durable.name, **wanted)
                )
            return [Change("created", what)]
        differing = _differing(present, wanted)
        if not differing:
            return []
        fix = "delete the durable and start again"
        _demand_changeable(what, differing, ("ack_policy", "deliver_policy", "deliver_subject"), fix)
        with _refusals(what):
            await js.add_consumer(stream, present.evolve(**{field: wanted[field] for field in differing}))
        return [Change("updated", what, differing)]


def _durable_fields(durable: Durable) -> dict[str, Any]:
    several = len(durable.filter_subjects) > 1
    return {
        "filter_subject": None if several else durable.filter_subjects[0],
        "filter_subjects": list(durable.filter_subjects) if several else None,
        "ack_policy": AckPolicy.EXPLICIT,
        "deliver_policy": DeliverPolicy.NEW if durable.start == "new" else DeliverPolicy.ALL,
        "deliver_subject": None,
        "ack_wait": durable.ack_wait,
        "max_ack_pending": durable.max_ack_pending,
        "max_deliver": durable.max_deliver,
    }


def _differing(present: object, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(field for field, value in wanted.items() if (getattr(present, field) or None) != (value or None))


def _demand_changeable(what: str, differing: Sequence[str], fixed: Sequence[str], fix: str) -> None:
    stuck = [field for field in differing if field in fixed]
    if stuck:
        raise Misconfigured(f"{what} has another {' and '.join(stuck)}, which the broker cannot change; {fix}")


@contextmanager
def _refusals(what: str) -> Generator[None]:
    """What the broker refuses is a setting that does not fit."""
    try:
        yield
    except nats.js.errors.ServiceUnavailableError:
        raise
    except nats.js.errors.APIError as error:
        raise Misconfigured(f"the broker refuses {what}: {error.description}") from None


async def _stream_config(js: JetStreamContext, name: str) -> StreamConfig | None:
    try:
        return (await js.stream_info(name)).config
    except nats.js.errors.NotFoundError:
        return None


async def _durable_config(js: JetStreamContext, stream: str, name: str) -> ConsumerConfig | None:
    try:
        return (await js.consumer_info(stream, name)).config
    except nats.js.errors.NotFoundError:
        return None
