"""Whether the extractor can be reached, without a text and without a charge."""

import asyncio

import httpx2

from .settings import ExtractorSettings

SECONDS = 3.0


async def trouble_reaching(settings: ExtractorSettings) -> str | None:
    """What stands in the way of asking it, or None: its list of models is asked for, as far as the first line.

    A server that has no such list was reached all the same.
    """
    url = settings.base_url.rstrip("/") + "/models"
    try:
        async with (
            asyncio.timeout(SECONDS),
            httpx2.AsyncClient(headers=settings.headers, timeout=None, trust_env=not settings.is_local) as client,
            client.stream("GET", url) as reply,
        ):
            status = reply.status_code
    except (TimeoutError, httpx2.RequestError, httpx2.StreamError, httpx2.InvalidURL) as problem:
        return f"cannot be reached ({type(problem).__name__})"
    if status in (401, 403):
        return f"refuses the key (status {status})"
    return f"answers with status {status}" if status >= 500 else None
