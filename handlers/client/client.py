"""`AsyncClient` and `Client`: a memory that another process serves (``lethelog serve``)."""

import asyncio
import contextlib
import functools
import gzip
import hashlib
import inspect
import json
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from io import BufferedWriter
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, cast

import httpx2
from pydantic import ValidationError

from ...domain.errors import AccessDenied, InvalidInput, Unavailable
from ...projections.rebuild import Report, silent
from ..archive.exporting import ArchiveWritten
from ..archive.foreign import ForeignFormat, ForeignResult
from ..archive.importing import ImportResult
from ..arguments import AnyInstant, ArchiveFields, TailFields, path_of
from ..blocking import BlockingMemory
from ..http.problems import error_of
from ..http.routes import ARCHIVE_HEADER, BY_VERB, ON_THE_MACHINE, POSITION_HEADER
from ..memory import AsyncMemory
from ..operating.views import EventView, MemoryView
from ..sessions.doors import AsyncSessions
from ..tenancy.doors import AsyncTokens
from ..webhooks.doors import AsyncWebhooks
from .wire import Wire

P = ParamSpec("P")
R = TypeVar("R")
_NOT_SENT = ("self", "report")
_RECONNECT_SECONDS = 1.0
_SILENCE_SECONDS = 60.0
"""The server pings every fifteen seconds."""


