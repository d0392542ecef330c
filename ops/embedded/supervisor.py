"""The one process per data directory that runs the servers: ``python -m lethelog.ops.embedded.supervisor DATA``.

It detaches from whoever started it, holds an exclusive lock, keeps both servers running, and stops them when asked
(SIGTERM) or when no client has held a lease for a while.
"""

import argparse
import contextlib
import os
import selectors
import signal
import sys
import time
import traceback
import uuid
from datetime import UTC, datetime
from pathlib import Path

from ...domain.errors import LethelogError
from .binaries import PostgresPrograms, find_nats_server, find_postgres
from .broker import NatsServer
from .child import KeptRunning, stop_all
from .failure import Failure, explain_os_error
from .folder import DataFolder
from .locks import open_lock_file, try_lock, unlock
from .logs import bound_log, open_log, stamped
from .placement import Placement, place
from .postgres import PostgresServer
from .provision import provision
from .state import Phase, ServerState, State, StateFile

READY = "ready"
"""What the supervisor writes to the stream it was given for errors, once the servers answer."""

_WATCHING_PAUSE = 0.25
_STARTING_PAUSE = 0.015
_LOG_CHECK_EVERY = 60.0


class Supervisor:
    """Runs the servers of one data directory. Exists only while the exclusive lock is held."""

    def __init__(self, folder: DataFolder, linger: float, supervisor_lock: int) -> None:
        self._folder = folder
        self._linger = linger
        self._lock = supervisor_lock
        self._clients = open_lock_file(folder.clients_lock)
        self._state_file = StateFile(folder.state)
        self._instance = uuid.uuid4().hex
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._phase: Phase = "starting"
        self._placement: Placement | None = None
        self._programs: PostgresPrograms | None = None
        self._broker: NatsServer | None = None
        self._children: list[KeptRunning] = []
        self._last_held = time.monotonic()
        self._logs_checked = 0.0
        self.stop_requested = False

    def start(self) -> None:
        """Return when both servers answer and the database is set up, or a stop was asked for.

        Raises the reason when they cannot be started.
        """
        folder = self._folder
        self._publish()
        nats_server = find_nats_server()
        self._placement = place(folder)
        self._programs = find_postgres(self._placement.account)
        postgres = PostgresServer(folder, self._placement, self._programs)
        self._broker = NatsServer(folder, nats_server)
        self._children = [KeptRunning(self._broker)]
        self._children[0].tick()  # it starts while the database files are made
        postgres.prepare_files()
        self._children.append(KeptRunning(postgres))
        while not self.stop_requested and not all(child.phase == "up" for child in self._children):
            for child in self._children:
                child.tick()
                if child.failures and not child.has_been_up and child.last_error is not None:
                    raise child.last_error
            time.sleep(_STARTING_PAUSE)
        if not self.stop_requested:
            provision(folder.secrets, self._placement)
            self._phase = "running"
            self._publish()

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Keep the servers running until they are to stop."""
        while not self.stop_requested:
            for child in self._children:
                child.tick()
            healthy = all(child.phase == "up" for child in self._children)
            self._phase = "running" if healthy else "recovering"
            self._try_to_publish()
            if self._is_unused() or self._is_orphaned():
                break
            self._bound_logs()
            for key, _ in selector.select(_WATCHING_PAUSE if healthy else _STARTING_PAUSE):
                os.read(key.fd, 512)

    def stop(self) -> None:
        """Stop the servers."""
        self._phase = "stopping"
        self._try_to_publish()
        stop_all(self._children)

    def _is_unused(self) -> bool:
        """Whether to stop for lack of use. If so, clients that come from now on read that we are stopping."""
        now = time.monotonic()
        if not try_lock(self._clients):
            self._last_held = now
            return False
        try:
            if now - self._last_held < self._linger or self._folder.hold.exists():
                return False
            # Still under the lock: whoever gets a lease after this reads the new state.
            self._phase = "stopping"
            self._try_to_publish()
            return True
        finally:
            unlock(self._clients)

    def _is_orphaned(self) -> bool:
        """Whether the data directory was deleted or replaced under us."""
        try:
            return not os.path.samestat(self._folder.supervisor_lock.stat(), os.fstat(self._lock))
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def _bound_logs(self) -> None:
        now = time.monotonic()
        if now - self._logs_checked > _LOG_CHECK_EVERY:
            self._logs_checked = now
            for log in self._folder.logs.glob("*.log"):
                bound_log(log)

    def _try_to_publish(self) -> None:
        try:
            self._publish()
        except OSError as error:
            say(f"the state could not be published: {error.strerror}")

    def _publish(self) -> None:
        errors = [child.last_error for child in self._children if child.last_error is not None]
        versions = {
            "postgres": self._programs.version if self._programs else "",
            "nats-server": self._broker.version if self._broker else "",
        }
        servers = {
            child.program.name: ServerState(child.pid, versions[child.program.name], child.restarts)
            for child in self._children
        }
        self._state_file.publish(
            State(
                instance=self._instance,
                phase=self._phase,
                supervisor_pid=os.getpid(),
                started_at=self._started_at,
                socket_dir=str(self._placement.sockets) if self._placement else "",
                cluster_dir=str(self._placement.cluster) if self._placement else "",
                broker_port=self._broker.port if self._broker else None,
                pgvector_version=self._programs.pgvector_version if self._programs else "",
                postgres=servers.get("postgres", ServerState()),
                broker=servers.get("nats-server", ServerState()),
                failures=max((child.failures for child in self._children), default=0),
                last_error=errors[-1].message if errors else None,
            )
        )


def say(text: str) -> None:
    """Write a line to the supervisor's log, which is its error stream; a full disk is no reason to fail."""
    with contextlib.suppress(OSError):
        print(stamped(text), file=sys.stderr, flush=True)


