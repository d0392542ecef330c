"""What the tests of the MCP door share: the official client, joined to the server in this process or over HTTP."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from lethelog.handlers.access.credentials import Credentials
from lethelog.handlers.http.places import Places
from lethelog.handlers.http.running import server_of
from lethelog.handlers.http.serving import Serving
from lethelog.handlers.http.settings import HttpSettings
from lethelog.handlers.mcp.catalogue import BY_NAME
from lethelog.handlers.mcp.http import McpEndpoint, create_app
from lethelog.handlers.mcp.provenance import SessionRuns
from lethelog.handlers.mcp.server import make_server
from lethelog.handlers.memory import AsyncMemory
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Implementation

from .passes import ToldJudge, pass_settings

UNBOUNDED = HttpSettings(requests_per_second=0)


@dataclass
class Fixed:
    """Every request is about this memory."""

    door: Any

    async def of(self, request: object) -> Any:
        return self.door


@dataclass
class Talk:
    """A client, with the answers looked into."""

    client: Client

    async def answer(self, tool: str, **arguments: Any) -> CallToolResult:
        return await self.client.call_tool(tool, arguments)

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """The structured answer, which is no error, and which the text tells of too."""
        answered = await self.answer(tool, **arguments)
        assert not answered.is_error, answered.structured_content
        assert json.loads(json.dumps(answered.structured_content)) == answered.structured_content
        assert answered.content[0].text
        return answered.structured_content

    async def refused(self, tool: str, **arguments: Any) -> Any:
        """The structured error, whose code the text begins with."""
        answered = await self.answer(tool, **arguments)
        assert answered.is_error, answered.structured_content
        assert answered.content[0].text.startswith(f"{answered.structured_content['code']}: ")
        assert tool in BY_NAME
        return answered.structured_content


def door_of(world, caller=None) -> AsyncMemory:
    return AsyncMemory(world.engine, caller or world.caller, pass_settings(ToldJudge()))


@asynccontextmanager
async def talking(
    door: Any, *, runs: SessionRuns | None = None, mode: str = "legacy", name: str = "a client"
) -> AsyncGenerator[Talk]:
    """A client of a server in this process, whose first read sees all that was written before."""
    if isinstance(door, AsyncMemory):
        door.position = await door.engine.log.head()
    info = Implementation(name=name, version="1")
    async with Client(make_server(Fixed(door), runs), mode=mode, client_info=info) as client:
        yield Talk(client)


@asynccontextmanager
async def serving(
    world, credentials: Any = None, *, bounds: HttpSettings = UNBOUNDED, **options: Any
) -> AsyncGenerator[str]:
    """The endpoint on a server of its own; gives its URL."""
    parts = Serving(world.engine, credentials or Credentials(world.engine), pass_settings(ToldJudge()))
    endpoint = McpEndpoint(parts, Places(bounds), **options)
    listening = socket.create_server(("127.0.0.1", 0))
    server = server_of(create_app(endpoint, bounds), lambda: None, bounds, grace_seconds=1)
    async with endpoint.running():
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await running


@asynccontextmanager
async def calling(
    url: str, token: str, *, mode: str = "legacy", name: str = "a client", **shown: str
) -> AsyncGenerator[Talk]:
    """A client over HTTP that shows a token, and further headers."""
    headers = {"Authorization": f"Bearer {token}", **shown}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode=mode,
            client_info=Implementation(name=name, version="1"),
        ) as client,
    ):
        yield Talk(client)
