"""The review page as a person has it: in Chromium, logged in. Needs playwright, of the development environment."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..domain.errors import Misconfigured
from ..handlers.access.caller import Permission

if TYPE_CHECKING:
    from playwright.async_api import Page

REVIEWER: tuple[Permission, ...] = ("memory:read", "memory:write", "memory:review", "memory:erase", "stream:read")
"""What a token needs so that the page shows all it has."""
WIDTH, HEIGHT = 1100, 780
CHROMIUM = ("chromium", "chromium-browser")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")


@asynccontextmanager
async def browsing(url: str, token: str) -> AsyncGenerator["Page"]:
    """A browser's page at the queue, logged in. Raises `Misconfigured` where there is no browser."""
    try:
        from playwright.async_api import async_playwright
    except ModuleNotFoundError:
        raise Misconfigured("playwright is not installed; it comes with the development environment") from None
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        raise Misconfigured("there is no Chromium here; Debian's package is called chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=list(_FLAGS))
        page = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
        await page.goto(f"{url}/login")
        await page.get_by_label("Token").fill(token)
        await page.get_by_role("button", name="Log in").click()
        await page.get_by_role("heading", name="Review queue").wait_for()
        yield page
        await browser.close()
