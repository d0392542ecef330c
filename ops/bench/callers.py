"""Callers at once: so many threads, or so many tasks, each waiting for its own durable answer."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .row import quantile

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Driven:
    """What a turn took: seconds in all, and of each operation."""

    seconds: float
    each: list[float]

    def rate(self, per_operation: int = 1) -> float:
        """Events per second."""
        return len(self.each) * per_operation / self.seconds


def latency(driven: Sequence[Driven]) -> dict[str, float]:
    """Median and 99th percentile of all operations of these turns, in milliseconds."""
    each = [1e3 * seconds for one in driven for seconds in one.each]
    return {"p50 ms": round(quantile(each, 0.5), 3), "p99 ms": round(quantile(each, 0.99), 3)}


async def by_threads(work: Sequence[T], callers: int, once: Callable[[T], object]) -> Driven:
    """Do ``once`` for everything, by so many threads; a cancelled turn waits for those that are at it."""
    stop = threading.Event()
    driving = asyncio.ensure_future(asyncio.to_thread(_drive, work, callers, once, stop))
    try:
        return await asyncio.shield(driving)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait((driving,))
        raise


def _drive(work: Sequence[T], callers: int, once: Callable[[T], object], stop: threading.Event) -> Driven:
    each: list[float] = []
    failed: list[BaseException] = []

    def share(part: Sequence[T]) -> None:
        try:
            for item in part:
                if stop.is_set():
                    return
                began = time.perf_counter()
                once(item)
                each.append(time.perf_counter() - began)
        except BaseException as error:
            failed.append(error)
            stop.set()

    threads = [threading.Thread(target=share, args=(work[n::callers],)) for n in range(callers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    if failed:
        raise failed[0]
    return Driven(seconds, each)


async def by_tasks(work: Sequence[T], callers: int, once: Callable[[T], Awaitable[object]]) -> Driven:
    """Do ``once`` for everything, by so many tasks of this event loop."""
    each: list[float] = []

    async def share(part: Sequence[T]) -> None:
        for item in part:
            began = time.perf_counter()
            await once(item)
            each.append(time.perf_counter() - began)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(callers):
            group.create_task(share(work[number::callers]))
    return Driven(time.perf_counter() - began, each)
