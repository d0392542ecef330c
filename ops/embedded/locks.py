"""File locks the kernel frees however their holder ends, and the lease of a client."""

import fcntl
import os
import time
from pathlib import Path

from ...domain.errors import Unavailable

_POLL = 0.01


def open_lock_file(path: Path) -> int:
    """Open ``path`` for locking, making it if need be, for the owner of its folder. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    owner = path.parent.stat()
    if os.geteuid() == 0 and os.fstat(descriptor).st_uid != owner.st_uid:
        # Root visits a directory of another account, whose own processes must be able to open this later.
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock now or answer False."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def acquire(path: Path, patience: float) -> int | None:
    """Take the lock ``path``, waiting ``patience`` seconds for a holder that is about to end; None if it stays."""
    lock = open_lock_file(path)
    deadline = time.monotonic() + patience
    while not try_lock(lock):
        if time.monotonic() > deadline:
            os.close(lock)
            return None
        time.sleep(0.02)
    return lock


def unlock(descriptor: int) -> None:
    """Give the lock back, keeping the file open."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


class Lease:
    """A client's share in the servers: while any client holds one, they are not stopped for lack of use.

    It ends with ``release``, with the process (also by ``kill -9``), and is not passed on to child processes:
    neither to programs started nor to forks of this process.
    """

    _descriptors_here: set[int] = set()  # noqa: RUF012 - shared on purpose: what a fork must close

    def __init__(self, path: Path, timeout: float) -> None:
        """Raises OSError, or Unavailable when the lock is not free within ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        descriptor = open_lock_file(path)
        self._descriptors_here.add(descriptor)
        self._descriptor: int | None = descriptor
        self._process = os.getpid()
        # The supervisor holds this exclusively only for the moment in which it decides to stop.
        while not try_lock(descriptor, shared=True):
            if time.monotonic() > deadline:
                self.release()
                raise Unavailable(f"The lock {path} was not free within {timeout:g} seconds.")
            time.sleep(_POLL)

    @property
    def held(self) -> bool:
        """Whether this process still has its share."""
        return self._descriptor is not None and self._process == os.getpid()

    def release(self) -> None:
        """Give the share back. Does nothing the second time, and nothing in a fork."""
        if self.held and self._descriptor is not None:
            self._descriptors_here.discard(self._descriptor)
            os.close(self._descriptor)
        self._descriptor = None

    @classmethod
    def close_in_fork(cls) -> None:
        """Drop the parent's leases in a forked child. Closing there leaves the parent's lock in place."""
        for descriptor in cls._descriptors_here:
            os.close(descriptor)
        cls._descriptors_here.clear()


os.register_at_fork(after_in_child=Lease.close_in_fork)
