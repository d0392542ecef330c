"""The one process per data directory that runs the servers: ``python -m lethelog.ops.embedded.supervisor DATA``.

It detaches from whoever started it, holds an exclusive lock, keeps both servers running, and stops them when asked
(SIGTERM) or when no client has held a lease for a while.
"""

import argparse
import contextlib
import os
import sys
import time
import traceback
import uuid
from datetime import UTC, datetime
from pathlib import Path

from ...domain.errors import LethelogError, Misconfigured
from .binaries import PostgresPrograms, find_nats_server, find_postgres
from .broker import NatsServer
from .child import KeptRunning, stop_all
from .daemon import StopRequest, detach, log_to, say
from .failure import READY, Failure, explain_os_error
from .folder import DataFolder
from .locks import acquire, open_lock_file, try_lock, unlock
from .logs import bound_log
from .placement import Placement, place
from .postgres import PostgresServer
from .provision import PROVISIONED, provision
from .state import Phase, ServerState, State, StateFile

_WATCHING_PAUSE = 0.25
_STARTING_PAUSE = 0.015
_LOG_CHECK_EVERY = 60.0
_PATIENCE = 5.0


class Supervisor:
    """Runs the servers of one data directory. Exists only while the exclusive lock is held."""

    def __init__(self, folder: DataFolder, linger: float, supervisor_lock: int, stop_request: StopRequest) -> None:
        self._folder = folder
        self._linger = linger
        self._lock = supervisor_lock
        self._clients = open_lock_file(folder.clients_lock)
        self._state_file = StateFile(folder.state)
        self._instance = uuid.uuid4().hex
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._phase: Phase = "starting"
        self._placement: Placement | None = None
        self._cluster_lock: int | None = None
        self._programs: PostgresPrograms | None = None
        self._broker: NatsServer | None = None
        self._children: list[KeptRunning] = []
        self._unused_since: float | None = None
        self._logs_checked = 0.0
        self._publishing_failed = False
        self._stop_request = stop_request

    def start(self) -> None:
        """Return when both servers answer and the database is set up, or a stop was asked for.

        Raises the reason when they cannot be started.
        """
        folder = self._folder
        self._publish()
        nats_server = find_nats_server()
        self._placement = place(folder)
        self._lock_cluster(self._placement)
        self._programs = find_postgres(self._placement.account)
        postgres = PostgresServer(folder, self._placement, self._programs)
        self._broker = NatsServer(folder, nats_server)
        self._children = [KeptRunning(self._broker)]
        self._children[0].tick()  # it starts while the database files are made
        postgres.prepare_files()
        self._children.append(KeptRunning(postgres))
        while not self._stop_request.made and not all(child.phase == "up" for child in self._children):
            for child in self._children:
                child.tick()
                if child.failures and not child.has_been_up and child.last_error is not None:
                    raise child.last_error
            self._stop_request.sleep(_STARTING_PAUSE)
        if not self._stop_request.made:
            provision(folder.secrets, self._placement)
            self._phase = "running"
            self._publish()

    def watch(self) -> None:
        """Keep the servers running until they are to stop."""
        while not self._stop_request.made:
            for child in self._children:
                child.tick()
            healthy = all(child.phase == "up" for child in self._children)
            self._phase = "running" if healthy else "recovering"
            self._try_to_publish()
            if self._is_unused() or self._is_orphaned():
                break
            self._bound_logs()
            self._stop_request.sleep(_WATCHING_PAUSE if healthy else _STARTING_PAUSE)

    def stop(self) -> None:
        """Stop the servers."""
        self._phase = "stopping"
        self._try_to_publish()
        stop_all(self._children)
        if self._placement and self._placement.sockets.parent != self._placement.cluster.parent:
            with contextlib.suppress(OSError):  # leave nothing in a folder shared with others
                self._placement.sockets.rmdir()

    def _lock_cluster(self, placement: Placement) -> None:
        self._cluster_lock = acquire(placement.lock, 1.0)
        if self._cluster_lock is None:
            raise Misconfigured(
                f"The database files in {placement.cluster} are in use by another data directory. If "
                f"{self._folder.root} is a copy, delete its placement.json to begin with an empty database."
            )

    def _is_unused(self) -> bool:
        """Whether to stop for lack of use. If so, clients that come from now on read that we are stopping."""
        now = time.monotonic()
        if not try_lock(self._clients):
            self._unused_since = None
            return False
        try:
            if self._unused_since is None:
                self._unused_since = now
            if now - self._unused_since < self._linger or self._folder.hold.exists():
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
            self._publishing_failed = False
        except OSError as error:
            if not self._publishing_failed:
                say(f"the state could not be published: {error.strerror}")
            self._publishing_failed = True
            if self._phase == "stopping":
                self._state_file.withdraw()  # no client may read that we run; this needs no space

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
                provisioned=PROVISIONED,
            )
        )


def _supervise(folder: DataFolder, linger: float, report: int) -> int:
    supervisor: Supervisor | None = None
    try:
        lock = acquire(folder.supervisor_lock, _PATIENCE)
        if lock is None:
            return 0  # another one is there, which is just as well
        log_to(folder)
        for draft in folder.root.glob(".*.json.*"):
            draft.unlink(missing_ok=True)
        stop_request = StopRequest()
        supervisor = Supervisor(folder, linger, lock, stop_request)
        say(f"starting in {folder.root}")
        supervisor.start()
        if not stop_request.made:
            folder.failure.unlink(missing_ok=True)
            _tell(report, READY)
            say("running")
            supervisor.watch()
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
    detach()
    report = os.dup(2)
    return _supervise(DataFolder(arguments.data), arguments.linger, report)


if __name__ == "__main__":
    sys.exit(main())
