"""The embedded NATS server: its configuration, its port, its process."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from ...domain.errors import LethelogError, Unavailable
from .child import StopSignals, spawn
from .failure import disk_full
from .files import write_atomically
from .folder import DataFolder
from .leftovers import processes_in
from .logs import lines_since, log_size, open_log
from .secret_files import make_secret

_LARGEST_MESSAGE = 8 * 1024 * 1024
_ENOUGH_ROOM = 4 * _LARGEST_MESSAGE


class NatsServer:
    """The broker of one data directory, on a port of the loopback interface that stays the same."""

    name = "nats-server"
    start_limit = 30.0
    stop_signals: StopSignals = ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0))

    def __init__(self, folder: DataFolder, program: Path) -> None:
        self.home = folder.root
        self._folder = folder
        self._program = program
        self.log = folder.logs / "nats.log"
        self._log_offset = 0
        self._log_read = 0
        self._stores_nothing = False
        self._wanted_port: int | None = None
        self.port: int | None = None
        self.version = ""

    def launch(self) -> "subprocess.Popen[bytes] | None":
        """Start the server, once an earlier one on the same store is gone."""
        folder = self._folder
        folder.broker_store.mkdir(mode=0o700, exist_ok=True)
        if processes_in(folder.broker_store, "nats-server"):
            return None
        shutil.rmtree(folder.broker_ports, ignore_errors=True)
        folder.broker_ports.mkdir(mode=0o700)
        self._wanted_port = _read_port(folder.broker_port)
        write_atomically(folder.broker_config, self._config(make_secret(folder.secrets, "broker")))
        self._log_offset = self._log_read = log_size(self.log)
        self._stores_nothing = False
        log = open_log(self.log)
        try:
            return spawn(
                [self._program, "-c", folder.broker_config],
                folder=folder.broker_store,
                log=log,
                account=None,
                on_our_death=signal.SIGTERM,
            )
        finally:
            os.close(log)

    def _config(self, token: str) -> bytes:
        lines = [
            f'listen: "127.0.0.1:{self._wanted_port or -1}"',
            'server_name: "lethelog"',
            f"max_payload: {_LARGEST_MESSAGE}",
            f"authorization {{ token: {_quoted(token)} }}",
            # By default what was acknowledged is flushed every two minutes; events are in the log besides, but
            # what consumers retry or parked is here only.
            f'jetstream {{ store_dir: {_quoted(self._folder.broker_store)}, sync_interval: "1s" }}',
            f"ports_file_dir: {_quoted(self._folder.broker_ports)}",
        ]
        return b"".join(os.fsencode(line) + b"\n" for line in lines)

    def is_ready(self, process: "subprocess.Popen[bytes]") -> bool:
        """Whether it told its port and greets whoever connects."""
        try:
            told = json.loads((self._folder.broker_ports / f"nats-server_{process.pid}.ports").read_text())
            port = int(str(told["nats"][0]).rsplit(":", 1)[1])
            greeting = _greeting(port)
        except (OSError, ValueError, KeyError, IndexError, TypeError):
            return False
        self.port, self.version = port, str(greeting.get("version", ""))
        if port != self._wanted_port:
            with contextlib.suppress(OSError):  # a full disk: it will be another port next time
                write_atomically(self._folder.broker_port, str(port).encode())
        return True

    def is_reachable(self) -> bool:
        """A listening port cannot be taken away; but a stream that met a full disk stores nothing until a restart.

        So the server counts as out of reach once it said that and there is room again (seen with 2.15).
        """
        size = log_size(self.log)
        if size != self._log_read:
            told = lines_since(self.log, self._log_read)
            self._log_read = size
            self._stores_nothing |= any("critical write error" in one or "failed to store" in one for one in told)
        return not (self._stores_nothing and self._has_room())

    def _has_room(self) -> bool:
        try:
            return shutil.disk_usage(self._folder.broker_store).free > _ENOUGH_ROOM
        except OSError:
            return False

    def why_ended(self, status: int) -> tuple[LethelogError, bool]:
        """The reason by its own log. A port taken by another program passes: the next try gets a fresh one."""
        lines = lines_since(self.log, self._log_offset)
        if self._wanted_port and any("address already in use" in line for line in lines):
            self._folder.broker_port.unlink(missing_ok=True)
            return Unavailable(f"Port {self._wanted_port} is in use by another program."), True
        if any("no space left on device" in line for line in lines):
            return disk_full(self._folder.broker_store), False
        telling = [line for line in lines if "[FTL]" in line or "[ERR]" in line] or lines[-1:]
        reason = telling[-1] if telling else "it gave no reason"
        return Unavailable(
            f"nats-server ended with status {status} while starting: {reason} (see {self.log})."
        ), False


def _read_port(path: Path) -> int | None:
    try:
        port = int(path.read_text())
    except (OSError, ValueError):
        return None
    return port if 0 < port < 65536 else None


def _greeting(port: int) -> dict[str, object]:
    with socket.create_connection(("127.0.0.1", port), timeout=0.5) as connection:
        line = connection.makefile("rb").readline()
    keyword, _, content = line.partition(b" ")
    if keyword != b"INFO":
        raise ValueError("not a NATS server")
    return json.loads(content)


def _quoted(text: str | Path) -> str:
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
