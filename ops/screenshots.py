"""The pictures of the review page in the documentation, made from the demo's sample by a real browser.

``python -m lethelog.ops.screenshots docs/images`` makes them anew; it needs playwright (of the development
environment) and Chromium.
"""

import asyncio
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from ..handlers.memory import AsyncMemory
from ..handlers.operating.workers import ALL_ROLES
from .browsing import REVIEWER, browsing
from .demo.sample import load_sample
from .embedded import discard
from .local import open_memory
from .serving import serving
from .settings import Settings

PASS_SECONDS = 120


class Shot(NamedTuple):
    """One picture; the address may name the first proposal and its memory."""

    name: str
    address: str
    scheme: str


SHOTS = (
    Shot("review-queue", "/?kind=retention", "light"),
    Shot("review-proposal", "/proposals/{proposal}", "light"),
    Shot("review-memory", "/memories/{memory}", "light"),
    Shot("review-dashboard", "/dashboard", "dark"),
)


async def make(folder: Path) -> list[Path]:
    """Make all of them in a folder; answers their paths."""
    data = Path(tempfile.mkdtemp(prefix="lethelog-pictures-"))
    try:
        async with await open_memory(Settings.load(data_dir=data, actor="person:ada"), ()) as memory:
            # Whom the token names in the pictures.
            shown = await memory.tokens.issue("person:ada", permissions=REVIEWER)
            async with _served(data) as url:
                found = await something_to_see(memory)
                return await _photographed(folder, url, shown.text, found)
    finally:
        await asyncio.to_thread(discard, data)


async def something_to_see(memory: AsyncMemory) -> dict[str, str]:
    """Documents that replace each other, a pass over them, and a few decisions; ids of a proposal and a memory."""
    sample = load_sample()
    wanted = {key for pair in sample.claimed for key in pair}
    for one in [one for one in sample.worded if one.key in wanted][:80]:
        await memory.remember(
            one.content,
            topic=one.topic,
            memory_type=one.memory_type,
            occurred_at=one.occurred_at,
            project=one.project,
        )
    await memory.set_judgment(True)
    await memory.run_pass(wait_seconds=PASS_SECONDS)
    waiting = (await memory.proposals(status="proposed", kind="retention")).proposals
    for one in waiting[1:7]:
        await memory.accept(one.id, comment="as the newer document says")
    await memory.reject(waiting[7].id, comment="both are still in use")
    await memory.undo(proposal_id=waiting[6].id)
    return {"proposal": str(waiting[0].id), "memory": str(waiting[1].memory_id)}


@asynccontextmanager
async def _served(data: Path) -> AsyncGenerator[str]:
    from ..handlers.http.application import create_app
    from ..handlers.http.running import server_of
    from ..handlers.http.settings import HttpSettings

    async with serving(Settings.load(data_dir=data), ALL_ROLES) as parts:
        listening = socket.create_server(("127.0.0.1", 0))
        app = create_app(parts, HttpSettings(secure_cookies=False))
        server = server_of(app, lambda: None, grace_seconds=2)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        await running


async def _photographed(folder: Path, url: str, token: str, found: dict[str, str]) -> list[Path]:
    made: list[Path] = []
    async with browsing(url, token) as page:
        for shot in SHOTS:
            await page.emulate_media(color_scheme="dark" if shot.scheme == "dark" else "light")
            await page.goto(url + shot.address.format(**found))
            await page.wait_for_load_state("load")
            made.append(folder / f"{shot.name}.png")
            await page.screenshot(path=made[-1])
    return made


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    target.mkdir(parents=True, exist_ok=True)
    for picture in asyncio.run(make(target)):
        sys.stdout.write(f"{picture} {picture.stat().st_size} bytes\n")
