"""Server processes that outlived their supervisor."""

import os
from pathlib import Path


def processes_in(folder: Path, program: str) -> list[int]:
    """The ids of processes named ``program`` that work in ``folder``.

    A server and all its children have its data directory as working directory, and two servers on one directory
    would destroy it, so this is asked before one is started. Only Linux can answer (``/proc``).
    """
    try:
        wanted = folder.stat()
    except OSError:
        return []
    return [int(entry.name) for entry in Path("/proc").iterdir() if _is_one(entry, program, wanted)]


def _is_one(entry: Path, program: str, wanted: os.stat_result) -> bool:
    if not entry.name.isdigit():
        return False
    try:
        if (entry / "comm").read_text().strip() != program:
            return False
        return os.path.samestat((entry / "cwd").stat(), wanted)
    except OSError:
        return False  # gone meanwhile, a zombie, or another account's
