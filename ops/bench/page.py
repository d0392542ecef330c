"""What a reviewer's browser loads, and how soon it shows something."""

import asyncio
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from ...domain.errors import Misconfigured
from ..browsing import REVIEWER, browsing
from ..local import open_memory
from ..screenshots import something_to_see
from .bench import Bench
from .installation import installation, served, token_of
from .row import Row, Target

if TYPE_CHECKING:
    from playwright.async_api import Page

_PAINT_SECONDS = 10
_PAGES = {
    "queue": "/",
    "proposal": "/proposals/{proposal}",
    "memory": "/memories/{memory}",
    "dashboard": "/dashboard",
}
_LOADED = """async () => {
  const painted = () => performance.getEntriesByName("first-contentful-paint")[0];
  while (!painted()) await new Promise((again) => setTimeout(again, 20));
  const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  return {
    paint: painted().startTime,
    bytes: entries.reduce((sum, one) => sum + one.transferSize, 0),
  };
}"""


class _Load(NamedTuple):
    paint: float
    """Milliseconds from asking to the first content."""
    kilobytes: float


async def pages(bench: Bench) -> list[Row]:
    """Each page of the review desk, loaded again and again by a browser that has nothing in its cache.

    Without a browser there is nothing to measure, which is said.
    """
    times = bench.pick(11, 2)
    rows: list[Row] = []
    async with bench.servers.broker() as broker, installation(bench, broker) as settings:
        token = await token_of(settings, REVIEWER)
        async with served(settings) as url:
            bench.say("a pass over the demo's sample")
            async with await open_memory(settings, ()) as memory:
                found = await something_to_see(memory)
            try:
                async with browsing(url, token) as page:
                    for name, address in _PAGES.items():
                        bench.say(f"{times} loads of the {name} page")
                        loads = [await _load(page, url + address.format(**found)) for _ in range(times)]
                        rows += _rows(name, loads)
            except Misconfigured as error:
                bench.say(error.message)
    return rows


async def _load(page: "Page", address: str) -> _Load:
    """One load, in a context of its own: the same login, no cache."""
    browser = page.context.browser
    assert browser is not None
    state = await page.context.storage_state()
    async with await browser.new_context(storage_state=state) as context:
        fresh = await context.new_page()
        await fresh.goto(address)
        await fresh.wait_for_load_state("load")
        async with asyncio.timeout(_PAINT_SECONDS):
            seen = await fresh.evaluate(_LOADED)
    return _Load(float(seen["paint"]), float(seen["bytes"]) / 1e3)


def _rows(name: str, loads: list[_Load]) -> list[Row]:
    paints = [one.paint for one in loads]
    return [
        Row(
            name=f"page.{name}.paint",
            figure=median(paints),
            unit="ms",
            says=f"first contentful paint of the {name} page in headless Chromium, with nothing in its cache",
            target=Target("at most", 200, of="figure"),
            n=len(loads),
            spread=(min(paints), max(paints)),
        ),
        Row(
            name=f"page.{name}.weight",
            figure=max(one.kilobytes for one in loads),
            unit="kB",
            says=f"bytes of the {name} page with its styles, scripts and picture",
            target=Target("at most", 150, of="figure"),
            n=len(loads),
        ),
    ]
