"""A real HTTP server that receives webhooks, and does with them what a test tells it to."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

HUGE = b"x" * 65_536


@dataclass(frozen=True)
class Received:
    """One request, whole."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Answers each request with the next of ``statuses``, and with the last of them for ever."""

    statuses: list[int] = field(default_factory=lambda: [204])
    headers: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    released: asyncio.Event | None = None
    """Where there is one, no answer is given before it is set."""
    endless: bool = False
    """Whether the answer's body never ends."""
    sent: int = 0
    """Bytes of endless bodies that were taken from it."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        return [one.headers["webhook-id"] for one in self.received]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in head[1:] if one)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.received.append(Received(head[0], headers, body))
            self.arrived.set()
            if self.released is not None:
                await self.released.wait()
            await self._answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        said = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        length = "" if self.endless else "Content-Length: 0\r\n"
        writer.write(f"HTTP/1.1 {status} X\r\n{length}{said}Connection: close\r\n\r\n".encode())
        while self.endless:
            writer.write(HUGE)
            await writer.drain()
            self.sent += len(HUGE)
        await writer.drain()


@asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None, **given) -> AsyncGenerator[Receiver]:
    """A receiver on a free port of this machine."""
    receiver = Receiver(scheme="http" if tls is None else "https", **given)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        if receiver.released is not None:
            receiver.released.set()
        server.close()
