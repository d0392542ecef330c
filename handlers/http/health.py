"""How the server does: alive, ready, which version, and figures for Prometheus without tenants or ids."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ...domain.errors import LethelogError
from ...projections.progress import Progress, read_progress
from .routes import methods_of
from .serving import Serving

READY_SECONDS = 5.0
"""How long the database may take to answer before the server is not ready."""
LEFT_SECONDS = 10.0
"""How old an event may be that no worker applies: as long as a read waits for its own write."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Figures:
    """What is counted of requests, and where the read models are when somebody asks."""

    def __init__(self, streams: Callable[[], int]) -> None:
        """``streams`` says how many streams and archives are under way."""
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "lethelog_http_requests", "Requests.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "lethelog_http_request_seconds",
            "How long requests took.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        open_now = Gauge(
            "lethelog_http_streams", "Streams and archives that are under way.", registry=self.registry
        )
        open_now.set_function(streams)
        self._head = Gauge("lethelog_log_position", "The newest position of the log.", registry=self.registry)
        self._lag = Gauge(
            "lethelog_read_model_lag_events",
            "Events of the log that a read model has not seen.",
            ["read_model"],
            registry=self.registry,
        )
        self._lag_seconds = Gauge(
            "lethelog_read_model_lag_seconds", "Age of the oldest of them.", ["read_model"], registry=self.registry
        )
        self._parked = Gauge(
            "lethelog_read_model_parked_events",
            "Events that a read model set aside.",
            ["read_model"],
            registry=self.registry,
        )
        self._stalled = Gauge(
            "lethelog_read_model_stalled", "1 where an event fails.", ["read_model"], registry=self.registry
        )

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request; ``route`` is a template, never an address."""
        # Whatever a client calls a method would stay for ever.
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def set_progress(self, head: int, found: list[Progress]) -> None:
        """Where the log and the read models are."""
        self._head.set(head)
        for one in found:
            self._lag.labels(one.name).set(one.lag)
            self._lag_seconds.labels(one.name).set(one.lag_seconds)
            self._parked.labels(one.name).set(one.parked)
            self._stalled.labels(one.name).set(one.stalled_at is not None)


def add_health(app: FastAPI, serving: Serving, figures: Figures) -> None:
    """The addresses that say how it does; they need no credential and tell nothing of any tenant."""

    async def healthz(_request: Request) -> Response:
        return _json({"status": "alive"})

    async def readyz(_request: Request) -> Response:
        try:
            found = await asyncio.wait_for(progress(serving), READY_SECONDS)
        except (LethelogError, TimeoutError):
            return _json({"status": "not ready", "database": "does not answer"}, 503)
        standing = {one.name: one.standing for one in found}
        ready = not any(_in_the_way(one) for one in found)
        return _json({"status": "ready" if ready else "not ready", "read_models": standing}, 200 if ready else 503)

    async def said_version(_request: Request) -> Response:
        return _json({"version": version("lethelog"), "api": "v1"})

    async def metrics(_request: Request) -> Response:
        try:
            head = await asyncio.wait_for(serving.engine.log.head(), READY_SECONDS)
            figures.set_progress(head, await asyncio.wait_for(progress(serving), READY_SECONDS))
        except (LethelogError, TimeoutError):
            return Response(status_code=503)
        return Response(generate_latest(figures.registry), media_type=CONTENT_TYPE_LATEST)

    for path, answer in (
        ("/healthz", healthz),
        ("/readyz", readyz),
        ("/version", said_version),
        ("/metrics", metrics),
    ):
        _add(app, path, answer)


def _in_the_way(one: Progress) -> bool:
    """Whether reads of a read model fail or do not get to what was written."""
    # A worker that ends is followed by another within seconds.
    left = one.standing == "no worker" and one.lag_seconds > LEFT_SECONDS
    return left or one.standing in ("never built", "stalled")


async def progress(serving: Serving) -> list[Progress]:
    """Where each read model is."""
    async with serving.engine.database.connection() as connection:
        return [await read_progress(connection, one.name) for one in serving.engine.projections]


def _add(app: FastAPI, path: str, answer: Callable[[Request], Awaitable[Response]]) -> None:
    app.add_api_route(path, answer, methods=methods_of("GET"), include_in_schema=False)


def _json(document: object, status: int = 200) -> Response:
    return Response(json.dumps(document), media_type="application/json", status_code=status)
