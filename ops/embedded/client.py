"""Joining the servers: start them on demand or share those that run."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from ...domain.errors import Misconfigured, Unavailable
from .account import Account
from .failure import READY, Failure, account_name, explain_os_error
from .folder import DataFolder
from .locks import Lease, open_lock_file, try_lock
from .postgres import PORT
from .provision import DATABASE, LOGIN, OWNER, PROVISIONED
from .secret_files import read_secret
from .state import State, read_current

_POLL = 0.02
_HOPELESS_AFTER = 3
_TRIES = 5
_ANSWER_LIMIT = 2.0
_MODULE = f"{__package__}.supervisor"
_PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH",
    "VIRTUAL_ENV", "LETHELOG_POSTGRES_OS_USER",
)  # fmt: skip


def database_url_of(socket_dir: str, user: str, password: str, database: str) -> str:
    """A URL for ``psycopg`` and other users of libpq."""
    return f"postgresql://{user}:{password}@/{database}?host={quote(os.fsencode(socket_dir), safe='')}&port={PORT}"


class EmbeddedServers:
    """A client's hold on running servers. They stay up until every client has left."""

    def __init__(self, folder: DataFolder, lease: Lease, state: State) -> None:
        self._folder = folder
        self._lease = lease
        self._state = state
        self._owner = read_secret(folder.secrets, "owner")
        self._application = read_secret(folder.secrets, "application")
        self._token = read_secret(folder.secrets, "broker")

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self._folder.root

    @property
    def database_url(self) -> str:
        """The database ``lethelog`` as the application, over the private socket. Contains the password."""
        return database_url_of(self._now().socket_dir, LOGIN, self._application, DATABASE)

    @property
    def owner_url(self) -> str:
        """The database ``lethelog`` as its owner: for migrations only. Contains the password."""
        return database_url_of(self._now().socket_dir, OWNER, self._owner, DATABASE)

    @property
    def broker_url(self) -> str:
        """The NATS server. Contains the token. The port changes only if another program took it meanwhile."""
        return f"nats://{self._token}@127.0.0.1:{self._now().broker_port}"

    def leave(self) -> None:
        """Give up the hold; the second time does nothing."""
        self._lease.release()

    def __enter__(self) -> "EmbeddedServers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def __repr__(self) -> str:
        return f"EmbeddedServers({str(self.data_dir)!r})"

    def _now(self) -> State:
        state = read_current(self._folder.state)
        if state is not None and state.broker_port is not None and state.socket_dir:
            self._state = state
        return self._state


def join(data_dir: Path | None = None, *, timeout: float = 60.0, linger: float = 2.0) -> EmbeddedServers:
    """Start the servers of ``data_dir`` or share those that run; returns when both answer.

    Whoever starts them also says for how many seconds they outlive their last client (``linger``).
    Raises Misconfigured or Unavailable as soon as it is known that they cannot be had, and Unavailable after
    ``timeout`` seconds.
    """
    folder = DataFolder.at(data_dir)
    folder.prepare()
    deadline = time.monotonic() + timeout
    try:
        lease = Lease(folder.clients_lock, timeout)
        try:
            return EmbeddedServers(folder, lease, _await_running(folder, deadline, timeout, linger))
        except BaseException:
            lease.release()
            raise
    except OSError as error:
        raise explain_os_error(error, Path(str(error.filename or folder.root))) from None


def _await_running(folder: DataFolder, deadline: float, timeout: float, linger: float) -> State:
    seen = _failure_ident(folder)
    start: _Start | None = None
    tries = 0
    try:
        while True:
            state = read_current(folder.state)
            if state is not None and state.phase == "running":
                _check_version(folder, state)
                if _answer(state):
                    return state
            if state is not None and state.failures >= _HOPELESS_AFTER:
                raise Unavailable(f"The servers of {folder.root} do not come back: {state.last_error}")
            if start is not None:
                if not start.goes_on():
                    start.close()
                    start = None
                    tries += 1
            elif state is None:
                if _failure_ident(folder) != seen:
                    _raise_failure(folder)
                if tries >= _TRIES:
                    raise Unavailable(
                        f"The supervisor of the servers of {folder.root} ended {tries} times without a reason, as "
                        f"if killed (see {folder.logs})."
                    )
                start = _Start.begin(folder, linger)
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"The servers of {folder.root} did not answer within {timeout:g} seconds "
                    f"(see {folder.logs}).{_last_words(state)}"
                )
            time.sleep(_POLL)
    finally:
        if start is not None:
            start.close()


