"""Long stretches of work on the event loop: in portions, and without the garbage collector looking on.

While one page is prepared the one before is written, by the same event loop: the server would wait for each of a
transaction's statements until a page is decoded as a whole.
"""

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import count
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


PAGES_BETWEEN = 50
"""After so many pages everything is looked through; after the others only what is young."""
_seldom = 0


@contextmanager
def seldom_collected() -> Generator[Callable[[], None]]:
    """While inside, also across ``await``, garbage is collected only at the end of a page, in the whole process.

    Call what it gives there. Left to itself the collector looks through everything there is whenever a quarter of
    it is new, which is at every page: a quarter of the time of a rebuild. What nobody refers to goes at once as
    ever; only what refers to itself waits.
    """
    global _seldom
    if not _seldom and not gc.isenabled():
        # Whoever switched it off switches it on again.
        yield lambda: None
        return
    pages = count(1)
    _seldom += 1
    gc.disable()
    try:
        yield lambda: _collect(next(pages))
    finally:
        _seldom -= 1
        if not _seldom:
            gc.enable()


def _collect(page: int) -> None:
    gc.collect(2 if page % PAGES_BETWEEN == 0 else 1)


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
