"""The Python door for programs without asyncio: the same methods, the same answers, waiting for each.

An event loop of its own runs in a background thread; any number of threads may call at once, and their writes
share commits.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

from ..projections.rebuild import Report, silent
from .analytics.blocking_doors import BlockingAnalyticsDoor
from .archive.exporting import ArchiveWritten
from .archive.foreign import ForeignFormat, ForeignResult
from .archive.importing import ImportResult
from .arguments import (
    AnyId,
    AnyInstant,
    ArchiveFields,
    BriefingFields,
    EventFields,
    FilterFields,
    GetFactsFields,
    KnownFields,
    RememberFields,
    ReviseFields,
    ScopeFields,
    TailFields,
    TimeFields,
    WrittenFields,
)
from .bulk_writing import ManyWritten
from .choices import Mode, Selector
from .commitments.doors import BlockingCommitmentDoor
from .consolidation.doors import BlockingConsolidationDoor
from .contradictions.doors import BlockingContradictionDoor
from .erasure.blocking_doors import BlockingErasureDoor
from .extracting.doors import BlockingExtractionDoor
from .memory import AsyncMemory
from .operating.background_loop import BackgroundLoop
from .operating.blocking_installation import BlockingInstallation
from .operating.views import (
    BriefingView,
    EventPage,
    EventView,
    FactPage,
    History,
    MemoryPage,
    MemoryView,
    PassView,
    PolicyReport,
    ScopePage,
    ScopeWritten,
    SearchResult,
    SettingsView,
    WhoIsThis,
    Written,
)
from .reviewing.blocking_doors import BlockingReviewDoor
from .sessions.doors import BlockingSessions
from .tenancy.blocking_doors import BlockingTenants, BlockingTokens
from .webhooks.blocking_doors import BlockingWebhooks

T = TypeVar("T")


class BlockingMemory(
    BlockingInstallation,
    BlockingErasureDoor,
    BlockingCommitmentDoor,
    BlockingConsolidationDoor,
    BlockingContradictionDoor,
    BlockingExtractionDoor,
    BlockingReviewDoor,
    BlockingAnalyticsDoor,
):
    """Long-term memory of one tenant, for one actor. Opened by `Memory.local`; close it or use ``with``."""

    def __init__(self, opener: Callable[[], Coroutine[Any, Any, AsyncMemory]]) -> None:
        self._loop = BackgroundLoop()
        try:
            self.asyncio = self._door = self._loop.run(opener())
            """The asyncio door behind this one; use it only inside its own loop."""
        except BaseException:
            self._loop.close()
            raise
        self._closed = False
        self.tenants = BlockingTenants(self.run, self.asyncio.tenants)
        self.tokens = BlockingTokens(self.run, self.asyncio.tokens)
        self.webhooks = BlockingWebhooks(self.run, self.asyncio.webhooks)
        self.sessions = BlockingSessions(self.run, self.asyncio.sessions)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drain what waits and let the servers go. May be called twice. A forked child leaves it to its parent."""
        if not self._closed and self._loop.is_here:
            self._closed = True
            try:
                self._loop.run(self.asyncio.close())
            finally:
                self._loop.close()

    @property
    def position(self) -> int:
        """Log position of this memory's newest write; reads wait for it."""
        return self.asyncio.position

    @property
    def _consolidating(self) -> AsyncMemory:
        return self.asyncio

    @property
    def _extractor_door(self) -> AsyncMemory:
        return self.asyncio

    @property
    def _contradicting(self) -> AsyncMemory:
        return self.asyncio

    @property
    def _erasing(self) -> AsyncMemory:
        return self.asyncio

    @property
    def _committing(self) -> AsyncMemory:
        return self.asyncio

    @property
    def _reviewer(self) -> AsyncMemory:
        return self.asyncio

    @property
    def _analyst(self) -> AsyncMemory:
        return self.asyncio

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asyncio door and wait for it."""
        return self._loop.run(work)

    def whoami(self) -> WhoIsThis:
        """See `AsyncMemory.whoami`."""
        return self.run(self.asyncio.whoami())

    def remember(self, content: str, *, key: str | None = None, **fields: Unpack[RememberFields]) -> Written:
        """See `AsyncMemory.remember`."""
        return self.run(self.asyncio.remember(content, key=key, **fields))

    def remember_many(self, items: Sequence[Mapping[str, Any]], *, key: str | None = None) -> ManyWritten:
        """See `AsyncMemory.remember_many`."""
        return self.run(self.asyncio.remember_many(items, key=key))

    def archive_many(
        self,
        memory_ids: Sequence[AnyId],
        *,
        reason: str | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> ManyWritten:
        """See `AsyncMemory.archive_many`."""
        return self.run(self.asyncio.archive_many(memory_ids, reason=reason, key=key, **written))

    def import_memory(self, content: str, *, key: str | None = None, **fields: Unpack[RememberFields]) -> Written:
        """See `AsyncMemory.import_memory`."""
        return self.run(self.asyncio.import_memory(content, key=key, **fields))

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
        **written: Unpack[WrittenFields],
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
                **written,
            )
        )

    def reaffirm(self, memory_id: AnyId, *, key: str | None = None, **written: Unpack[WrittenFields]) -> Written:
        """See `AsyncMemory.reaffirm`."""
        return self.run(self.asyncio.reaffirm(memory_id, key=key, **written))

    def archive(
        self,
        memory_id: AnyId,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> Written:
        """See `AsyncMemory.archive`."""
        return self.run(
            self.asyncio.archive(memory_id, reason=reason, expected_version=expected_version, key=key, **written)
        )

    def restore(
        self,
        memory_id: AnyId,
        *,
        reason: str | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> Written:
        """See `AsyncMemory.restore`."""
        return self.run(self.asyncio.restore(memory_id, reason=reason, key=key, **written))

    def refute(
        self,
        memory_id: AnyId,
        *,
        reason: str | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> Written:
        """See `AsyncMemory.refute`."""
        return self.run(self.asyncio.refute(memory_id, reason=reason, key=key, **written))

    def release(
        self, memory_id: AnyId, *, reason: str, key: str | None = None, **written: Unpack[WrittenFields]
    ) -> Written:
        """See `AsyncMemory.release`."""
        return self.run(self.asyncio.release(memory_id, reason=reason, key=key, **written))

    def pin(
        self, memory_id: AnyId, *, pinned: bool = True, key: str | None = None, **written: Unpack[WrittenFields]
    ) -> Written:
        """See `AsyncMemory.pin`."""
        return self.run(self.asyncio.pin(memory_id, pinned=pinned, key=key, **written))

    def verify(self, memory_id: AnyId, *, key: str | None = None, **written: Unpack[WrittenFields]) -> Written:
        """See `AsyncMemory.verify`."""
        return self.run(self.asyncio.verify(memory_id, key=key, **written))

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

    def get_facts(self, **query: Unpack[GetFactsFields]) -> FactPage:
        """See `AsyncMemory.get_facts`."""
        return self.run(self.asyncio.get_facts(**query))

    def events(self, **query: Unpack[EventFields]) -> EventPage:
        """See `AsyncMemory.events`."""
        return self.run(self.asyncio.events(**query))

    def tail(self, **query: Unpack[TailFields]) -> Generator[EventView]:
        """See `AsyncMemory.tail`. Leave the loop, or close the generator, to stop."""
        return self._each(self.asyncio.tail(**query))

    def replay(self, to: AnyInstant | int, *, report: Report = silent) -> Generator[MemoryView]:
        """See `AsyncMemory.replay`."""
        return self._each(self.asyncio.replay(to, report=report))

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

    def export_archive(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        report: Report = silent,
        **chosen: Unpack[ArchiveFields],
    ) -> ArchiveWritten:
        """See `AsyncMemory.export_archive`."""
        return self.run(self.asyncio.export_archive(path, overwrite=overwrite, report=report, **chosen))

    def import_archive(self, path: str | Path, *, dry_run: bool = False, report: Report = silent) -> ImportResult:
        """See `AsyncMemory.import_archive`."""
        return self.run(self.asyncio.import_archive(path, dry_run=dry_run, report=report))

    def import_foreign(
        self, source: ForeignFormat, path: str | Path, *, dry_run: bool = False, report: Report = silent
    ) -> ForeignResult:
        """See `AsyncMemory.import_foreign`."""
        return self.run(self.asyncio.import_foreign(source, path, dry_run=dry_run, report=report))

    def briefing(
        self, selector: Selector, *, mode: Mode = "brief", **about: Unpack[BriefingFields]
    ) -> BriefingView:
        """See `AsyncMemory.briefing`."""
        return self.run(self.asyncio.briefing(selector, mode=mode, **about))

    def handoff(
        self, selector: Selector, *, generated_for: str | None = None, **about: Unpack[BriefingFields]
    ) -> BriefingView:
        """See `AsyncMemory.handoff`."""
        return self.run(self.asyncio.handoff(selector, generated_for=generated_for, **about))

    def scopes(self, **query: Unpack[ScopeFields]) -> ScopePage:
        """See `AsyncMemory.scopes`."""
        return self.run(self.asyncio.scopes(**query))

    def create_scope(self, scope: str) -> ScopeWritten:
        """See `AsyncMemory.create_scope`."""
        return self.run(self.asyncio.create_scope(scope))

    def set_retrieval_scope(
        self, mode: Literal["off", "default", "require"], scope: str | None = None
    ) -> ScopeWritten:
        """See `AsyncMemory.set_retrieval_scope`."""
        return self.run(self.asyncio.set_retrieval_scope(mode, scope))

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

    def policy_report(self) -> PolicyReport:
        """See `AsyncMemory.policy_report`."""
        return self.run(self.asyncio.policy_report())