def _check_version(folder: DataFolder, state: State) -> None:
    """Refuse servers that lack what this version needs: another one started them, and they run on."""
    if state.provisioned != PROVISIONED:
        raise Misconfigured(
            f"The servers of {folder.root} were started by another version of Lethelog and still run. "
            "Run: lethelog down (or wait until their last client has left), and try again."
        )


def _answer(state: State) -> bool:
    """Whether both servers take a connection: their supervisor may not know yet that one has just died."""
    try:
        with socket.socket(socket.AF_UNIX) as database:
            database.settimeout(_ANSWER_LIMIT)
            database.connect(f"{state.socket_dir}/.s.PGSQL.{PORT}")
        with socket.create_connection(("127.0.0.1", state.broker_port or 0), timeout=_ANSWER_LIMIT):
            return True
    except OSError:
        return False


def _failure_ident(folder: DataFolder) -> str | None:
    failure = Failure.read(folder.failure)
    return failure.ident if failure else None


def _raise_failure(folder: DataFolder) -> None:
    failure = Failure.read(folder.failure)
    if failure is not None:
        raise failure.as_error()


def _last_words(state: State | None) -> str:
    return f" Last error: {state.last_error}" if state is not None and state.last_error else ""


class _Start:
    """One attempt to start a supervisor; only one client at a time makes one."""

    def __init__(self, lock: int, report: int) -> None:
        self._lock = lock
        self._report = report
        self._said = b""

    @classmethod
    def begin(cls, folder: DataFolder, linger: float) -> "_Start | None":
        """Start a supervisor, unless another client is at it. Raises Misconfigured or OSError."""
        lock = open_lock_file(folder.start_lock)
        if not try_lock(lock):
            os.close(lock)
            return None
        try:
            return cls(lock, _spawn_supervisor(folder, linger))
        except BaseException:
            os.close(lock)
            raise

    def goes_on(self) -> bool:
        """Whether there is still something to wait for. Raises the reason of a failed start."""
        try:
            while chunk := os.read(self._report, 65536):
                self._said += chunk
        except BlockingIOError:
            return True
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        failure = Failure.from_json(lines[-1]) if lines else None
        if failure is not None:
            raise failure.as_error()
        if lines and lines[-1] != READY:
            raise Unavailable(f"The supervisor of the embedded servers did not start: {lines[-1]}")
        return False  # it is ready, or there was another, or it was killed

    def close(self) -> None:
        """Let others try."""
        os.close(self._report)
        os.close(self._lock)


def _spawn_supervisor(folder: DataFolder, linger: float) -> int:
    """Start a supervisor and answer the stream on which it reports."""
    owner = _owner_of(folder)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    try:
        started = subprocess.Popen(
            # -P: no module of the caller's working directory may stand in for one of ours.
            [sys.executable, "-P", "-m", _MODULE, folder.root, "--linger", f"{linger:g}"],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=writer,
            start_new_session=True,
            user=owner.as_user if owner else None,
            group=owner.as_group if owner else None,
            extra_groups=owner.as_groups if owner else None,
        )
        started.wait()  # it forks at once and goes on by itself
    except OSError as error:
        os.close(reader)
        raise Misconfigured(
            f"The supervisor could not be started with {sys.executable}: {error.strerror}."
        ) from None
    finally:
        os.close(writer)
    return reader


def _environment() -> dict[str, str]:
    """What the long-lived supervisor needs; nothing else, since the caller's variables may be secrets."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith(("LC_", "PYTHON", "COVERAGE_"))
    }


def _owner_of(folder: DataFolder) -> Account | None:
    """Root works on another account's data directory as that account, whose files stay its own."""
    owner = folder.root.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        return None
    return Account(account_name(owner.st_uid), owner.st_uid, owner.st_gid)
