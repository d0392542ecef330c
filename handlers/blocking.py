"""The Python door for programs without asyncio: the same methods, the same answers, waiting for each.

An event loop of its own runs in a background thread; any number of threads may call at once, and their writes
share commits.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from ..domain.errors import Unavailable
from ..projections.copy_parking import Failing
from ..projections.parked_retry import Retried
from ..projections.rebuild import Comparison, Rebuilt, Report, silent
from .arguments import (
    AnyId,
    AnyInstant,
    EventFields,
    FilterFields,
    KnownFields,
    ProposalFields,
    ReadFields,
    RememberFields,
    ReviseFields,
    TailFields,
    TimeFields,
)
from .memory import AsyncMemory
from .views import (
    Chain,
    Decided,
    EventPage,
    EventView,
    History,
    MemoryPage,
    MemoryView,
    PassView,
    ProposalDetail,
    ProposalPage,
    Replayed,
    SearchResult,
    SettingsView,
    Written,
)

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
        self._thread = threading.Thread(target=self._loop.run_forever, name="lethelog-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it. An interrupt cancels it and goes on to the caller."""
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
        with self._admission:
            if self._closing:
                return
            self._closing = True
        asyncio.run_coroutine_threadsafe(_end_tasks(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        while self._calls:
            self._calls.popleft().cancel()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        # What generators and threads that were ended have begun on their way out.
        self._loop.run_until_complete(_end_tasks())
        self._loop.close()


class BlockingMemory:
    """Long-term memory of one tenant, for one actor. Opened by `Memory.local`; close it or use ``with``."""

    def __init__(self, opener: Callable[[], Coroutine[Any, Any, AsyncMemory]]) -> None:
        self._loop = BackgroundLoop()
        try:
            self.asyncio = self._loop.run(opener())
            """The asyncio door behind this one; use it only inside its own loop."""
        except BaseException:
            self._loop.close()
            raise
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drain what waits and let the servers go. May be called twice."""
        if not self._closed:
            self._closed = True
            try:
                self._loop.run(self.asyncio.close())
            finally:
                self._loop.close()

    @property
    def position(self) -> int:
        """Log position of this memory's newest write; reads wait for it."""
        return self.asyncio.position

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asyncio door and wait for it."""
        return self._loop.run(work)

    def remember(self, content: str, *, key: str | None = None, **fields: Unpack[RememberFields]) -> Written:
        """See `AsyncMemory.remember`."""
        return self.run(self.asyncio.remember(content, key=key, **fields))

    def revise(
        self, memory_id: AnyId, content: str, *, key: str | None = None, **fields: Unpack[ReviseFields]
    ) -> Written:
        """See `AsyncMemory.revise`."""
        return self.run(self.asyncio.revise(memory_id, content, key=key, **fields))

    def move(
        self,
        memory_id: AnyId,
        *,
        scope: str | None = None,
        project: str | None = None,
        no_project: bool = False,
        tags: Sequence[str] | None = None,
        expected_version: int | None = None,
        key: str | None = None,
    ) -> Written:
        """See `AsyncMemory.move`."""
        return self.run(
            self.asyncio.move(
                memory_id,
                scope=scope,
                project=project,
                no_project=no_project,
                tags=tags,
                expected_version=expected_version,
                key=key,
            )
        )

    def reaffirm(self, memory_id: AnyId, *, key: str | None = None) -> Written:
        """See `AsyncMemory.reaffirm`."""
        return self.run(self.asyncio.reaffirm(memory_id, key=key))

    def archive(
        self,
        memory_id: AnyId,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        key: str | None = None,
    ) -> Written:
        """See `AsyncMemory.archive`."""
        return self.run(self.asyncio.archive(memory_id, reason=reason, expected_version=expected_version, key=key))

    def restore(self, memory_id: AnyId, *, reason: str | None = None, key: str | None = None) -> Written:
        """See `AsyncMemory.restore`."""
        return self.run(self.asyncio.restore(memory_id, reason=reason, key=key))

    def refute(self, memory_id: AnyId, *, reason: str | None = None, key: str | None = None) -> Written:
        """See `AsyncMemory.refute`."""
        return self.run(self.asyncio.refute(memory_id, reason=reason, key=key))

    def release(self, memory_id: AnyId, *, reason: str, key: str | None = None) -> Written:
        """See `AsyncMemory.release`."""
        return self.run(self.asyncio.release(memory_id, reason=reason, key=key))

    def pin(self, memory_id: AnyId, *, pinned: bool = True, key: str | None = None) -> Written:
        """See `AsyncMemory.pin`."""
        return self.run(self.asyncio.pin(memory_id, pinned=pinned, key=key))

    def verify(self, memory_id: AnyId, *, key: str | None = None) -> Written:
        """See `AsyncMemory.verify`."""
        return self.run(self.asyncio.verify(memory_id, key=key))

    def search(self, query: str, *, limit: int = 5, **filters: Unpack[FilterFields]) -> SearchResult:
        """See `AsyncMemory.search`."""
        return self.run(self.asyncio.search(query, limit=limit, **filters))

    def get(self, memory_id: AnyId, **times: Unpack[TimeFields]) -> MemoryView:
        """See `AsyncMemory.get`."""
        return self.run(self.asyncio.get(memory_id, **times))

    def get_many(self, ids: Sequence[AnyId], **times: Unpack[TimeFields]) -> tuple[MemoryView, ...]:
        """See `AsyncMemory.get_many`."""
        return self.run(self.asyncio.get_many(ids, **times))

    def list(self, *, limit: int = 25, cursor: str | None = None, **filters: Unpack[FilterFields]) -> MemoryPage:
        """See `AsyncMemory.list`."""
        return self.run(self.asyncio.list(limit=limit, cursor=cursor, **filters))

    def history(self, memory_id: AnyId, **times: Unpack[KnownFields]) -> History:
        """See `AsyncMemory.history`."""
        return self.run(self.asyncio.history(memory_id, **times))

    def events(self, **query: Unpack[EventFields]) -> EventPage:
        """See `AsyncMemory.events`."""
        return self.run(self.asyncio.events(**query))

    def tail(self, **query: Unpack[TailFields]) -> Generator[EventView]:
        """See `AsyncMemory.tail`. Leave the loop, or close the generator, to stop."""
        return self._each(self.asyncio.tail(**query))

    def replay(self, to: AnyInstant | int, *, report: Report = silent) -> Generator[MemoryView]:
        """See `AsyncMemory.replay`."""
        return self._each(self.asyncio.replay(to, report=report))

    def replay_into(self, name: str, to: AnyInstant | int, *, report: Report = silent) -> Replayed:
        """See `AsyncMemory.replay_into`."""
        return self.run(self.asyncio.replay_into(name, to, report=report))

    def replays(self) -> tuple[str, ...]:
        """See `AsyncMemory.replays`."""
        return self.run(self.asyncio.replays())

    def leftovers(self) -> tuple[str, ...]:
        """See `AsyncMemory.leftovers`."""
        return self.run(self.asyncio.leftovers())

    def drop_replay(self, name: str) -> None:
        """See `AsyncMemory.drop_replay`."""
        self.run(self.asyncio.drop_replay(name))

    def _each(self, coming: AsyncGenerator[T]) -> Generator[T]:
        """What an asynchronous generator yields; leaving the loop closes it."""

        async def following() -> tuple[T, ...]:
            async for one in coming:
                return (one,)
            return ()

        try:
            while found := self.run(following()):
                yield from found
        finally:
            self.run(coming.aclose())

    def proposals(self, **query: Unpack[ProposalFields]) -> ProposalPage:
        """See `AsyncMemory.proposals`."""
        return self.run(self.asyncio.proposals(**query))

    def proposal(self, proposal_id: AnyId, **waiting: Unpack[ReadFields]) -> ProposalDetail:
        """See `AsyncMemory.proposal`."""
        return self.run(self.asyncio.proposal(proposal_id, **waiting))

    def accept(self, proposal_id: AnyId, *, comment: str | None = None, key: str | None = None) -> Decided:
        """See `AsyncMemory.accept`."""
        return self.run(self.asyncio.accept(proposal_id, comment=comment, key=key))

    def reject(self, proposal_id: AnyId, *, comment: str | None = None, key: str | None = None) -> Decided:
        """See `AsyncMemory.reject`."""
        return self.run(self.asyncio.reject(proposal_id, comment=comment, key=key))

    def explain(self, proposal_id: AnyId, **waiting: Unpack[ReadFields]) -> Chain:
        """See `AsyncMemory.explain`."""
        return self.run(self.asyncio.explain(proposal_id, **waiting))

    def run_pass(self, *, wait_seconds: float | None = None, key: str | None = None) -> PassView:
        """See `AsyncMemory.run_pass`."""
        return self.run(self.asyncio.run_pass(wait_seconds=wait_seconds, key=key))

    def wait_for_pass(self, pass_id: AnyId, seconds: float) -> PassView:
        """See `AsyncMemory.wait_for_pass`."""
        return self.run(self.asyncio.wait_for_pass(pass_id, seconds))

    def show_pass(self, pass_id: AnyId) -> PassView:
        """See `AsyncMemory.show_pass`."""
        return self.run(self.asyncio.show_pass(pass_id))

    def settings(self) -> SettingsView:
        """See `AsyncMemory.settings`."""
        return self.run(self.asyncio.settings())

    def set_judgment(self, enabled: bool) -> SettingsView:
        """See `AsyncMemory.set_judgment`."""
        return self.run(self.asyncio.set_judgment(enabled))

    def set_policy(self, changes: Mapping[str, Any]) -> SettingsView:
        """See `AsyncMemory.set_policy`."""
        return self.run(self.asyncio.set_policy(changes))

    def rebuild(self, name: str, report: Report = silent, *, failing: Failing = "stop") -> Rebuilt:
        """See `AsyncMemory.rebuild`."""
        return self.run(self.asyncio.rebuild(name, report, failing=failing))

    def cancel_rebuild(self, name: str) -> bool:
        """See `AsyncMemory.cancel_rebuild`."""
        return self.run(self.asyncio.cancel_rebuild(name))

    def retry_parked(self, name: str, *, stream: AnyId | None = None, report: Report = silent) -> Retried:
        """See `AsyncMemory.retry_parked`."""
        return self.run(self.asyncio.retry_parked(name, stream=stream, report=report))

    def compare(self, name: str, report: Report = silent) -> Comparison:
        """See `AsyncMemory.compare`."""
        return self.run(self.asyncio.compare(name, report))
