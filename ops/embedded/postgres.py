"""The embedded PostgreSQL: its files, its settings, its process."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path

from ...domain.errors import LethelogError, Misconfigured, Unavailable
from .account import Account
from .binaries import PostgresPrograms
from .child import StopSignals, die_with_parent, spawn
from .failure import disk_full, explain_os_error
from .files import sync_folder
from .folder import DataFolder
from .leftovers import processes_in
from .logs import lines_since, log_size, open_log
from .placement import Placement
from .secret_files import has_secret, make_secret, read_secret

SUPERUSER = "lethelog_superuser"
PORT = 5432

_DRAFT = "pg.partial-"
_DRAFT_PATIENCE = 10.0
_NO_SPACE = "No space left on device"
_STAMP = re.compile(r"^[-\d]+ [:.\d]+ \w+ \[\d+\] ")
_LITTLE = 32 * 1024 * 1024
_PASSING = re.compile(r'pre-existing shared memory block|lock file ".*" already exists')

# Defaults for a small machine, written into postgresql.conf, where the owner of the data may change them.
_DEFAULTS = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

# What the product relies on; given at each start, so that no file overrules it.
_FIXED = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # Statements that fail are told to whoever sent them. A log must hold no content, and statements, their
    # parameters and the details of their errors are content.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "logging_collector": "off",
    "log_destination": "stderr",
}


class PostgresServer:
    """The database server of one data directory."""

    name = "postgres"
    start_limit = 3600.0  # after a crash it recovers first, which must not be cut short
    stop_signals: StopSignals = (
        (signal.SIGINT, 30.0),  # fast: end sessions, write a checkpoint
        (signal.SIGQUIT, 10.0),  # immediate: the next start recovers
        (signal.SIGKILL, 10.0),
    )

    def __init__(self, folder: DataFolder, placement: Placement, programs: PostgresPrograms) -> None:
        self.home = folder.root
        self.placement = placement
        self._programs = programs
        self._secrets = folder.secrets
        self.log = folder.logs / "postgres.log"
        self._log_offset = 0
        self._waits_for_remains = 0

    def prepare_files(self) -> None:
        """Make the database files if there are none; check that they fit.

        Files appear under their name only when complete, so that a start cut short leaves a draft, which the
        next one deletes. Raises Misconfigured for files of another version or with a lost password, Unavailable
        for a full disk.
        """
        cluster = self.placement.cluster
        try:
            for draft in cluster.parent.glob(f"{_DRAFT}*"):
                _delete_draft(draft)
            if cluster.is_dir() and any(cluster.iterdir()):
                self._check(cluster)
            else:
                self._initialise(cluster)
        except OSError as error:
            raise explain_os_error(error, Path(str(error.filename or cluster))) from None

    def _check(self, cluster: Path) -> None:
        try:
            found = (cluster / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            raise Misconfigured(
                f"{cluster} is not a PostgreSQL data directory (no PG_VERSION in it). Move it out of the way."
            ) from None
        if found != self._programs.major:
            raise Misconfigured(
                f"The database files in {cluster} are of PostgreSQL {found}, the installed server is "
                f"{self._programs.version}. Install the release of lethelog[local] that made them, or dump "
                "the database with that one and load it with this one."
            )
        if not has_secret(self._secrets, "superuser"):
            read_secret(self._secrets, "superuser")  # says what is missing and what to do

    def _initialise(self, cluster: Path) -> None:
        account = self.placement.account
        password = make_secret(self._secrets, "superuser")
        draft = cluster.with_name(f"{_DRAFT}{secrets.token_hex(4)}")
        draft.mkdir(mode=0o700)
        try:
            account.own(draft)
            done = self._initdb(draft, account, password, "C.UTF-8")
            if done.returncode != 0 and "invalid locale name" in done.stderr:
                # Sorting is the built-in provider's; the C library's locale matters little beside it.
                done = self._initdb(draft, account, password, "C")
            if done.returncode != 0:
                raise self._explain(done.stderr.splitlines(), f"initdb failed with status {done.returncode}")
            draft.replace(cluster)
            sync_folder(cluster.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _initdb(
        self, draft: Path, account: Account, password: str, locale: str
    ) -> "subprocess.CompletedProcess[str]":
        # The password goes through a pipe, so that no file with it can be left behind.
        reader, writer = os.pipe()
        try:
            if not account.is_this_process:
                os.fchown(reader, account.uid, account.gid)
            os.write(writer, password.encode() + b"\n")
            os.close(writer)
            writer = -1
            return subprocess.run(
                [
                    self._programs.initdb,
                    f"--pgdata={draft}",
                    f"--username={SUPERUSER}",
                    f"--pwfile=/dev/fd/{reader}",
                    "--auth=scram-sha-256",
                    "--encoding=UTF8",
                    "--locale-provider=builtin",
                    "--builtin-locale=C.UTF-8",
                    f"--locale={locale}",
                    "--lc-messages=C",
                    "--no-instructions",
                    *(f"--set={name}={value}" for name, value in _DEFAULTS.items()),
                ],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                cwd=draft,
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
                pass_fds=(reader,),
                preexec_fn=die_with_parent(signal.SIGKILL),
                user=account.as_user,
                group=account.as_group,
                extra_groups=account.as_groups,
            )
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)

    def launch(self) -> "subprocess.Popen[bytes] | None":
        """Start the server, once nothing of an earlier one is left."""
        if not self._clear_remains():
            return None
        quoted = str(self.placement.sockets).replace('"', '""')
        settings = {**_FIXED, "unix_socket_directories": f'"{quoted}"'}
        self._log_offset = log_size(self.log)
        log = open_log(self.log)
        try:
            return spawn(
                [
                    self._programs.postgres,
                    "-D",
                    self.placement.cluster,
                    *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
                ],
                folder=self.placement.cluster,
                log=log,
                account=self.placement.account,
                on_our_death=signal.SIGINT,
            )
        finally:
            os.close(log)

    def _clear_remains(self) -> bool:
        """Whether nothing of an earlier server is left; if so, its lock files are gone too.

        PostgreSQL takes a lock file for live when any process has its number, as happens after a reboot. We hold
        the only right to run a server here, so without a process that works in the directory they are stale.
        """
        remains = processes_in(self.placement.cluster, "postgres")
        if remains:
            self._waits_for_remains += 1
            if self._waits_for_remains % 200 == 0:  # about ten seconds: they do not see that they are orphans
                for pid in remains:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGQUIT)
            return False
        self._waits_for_remains = 0
        for stale in (
            self.placement.cluster / "postmaster.pid",
            self.placement.socket,
            self.placement.socket.with_name(f"{self.placement.socket.name}.lock"),
        ):
            stale.unlink(missing_ok=True)
        return True

    def is_ready(self, process: "subprocess.Popen[bytes]") -> bool:
        """Whether it says in its pid file that it accepts connections."""
        try:
            lines = (self.placement.cluster / "postmaster.pid").read_text(errors="replace").splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(process.pid) and lines[7].strip() == "ready"

    def is_reachable(self) -> bool:
        """Whether its socket is still there; temporary folders get tidied."""
        return self.placement.socket.exists()

    def why_ended(self, status: int) -> tuple[LethelogError, bool]:
        """The reason by its own log."""
        lines = lines_since(self.log, self._log_offset)
        passes = any(_PASSING.search(line) for line in lines)
        return self._explain(lines, f"postgres ended with status {status} while starting"), passes

    def _explain(self, lines: list[str], what: str) -> LethelogError:
        cluster = self.placement.cluster
        if any(_NO_SPACE in line for line in lines) or (not lines and _free_space(cluster.parent) < _LITTLE):
            return disk_full(cluster)
        reason = _telling(lines)
        if "could not look up effective user ID" in reason:
            return Misconfigured(
                f"The account with the id {self.placement.account.uid} has no name, without which PostgreSQL "
                "makes no database files. Give it one (an entry in /etc/passwd) or run as one that has a name."
            )
        if any("Permission denied" in line or "invalid permissions" in line for line in lines):
            return Misconfigured(f"{what}: {reason} ({cluster}).")
        return Unavailable(f"{what}: {reason} (see {self.log}).")


def _telling(lines: list[str]) -> str:
    """What in a log says why a start failed, without the stamps."""
    plain = [_STAMP.sub("", line) for line in lines]
    for index, line in enumerate(plain):
        if "FATAL" in line or "PANIC" in line or "error:" in line:
            # The line before tells which setting, where this one only tells which file.
            return "; ".join(plain[index - 1 if "configuration file" in line and index else index : index + 1])
    return plain[-1] if plain else "it gave no reason"


def _delete_draft(draft: Path) -> None:
    deadline = time.monotonic() + _DRAFT_PATIENCE
    while processes_in(draft, "postgres") and time.monotonic() < deadline:
        time.sleep(0.02)  # a killed initdb's child writes on until it notices
    shutil.rmtree(draft, ignore_errors=True)


def _free_space(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return _LITTLE