def _detach() -> None:
    """Stop being the child of whoever started us, so that no zombie is left to them."""
    if os.fork() != 0:
        os._exit(0)
    os.umask(0o077)
    os.chdir("/")


def _log_to(folder: DataFolder) -> None:
    folder.logs.mkdir(mode=0o700, exist_ok=True)
    path = folder.logs / "supervisor.log"
    bound_log(path)
    log = open_log(path)
    os.dup2(log, 2)
    os.close(log)


def _acquire(path: Path, patience: float) -> int | None:
    lock = open_lock_file(path)
    deadline = time.monotonic() + patience
    while not try_lock(lock):
        if time.monotonic() > deadline:
            os.close(lock)
            return None
        time.sleep(0.02)
    return lock


def _listen_for_signals() -> tuple[selectors.BaseSelector, list[Supervisor]]:
    """A selector that wakes when a child ends or a stop is asked for, and the list to put the supervisor into."""
    told: list[Supervisor] = []
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def request_stop(*_: object) -> None:
        for supervisor in told:
            supervisor.stop_requested = True

    signal.signal(signal.SIGTERM, request_stop)
    signal.signal(signal.SIGINT, request_stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    selector.register(reader, selectors.EVENT_READ)
    return selector, told


def _supervise(folder: DataFolder, linger: float, report: int) -> int:
    supervisor: Supervisor | None = None
    try:
        lock = _acquire(folder.supervisor_lock, patience=5.0)
        if lock is None:
            return 0  # another one is there, which is just as well
        _log_to(folder)
        for draft in folder.root.glob(".*.json.*"):
            draft.unlink(missing_ok=True)
        selector, told = _listen_for_signals()
        supervisor = Supervisor(folder, linger, lock)
        told.append(supervisor)
        say(f"starting in {folder.root}")
        supervisor.start()
        folder.failure.unlink(missing_ok=True)
        _tell(report, READY)
        say("running")
        supervisor.watch(selector)
        say("stopping")
        supervisor.stop()
        say("stopped")
        return 0
    except Exception as error:
        return _give_up(error, folder, supervisor, report)


def _give_up(error: Exception, folder: DataFolder, supervisor: Supervisor | None, report: int) -> int:
    if isinstance(error, OSError):
        error = explain_os_error(error, Path(str(error.filename or folder.root)))
    elif not isinstance(error, LethelogError):
        say(traceback.format_exc())
    if supervisor is not None:
        supervisor.stop()
    failure = Failure.of(error)
    say(f"failed: {failure.message}")
    failure.write(folder.failure)
    _tell(report, failure.as_json())
    return 1


def _tell(report: int, text: str) -> None:
    with contextlib.suppress(OSError):  # whoever started us may have gone
        os.write(report, text.encode() + b"\n")
        os.close(report)


def main() -> int:
    """Run until the servers are to stop. Exit status 0, or 1 when they could not be started."""
    parser = argparse.ArgumentParser(prog="lethelog.ops.embedded.supervisor")
    parser.add_argument("data", type=Path)
    parser.add_argument("--linger", type=float, default=2.0)
    arguments = parser.parse_args()
    _detach()
    report = os.dup(2)
    return _supervise(DataFolder(arguments.data), arguments.linger, report)


if __name__ == "__main__":
    sys.exit(main())
