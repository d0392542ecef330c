"""An archive as a file: JSON lines, compressed where its name ends with ``.gz`` (docs/reference/archive.md).

Header, events, end. The end tells the number of events and the digest of their lines, so that a file that was cut
short or changed is recognised before anything of it is used.
"""

import gzip
import hashlib
import json
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...domain.errors import InvalidInput, Misconfigured
from ...domain.fields import Instant
from ...streams.payloads import ActorKind
from .recognising import pointer
from .said_elsewhere import as_object

FORMAT = 1
LINE_LIMIT = 16 * 2**20
"""Characters of a line; the longest text that may be imported is far shorter."""
_GZIP = b"\x1f\x8b"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Header(_Part):
    """What the first line says. Nothing behind it depends on where and when the archive was written."""

    lethelog: Literal["archive"] = "archive"
    format: int
    archive: UUID
    product: str
    """Version of Lethelog that wrote it."""
    tenant: UUID
    """Opaque id of the tenant it was written from."""
    position: int
    """It holds what was on record up to here."""
    written_at: Instant
    content: bool
    """False for a skeleton: neither personal text nor names."""
    filter: dict[str, Any] | None = None
    """What narrowed it, by outside names; None for the whole tenant."""


class ArchivedActor(_Part):
    """Who did it: by the name, or by the opaque id where there is no name, or no more."""

    kind: ActorKind
    name: str | None = None
    id: UUID | None = None


class ArchivedEvent(_Part):
    """A line: one event in clear."""

    stream: UUID | Literal["tenant"]
    """The memory, proposal, pass, verdict or fact; the tenant's own settings go by that word."""
    version: int = Field(ge=1)
    event: str
    schema_: int = Field(alias="schema", ge=1)
    id: UUID
    position: int = Field(ge=1)
    """Where it stands in the log that it happened in."""
    recorded_at: Instant
    actor: ArchivedActor
    cause: UUID
    correlation: UUID
    policy: int | None = None
    judge: str | None = None
    session: UUID | None = None
    """The session run it was made in."""
    data: dict[str, Any]

    def as_line(self) -> dict[str, Any]:
        """For JSON; what is empty is left out, but for what stands in ``data``."""
        said: dict[str, Any] = {
            "stream": str(self.stream),
            "version": self.version,
            "event": self.event,
            "schema": self.schema_,
            "id": str(self.id),
            "position": self.position,
            "recorded_at": self.recorded_at.isoformat(),
            "actor": self.actor.model_dump(mode="json", exclude_none=True),
            "cause": str(self.cause),
            "correlation": str(self.correlation),
            "policy": self.policy,
            "judge": self.judge,
            "session": None if self.session is None else str(self.session),
        }
        return {**{name: value for name, value in said.items() if value is not None}, "data": self.data}


class _End(_Part):
    events: int
    memories: int
    sha256: str