def verb(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], group: str = ""
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """The same method, answered by the server: same arguments, same answer, same errors."""
    name = f"{group}{method.__name__}"
    route, taken = BY_VERB[name], inspect.signature(method)

    @functools.wraps(method)
    async def over_the_wire(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        wire: Wire = self.wire
        arguments = _arguments(taken, args, kwargs)
        if (
            "after" in route.fields
            and arguments.get("known_at") is None
            and _is_position(arguments.get("after", 0))
        ):
            # Every read includes this client's own writes.
            arguments["after"] = max(wire.position, arguments.get("after", 0))
        return await wire.ask(name, arguments)

    return over_the_wire


class _Group:
    def __init__(self, wire: Wire) -> None:
        self.wire = wire


class _Sessions(_Group):
    open = verb(AsyncSessions.open, "sessions.")
    resume = verb(AsyncSessions.resume, "sessions.")
    heartbeat = verb(AsyncSessions.heartbeat, "sessions.")
    close = verb(AsyncSessions.close, "sessions.")
    show = verb(AsyncSessions.show, "sessions.")
    list = verb(AsyncSessions.list, "sessions.")


class _Tokens(_Group):
    issue = verb(AsyncTokens.issue, "tokens.")
    list = verb(AsyncTokens.list, "tokens.")
    show = verb(AsyncTokens.show, "tokens.")
    rotate = verb(AsyncTokens.rotate, "tokens.")
    revoke = verb(AsyncTokens.revoke, "tokens.")


class _Webhooks(_Group):
    add = verb(AsyncWebhooks.add, "webhooks.")
    list = verb(AsyncWebhooks.list, "webhooks.")
    show = verb(AsyncWebhooks.show, "webhooks.")
    change = verb(AsyncWebhooks.change, "webhooks.")
    enable = verb(AsyncWebhooks.enable, "webhooks.")
    rotate = verb(AsyncWebhooks.rotate, "webhooks.")
    remove = verb(AsyncWebhooks.remove, "webhooks.")
    test = verb(AsyncWebhooks.test, "webhooks.")
    deliveries = verb(AsyncWebhooks.deliveries, "webhooks.")
    replay = verb(AsyncWebhooks.replay, "webhooks.")
    replay_delivery = verb(AsyncWebhooks.replay_delivery, "webhooks.")


class _OfInstallation:
    """Verbs that no server offers; each says so when it is called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AccessDenied(f"{name} {ON_THE_MACHINE}; use the command line on the server's machine")


class AsyncClient:
    """Long-term memory of one tenant, served by another process. Close it, or use ``async with``.

    The methods are those of `AsyncMemory`; what belongs to an installation and not to a tenant raises
    `AccessDenied`. Reads include this client's own writes.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30.0,
        transport: httpx2.AsyncBaseTransport | None = None,
        allow_plain_http: bool = False,
    ) -> None:
        """``token`` is a token of Lethelog or a JWT. Raises `Misconfigured` for a URL that is none."""
        self.wire = Wire(url, token, timeout=timeout, transport=transport, allow_plain_http=allow_plain_http)
        self.sessions = _Sessions(self.wire)
        self.tokens = _Tokens(self.wire)
        self.webhooks = _Webhooks(self.wire)
        self.tenants = _OfInstallation()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(AsyncMemory, name):
            return getattr(_OfInstallation(), name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    async def close(self) -> None:
        """Let the connections go."""
        await self.wire.close()

    @property
    def position(self) -> int:
        """Log position that reads wait for: this client's newest write."""
        return self.wire.position

    whoami = verb(AsyncMemory.whoami)
    remember = verb(AsyncMemory.remember)
    remember_many = verb(AsyncMemory.remember_many)
    import_memory = verb(AsyncMemory.import_memory)
    revise = verb(AsyncMemory.revise)
    move = verb(AsyncMemory.move)
    reaffirm = verb(AsyncMemory.reaffirm)
    archive = verb(AsyncMemory.archive)
    archive_many = verb(AsyncMemory.archive_many)
    restore = verb(AsyncMemory.restore)
    refute = verb(AsyncMemory.refute)
    release = verb(AsyncMemory.release)
    pin = verb(AsyncMemory.pin)
    verify = verb(AsyncMemory.verify)
    resolve = verb(AsyncMemory.resolve)
    search = verb(AsyncMemory.search)
    get = verb(AsyncMemory.get)
    get_many = verb(AsyncMemory.get_many)
    list = verb(AsyncMemory.list)
    history = verb(AsyncMemory.history)
    get_facts = verb(AsyncMemory.get_facts)
    commitments = verb(AsyncMemory.commitments)
    contradictions = verb(AsyncMemory.contradictions)
    briefing = verb(AsyncMemory.briefing)
    handoff = verb(AsyncMemory.handoff)
    scopes = verb(AsyncMemory.scopes)
    create_scope = verb(AsyncMemory.create_scope)
    set_retrieval_scope = verb(AsyncMemory.set_retrieval_scope)
    proposals = verb(AsyncMemory.proposals)
    proposal = verb(AsyncMemory.proposal)
    accept = verb(AsyncMemory.accept)
    reject = verb(AsyncMemory.reject)
    preview_decisions = verb(AsyncMemory.preview_decisions)
    decide_many = verb(AsyncMemory.decide_many)
    review_digest = verb(AsyncMemory.review_digest)
    review_stats = verb(AsyncMemory.review_stats)
    what_if = verb(AsyncMemory.what_if)
    explain = verb(AsyncMemory.explain)
    preview_undo = verb(AsyncMemory.preview_undo)
    undo = verb(AsyncMemory.undo)
    show_undo = verb(AsyncMemory.show_undo)
    resume_undo = verb(AsyncMemory.resume_undo)
    run_pass = verb(AsyncMemory.run_pass)
    show_pass = verb(AsyncMemory.show_pass)
    wait_for_pass = verb(AsyncMemory.wait_for_pass)
    extract_facts = verb(AsyncMemory.extract_facts)
    consolidate = verb(AsyncMemory.consolidate)
    consolidation = verb(AsyncMemory.consolidation)
    settings = verb(AsyncMemory.settings)
    set_judgment = verb(AsyncMemory.set_judgment)
    set_policy = verb(AsyncMemory.set_policy)
    policy_report = verb(AsyncMemory.policy_report)
    preview_erasure = verb(AsyncMemory.preview_erasure)
    erase = verb(AsyncMemory.erase)
    retry_erasure = verb(AsyncMemory.retry_erasure)
    erasure = verb(AsyncMemory.erasure)
    erasures = verb(AsyncMemory.erasures)
    check_certificate = verb(AsyncMemory.check_certificate)
    erasure_key = verb(AsyncMemory.erasure_key)
    events = verb(AsyncMemory.events)

    async def rehearse_erasure(self, step: Callable[[str], None] = lambda _what: None) -> Any:
        """See `AsyncMemory.rehearse_erasure`; its steps are not told over the wire."""
        return await self.wire.ask("rehearse_erasure", {})

    async def tail(self, **query: Unpack[TailFields]) -> AsyncGenerator[EventView]:
        """See `AsyncMemory.tail`; a stream that breaks off is taken up behind the last event."""
        params, last = _sent_fields(dict(query)), None
        while True:
            headers = {"Accept": "text/event-stream", **({} if last is None else {"Last-Event-ID": last})}
            try:
                async with self.wire.streaming(
                    "GET", "/events/stream", params, headers, silence_seconds=_SILENCE_SECONDS
                ) as response:
                    last = last or response.headers.get(POSITION_HEADER)
                    async for event_id, data in _messages(response):
                        event = EventView.model_validate_json(data)
                        last = event_id
                        yield event
            except Unavailable:
                if last is None:
                    raise
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def replay(self, to: AnyInstant | int, *, report: Report = silent) -> AsyncGenerator[MemoryView]:
        """See `AsyncMemory.replay`."""
        async with self.wire.streaming("GET", "/replay", {"to": to}) as response:
            whole = False
            async for line in response.aiter_lines():
                found = json.loads(line)
                if "problem" in found:
                    raise error_of(found["problem"])
                if "id" not in found:
                    whole = True
                    continue
                yield MemoryView.model_validate(found)
        if not whole:
            raise Unavailable("the answer broke off before its end; try again")

    async def export_archive(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        report: Report = silent,
        **chosen: Unpack[ArchiveFields],
    ) -> ArchiveWritten:
        """See `AsyncMemory.export_archive`; the file is written, and compressed, on this machine."""
        file = path_of(path)
        if file.exists() and not overwrite:
            raise InvalidInput("path", "names a file that exists", "Choose another, or overwrite it")
        partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
        try:
            async with self.wire.streaming("GET", "/archive", _sent_fields(dict(chosen))) as response:
                said, seen = response.headers.get(ARCHIVE_HEADER, ""), hashlib.sha256()
                with _private(partial, compressed=file.suffix == ".gz") as out:
                    async for chunk in response.aiter_bytes():
                        seen.update(chunk)
                        await asyncio.to_thread(out.write, chunk)
            written = ArchiveWritten.model_validate_json(said)
            if seen.hexdigest() != written.sha256:
                raise Unavailable("the archive did not arrive as it was sent; try again")
            digest = await asyncio.to_thread(_digest, partial)
            partial.replace(file)
        except ValidationError:
            raise Unavailable("the archive broke off before its end; try again") from None
        finally:
            partial.unlink(missing_ok=True)
        return written.model_copy(update={"file": str(file), "sha256": digest})

    async def import_archive(
        self, path: str | Path, *, dry_run: bool = False, report: Report = silent
    ) -> ImportResult:
        """See `AsyncMemory.import_archive`; the file is of this machine."""
        return ImportResult.model_validate_json(await self._uploaded("/archive", path, dry_run))

    async def import_foreign(
        self, source: ForeignFormat, path: str | Path, *, dry_run: bool = False, report: Report = silent
    ) -> ForeignResult:
        """See `AsyncMemory.import_foreign`; the file is of this machine."""
        return ForeignResult.model_validate_json(await self._uploaded(f"/archive/{source}", path, dry_run))

    async def _uploaded(self, where: str, path: str | Path, dry_run: bool) -> bytes:
        file = path_of(path)
        if not file.is_file():
            raise InvalidInput("path", "names no file")
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(file.stat().st_size)}
        sent = self.wire.streaming("POST", where, {"dry_run": dry_run}, headers, content=_chunks(file))
        async with sent as response:
            return await response.aread()


