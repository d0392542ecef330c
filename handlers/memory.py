"""The Python door: one caller's memory, asyncio first; `handlers.blocking` is the same for everybody else.

Every write's position is remembered, and every read waits for it: you always read your own writes.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack, cast

from ..domain.errors import InvalidInput, NotCaughtUp
from ..domain.extraction import FactExtractor
from ..domain.fields import Input, Position, parse
from ..domain.topic import topic_of
from ..projections.rebuild import Report, silent
from ..streams.broker import BrokerSettings
from .access.caller import Caller
from .access.credentials import Credential
from .analytics.doors import AsyncAnalyticsDoor
from .analytics.review_stats import ReviewFigures
from .archive.exporting import ArchiveWritten, Exporting
from .archive.foreign import ForeignFormat, ForeignResult, TakingOver
from .archive.importing import Importing, ImportResult
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
    path_of,
)
from .briefing import Briefing
from .bulk_writing import ManyWritten, checked_items, item_keys, write_many
from .choices import Mode, Selector
from .commitments.doors import AsyncCommitmentDoor
from .consolidation.doors import AsyncConsolidationDoor
from .contradictions.doors import AsyncContradictionDoor
from .engine import Engine
from .erasure.doors import AsyncErasureDoor
from .explaining import Explaining
from .extracting.by_hand import ExtractingByHand
from .extracting.doors import AsyncExtractionDoor
from .facts import Facts
from .forgetting.requesting import Passes
from .forgetting.settings import PassSettings
from .memories import MemoryCommands, Retry
from .operating.event_log import EventLog
from .operating.installation import AsyncInstallation
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
from .reading import Reading
from .reviewing.doors import AsyncReviewDoor
from .reviewing.reviewing import Reviewing
from .sessions.doors import AsyncSessions
from .tenancy.doors import AsyncTenants, AsyncTokens
from .tenancy.policies import Policies
from .tenancy.scopes import Scopes
from .undoing.undoing import Undoing
from .webhooks.doors import AsyncWebhooks
from .whatif.whatif import JudgeNamed, WhatIf, no_judges


class _Waiting(Input):
    after: Position


Close = Callable[[], Awaitable[None]]
_PASS_POLL_SECONDS = 0.1


class AsyncMemory(
    AsyncInstallation,
    AsyncErasureDoor,
    AsyncCommitmentDoor,
    AsyncConsolidationDoor,
    AsyncContradictionDoor,
    AsyncExtractionDoor,
    AsyncReviewDoor,
    AsyncAnalyticsDoor,
):
    """Long-term memory of one tenant, for one actor; close it or use ``async with``."""

    def __init__(
        self,
        engine: Engine,
        whose: Caller | Credential,
        passes: PassSettings,
        close: Close | None = None,
        *,
        broker: BrokerSettings | None = None,
        position: int = 0,
        judge_named: JudgeNamed = no_judges,
        extractor: FactExtractor | None = None,
    ) -> None:
        super().__init__(engine, whose, broker)
        self.tenants = AsyncTenants(engine, self.caller)
        self.tokens = AsyncTokens(engine, self.caller)
        self.webhooks = AsyncWebhooks(engine, self.caller)
        self.sessions = AsyncSessions(engine, self.caller, self._reached)
        self._policies = Policies(engine)
        self._commands = MemoryCommands(engine)
        self._reading = Reading(engine)
        self._facts = Facts(engine)
        self._briefing = Briefing(engine)
        self._scopes = Scopes(engine)
        self._reviewing = Reviewing(engine, self._commands)
        self._passes = Passes(engine, passes)
        self._explaining = Explaining(engine, self._reviewing)
        self._undoing = Undoing(engine, self._commands)
        self._figures = ReviewFigures(engine)
        self._what_if = WhatIf(engine, judge_named)
        self._extracting = ExtractingByHand(engine, extractor)
        self._event_log = EventLog(engine)
        self._exporting = Exporting(engine)
        self._importing = Importing(engine)
        self._foreign = TakingOver(engine, self._commands)
        self._close = close
        self.position = position
        """Log position that reads wait for: this memory's newest write, or the log's end when it was opened."""

    async def __aenter__(self) -> "AsyncMemory":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Drain what waits and let the servers go."""
        if self._close is not None:
            close, self._close = self._close, None
            await close()

    async def whoami(self) -> WhoIsThis:
        """What this memory's credential stands for. Raises `InvalidCredential` once it is no longer valid."""
        caller = await self.caller()
        names = await self.engine.directory.names(caller.tenant, [caller.actor.id])
        name = names.get(caller.actor.id)
        return WhoIsThis(
            tenant=caller.tenant,
            actor=caller.actor.kind if name is None else f"{caller.actor.kind}:{name}",
            permissions=tuple(sorted(caller.permissions)),
        )

    async def remember(self, content: str, *, key: str | None = None, **fields: Unpack[RememberFields]) -> Written:
        """Write a memory; the topic is taken from the content where none is given.

        Text that is remembered already gives the older memory, with ``deduplicated=True`` and no new event.
        ``key`` makes a retry safe: the same key and fields give the first result again.
        """
        arguments: dict[str, Any] = {**fields, "content": content}
        arguments.setdefault("topic", topic_of(content))
        return self._noted(await self._commands.remember(await self.caller(), arguments, Retry(key)))

    async def remember_many(self, items: Sequence[Mapping[str, Any]], *, key: str | None = None) -> ManyWritten:
        """Write up to 100 memories, each with what `remember` takes and with its own result.

        One that is refused holds up no other. ``key`` makes a retry of the whole call safe.
        """
        (await self.caller()).require("memory:write")
        found = checked_items("items", items)
        keys = item_keys(key, len(found))
        writes = [partial(self._remember, given, one) for given, one in zip(found, keys, strict=True)]
        return self._many(await write_many(writes))

    async def archive_many(
        self,
        memory_ids: Sequence[AnyId],
        *,
        reason: str | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> ManyWritten:
        """Put up to 100 memories away, each with its own result."""
        (await self.caller()).require("memory:write")
        ids = checked_items("memory_ids", memory_ids)
        writes = [
            partial(self.archive, one, reason=reason, key=item, **written)
            for one, item in zip(ids, item_keys(key, len(ids)), strict=True)
        ]
        return self._many(await write_many(writes))

    async def import_memory(
        self, content: str, *, key: str | None = None, **fields: Unpack[RememberFields]
    ) -> Written:
        """Take over one memory written elsewhere: up to 262,144 characters, at its own ``occurred_at``."""
        arguments: dict[str, Any] = {**fields, "content": content}
        arguments.setdefault("topic", topic_of(content))
        return self._noted(await self._commands.import_memory(await self.caller(), arguments, Retry(key)))

    async def revise(
        self, memory_id: AnyId, content: str, *, key: str | None = None, **fields: Unpack[ReviseFields]
    ) -> Written:
        """Write the successor of a memory; what is left out is taken from the predecessor."""
        arguments = {**fields, "memory_id": memory_id, "content": content}
        return self._noted(await self._commands.revise(await self.caller(), arguments, Retry(key)))

    async def move(
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
        """File a memory elsewhere; its content stays."""
        arguments = {
            **written,
            "memory_id": memory_id,
            "scope": scope,
            "project": project,
            "no_project": no_project,
            "tags": tags,
            "expected_version": expected_version,
        }
        return self._noted(await self._commands.move(await self.caller(), arguments, Retry(key)))

    async def reaffirm(
        self, memory_id: AnyId, *, key: str | None = None, **written: Unpack[WrittenFields]
    ) -> Written:
        """Say that a memory still holds."""
        return self._noted(
            await self._commands.reaffirm(await self.caller(), {**written, "memory_id": memory_id}, Retry(key))
        )

    async def archive(
        self,
        memory_id: AnyId,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> Written:
        """Put a memory away. It stays readable, and its text may be remembered again."""
        arguments = {**written, "memory_id": memory_id, "reason": reason, "expected_version": expected_version}
        return self._noted(await self._commands.archive(await self.caller(), arguments, Retry(key)))

    async def restore(
        self,
        memory_id: AnyId,
        *,
        reason: str | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> Written:
        """Undo archive and suppress."""
        arguments = {**written, "memory_id": memory_id, "reason": reason}
        return self._noted(await self._commands.restore(await self.caller(), arguments, Retry(key)))

    async def refute(
        self,
        memory_id: AnyId,
        *,
        reason: str | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> Written:
        """Say that a memory was never true; its text comes back only into quarantine."""
        arguments = {**written, "memory_id": memory_id, "reason": reason}
        return self._noted(await self._commands.refute(await self.caller(), arguments, Retry(key)))

    async def release(
        self, memory_id: AnyId, *, reason: str, key: str | None = None, **written: Unpack[WrittenFields]
    ) -> Written:
        """Let a quarantined memory in after all."""
        arguments = {**written, "memory_id": memory_id, "reason": reason}
        return self._noted(await self._commands.release(await self.caller(), arguments, Retry(key)))

    async def pin(
        self, memory_id: AnyId, *, pinned: bool = True, key: str | None = None, **written: Unpack[WrittenFields]
    ) -> Written:
        """Protect a memory from every proposal but conflict, or stop protecting it."""
        arguments = {**written, "memory_id": memory_id, "pinned": pinned}
        return self._noted(await self._commands.pin(await self.caller(), arguments, Retry(key)))

    async def verify(
        self, memory_id: AnyId, *, key: str | None = None, **written: Unpack[WrittenFields]
    ) -> Written:
        """Record that a memory was confirmed."""
        return self._noted(
            await self._commands.verify(await self.caller(), {**written, "memory_id": memory_id}, Retry(key))
        )

    async def search(self, query: str, *, limit: int = 5, **filters: Unpack[FilterFields]) -> SearchResult:
        """The best matches; superseded memories come last and flagged, or not at all with ``current=True``.

        ``known_at`` searches what was on record then, ``valid_at`` what held then.
        """
        return await self._reading.search(await self.caller(), self._dated(filters, query=query, limit=limit))

    async def get(self, memory_id: AnyId, **times: Unpack[TimeFields]) -> MemoryView:
        """One memory of any status, as it was at ``known_at``, and if it held at ``valid_at``."""
        [found] = await self.get_many([memory_id], **times)
        return found

    async def get_many(self, ids: Sequence[AnyId], **times: Unpack[TimeFields]) -> tuple[MemoryView, ...]:
        """Up to 20 memories, in the order asked."""
        return await self._reading.get(await self.caller(), self._dated(times, ids=ids))

    async def list(
        self, *, limit: int = 25, cursor: str | None = None, **filters: Unpack[FilterFields]
    ) -> MemoryPage:
        """A page of memories, newest first; ``known_at`` and ``valid_at`` as in `search`."""
        return await self._reading.list(await self.caller(), self._dated(filters, limit=limit, cursor=cursor))

    async def history(self, memory_id: AnyId, **times: Unpack[KnownFields]) -> History:
        """Everything that happened to a memory, with actors and causes; up to ``known_at`` where it is given."""
        return await self._reading.history(await self.caller(), self._dated(times, memory_id=memory_id))

    async def get_facts(self, **query: Unpack[GetFactsFields]) -> FactPage:
        """A page of facts, the latest recorded first: those that held at ``valid_at``, or have no known end."""
        return await self._facts.get(await self.caller(), self._dated(query))

    async def events(self, **query: Unpack[EventFields]) -> EventPage:
        """A page of the log itself, in order: every event of this tenant, opened."""
        return await self._event_log.page(await self.caller(), query)

    async def tail(self, **query: Unpack[TailFields]) -> AsyncGenerator[EventView]:
        """Events as they are committed, from ``from_position`` on or only new ones; close it when done."""
        async with contextlib.aclosing(self._event_log.tail(await self.caller(), query)) as events:
            async for event in events:
                # The credential may have been revoked while nothing came.
                await self.caller()
                yield event

    async def replay(self, to: AnyInstant | int, *, report: Report = silent) -> AsyncGenerator[MemoryView]:
        """Every memory as the log up to ``to`` makes it, folded from the events and not read from a read model."""
        async with contextlib.aclosing(self._replaying.memories(await self.caller(), {"to": to}, report)) as found:
            async for memory in found:
                await self.caller()
                yield memory

    async def export_archive(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        report: Report = silent,
        **chosen: Unpack[ArchiveFields],
    ) -> ArchiveWritten:
        """Write this tenant, or the memories that a filter keeps, as one archive.

        It holds them in clear, by outside names, with their history, proposals and decisions; compressed where its
        name ends in ``.gz``. That it was written is on record. The file appears once it is whole; broken off,
        nothing is left.
        """
        written, position = await self._exporting.export(
            await self.caller(), path_of(path), chosen, report, overwrite=overwrite
        )
        self.position = max(self.position, position)
        return written

    async def import_archive(
        self, path: str | Path, *, dry_run: bool = False, report: Report = silent
    ) -> ImportResult:
        """Read an archive in, with its ids, actors and instants; twice is once, and what was erased stays erased.

        ``dry_run`` tells what would come, item by item, and changes nothing.
        """
        result = await self._importing.import_archive(await self.caller(), path_of(path), report, dry_run=dry_run)
        self.position = max(self.position, result.position or 0)
        return result

    async def import_foreign(
        self, source: ForeignFormat, path: str | Path, *, dry_run: bool = False, report: Report = silent
    ) -> ForeignResult:
        """Take over what another system wrote: ``mem0`` (get_all, history) or ``mcp-memory`` (JSON lines).

        Everything comes in as the words of an importer; what has no place here is listed.
        """
        result = await self._foreign.take_over(await self.caller(), source, path_of(path), report, dry_run=dry_run)
        self.position = max(self.position, result.position or 0)
        return result

    async def briefing(
        self, selector: Selector, *, mode: Mode = "brief", **about: Unpack[BriefingFields]
    ) -> BriefingView:
        """What somebody who starts should know: sections of live memories, each with its exact count.

        ``selector`` says what it is about: ``all``, ``scope``, ``project`` or ``scope_project``.
        """
        return await self._briefing.brief(await self.caller(), self._dated(about, selector=selector, mode=mode))

    async def handoff(
        self, selector: Selector, *, generated_for: str | None = None, **about: Unpack[BriefingFields]
    ) -> BriefingView:
        """What somebody who takes over should know: decisions, commitments and preferences, with their texts."""
        asked = self._dated(about, selector=selector, mode="handoff", generated_for=generated_for)
        return await self._briefing.brief(await self.caller(), asked)

    async def scopes(self, **query: Unpack[ScopeFields]) -> ScopePage:
        """Scopes by name, and what a read does that names none."""
        return await self._scopes.list(await self.caller(), self._dated(query))

    async def create_scope(self, scope: str) -> ScopeWritten:
        """Register a scope, so that it can be the default and is offered where one is required."""
        written = await self._scopes.create(await self.caller(), {"scope": scope})
        self.position = max(self.position, written.position)
        return written

    async def set_retrieval_scope(
        self, mode: Literal["off", "default", "require"], scope: str | None = None
    ) -> ScopeWritten:
        """What search, list and briefing do from now on where no scope is named. It is recorded.

        ``off``: find everything; ``default``: keep to ``scope``; ``require``: refuse.
        """
        written = await self._scopes.set_retrieval(await self.caller(), {"mode": mode, "scope": scope})
        self.position = max(self.position, written.position)
        return written

    async def run_pass(self, *, wait_seconds: float | None = None, key: str | None = None) -> PassView:
        """Ask for a forgetting pass; with ``wait_seconds``, return when it is finished.

        Raises `NotCaughtUp` when it is not finished by then; it goes on all the same.
        """
        if wait_seconds is not None:
            _check_seconds("wait_seconds", wait_seconds)
        asked = await self._passes.request(await self.caller(), {"key": key})
        return asked if wait_seconds is None else await self.wait_for_pass(asked.id, wait_seconds)

    async def wait_for_pass(self, pass_id: AnyId, seconds: float) -> PassView:
        """The pass when it is finished and its proposals are in the queue."""
        await self.show_pass(pass_id)
        _check_seconds("seconds", seconds)
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            if await self._passes.ended(await self.caller(), {"pass_id": pass_id}):
                self.position = max(self.position, await self.engine.log.head())
                return await self.show_pass(pass_id)
            if asyncio.get_running_loop().time() > deadline:
                found = await self.show_pass(pass_id)
                raise NotCaughtUp(
                    f"pass {found.id} is not finished after {seconds:g} s (it is {found.phase}); it goes on, see: "
                    f"lethelog pass show {found.id}",
                    pass_id=found.id,
                )
            await asyncio.sleep(_PASS_POLL_SECONDS)

    async def show_pass(self, pass_id: AnyId) -> PassView:
        """One pass as it stands."""
        return await self._passes.show(await self.caller(), {"pass_id": pass_id})

    async def settings(self) -> SettingsView:
        """The tenant's settings."""
        caller = await self.caller()
        caller.require("memory:read")
        return await self._settings(caller)

    async def _settings(self, caller: Caller) -> SettingsView:
        state = await self.engine.tenants.get(caller.tenant, fresh=True)
        return SettingsView(
            tenant=state.id,
            judgment=state.judgment,
            policy=await self._policies.shown(state),
            policy_version=state.policy_version,
            position=await self.engine.log.newest_position(state.id, state.id),
        )

    async def set_judgment(self, enabled: bool) -> SettingsView:
        """Allow or forbid judging; off by default, and recorded."""
        caller = await self.caller()
        caller.require("tenant:admin")
        if not isinstance(enabled, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
            raise InvalidInput("enabled", "must be true or false")
        _, position = await self.engine.tenants.set_judgment(caller.tenant, enabled, caller.actor)
        self.position = max(self.position, position)
        return await self._settings(caller)

    async def set_policy(self, changes: Mapping[str, Any]) -> SettingsView:
        """Put a changed forgetting policy in force; what is not named stays."""
        caller = await self.caller()
        caller.require("tenant:admin")
        if not isinstance(changes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - as above
            raise InvalidInput("changes", "must be settings and their values")
        position = await self._policies.change(caller, changes)
        self.position = max(self.position, position)
        return await self._settings(caller)

    async def policy_report(self) -> PolicyReport:
        """The forgetting policy, the questions it does not answer yet, and how the store grows under it."""
        return await self._policies.report(await self.caller())

    def _dated(self, given: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        """The arguments of a read, which waits for this memory's own writes unless it looks at the past.

        ``after`` waits for what the caller knows of besides, whichever comes later.
        """
        arguments = {**given, **fields}
        if given.get("known_at") is not None:
            return arguments
        asked = given.get("after")
        beyond = 0 if asked is None else parse(_Waiting, {"after": asked}).after
        return {**arguments, "after": max(self.position, beyond)}

    async def _remember(self, given: object, key: str | None) -> Written:
        if not isinstance(given, Mapping):
            raise InvalidInput("items", "must be the fields of memories")
        fields: dict[str, Any] = {**cast("Mapping[str, Any]", given)}
        fields.setdefault("topic", topic_of(fields.get("content")))
        return self._noted(await self._commands.remember(await self.caller(), fields, Retry(key)))

    def _many(self, written: ManyWritten) -> ManyWritten:
        self.position = max(self.position, written.position or 0)
        return written

    def _reached(self, position: int) -> int:
        self.position = max(self.position, position)
        return self.position

    def _noted(self, written: Written) -> Written:
        self.position = max(self.position, written.position)
        return written


def _check_seconds(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(field, "must be a number of seconds")
