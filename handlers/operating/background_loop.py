"""An event loop in a thread of its own, and the way into it for any number of threads that wait for answers."""

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from ...domain.errors import Unavailable

T = TypeVar("T")


async def _end_tasks() -> None:
    """Cancel what still runs in this loop: a library's task must not be left to die with it."""
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    if left:
        # One that does not end when it is told to must not keep the program from ending.
        await asyncio.wait(left, timeout=5)


class _Call(Generic[T]):
    """Work on its way into the loop, and the thread that waits for it: one lock, released when it is done."""

    __slots__ = ("_done", "_task", "_work")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work: Coroutine[Any, Any, T] | None = work
        self._task: asyncio.Task[T] | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the loop: begin, unless it was ended before."""
        if self._work is not None:
            self._task, self._work = loop.create_task(self._work), None
            self._task.add_done_callback(self._release)

    def cancel(self) -> None:
        """In the loop, or once it is closed: end it, or see to it that it never begins."""
        if self._task is not None:
            self._task.cancel()
        elif self._work is not None:
            self._work.close()
            self._work = None
            self._done.release()

    def result(self) -> T:
        """In the thread: wait, and give what came of it. Raises `Unavailable` where the loop was closed first."""
        self._done.acquire()
        if self._task is None or self._task.cancelled():
            raise Unavailable("the memory is closed")
        return self._task.result()

    def _release(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            # An interrupted caller never looks; without this Python would report an unretrieved exception.
            task.exception()
        self._done.release()


class BackgroundLoop:
    """An event loop in a daemon thread, and the bridge to it.

    Callers put their work into one queue and wake the loop only when nobody else did: waking it costs more than
    all the rest of the way there.
    """

    def __init__(self) -> None:
        self._calls: deque[_Call[Any]] = deque()
        self._admission = threading.Lock()
        self._closing = False
        """Set under `_admission`: whoever queued a call before is ended by the closing, nobody does after."""
        self._woken = False
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._live, name="lethelog-loop", daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether this process has its thread: a forked child does not, and what is open is its parent's."""
        return self._process == os.getpid()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it. An interrupt cancels it and goes on to the caller.

        Raises `Unavailable` once it is closed, and in a forked child, in which no thread of the loop is.
        """
        if not self.is_here:
            work.close()
            raise Unavailable("this memory was opened before the process was forked; open one in the child")
        call = _Call(work)
        try:
            # Inside: an interrupt may come before the wait begins.
            self._admit(call)
            return call.result()
        except KeyboardInterrupt:
            # Closed meanwhile: then it is ended already.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end_call, call)
            raise

    def _admit(self, call: _Call[Any]) -> None:
        with self._admission:
            if self._closing:
                call.cancel()
                return
            self._calls.append(call)
            if not self._woken:
                self._woken = True
                self._loop.call_soon_threadsafe(self._start_calls)

    def _end_call(self, call: _Call[Any]) -> None:
        # The interrupt may have come between the word that the loop is woken and its waking.
        self._start_calls()
        call.cancel()

    def _start_calls(self) -> None:
        # First, so that whoever comes from now on wakes the loop again.
        self._woken = False
        while self._calls:
            self._calls.popleft().start(self._loop)

    def close(self) -> None:
        """End what still runs, refuse what comes later, and wait for the loop's thread."""
        if not self.is_here:
            return
        with self._admission:
            if self._closing:
                return
            self._closing = True
        asyncio.run_coroutine_threadsafe(_end_tasks(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _live(self) -> None:
        """The loop's whole life, its end too: the thread of whoever closes it may run a loop of its own."""
        self._loop.run_forever()
        while self._calls:
            self._calls.popleft().cancel()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        # What generators and threads that were ended have begun on their way out.
        self._loop.run_until_complete(_end_tasks())
        self._loop.close()
