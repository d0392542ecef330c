"""Acts on a data directory's servers from outside: watch, hold, stop, discard."""

import contextlib
import errno
import os
import shutil
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...domain.errors import Misconfigured, Unavailable
from .client import database_url_of
from .failure import Failure, explain_os_error
from .folder import DataFolder
from .locks import Lease
from .logs import lines_since
from .placement import CLUSTERS_FOLDER, recorded_cluster
from .postgres import SUPERUSER
from .secret_files import read_secret
from .state import ServerState, State, read_current, read_last

_POLL = 0.02
_SHOWN_LINES = 10


@dataclass(frozen=True)
class ServerStatus:
    """How the servers of a data directory fare. Holds no secret; ``as_dict`` is ready for JSON."""

    running: bool
    phase: str
    data_dir: str
    held: bool
    supervisor_pid: int | None
    started_at: str | None
    socket_dir: str | None
    cluster_dir: str
    broker_port: int | None
    postgres: ServerState
    broker: ServerState
    pgvector_version: str
    database_bytes: int | None
    broker_bytes: int | None
    last_error: str | None
    log_lines: list[str]

    @property
    def restarts(self) -> int:
        """How often a server had to be started again since the supervisor started."""
        return self.postgres.restarts + self.broker.restarts

    def as_dict(self) -> dict[str, Any]:
        """Every field, and the sum of restarts."""
        return {**asdict(self), "restarts": self.restarts}


def status(data_dir: Path | None = None) -> ServerStatus:
    """Look, without starting or changing anything. A directory that does not exist is one where nothing runs."""
    folder = DataFolder.at(data_dir)
    current = _current(folder)
    known = current or read_last(folder.state)
    failure = Failure.read(folder.failure)
    last_error = known.last_error if known else None
    cluster = recorded_cluster(folder)
    return ServerStatus(
        running=current is not None and current.phase == "running",
        phase=current.phase if current else "stopped",
        data_dir=str(folder.root),
        held=folder.hold.exists(),
        supervisor_pid=current.supervisor_pid if current else None,
        started_at=current.started_at if current else None,
        socket_dir=current.socket_dir if current else None,
        cluster_dir=str(cluster),
        broker_port=current.broker_port if current else None,
        postgres=_server(current, known, "postgres"),
        broker=_server(current, known, "broker"),
        pgvector_version=known.pgvector_version if known else "",
        database_bytes=_size(cluster),
        broker_bytes=_size(folder.broker_store),
        last_error=failure.message if failure and current is None else last_error,
        log_lines=_last_error_lines(folder),
    )


def hold(data_dir: Path | None = None) -> None:
    """Let the servers stay up without clients until ``stop``. Does not start them: ``join`` first, then hold."""
    folder = DataFolder.at(data_dir)
    folder.prepare()
    try:
        lease = Lease(folder.clients_lock, 60.0)  # the supervisor is not deciding to stop while we write
        try:
            folder.hold.touch(mode=0o600)
        finally:
            lease.release()
    except OSError as error:
        raise explain_os_error(error, folder.hold) from None


def are_up(data_dir: Path | None = None) -> bool:
    """Whether servers run there, or are about to, or are just ending."""
    return _current(DataFolder.at(data_dir)) is not None


def stop(data_dir: Path | None = None, timeout: float = 60.0) -> bool:
    """Stop the servers, also under clients that use them, and take back a ``hold``.

    Answers False when nothing ran. The clients' connections break; the next ``join`` starts the servers again.
    Raises Unavailable when they still run after ``timeout`` seconds, Misconfigured without the right to stop them.
    """
    folder = DataFolder.at(data_dir)
    if not folder.root.is_dir():
        return False
    try:
        folder.hold.unlink(missing_ok=True)
        state = _current(folder)
        if state is None:
            return False
        _ask_to_stop(folder, state)
    except OSError as error:
        raise explain_os_error(error, folder.root) from None
    deadline = time.monotonic() + timeout
    while (now := _current(folder)) is not None and now.instance == state.instance:
        if time.monotonic() > deadline:
            raise Unavailable(
                f"The servers of {folder.root} did not stop within {timeout:g} seconds "
                f"(supervisor: process {state.supervisor_pid}, see {folder.logs})."
            )
        time.sleep(_POLL)
    return True


def discard(data_dir: Path, timeout: float = 60.0) -> None:
    """Stop the servers and delete their data for good, wherever the database files lie.

    Only what the servers made is deleted; the data directory itself, too, if nothing else is in it.
    """
    stop(data_dir, timeout)
    folder = DataFolder.at(data_dir)
    outside = recorded_cluster(folder).parent
    try:
        if outside.parent == CLUSTERS_FOLDER and outside.exists():
            shutil.rmtree(outside)
        for path in folder.contents():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            folder.root.rmdir()
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:  # files of others stay, and the folder with them
            raise explain_os_error(error, Path(str(error.filename or folder.root))) from None


def superuser_url(data_dir: Path | None = None) -> str:
    """The database ``postgres`` as superuser, for administration and tests. Contains the password.

    Raises Unavailable when the servers do not run.
    """
    folder = DataFolder.at(data_dir)
    state = _current(folder)
    if state is None or not state.socket_dir:
        raise Unavailable(f"The servers of {folder.root} do not run. Start them with: lethelog up")
    password = read_secret(folder.secrets, "superuser")
    return database_url_of(state.socket_dir, SUPERUSER, password, "postgres")


def _current(folder: DataFolder) -> State | None:
    try:
        return read_current(folder.state)
    except OSError as error:
        raise explain_os_error(error, folder.state) from None


def _ask_to_stop(folder: DataFolder, state: State) -> None:
    try:
        command = Path(f"/proc/{state.supervisor_pid}/cmdline").read_bytes()
        is_elsewhere = bool(command) and b"embedded.supervisor" not in command  # empty: it is just ending
    except FileNotFoundError:
        is_elsewhere = True
    if is_elsewhere:
        now = _current(folder)
        if now is None or now.instance != state.instance:
            return  # it ended meanwhile
        raise Misconfigured(f"The servers of {folder.root} were started in another container. Stop them there.")
    try:
        os.kill(state.supervisor_pid, signal.SIGTERM)
    except ProcessLookupError:
        return  # it ended meanwhile
    except PermissionError:
        raise Misconfigured(
            f"The servers of {folder.root} run as another account. Stop them as that account or as root."
        ) from None


def _server(current: State | None, known: State | None, name: str) -> ServerState:
    if known is None:
        return ServerState()
    server = known.postgres if name == "postgres" else known.broker
    return server if current else ServerState(None, server.version, server.restarts)


def _size(folder: Path) -> int | None:
    """The bytes of all files, or None where the folder is missing or may not be read."""
    if not os.access(folder, os.R_OK | os.X_OK):
        return None
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # files come and go
                total += (Path(parent) / name).lstat().st_size
    return total


def _last_error_lines(folder: DataFolder) -> list[str]:
    telling = ("FATAL", "PANIC", "[FTL]", "[ERR]", "failed")
    lines = [
        f"{log.name}: {line}"
        for log in sorted(folder.logs.glob("*.log"))
        for line in lines_since(log, 0)
        if any(word in line for word in telling)
    ]
    return lines[-_SHOWN_LINES:]
