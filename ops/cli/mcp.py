"""mcp: the memory for agents, over stdin and stdout or HTTP."""

import asyncio
import contextlib
import importlib.util
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.errors import InvalidInput, Misconfigured
from .http_server import Insecure, listen, refuse_in_clear
from .options import add
from .output import safe
from .session import Json, Session

if TYPE_CHECKING:
    from ..settings import Settings

_PANEL = "Run"
ACTOR = "agent:mcp"
"""Who acts where nobody is named: whatever asks over this door is a program."""


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    add(
        app,
        mcp,
        "lethelog mcp",
        "lethelog --actor agent:claude mcp",
        "lethelog mcp --http 127.0.0.1:8765",
        panel=_PANEL,
    )


def mcp(
    context: typer.Context,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve streamable HTTP at /mcp instead, as `lethelog serve` does; every request shows a token.",
        ),
    ] = None,
    behind_tls: Annotated[
        bool, typer.Option("--behind-tls", help="With --http: a proxy before it ends TLS.")
    ] = False,
    insecure: Insecure = False,
    json_only: Json = False,
) -> None:
    """Serve the memory to agents by the Model Context Protocol, on stdin and stdout.

    This is the command to put into a client's configuration. Servers and background work start with it where
    nobody runs them yet. Without an actor or a token it acts as agent:mcp.
    """
    session = Session.of(context, json_only)
    if importlib.util.find_spec("mcp") is None:
        raise Misconfigured("The MCP door needs the official SDK. Install it: pip install 'lethelog[mcp]'")
    from . import mcp_serving, serving

    serving.log_to_stderr()
    if http is None:
        asyncio.run(mcp_serving.serve_stdio(_acting(session.settings)))
        return

    def ready(address: str) -> None:
        if session.json_only:
            session.printer.document({"url": f"{address}/mcp"})
        else:
            session.printer.out.print(safe(f"serving {address}/mcp; stop with Ctrl-C"))

    with contextlib.closing(listen(*_address(http))) as listening:
        if not behind_tls and not insecure:
            refuse_in_clear(listening, "use lethelog serve with a certificate")
        asyncio.run(mcp_serving.serve_http(session.settings, listening, ready))
    session.printer.note("stopped")


def _acting(settings: "Settings") -> "Settings":
    if settings.credential() is not None or "actor" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"actor": ACTOR})


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port[:6]) > 65_535:
        raise InvalidInput("http", "must be HOST:PORT, such as 127.0.0.1:8765 or [::1]:8765")
    return host, int(port)
