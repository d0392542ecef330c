"""The background worker of a data directory: one process with every role, known by the file it holds locked.

The lock ends with the process, however it ends, so nobody has to guess whether a process id is still its own.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...domain.errors import LethelogError, Misconfigured, Unavailable

if TYPE_CHECKING:
    from ..settings import Settings

START_SECONDS = 90.0
_GRACE_SECONDS = 30.0
"""How long running judge calls may take to end after a stop was asked for; then the process is killed."""
_LOG_LIMIT = 1_000_000
_POLL = 0.05


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The worker that runs in a data directory."""

    pid: int
    started_at: str
    version: str
    roles: tuple[str, ...]
    embedded: bool
    """Whether it works on the embedded servers, not on servers of one's own."""
    log: str | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; holds no secret."""
        return asdict(self)


def worker_file(data_dir: Path) -> Path:
    """Locked by the worker while it lives; says who it is."""
    return data_dir.expanduser() / "worker.json"


def current(data_dir: Path) -> WorkerState | None:
    """The worker of a data directory, or None where none runs."""
    try:
        descriptor = os.open(worker_file(data_dir), os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        raise Misconfigured(
            f"The data directory {data_dir} belongs to another account. Run as that account, or name a folder of "
            "your own with --data-dir.",
        ) from None
    try:
        if _lock(descriptor, fcntl.LOCK_SH):
            return None
        return _decode(os.read(descriptor, 65_536))
    finally:
        os.close(descriptor)


def killed(data_dir: Path) -> WorkerState | None:
    """The worker that ran last, where it ended without having been stopped."""
    if current(data_dir) is not None:
        return None
    try:
        left = worker_file(data_dir).read_bytes()
    except OSError:
        return None
    found = _decode(left) if left else None
    return found if found is not None and found.pid else None


def runs_everything(settings: "Settings") -> bool:
    """Whether a background worker serves these very servers, so that nobody else has to."""
    from ...handlers.operating.workers import ALL_ROLES

    if settings.database_url is not None or settings.broker_url is not None:
        return False
    worker = current(settings.data_dir)
    return worker is not None and worker.embedded and set(worker.roles) >= ALL_ROLES


def prepare_folder(settings: "Settings") -> None:
    """Make the data directory, as the embedded servers need it or for the lock alone."""
    if settings.database_url is not None and settings.broker_url is not None:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return
    from ..embedded.folder import DataFolder

    DataFolder.at(settings.data_dir).prepare()


class WorkerLock:
    """The worker's side: holds the file for as long as it runs."""

    def __init__(self, data_dir: Path) -> None:
        """Raises `Misconfigured` where another worker holds it already."""
        self._descriptor = os.open(worker_file(data_dir), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _give_to_owner_of(data_dir, self._descriptor)
        if not _lock(self._descriptor, fcntl.LOCK_EX):
            os.close(self._descriptor)
            raise Misconfigured(f"A worker of {data_dir} runs already. See: lethelog status")
        os.ftruncate(self._descriptor, 0)

    def publish(self, state: WorkerState) -> None:
        """Say who holds the lock."""
        content = json.dumps(asdict(state)).encode()
        os.pwrite(self._descriptor, content, 0)
        os.ftruncate(self._descriptor, len(content))

    def release(self) -> None:
        """Let go and say so; a process that was killed lets go, too, and leaves its name (`killed`)."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def start(settings: "Settings", global_options: list[str], judge_concurrency: int) -> bool:
    """Start the worker, detached, unless one runs; answers whether it was started now.

    Returns when it works. Raises what kept it from working.
    """
    if current(settings.data_dir) is not None:
        return False
    log = settings.data_dir / "logs" / "worker.log"
    deadline = time.monotonic() + START_SECONDS
    # -P: no module of the caller's working directory may stand in for one of ours.
    command = [sys.executable, "-P", "-m", __name__.partition(".")[0], *global_options]
    command += ["worker", "--background", "--judge-concurrency", str(judge_concurrency)]
    with _log_file(log) as stream:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            start_new_session=True,
            **_as_owner(settings.data_dir),
        )
    assert child.stdout is not None
    with child.stdout as report:
        said = _first_line(report.fileno(), deadline)
    child.wait()  # it forks at once and goes on by itself
    try:
        answer = json.loads(said)
    except ValueError:
        raise Unavailable(f"The worker did not start; see {log}") from None
    if "error" in answer:
        if current(settings.data_dir) is not None:
            return False  # another `up` was quicker
        kind = Misconfigured if answer["error"]["code"] == Misconfigured.code else Unavailable
        raise kind(answer["error"]["message"])
    return True


def stop(data_dir: Path) -> bool:
    """Stop the worker; answers whether one ran. Work it has open goes back to the broker and is done later."""
    worker = current(data_dir)
    if worker is None:
        return False
    _signal(worker, signal.SIGTERM, data_dir)
    if not _ends(data_dir, worker, _GRACE_SECONDS):
        _signal(worker, signal.SIGKILL, data_dir)
        if not _ends(data_dir, worker, 5.0):
            raise Unavailable(f"The worker (process {worker.pid}) did not stop.", pid=worker.pid)
        with contextlib.suppress(Misconfigured):  # another `up` was quicker
            WorkerLock(data_dir).release()
    return True


def detach() -> None:
    """Stop being the child of whoever started us, so that no zombie is left to them."""
    if os.fork() != 0:
        os._exit(0)
    os.umask(0o077)


def report(answer: dict[str, Any]) -> None:
    """Tell the process that waits how the start went, and keep nothing of it open."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(answer).encode() + b"\n")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def error_report(error: Exception) -> dict[str, Any]:
    """A failed start, as `report` takes it."""
    if isinstance(error, LethelogError):
        return {"error": error.as_dict()}
    return {"error": {"code": "internal", "message": f"the worker failed: {type(error).__name__}"}}


def _decode(content: bytes) -> WorkerState | None:
    try:
        data: dict[str, Any] = json.loads(content)
        data["roles"] = tuple(data["roles"])
        return WorkerState(**data)
    except (ValueError, TypeError, KeyError):
        # Locked a moment ago and not written yet: it is starting.
        return WorkerState(0, "", "", (), False, None)


def _signal(worker: WorkerState, number: signal.Signals, data_dir: Path) -> None:
    try:
        if not worker.pid or not _is_ours(worker.pid):
            raise ProcessLookupError
        os.kill(worker.pid, number)
    except ProcessLookupError:
        if not worker.pid or _ends(data_dir, worker, 1.0):
            return
        raise Misconfigured(f"The worker of {data_dir} was started in another container. Stop it there.") from None
    except PermissionError:
        raise Misconfigured(
            f"The worker of {data_dir} runs as another account. Stop it as that account or as root."
        ) from None


def _is_ours(pid: int) -> bool:
    """Whether the process of this number can be the worker; in another container it is somebody else."""
    if not Path("/proc/self").exists():
        return True
    try:
        return b"lethelog" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _lingers(pid: int) -> bool:
    """Whether a worker that let go of its file is still there: its interpreter takes a moment to end."""
    return Path("/proc/self").exists() and _is_ours(pid)


def _ends(data_dir: Path, worker: WorkerState, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        now = current(data_dir)
        if (now is None or (worker.pid and now.pid != worker.pid)) and not _lingers(worker.pid):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)


def _first_line(descriptor: int, deadline: float) -> str:
    said = b""
    while b"\n" not in said:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise Unavailable(f"The worker did not answer within {START_SECONDS:g} seconds; it may still start")
        chunk = os.read(descriptor, 65_536)
        if not chunk:
            break
        said += chunk
    return said.decode("utf-8", "replace")


@contextlib.contextmanager
def _log_file(path: Path) -> Any:
    path.parent.mkdir(mode=0o700, exist_ok=True, parents=True)
    if path.exists() and path.stat().st_size > _LOG_LIMIT:
        path.replace(path.with_suffix(".log.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _give_to_owner_of(path.parent, descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _give_to_owner_of(folder: Path, descriptor: int) -> None:
    """Root visits a data directory of another account, whose own processes must be able to open this later."""
    owner = folder.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _as_owner(data_dir: Path) -> dict[str, Any]:
    """Root starts the worker of another account's data directory as that account, whose files stay its own."""
    owner = data_dir.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        return {}
    return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
