"""mcp: the memory for agents, over stdin and stdout."""

import asyncio
import importlib.util
from typing import TYPE_CHECKING

import typer

from ...domain.errors import Misconfigured
from .options import add
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
        panel=_PANEL,
    )


def mcp(
    context: typer.Context,
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
    asyncio.run(mcp_serving.serve_stdio(_acting(session.settings)))


def _acting(settings: "Settings") -> "Settings":
    if settings.credential() is not None or "actor" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"actor": ACTOR})
