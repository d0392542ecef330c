"""One request to a webhook's URL: to an address that was looked at, in time, keeping nothing of the answer.

What goes wrong becomes a word. The client's own errors carry the URL, so none of them is logged or raised on.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx2

from ..judges.transport import retry_after
from .addresses import AddressRefused, Resolve, pin, resolve
from .settings import WebhookSettings

USER_AGENT = "lethelog-webhooks/1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request."""

    outcome: str
    """Status code, or a word."""
    retry_after: float | None = None
    """Seconds that the receiver asks to wait."""

    @property
    def succeeded(self) -> bool:
        return self.outcome.startswith("2")

    @property
    def gone(self) -> bool:
        """The receiver says that there is none any more."""
        return self.outcome == "410"


class Sender:
    """Posts to webhooks. Belongs to the event loop that opens it."""

    def __init__(
        self,
        settings: WebhookSettings,
        *,
        resolve: Resolve = resolve,
        tls: ssl.SSLContext | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``resolve``, ``tls`` and ``now`` are the outside world, given so that tests can stand in for it."""
        self._settings = settings
        self._resolve = resolve
        self._now = now
        # No redirect is followed: it would lead past the look at the address. No proxy of the environment: it
        # would look the name up anew. No connection is kept: one to an address serves the host it was made for.
        self._client = httpx2.AsyncClient(
            headers={"User-Agent": USER_AGENT, "Content-Type": "application/json", "Accept-Encoding": "identity"},
            timeout=None,
            follow_redirects=False,
            trust_env=False,
            verify=tls if tls is not None else True,
            limits=httpx2.Limits(max_keepalive_connections=0),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a body; never raises for what the other side does."""
        try:
            async with asyncio.timeout(self._settings.timeout):
                return await self._post(url, headers, body)
        except (TimeoutError, httpx2.TimeoutException):
            return Answer("timeout")
        except AddressRefused:
            return Answer("address_refused")
        except httpx2.ConnectError as problem:
            return Answer("tls" if _is_tls(problem) else "connection")
        except httpx2.RemoteProtocolError:
            return Answer("protocol")
        except (httpx2.RequestError, httpx2.StreamError):
            return Answer("connection")
        except (httpx2.InvalidURL, ValueError):
            return Answer("url")
        except OSError:
            return Answer("host_not_found")

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        given = httpx2.URL(url)
        port = given.port or (443 if given.scheme == "https" else 80)
        if given.scheme == "http" and not self._settings.allow_private:
            raise AddressRefused("this installation sends to https only")
        address = await pin(given.host, port, self._resolve, allow_private=self._settings.allow_private)
        request = self._client.build_request(
            "POST",
            given.copy_with(host=address),
            headers={**headers, "Host": given.netloc.decode("ascii")},
            content=body,
            # The certificate must be the host's, to whichever of its addresses the request goes.
            extensions={"sni_hostname": given.host},
        )
        response = await self._client.send(request, stream=True)
        try:
            # The body is not read: however long it is, nobody here wants it.
            return Answer(str(response.status_code), retry_after(response.headers, self._now()))
        finally:
            await response.aclose()


def _is_tls(problem: BaseException) -> bool:
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
