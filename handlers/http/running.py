"""How uvicorn runs the application: quietly, within bounds, and without handling signals itself."""

import contextlib
import logging
import socket
from collections.abc import Callable, Generator

import uvicorn
from starlette.types import ASGIApp

from .connections import Patient
from .settings import HttpSettings

GRACE_SECONDS = 20
"""For how long requests under way may go on once the server is told to end."""


class Server(uvicorn.Server):
    """A server that says when it listens, and leaves signals to whoever runs it."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._told = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._told()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        # Its own way raises the signal again at the end, before what was opened around it is closed.
        yield


def server_of(
    app: ASGIApp,
    started: Callable[[], None],
    bounds: HttpSettings | None = None,
    *,
    tls: tuple[str, str] | None = None,
    grace_seconds: int = GRACE_SECONDS,
) -> Server:
    """A server of the application; ``tls`` names the files of a certificate chain and its key."""
    bounds = bounds or HttpSettings()
    config = uvicorn.Config(
        app,
        # Not whichever is installed: what is bounded here is this one.
        http=Patient,
        # There is nothing to upgrade to, and what was upgraded would be bounded by nothing.
        ws="none",
        limit_concurrency=bounds.connections,
        proxy_headers=bool(bounds.proxies),
        forwarded_allow_ips=list(bounds.proxies),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=grace_seconds,
        ssl_certfile=None if tls is None else tls[0],
        ssl_keyfile=None if tls is None else tls[1],
    )
    # Its lines would hold addresses with their queries, in which names stand; who sets up logging may not know.
    logging.getLogger("uvicorn.access").disabled = True
    # A line for each request that is refused would let anybody fill the disk.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return Server(config, started)
