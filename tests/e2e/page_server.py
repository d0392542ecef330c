"""A server with the page in this process, tenants that have something to review, and a real browser."""

import asyncio
import contextlib
import shutil
import socket
import threading
from collections.abc import Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest
from lethelog.domain import events as e
from lethelog.handlers.access.caller import TOKEN_PERMISSIONS, Caller
from lethelog.handlers.access.tokens import Tokens
from lethelog.handlers.http.application import create_app
from lethelog.handlers.http.running import server_of
from lethelog.handlers.http.serving import Serving
from lethelog.handlers.http.settings import HttpSettings
from lethelog.handlers.memory import AsyncMemory
from lethelog.handlers.operating.workers import ALL_ROLES
from lethelog.handlers.reviewing.staging import stage
from lethelog.handlers.tenancy.tenancy import Tenancy
from lethelog.ops.serving import serving
from lethelog.ops.settings import Settings
from lethelog.streams.payloads import Actor, Envelope
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from ..integration.review_desk import said_to_conflict

T = TypeVar("T")
PATIENCE = 30_000
"""Milliseconds that a condition is waited for before it is taken for failed; none is a wait by itself."""
expect.set_options(timeout=PATIENCE)
CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
REVIEWER = ("memory:read", "memory:write", "memory:review", "memory:erase", "stream:read")


class PageServer:
    """The server, on a loop of its own in a thread."""

    def __init__(self, data_dir: Path) -> None:
        self.url = ""
        self.serving: Serving
        self._data_dir = data_dir
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> "PageServer":
        self._thread.start()
        assert self._ready.wait(60) and self.url, "the server did not start"
        return self

    def __exit__(self, *error: object) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()

    def do(self, work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        """Do something where the server runs."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with serving(Settings.load(data_dir=self._data_dir), ALL_ROLES) as parts:
                self.serving = parts
                listening = socket.create_server(("127.0.0.1", 0))
                self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
                app = create_app(parts, HttpSettings(secure_cookies=False))
                self._server = server_of(app, self._ready.set, grace_seconds=2)
                await self._server.serve(sockets=[listening])
        finally:
            self._ready.set()


@dataclass
class Desk:
    """One tenant with somebody who reviews there."""

    server: PageServer
    tenant: UUID
    caller: Caller
    token: str = field(repr=False)
    memory: AsyncMemory
    """Of somebody else, who may do everything there."""

    @classmethod
    def opened(cls, server: PageServer) -> "Desk":
        return server.do(cls._opened(server))

    @classmethod
    async def _opened(cls, server: PageServer) -> "Desk":
        engine = server.serving.engine
        made = await Tenancy(engine).create(
            Caller(uuid4(), Actor("system", uuid4())), {"name": f"t-{uuid4().hex[:12]}"}
        )
        operator = Caller(made.id, Actor("person", await engine.directory.register(made.id, "actor", "ada")))
        tokens = Tokens(engine)
        shown = await tokens.issue(operator, {"actor": "person:ada", "permissions": list(REVIEWER)})
        everything = sorted(TOKEN_PERMISSIONS)
        other = await tokens.issue(operator, {"actor": "person:bo", "permissions": everything})
        return cls(server, made.id, operator, shown.text, server.serving.memory(other.text))

    def remember(self, content: str, **fields: Any) -> UUID:
        fields.setdefault("memory_type", "decision")
        return self.server.do(self.memory.remember(content, **fields)).memory.id

    def stage(self, said: e.Staged) -> UUID:
        """Put a proposal into the queue."""
        return self.server.do(self._staged(said))

    async def _staged(self, said: e.Staged) -> UUID:
        proposal = await self._stage(said)
        await self._seen()
        return proposal

    async def _stage(self, said: e.Staged) -> UUID:
        envelope = Envelope(self.caller.actor, cause=uuid4(), correlation=uuid4())
        return (await stage(self.server.serving.engine.log, self.tenant, said, envelope)).proposal

    async def _seen(self) -> None:
        """Wait until everybody sees all that was written."""
        head = await self.server.serving.engine.log.head()
        await self.memory.proposals(after=head)
        await self.memory.list(after=head)

    def edge(self, number: int = 1) -> tuple[UUID, UUID, UUID]:
        """Two memories, and the proposal that the newer one replaces the older: (older, newer, proposal)."""
        return self.edges(number)[0]

    def edges(self, *numbers: int) -> list[tuple[UUID, UUID, UUID]]:
        """The same for each of these numbers."""
        return self.server.do(self._edges(numbers))

    async def _edges(self, numbers: Sequence[int]) -> list[tuple[UUID, UUID, UUID]]:
        found: list[tuple[UUID, UUID, UUID]] = []
        for number in numbers:
            older, newer = [
                (await self.memory.remember(f"Decision {number}: {said}", memory_type="decision")).memory.id
                for said in ("sessions are kept in Redis.", "sessions are kept in PostgreSQL.")
            ]
            said = e.EdgeStaged(
                memory_id=newer,
                related_id=older,
                seen={newer: 1, older: 1},
                source=uuid4(),
                edge="supersedes",
                similarity=0.95,
                embedding_model="m/1",
                floor=0.92,
                rationale="Both say where sessions are kept.",
            )
            found.append((older, newer, await self._stage(said)))
        await self._seen()
        return found

    def contradiction(self) -> tuple[UUID, UUID, UUID]:
        """Two memories that cannot both hold, and the question which does."""
        return self.server.do(self._contradiction())

    async def _contradiction(self) -> tuple[UUID, UUID, UUID]:
        older, newer = [
            (await self.memory.remember(f"The office is in {town}.", memory_type="fact")).memory.id
            for town in ("Berlin", "Hamburg")
        ]
        verdict = await said_to_conflict(self.server.serving.engine.log, self.tenant, older, newer)
        await self._seen()
        await self.memory.accept(verdict)
        await self._seen()
        [found] = (await self.memory.contradictions()).contradictions
        assert found.review is not None
        return older, newer, found.review

    def judged(self) -> UUID:
        """A proposal of a pass, with a verdict and its probabilities."""
        self.server.do(self.memory.set_judgment(True))
        self.remember(
            "ADR-0005: sessions are kept in Redis.",
            topic="ADR-0005 Session store",
            project="shop",
            occurred_at="2026-01-01T00:00:00Z",
        )
        self.remember(
            "ADR-0009: sessions are kept in PostgreSQL. This decision supersedes ADR-0005.",
            topic="ADR-0009 Session store",
            project="shop",
        )
        self.server.do(self.memory.run_pass(wait_seconds=60))
        return self.server.do(self.memory.proposals(kind="retention")).proposals[0].id

    def get(self, memory: UUID) -> Any:
        return self.server.do(self.memory.get(memory))

    def proposal(self, one: UUID) -> Any:
        return self.server.do(self.memory.proposal(one)).proposal


@contextlib.contextmanager
def chromium() -> Generator[Browser]:
    """Debian's browser, without a window."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium here; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Seat:
    """A browser window of somebody, and what went wrong in it."""

    page: Page
    context: BrowserContext
    url: str
    complaints: list[str]

    def open(self, address: str) -> Page:
        self.page.goto(self.url + address)
        return self.page

    def log_in(self, token: str) -> Page:
        self.open("/login")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("heading", name="Review queue").wait_for()
        return self.page


@contextlib.contextmanager
def seated(browser: Browser, server: PageServer, **options: Any) -> Generator[Seat]:
    """A window with cookies of its own. Whatever the browser complains of fails the test."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    try:
        yield Seat(page, context, server.url, complaints)
    finally:
        context.close()