class ArchiveWriter:
    """Writes an archive beside its name, and gives it the name once it is whole. Readable by its owner only."""

    def __init__(self, path: Path, header: Header, *, overwrite: bool) -> None:
        """Raises `InvalidInput` where the file exists already, `Misconfigured` where it cannot be written."""
        if path.exists() and not overwrite:
            raise InvalidInput("file", "exists already", "Choose another, or overwrite it")
        self._path = path
        self._draft = path.with_name(f"{path.name}.partial")
        self._body = hashlib.sha256()
        self.events = 0
        self.memories = 0
        with _writable(path):
            self._raw = os.fdopen(os.open(self._draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b")
        compressed = path.suffix == ".gz"
        self._out: IO[bytes] = (
            gzip.GzipFile("", "wb", fileobj=self._raw, mtime=0) if compressed else self._raw  # pyright: ignore
        )
        self._line(header.model_dump(mode="json"))

    def write(self, events: Iterable[ArchivedEvent]) -> None:
        """Add events."""
        with _writable(self._path):
            for event in events:
                line = _json(event.as_line())
                self._out.write(line)
                self._body.update(line)
                self.events += 1
                self.memories += event.event == "memory.remembered"

    def finish(self) -> str:
        """Write the end, durably; gives the SHA-256 of the file."""
        with _writable(self._path):
            end = _End(events=self.events, memories=self.memories, sha256=self._body.hexdigest())
            self._line({"end": end.model_dump(mode="json")})
            if self._out is not self._raw:
                self._out.close()
            self._raw.flush()
            os.fsync(self._raw.fileno())
            self._raw.seek(0)
            return hashlib.file_digest(self._raw, "sha256").hexdigest()

    def publish(self) -> None:
        """Give the file its name."""
        self._raw.close()
        with _writable(self._path):
            self._draft.replace(self._path)

    def discard(self) -> None:
        """Leave nothing behind of what was not published."""
        self._raw.close()
        self._draft.unlink(missing_ok=True)

    def _line(self, said: dict[str, Any]) -> None:
        with _writable(self._path):
            self._out.write(_json(said))


class ArchiveReader:
    """Reads an archive, line by line. ``check`` tells whether it is whole; do that before using anything of it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self, report: Any = None) -> tuple[Header, str, int]:
        """(header, SHA-256 of the file, number of events). Raises `InvalidInput` saying what is wrong."""
        header = self.header()
        events = sum(1 for _ in self.events())
        with _readable(self._path), self._path.open("rb") as file:
            return header, hashlib.file_digest(file, "sha256").hexdigest(), events

    def header(self) -> Header:
        """The first line. Raises `InvalidInput`."""
        with self._open() as lines:
            said = _json_object(next(lines, b""))
        if said is None or said.get("lethelog") != "archive":
            fix = pointer(self._path) or "For a file of another system, name its format: mem0, mcp-memory"
            raise InvalidInput("file", "is no archive of Lethelog", fix)
        if said.get("format") != FORMAT:
            raise InvalidInput(
                "file", f"is an archive of format {str(said.get('format'))[:20]}, and this version reads {FORMAT}"
            )
        return _model(Header, said, 1)

    def events(self) -> Generator[ArchivedEvent]:
        """The events, in order. Raises `InvalidInput` at the line that is wrong, or where the end does not fit."""
        body, number, memories = hashlib.sha256(), 0, 0
        with self._open() as lines:
            next(lines, b"")
            for line in lines:
                said = _parsed(line, number + 2)
                if "end" in said:
                    end = _model(_End, said["end"], number + 2)
                    if next(lines, b"") or (end.events, end.memories, end.sha256) != (
                        number,
                        memories,
                        body.hexdigest(),
                    ):
                        raise InvalidInput("file", "was changed: its digest does not fit what it holds")
                    return
                body.update(line)
                event = _model(ArchivedEvent, said, number + 2)
                number += 1
                memories += event.event == "memory.remembered"
                yield event
        raise InvalidInput("file", f"ends after {number} events without its end", "It was cut short")

    @contextmanager
    def _open(self) -> "Generator[Generator[bytes]]":
        with _readable(self._path), self._path.open("rb") as raw:
            compressed = raw.read(2) == _GZIP
            raw.seek(0)
            with gzip.open(raw) if compressed else raw as file:
                yield _lines(file)


def _lines(file: IO[bytes] | gzip.GzipFile) -> Generator[bytes]:
    while line := file.readline(LINE_LIMIT + 1):
        if len(line) > LINE_LIMIT:
            raise InvalidInput("file", f"has a line of more than {LINE_LIMIT} bytes")
        yield line


def _parsed(line: bytes, number: int) -> dict[str, Any]:
    said = _json_object(line)
    if said is None:
        raise InvalidInput("file", f"line {number} is no JSON object")
    return said


def _json_object(line: bytes) -> dict[str, Any] | None:
    try:
        return as_object(json.loads(line))
    except (ValueError, RecursionError):
        return None


M = TypeVar("M", bound=BaseModel)
_PROBLEMS = {"missing": "is missing", "extra_forbidden": "is a field that this version does not know"}


def _model(model: type[M], said: Any, number: int) -> M:
    try:
        return model.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        problem = _PROBLEMS.get(first["type"], "is not what belongs there")
        raise InvalidInput("file", f"line {number}, {where} {problem}", "See docs/reference/archive.md") from None


def _json(said: dict[str, Any]) -> bytes:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


@contextmanager
def _writable(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise Misconfigured(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def _readable(path: Path) -> Generator[None]:
    try:
        yield
    except (gzip.BadGzipFile, EOFError):
        raise InvalidInput("file", "is compressed, and damaged or cut short") from None
    except OSError as error:
        raise InvalidInput("file", f"cannot be read: {error.strerror}") from None
