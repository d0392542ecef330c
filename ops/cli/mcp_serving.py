"""Running the MCP door: over stdin and stdout for one client, or over HTTP for many."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from mcp.server.stdio import stdio_server

from ...handlers.mcp.doors import OpenedOnce
from ...handlers.mcp.provenance import SessionRuns
from ...handlers.mcp.server import make_server
from .background import runs_everything
from .signals import ENDING, until_stopped

if TYPE_CHECKING:
    from ...handlers.http.settings import HttpSettings
    from ...handlers.memory import AsyncMemory
    from ...handlers.operating.workers import Role
    from ..settings import Settings
_LOG = logging.getLogger(__name__)


async def serve_stdio(settings: "Settings") -> None:
    """Serve one client until it closes stdin, or a signal ends the process.

    The client is answered before anything is opened: servers start and read models load meanwhile.
    """
    runs = SessionRuns() if settings.mcp_sessions else None
    doors = OpenedOnce(partial(_opened, settings))
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, signals.put_nowait, number)
    talking = asyncio.create_task(_talk(doors, runs))
    told = asyncio.create_task(signals.get())
    await asyncio.wait({talking, told}, return_when=asyncio.FIRST_COMPLETED)
    memory = doors.opened
    if memory is not None and runs is not None:
        await runs.close(memory)
    await doors.close()
    if not talking.done():
        # A thread waits for the next line and cannot be woken, so the process ends as the signal says.
        signal.signal(told.result(), signal.SIG_DFL)
        os.kill(os.getpid(), told.result())
    told.cancel()
    await talking


async def serve_http(settings: "Settings", listening: socket.socket, ready: Callable[[str], None]) -> None:
    """Serve everybody who shows a token, until a signal. ``ready`` is told the address."""
    await until_stopped(_served(settings, listening, settings.http(), ready))


async def _served(
    settings: "Settings", listening: socket.socket, bounds: "HttpSettings", ready: Callable[[str], None]
) -> None:
    from ...handlers.http.places import Places
    from ...handlers.mcp.http import McpEndpoint, create_app
    from ..serving import serving
    from .http_server import serve_until_stopped

    async with serving(settings, _roles(settings)) as parts:
        endpoint = McpEndpoint(
            parts, Places(bounds), sessions=settings.mcp_sessions, protected=settings.mcp_protected()
        )
        async with endpoint.running():
            await serve_until_stopped(create_app(endpoint, bounds), listening, bounds, ready)


async def _talk(doors: OpenedOnce, runs: SessionRuns | None) -> None:
    server = make_server(doors, runs, answered=doors.begin)
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    except* BrokenPipeError:
        _LOG.info("the client has left without a word")


async def _opened(settings: "Settings") -> "AsyncMemory":
    # In a thread: loading takes a second, in which the client is being answered.
    await asyncio.to_thread(_load)
    from ..local import open_memory

    return await open_memory(settings, _roles(settings))


def _load() -> None:
    from ...streams import consumers as consumers
    from .. import local as local


def _roles(settings: "Settings") -> "Collection[Role]":
    """Everything, unless a background worker does it all."""
    from ...handlers.operating.workers import ALL_ROLES

    return () if runs_everything(settings) else ALL_ROLES
