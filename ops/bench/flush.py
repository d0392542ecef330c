"""How long the disk takes to make a write durable: no durable figure can be read without it."""

import os
import tempfile
import time
from pathlib import Path
from statistics import median

_PAGE = 8192


def flush_ms(folder: Path, times: int = 200) -> float:
    """Median of ``fdatasync`` after writing one database page, in milliseconds, on the disk of ``folder``."""
    with tempfile.TemporaryFile(dir=folder) as file:
        taken: list[float] = []
        for number in range(times):
            os.pwrite(file.fileno(), b"x" * _PAGE, number * _PAGE)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    return 1e3 * median(taken)
