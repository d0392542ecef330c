"""Log files of bounded size."""

import os
import shutil
import time
from pathlib import Path

_LIMIT = 4 * 1024 * 1024


def open_log(path: Path) -> int:
    """Open a log for appending, readable by its owner only. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def bound_log(path: Path, limit: int = _LIMIT) -> None:
    """Keep a log's last full part beside it and start afresh, if it has grown beyond ``limit``.

    The file is copied and emptied in place, since a running server keeps it open (and appends).
    """
    try:
        if path.stat().st_size > limit:
            shutil.copyfile(path, path.with_name(f"{path.name}.1"))
            os.truncate(path, 0)
    except OSError:
        return  # a full disk must not stop the servers for their logs' sake


def log_size(path: Path) -> int:
    """Its size, 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def lines_since(path: Path, offset: int, limit: int = 64 * 1024) -> list[str]:
    """The lines written after ``offset``, at most the last ``limit`` bytes of them."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(min(offset, end), end - limit))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def stamped(text: str) -> str:
    """``text`` as a line of the supervisor's log."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}"
