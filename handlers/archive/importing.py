"""Reading an archive into a tenant (ADR 9).

The file is checked as a whole before anything of it is used. Then it comes in by units of some hundred events:
each is there or not, and what is there already is passed over, so an import that was killed goes on when it is
started again, and a second one changes nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from uuid import UUID, uuid5

from ...domain.errors import Conflict, InvalidInput, QuotaExceeded
from ...domain.events import ArchiveImported, ArchiveImportStarted
from ...projections.rebuild import Report, silent
from ...streams.directory import NameKind
from ...streams.log import Appended, ClaimHeld, ErasedMeanwhile, OverQuota, VersionMoved
from ..access.caller import Caller
from ..engine import Engine
from ..memories import ATTEMPTS
from ..operating.views import View
from .contents import Register
from .file import ArchiveReader
from .items import Item, items
from .planning import ImportedItem, Plan, Planner
from .records import Imports

_EVENTS = 400
"""About how many events a unit holds."""
_CHARACTERS = 2_000_000
LISTED = 1_000
"""Items that an answer names; all are counted."""


class ImportResult(View):
    """What came in, or would come in, and what did not and why."""

    archive: UUID
    sha256: str
    dry_run: bool
    events: int
    """Events that the file holds."""
    counts: dict[str, dict[str, int]]
    """kind → action → how many. Actions: imported, continued (more of one that was here), present, erased,
    duplicate, refused."""
    items: tuple[ImportedItem, ...]
    """Those that did not come in; in a dry run those that would, too. At most `LISTED`."""
    position: int | None
    """Position of the log that reads can wait for; None for a dry run."""

    def count(self, *actions: str) -> int:
        """How many items these things became of."""
        return sum(found.get(action, 0) for found in self.counts.values() for action in actions)


@dataclass(slots=True)
class _Tally:
    dry_run: bool
    counts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    listed: list[ImportedItem] = field(default_factory=list[ImportedItem])

    def add(self, outcomes: list[ImportedItem]) -> None:
        for one in outcomes:
            self.counts.setdefault(one.kind, Counter())[one.action] += 1
            plain = one.action in ("imported", "continued", "present")
            if len(self.listed) < LISTED and (not plain or self.dry_run):
                self.listed.append(one)

    def by_kind(self, *actions: str) -> dict[str, int]:
        found = {kind: sum(counted[action] for action in actions) for kind, counted in self.counts.items()}
        return {kind: number for kind, number in found.items() if number}

    def by_action(self, *actions: str) -> dict[str, int]:
        found = {action: sum(counted[action] for counted in self.counts.values()) for action in actions}
        return {action: number for action, number in found.items() if number}


class Importing:
    """Reads archives into one caller's tenant."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._imports = Imports(engine)

    async def import_archive(
        self, caller: Caller, path: Path, report: Report = silent, *, dry_run: bool = False
    ) -> ImportResult:
        """Take over what an archive holds, with its ids, actors and instants; ``dry_run`` only tells.

        An archive says who did what, so reading one in needs the rights of the tenant's administrator. Raises
        `InvalidInput` for a file that is none, was changed or cut short, holds no content, or of another format.
        """
        caller.require("memory:import")
        caller.require("tenant:admin")
        reader = ArchiveReader(path)
        header, digest, events = await asyncio.to_thread(reader.check)
        if not header.content:
            raise InvalidInput("file", "is a skeleton without content, which cannot be told from what was erased")
        register = self._looking_up(caller.tenant) if dry_run else self._registering(caller.tenant)
        planner = Planner(self._engine, caller, header.archive, register)
        tally = _Tally(dry_run)
        begun, last, done = 0, 0, 0
        for batch in _batches(items(reader.events(), caller.tenant)):
            plan = await planner.plan(batch)
            if plan.unit.events and not dry_run:
                if not begun:
                    started = ArchiveImportStarted(digest=digest, tenant=header.tenant)
                    begun = await self._imports.start(caller, header.archive, started)
                plan, last = await self._append(planner, batch, plan, last)
            tally.add(plan.outcomes)
            done += sum(len(item.lines) for item in batch)
            report(done, events)
        if not dry_run:
            last = await self._finish(caller, header.archive, begun, last, tally)
            await self._engine.tenants.get(caller.tenant, fresh=True)
        return ImportResult(
            archive=header.archive,
            sha256=digest,
            dry_run=dry_run,
            events=events,
            counts={kind: dict(found) for kind, found in tally.counts.items()},
            items=tuple(tally.listed),
            position=last or None,
        )

    async def _append(self, planner: Planner, batch: list[Item], plan: Plan, last: int) -> tuple[Plan, int]:
        """Store a plan; one that was overtaken is made anew. Gives the plan that holds, and the position."""
        for _ in range(ATTEMPTS):
            if not plan.unit.events:
                return plan, last
            match await self._engine.log.append(plan.unit):
                case Appended(position=position):
                    return plan, position
                case VersionMoved() | ClaimHeld() | ErasedMeanwhile():
                    plan = await planner.plan(batch)
                case OverQuota(by=by):
                    raise QuotaExceeded(
                        f"the tenant may have too few live memories for this archive, by {by} at least; have the "
                        "policy changed (live_memories) and start it again, it goes on from here"
                    )
                case _:
                    break
        raise Conflict("the tenant keeps changing while this is imported; start it again, it goes on from here")

    async def _finish(self, caller: Caller, archive: UUID, begun: int, last: int, tally: _Tally) -> int:
        """Say on record what came of it, unless nothing came and nothing was begun."""
        recorded = await self._engine.log.read_stream(caller.tenant, archive)
        open_at = recorded[-1].position if recorded and recorded[-1].name == "archive.import_started" else 0
        begun = begun or open_at
        if not begun:
            # What is there already may be newer than what this caller knows of.
            return await self._engine.log.head()
        imported = ArchiveImported(
            first_position=begun + 1,
            last_position=max(last, begun),
            imported=tally.by_kind("imported", "continued"),
            skipped=tally.by_action("present", "erased", "duplicate", "refused"),
        )
        return await self._imports.finish(caller, archive, imported)

    def _registering(self, tenant: UUID) -> Register:
        async def register(kind: NameKind, name: str) -> UUID:
            return await self._engine.directory.register(tenant, kind, name)

        return register

    def _looking_up(self, tenant: UUID) -> Register:
        """For a dry run, which gives no name an id."""

        async def find(kind: NameKind, name: str) -> UUID:
            return await self._engine.directory.find(tenant, kind, name) or uuid5(tenant, f"{kind}:{name}")

        return find


def _batches(found: Iterator[Item]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    events = characters = 0
    for item in found:
        if batch and (events >= _EVENTS or characters + item.size > _CHARACTERS or _apart(batch, item)):
            yield batch
            batch, events, characters = [], 0, 0
        batch.append(item)
        events += len(item.lines)
        characters += item.size
    if batch:
        yield batch


def _apart(batch: list[Item], item: Item) -> bool:
    """What rests on memories comes when they are there; and nothing comes twice in one unit."""
    return batch[-1].kind != item.kind or any(one.stream == item.stream for one in islice(batch, None))
