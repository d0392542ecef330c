"""One server and one credential: requests by the table of routes, answers as views, problems as errors."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

import httpx2
from pydantic import BaseModel

from ...domain.errors import InvalidInput, LethelogError, Misconfigured, Unavailable
from ..command_keys import checked_key
from ..http import wire
from ..http.problems import error_of
from ..http.routes import BY_VERB, KEY_HEADER, POSITION_HEADER, PREFIX, Memories

ATTEMPTS = 3
"""Of a request that may be repeated: a read, or a write with a key."""
_PAUSES = (0.2, 1.0)
_EXAMPLE = "https://memory.example.org"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Wire:
    """Sends what verbs ask for."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float,
        transport: httpx2.AsyncBaseTransport | None,
        allow_plain_http: bool,
    ) -> None:
        base = httpx2.URL(url)
        if base.scheme not in ("http", "https") or not base.host:
            raise Misconfigured(f"the URL of the server must be like {_EXAMPLE}")
        if base.path.rstrip("/").endswith(PREFIX):
            raise Misconfigured(f"give the server's address without {PREFIX}, like {_EXAMPLE}")
        if base.scheme == "http" and base.host not in _LOOPBACK and not allow_plain_http:
            raise Misconfigured(
                f"{base.host} is another machine, and http would show it the token in clear; use https, or say "
                "allow_plain_http=True"
            )
        self.position = 0
        self._address = str(base.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")
        self._timeout = timeout
        self._http = httpx2.AsyncClient(
            base_url=str(base).rstrip("/") + PREFIX,
            headers={"Authorization": f"Bearer {token.strip()}", "Accept": "application/json"},
            timeout=timeout,
            transport=transport,
        )

    async def close(self) -> None:
        """Let the connections go."""
        await self._http.aclose()

    async def ask(self, verb: str, arguments: dict[str, Any]) -> Any:
        """The answer of a verb. Raises what the Python door raises."""
        route = BY_VERB[verb]
        key = arguments.pop("key", None)
        fields = {name: value for name, value in arguments.items() if name not in route.in_path}
        sent: dict[str, Any] = {}
        headers: dict[str, str] = {}
        if key is not None:
            headers[KEY_HEADER] = _header(key)
        if route.has_body:
            sent["content"] = wire.to_body(fields)
            headers["Content-Type"] = "application/json"
        elif fields:
            sent["params"] = _params(fields)
        waiting = max((_seconds(fields.get(name)) for name in ("wait_seconds", "seconds")), default=0.0)
        if waiting:
            sent["timeout"] = self._timeout + waiting
        again = route.method == "GET" or (route.keyed and key is not None)
        path = wire.path_with(route, arguments)
        response = await self._sent(route.method, path, headers, sent, ATTEMPTS if again else 1)
        self._note(response)
        found = _validated(route.answers, response.content)
        return found.memories if isinstance(found, Memories) else found

    @contextlib.asynccontextmanager
    async def streaming(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        *,
        silence_seconds: float | None = None,
        **sent: Any,
    ) -> AsyncGenerator[httpx2.Response]:
        """An answer that is read piece by piece, and waited for without end: an archive is made before it is sent.

        ``silence_seconds`` is how long nothing may come, where the server says now and then that it is there.
        """
        request = self._http.build_request(
            method, path, params=_params(params), headers=dict(headers or {}), **sent
        )
        request.extensions["timeout"] = {"connect": 10.0, "read": silence_seconds, "write": 60.0, "pool": 10.0}
        try:
            response = await self._http.send(request, stream=True)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from None
        try:
            if response.status_code >= 400:
                await response.aread()
                raise self._problem(response)
            self._note(response)
            yield response
        except httpx2.TransportError as error:
            raise self._unreachable(error) from None
        finally:
            await response.aclose()

    async def _sent(
        self, method: str, path: str, headers: Mapping[str, str], sent: Mapping[str, Any], attempts: int
    ) -> httpx2.Response:
        for pause in (*_PAUSES[: attempts - 1], None):
            try:
                response = await self._http.request(method, path, headers=dict(headers), **sent)
            except httpx2.TransportError as error:
                if pause is None:
                    raise self._unreachable(error) from None
            else:
                if response.status_code < 400:
                    return response
                problem = self._problem(response)
                # One that waited for a read model has waited long enough.
                if pause is None or type(problem) is not Unavailable:
                    raise problem
            await asyncio.sleep(pause)
        raise AssertionError

    def _note(self, response: httpx2.Response) -> None:
        position = response.headers.get(POSITION_HEADER, "")
        if position.isdigit():
            self.position = max(self.position, int(position))

    def _problem(self, response: httpx2.Response) -> LethelogError:
        try:
            document = response.json()
        except ValueError:
            document = None
        if isinstance(document, dict) and "code" in document:
            said = cast("dict[str, Any]", document)
            if said["code"] == "rate_limited":
                return Unavailable("more requests than the server allows at a time; try again in a moment")
            if said["code"] == "no_route":
                return Misconfigured(
                    f"no Lethelog server of this version stands at {self._address}; give the server's address "
                    f"without a path behind it, like {_EXAMPLE}"
                )
            return error_of(said)
        return Unavailable(f"{self._address} answers {response.status_code}, and not as a Lethelog server does")

    def _unreachable(self, error: httpx2.TransportError) -> Unavailable:
        return Unavailable(f"the server at {self._address} does not answer ({type(error).__name__})")


def _validated(model: type[BaseModel], content: bytes) -> Any:
    try:
        return model.model_validate_json(content)
    except ValueError:
        raise Unavailable(
            "the server answers what this version does not understand; are both of one version?"
        ) from None


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _params(arguments: Mapping[str, Any]) -> list[tuple[str, str | int | float | bool | None]]:
    try:
        return [*wire.to_query(arguments)]
    except TypeError:
        raise InvalidInput("input", "must hold text, numbers, ids and instants") from None


def _header(given: object) -> str:
    key = checked_key(given)
    if key is None or not key.isascii() or not key.isprintable():
        raise InvalidInput("key", "must be printable ASCII text, since it travels in a header")
    return key
