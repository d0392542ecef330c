"""Long stretches of work on the event loop: in portions, and without the garbage collector looking on.

While one page is prepared the one before is written, by the same event loop: the server would wait for each of a
transaction's statements until a page is decoded as a whole.
"""

import asyncio
import gc
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

PORTION = 200
"""Events or memories at once: some milliseconds."""


async def portions(items: Sequence[T]) -> AsyncGenerator[Sequence[T]]:
    """Slices of ``items``; between them other tasks have their turn."""
    for start in range(0, len(items), PORTION):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + PORTION]


@contextmanager
def uncollected() -> Generator[None]:
    """While inside, nothing is collected, in the whole process: for moments, and never across an ``await``.

    A page of events becomes tens of thousands of objects that are all still needed. Looking through them and
    through everything older, again and again while they were made, took a third of the time of catching up.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
