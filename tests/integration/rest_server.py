"""A real server over a test's engine, and the tokens to call it with."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from lethelog.handlers.access.caller import TOKEN_PERMISSIONS, Caller, Permission
from lethelog.handlers.access.credentials import Credentials
from lethelog.handlers.access.tokens import Tokens
from lethelog.handlers.client.client import AsyncClient
from lethelog.handlers.http.application import create_app
from lethelog.handlers.http.places import Places
from lethelog.handlers.http.routes import PREFIX
from lethelog.handlers.http.running import Server, server_of
from lethelog.handlers.http.serving import Serving
from lethelog.handlers.http.settings import HttpSettings

from .passes import ToldJudge, pass_settings

UNBOUNDED = HttpSettings(requests_per_second=0)


@dataclass
class Served:
    """A world, served."""

    world: Any
    url: str
    server: Server
    places: Places
    _tokens: dict[object, str] = field(default_factory=dict[object, str])

    async def token(
        self, permissions: Collection[Permission] = TOKEN_PERMISSIONS, *, caller: Caller | None = None
    ) -> str:
        """A token of the world's tenant, or of another caller's."""
        whose = caller or self.world.caller
        key = (whose.tenant, frozenset(permissions))
        if key not in self._tokens:
            issued = await Tokens(self.world.engine).issue(
                whose, {"actor": "person:tested", "permissions": sorted(permissions)}
            )
            self._tokens[key] = issued.text
        return self._tokens[key]

    @asynccontextmanager
    async def client(
        self, permissions: Collection[Permission] = TOKEN_PERMISSIONS, *, caller: Caller | None = None
    ) -> AsyncGenerator[AsyncClient]:
        async with AsyncClient(self.url, await self.token(permissions, caller=caller)) as client:
            yield client

    @asynccontextmanager
    async def plain(
        self, permissions: Collection[Permission] = TOKEN_PERMISSIONS, *, caller: Caller | None = None
    ) -> AsyncGenerator[httpx2.AsyncClient]:
        """Requests by hand."""
        headers = {"Authorization": f"Bearer {await self.token(permissions, caller=caller)}"}
        async with httpx2.AsyncClient(base_url=self.url + PREFIX, headers=headers, timeout=30) as http:
            yield http


@asynccontextmanager
async def serving_world(world: Any, settings: HttpSettings = UNBOUNDED) -> AsyncGenerator[Served]:
    """A server of this world on a free port."""
    parts = Serving(world.engine, Credentials(world.engine), pass_settings(ToldJudge()))
    listening = socket.create_server(("127.0.0.1", 0))
    started = asyncio.Event()
    places = Places(settings)
    server = server_of(create_app(parts, settings, places), started.set, settings, grace_seconds=5)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    await asyncio.wait_for(started.wait(), 20)
    try:
        yield Served(world, f"http://127.0.0.1:{listening.getsockname()[1]}", server, places)
    finally:
        server.should_exit = True
        await running
        listening.close()
