"""serve: REST, MCP and the review page, on an address of one's own."""

import asyncio
import contextlib
import importlib.util
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.errors import InvalidInput, Misconfigured
from .options import add
from .output import safe
from .session import Json, Session
from .signals import ENDING, until_stopped

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from ...handlers.http.settings import HttpSettings
    from ...handlers.operating.workers import Role
    from ..settings import Settings

_PANEL = "Run"
DEFAULT_PORT = 8377
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Let other machines in without TLS: whoever listens on the way reads tokens and memories, and can "
        "act with them. For a network that is nobody else's, such as that of containers.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    add(
        app,
        serve,
        "lethelog serve",
        "lethelog serve --host 0.0.0.0 --port 8377 --certificate server.pem --certificate-key server.key",
        "lethelog serve --host 0.0.0.0 --behind-tls   # in a container, behind a proxy that has a certificate",
        "lethelog serve --roles none   # where `lethelog worker` runs elsewhere",
        panel=_PANEL,
    )


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = DEFAULT_PORT,
    roles: Annotated[
        str,
        typer.Option("--roles", metavar="ROLES", help="Background roles to run beside it; or all, none."),
    ] = "all",
    certificate: Annotated[
        str | None, typer.Option("--certificate", metavar="FILE", help="TLS certificate chain, in PEM.")
    ] = None,
    certificate_key: Annotated[
        str | None, typer.Option("--certificate-key", metavar="FILE", help="Its private key.")
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(
            "--rate",
            metavar="N",
            min=0,
            help="Requests per second of one credential, 200 by default; 0 for no bound of any rate.",
        ),
    ] = None,
    behind_tls: Annotated[
        bool,
        typer.Option(
            "--behind-tls",
            help="A proxy before it ends TLS: the page's cookie is for TLS only, and the addresses that a proxy "
            "on this machine names are believed.",
        ),
    ] = False,
    insecure: Insecure = False,
    json_only: Json = False,
) -> None:
    """Serve REST, MCP, the review page and events over HTTP until SIGTERM or Ctrl-C.

    Callers show tokens (`lethelog token issue person:ada`). Requests under way are finished before it ends. Beyond
    this machine, give it a certificate, or put it behind a proxy that has one (--behind-tls).
    """
    session = Session.of(context, json_only)
    if (certificate is None) != (certificate_key is None):
        raise InvalidInput("certificate", "goes together with certificate_key", "Give both, or none")
    from . import serving as background_serving

    chosen: frozenset[Role] = frozenset() if roles == "none" else background_serving.roles_of(roles)
    background_serving.log_to_stderr()
    _check_installed()

    def ready(url: str) -> None:
        if session.json_only:
            session.printer.document({"url": url, "roles": sorted(chosen)})
        else:
            session.printer.out.print(
                safe(f"serving {url} (the review page; REST under /api/v1, MCP at /mcp); stop with Ctrl-C")
            )

    tls = None if certificate is None or certificate_key is None else (certificate, certificate_key)
    if tls is not None:
        _check_certificate(*tls)
    with contextlib.closing(listen(host, port)) as listening:
        if tls is None and not behind_tls and not insecure:
            refuse_in_clear(listening, "give --certificate and --certificate-key")
        bounds = session.settings.http(
            rate=rate,
            behind_tls=behind_tls,
            secure_cookies=behind_tls or tls is not None,
        )
        asyncio.run(until_stopped(_serve(session.settings, chosen, listening, bounds, ready, tls=tls)))
    session.printer.note("stopped")


def _check_certificate(certificate: str, key: str) -> None:
    """Read both before anything is opened."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        why = error.strerror or getattr(error, "reason", None) or "they are not in PEM"
        raise Misconfigured(f"the certificate or its key cannot be used: {why}") from None


def _check_installed() -> None:
    try:
        import fastapi  # noqa: F401  # pyright: ignore[reportUnusedImport] - only whether it is there
        import uvicorn  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise Misconfigured("the server is not installed; run: pip install 'lethelog[server]'") from None


def listen(host: str, port: int) -> socket.socket:
    """The socket, bound before anything is opened, so that a port that is taken is told at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise Misconfigured(f"cannot listen on {host} port {port}: {error.strerror}; choose another one") from None
    return listening


async def _serve(
    settings: "Settings",
    roles: "frozenset[Role]",
    listening: socket.socket,
    bounds: "HttpSettings",
    ready: Callable[[str], None],
    *,
    tls: tuple[str, str] | None,
) -> None:
    from ...handlers.http.application import create_app
    from ...handlers.http.places import Places
    from ..serving import serving

    async with contextlib.AsyncExitStack() as stack:
        parts = await stack.enter_async_context(serving(settings, roles))
        places = Places(bounds)
        app = create_app(parts, bounds, places)
        if importlib.util.find_spec("mcp") is not None:
            # Imported here: it takes a while to load, and is an extra of its own.
            from ...handlers.mcp.http import McpEndpoint

            endpoint = McpEndpoint(
                parts, places, sessions=settings.mcp_sessions, protected=settings.mcp_protected()
            )
            app.router.routes.extend(endpoint.routes)
            await stack.enter_async_context(endpoint.running())
        await serve_until_stopped(app, listening, bounds, ready, tls=tls)


async def serve_until_stopped(
    app: "ASGIApp",
    listening: socket.socket,
    bounds: "HttpSettings",
    ready: Callable[[str], None],
    *,
    tls: tuple[str, str] | None = None,
) -> None:
    """Serve an application until a signal, then finish what is under way. ``ready`` is told the address."""
    from ...handlers.http.running import server_of

    server = server_of(app, lambda: ready(_url(listening, tls=tls is not None)), bounds, tls=tls)
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, server.handle_exit, number, None)
    await server.serve(sockets=[listening])


def refuse_in_clear(listening: socket.socket, instead: str) -> None:
    """Raises `Misconfigured` for a socket that other machines reach: tokens would travel in clear."""
    address = ipaddress.ip_address(listening.getsockname()[0])
    if not address.is_loopback:
        raise Misconfigured(
            f"{address} is reached by other machines, and without TLS each token travels in clear; {instead}, or "
            "say --behind-tls where a proxy before it ends TLS, or --insecure where nobody else can listen, such "
            "as in a container whose port is published on this machine alone"
        )


def _url(listening: socket.socket, *, tls: bool) -> str:
    address, port = listening.getsockname()[:2]
    host = f"[{address}]" if ":" in address else address
    return f"{'https' if tls else 'http'}://{host}:{port}"