class Client(BlockingMemory):
    """The same for programs without asyncio: the methods of `Memory`, answered by a server.

    >>> with Client("https://memory.example.org", token) as memory:                         # doctest: +SKIP
    ...     memory.remember("Deploys go to Hetzner", memory_type="decision")
    """

    def __init__(self, url: str, token: str, *, timeout: float = 30.0, allow_plain_http: bool = False) -> None:
        async def opened() -> AsyncMemory:
            client = AsyncClient(url, token, timeout=timeout, allow_plain_http=allow_plain_http)
            # It has the methods of the memory; what a network cannot offer raises when it is called.
            return cast(AsyncMemory, client)

        super().__init__(opened)


def _arguments(taken: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = taken.bind(None, *args, **kwargs).arguments
    found: dict[str, Any] = {}
    for name, value in bound.items():
        if taken.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        elif name not in _NOT_SENT:
            found[name] = value
    return _sent_fields(found)


def _sent_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """None stands for a field that is left out, as everywhere."""
    return {name: value for name, value in fields.items() if value is not None}


def _is_position(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


async def _messages(response: httpx2.Response) -> AsyncGenerator[tuple[str, str]]:
    event_id, data = "", list[str]()
    async for line in response.aiter_lines():
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield event_id, "\n".join(data)
            data = []
        elif name == "id":
            event_id = value
        elif name == "data":
            data.append(value)


@contextlib.contextmanager
def _private(path: Path, *, compressed: bool) -> Generator[BufferedWriter | gzip.GzipFile]:
    """A new file that its owner alone may read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        if not compressed:
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            yield packed


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def _chunks(file: Path) -> AsyncGenerator[bytes]:
    with file.open("rb") as source:
        while chunk := await asyncio.to_thread(source.read, 1 << 20):
            yield chunk
