"""Where archives lie while they are on their way through a server: in clear, so no longer than that.

Each process has a folder of its own under one of its user's, in the machine's folder for temporary files. Whoever
opens one takes away those of processes that were killed; a lock tells them from the living.
"""

import atexit
import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from stat import S_ISDIR

from ...domain.errors import Misconfigured, Unavailable

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_LOCK = "lock"


class Transfers:
    """The folder of this process; made when the first archive comes."""

    def __init__(self) -> None:
        self._own: Path | None = None
        self._lock = -1

    def begin(self) -> Path:
        """A new, empty folder for one archive.

        Raises `Misconfigured` where somebody else made the user's one, and `Unavailable` where there is no room.
        """
        with room_to_write():
            # What clears old temporary files may have taken it away from a server that runs for long.
            if self._own is None or not self._own.is_dir():
                self._own = self._make()
            return Path(tempfile.mkdtemp(dir=self._own))

    def end(self, folder: Path) -> None:
        """Take one away with what is in it."""
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Take all away; the end of the process does it, too."""
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)
            os.close(self._lock)
            self._own = None
            atexit.unregister(self.close)

    def _make(self) -> Path:
        self.close()
        base = Path(tempfile.gettempdir()) / f"lethelog-transfers-{os.getuid()}"
        _make_private(base)
        _sweep(base)
        folder, self._lock = _locked(Path(tempfile.mkdtemp(dir=base)))
        atexit.register(self.close)
        return folder


@contextlib.contextmanager
def room_to_write() -> Generator[None]:
    """Say that there is no room where a file is written. Raises `Unavailable`."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise Unavailable("the server has no room for the archive in its folder for temporary files") from None


def _make_private(base: Path) -> None:
    with contextlib.suppress(FileExistsError):
        base.mkdir(mode=0o700)
    found = base.lstat()
    if not S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Misconfigured(f"{base} is not a folder of this user alone; move it away, or set TMPDIR")


def _locked(folder: Path) -> tuple[Path, int]:
    # Under its name only once it is held, so that nobody finds it free.
    draft = folder / f"{_LOCK}.new"
    lock = os.open(draft, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    draft.rename(folder / _LOCK)
    return folder, lock


def _sweep(base: Path) -> None:
    """Take away what killed processes left. One that was made this moment has no lock yet, and is left."""
    for folder in base.iterdir():
        with contextlib.suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
