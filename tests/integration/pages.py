"""What the tests of the page share: the server in this process, without a network, and somebody who is logged in."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.access.credentials import Credentials
from lethelog.handlers.access.tokens import Tokens
from lethelog.handlers.http.application import create_app
from lethelog.handlers.http.serving import Serving
from lethelog.handlers.http.settings import HttpSettings

from .passes import ToldJudge, pass_settings

ORIGIN = "http://localhost:8377"
REVIEWER = ("memory:read", "memory:write", "memory:review", "stream:read")


@dataclass
class Browser:
    """A client that keeps cookies and follows nothing by itself, and the secret of the last form it saw."""

    client: httpx2.AsyncClient
    origin: str
    csrf: str = ""

    async def get(self, address: str, **headers: str) -> httpx2.Response:
        return self._seen(await self.client.get(address, headers=headers))

    async def send(self, address: str, fields: dict[str, Any] | None = None, **headers: str) -> httpx2.Response:
        """Send a form as a browser does, with the secret."""
        said = {"origin": self.origin, "sec-fetch-site": "same-origin", **headers}
        return self._seen(
            await self.client.post(address, data={"csrf": self.csrf, **(fields or {})}, headers=said)
        )

    async def log_in(self, token: str) -> httpx2.Response:
        await self.get("/login")
        answer = await self.send("/login", {"token": token})
        if answer.status_code == 303:
            await self.get("/")
        return answer

    def _seen(self, answer: httpx2.Response) -> httpx2.Response:
        found = re.search(r'name="csrf" value="([^"]+)"', answer.text)
        self.csrf = found[1] if found else self.csrf
        return answer


async def token_for(world, caller: Caller | None = None, *, permissions=REVIEWER, **how: Any) -> str:
    issued = await Tokens(world.engine).issue(
        caller or world.caller, {"actor": "person:ada", "permissions": list(permissions), **how}
    )
    return issued.text


@asynccontextmanager
async def browsing(
    world, origin: str = ORIGIN, *, secure_cookies: bool = False, settings: HttpSettings | None = None
) -> AsyncGenerator[Browser]:
    """A browser before the page of a world."""
    served = Serving(world.engine, Credentials(world.engine), pass_settings(ToldJudge()))
    app = create_app(served, settings or HttpSettings(secure_cookies=secure_cookies))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=origin) as client:
        yield Browser(client, origin)
