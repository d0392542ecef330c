"""What runs in a data directory, published by its supervisor.

The file is locked by its writer before it appears under its name, so its content is current exactly while that
lock is held: a file left by a killed supervisor or by the time before a reboot is recognised without pids.
"""

import contextlib
import errno
import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from .locks import try_lock

Phase = Literal["starting", "running", "recovering", "stopping"]


@dataclass(frozen=True)
class ServerState:
    """One server process."""

    pid: int | None = None
    version: str = ""
    restarts: int = 0


@dataclass(frozen=True)
class State:
    """Everything a client needs in order to use, watch or stop the servers. Holds no secret."""

    instance: str
    phase: Phase
    supervisor_pid: int
    started_at: str
    socket_dir: str = ""
    cluster_dir: str = ""
    broker_port: int | None = None
    pgvector_version: str = ""
    postgres: ServerState = field(default_factory=ServerState)
    broker: ServerState = field(default_factory=ServerState)
    failures: int = 0
    last_error: str | None = None
    provisioned: str = ""
    """What the cluster has got (`provision.PROVISIONED`); empty where an earlier version started the servers."""


def _decode(content: bytes) -> State | None:
    try:
        data: dict[str, Any] = json.loads(content)
        known = {name: data[name] for name in State.__dataclass_fields__ if name in data}
        for name in ("postgres", "broker"):
            if name in known:
                known[name] = ServerState(**known[name])
        return State(**known)
    except (ValueError, TypeError):
        return None


def read_current(path: Path) -> State | None:
    """The state of a living supervisor, or None."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if not try_lock(descriptor, shared=True):
                return _decode(_content(descriptor))
            if _is_still(path, descriptor):
                return None
        finally:
            os.close(descriptor)
        # Replaced by a newer one while we looked: look again.


def read_last(path: Path) -> State | None:
    """The state last published, whether or not its supervisor still lives."""
    try:
        return _decode(path.read_bytes())
    except OSError:
        return None


def _content(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


class StateFile:
    """The supervisor's side: publishes states and holds the lock of the newest."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._published: State | None = None

    def withdraw(self) -> None:
        """Let nothing be read any more."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def publish(self, state: State) -> None:
        """Put ``state`` in place of the last one, in one step. Raises OSError and leaves the last one then."""
        if state == self._published:
            return
        draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try_lock(descriptor)
            content = json.dumps(asdict(state), indent=1).encode()
            if os.write(descriptor, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            draft.replace(self._path)
        except BaseException:
            os.close(descriptor)
            draft.unlink(missing_ok=True)
            raise
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = descriptor
        self._published = state
