"""``lethelog demo``: the main job, on real input, on real servers (see the README for what it shows)."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

from rich.console import Console
from rich.markup import escape

from ...domain.display import counted
from ...domain.errors import InvalidInput
from ...handlers.arguments import RememberFields
from ...handlers.memory import AsyncMemory
from ...handlers.operating.views import PassView, ProposalView, SearchResult
from ...projections.generations import tenant_read_models
from ..local import open_memory
from ..settings import Settings
from . import show
from .files import load_files
from .lineage import Lineage, compare
from .report import Report
from .sample import Sample, load_sample

WRITERS = 64
"""Remembers under way at once; they share commits."""
PASS_LIMIT = 30
PASS_SECONDS = 300.0
SHOWN_PROPOSALS = 3
DEMO_POLICY: Mapping[str, Any] = {"pairs_cap": 2_000, "singles_cap": 200}
"""Higher caps than the default 40 and 60, which suit a queue that a person reads each day."""


def demo_command(
    *,
    source: Path | None,
    report: Path | None,
    data_dir: Path | None,
    keep: bool,
    console: Console,
    max_passes: int | None,
) -> int:
    """Run the demo; 0 when everything held. A data directory of its own is made and removed, unless told."""
    with ExitStack() as stack:
        if data_dir is None:
            folder = Path(tempfile.mkdtemp(prefix="lethelog-demo-"))
            if not keep:
                stack.callback(_discard, folder)
        else:
            folder = data_dir
        tenant = f"demo-{uuid4().hex[:12]}"
        found = asyncio.run(_run(source, folder, tenant, console, max_passes or PASS_LIMIT))
        if report is not None:
            found.write(report)
            console.print(f"\nThe report is in {report}")
        show.next_steps(console, folder if keep or data_dir else None, tenant)
    return 0 if found.rebuild_equal else 1


async def _run(source: Path | None, folder: Path, tenant: str, console: Console, max_passes: int) -> Report:
    report = Report(source="sample" if source is None else "files")
    # A tenant of its own, so that a directory in use is not mixed with the demo's memories.
    settings = Settings.load(data_dir=folder, tenant=tenant, actor="person:demo")
    console.print("[bold]Lethelog[/]: agent memory that forgets on the record")
    console.print(f"[dim]PostgreSQL and NATS start in {escape(str(folder))}[/]")
    with report.timed("start"):
        async with await open_memory(settings.of_installation(), ()) as operator:
            await operator.tenants.create(tenant)
        memory = await open_memory(settings)
    async with memory:
        demo = _Demo(memory, console, report)
        if source is None:
            await demo.on_sample(load_sample(), max_passes)
        else:
            await demo.on_files(source, max_passes)
    return report


class _Demo:
    def __init__(self, memory: AsyncMemory, console: Console, report: Report) -> None:
        self._memory = memory
        self._console = console
        self._report = report
        self._keys: dict[UUID, str] = {}

    async def on_sample(self, sample: Sample, max_passes: int) -> None:
        """The shipped index of Python Enhancement Proposals and RFCs."""
        show.heading(self._console, 1, f"Remember {len(sample.worded)} decisions, each at its own date")
        memories = [
            {
                "content": one.content,
                "topic": one.topic,
                "memory_type": one.memory_type,
                "occurred_at": one.occurred_at,
                "project": one.project,
            }
            for one in sample.worded
        ]
        await self._remember(memories, [one.key for one in sample.worded])
        question = "metadata for Python software packages"
        await self._search(question, "before any pass")
        proposals, first = await self._passes(max_passes)
        await self._show_queue(proposals)
        lineage, lineage_first = self._lineage(proposals, sample), self._lineage(first, sample)
        self._report.set_lineage(lineage_first, lineage)
        self._show_lineage(lineage, lineage_first)
        await self._decide(proposals, question)
        await self._prove(proposals)

    async def on_files(self, source: Path, max_passes: int) -> None:
        """A user's own folder or file."""
        with self._report.timed("read files"):
            loaded = load_files(source)
        show.heading(
            self._console,
            1,
            f"Remember {counted(len(loaded.memories), 'memory')} out of {counted(loaded.files, 'file')}",
        )
        for warning in loaded.warnings[:20]:
            self._console.print(f"  [yellow]left out[/] {escape(str(warning))}", highlight=False)
        if len(loaded.warnings) > 20:
            self._console.print(f"  [yellow]and {len(loaded.warnings) - 20} more left out[/]")
        memories = [
            {
                "content": one.content,
                "topic": one.topic,
                "memory_type": one.memory_type,
                "tags": one.tags,
                **({"occurred_at": one.occurred_at} if one.occurred_at is not None else {}),
                **({"project": one.project} if one.project is not None else {}),
                **({"metadata": dict(one.metadata)} if one.metadata else {}),
            }
            for one in loaded.memories
        ]
        await self._remember(memories, [one.key for one in loaded.memories])
        question = loaded.memories[0].topic
        await self._search(question, "before any pass")
        proposals, _ = await self._passes(max_passes)
        await self._show_queue(proposals)
        await self._decide(proposals, question)
        await self._prove(proposals)

    async def _remember(self, memories: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> None:
        slots = asyncio.Semaphore(WRITERS)
        with show.progress(self._console) as bar, self._report.timed("remember"):
            task = bar.add_task("remembering", total=len(memories))

            async def one(fields: Mapping[str, Any], key: str) -> None:
                async with slots:
                    arguments = dict(fields)
                    content: str = arguments.pop("content")
                    written = await self._memory.remember(content, **cast(RememberFields, arguments))
                self._keys.setdefault(written.memory.id, key)
                self._report.memories += not written.deduplicated
                self._report.deduplicated += written.deduplicated
                bar.advance(task)

            await asyncio.gather(*(one(fields, key) for fields, key in zip(memories, keys, strict=True)))
        with self._report.timed("build views"):
            await self._memory.list(limit=1)
        if self._report.deduplicated:
            self._console.print(f"  not written again, as another says the same: {self._report.deduplicated}")

    async def _search(self, question: str, when: str, **filters: Any) -> SearchResult:
        with self._report.timed("search"):
            result = await self._memory.search(question, limit=5, **filters)
        show.hits(self._console, f"search “{show.one_line(question)}”, {when}", result)
        return result

    async def _passes(self, max_passes: int) -> tuple[list[ProposalView], list[ProposalView]]:
        show.heading(self._console, 2, "Forgetting passes over the broker, until none proposes anything")
        await self._memory.set_judgment(True)
        await self._memory.set_policy(DEMO_POLICY)
        first: list[ProposalView] = []
        for number in range(1, max_passes + 1):
            with self._report.timed("passes"):
                done = await self._one_pass(number)
            self._report.add_pass(done, done.stale_singles, done.pairs)
            if number == 1:
                first = await self._queue()
            if not done.proposed:
                break
        return await self._queue(), first

    async def _one_pass(self, number: int) -> PassView:
        with show.progress(self._console) as bar:
            asked = await self._memory.run_pass()
            task = bar.add_task(f"pass {number}", total=None)
            waiting = asyncio.create_task(self._memory.wait_for_pass(asked.id, PASS_SECONDS))
            while not waiting.done():
                await asyncio.wait((waiting,), timeout=0.3)
                if bar.tasks[0].total is None:
                    seen = await self._memory.show_pass(asked.id)
                    if seen.items:
                        bar.update(task, total=seen.items)
                if bar.tasks[0].total is not None:
                    bar.update(task, completed=await self._judged_of(asked.id))
            done = waiting.result()
            bar.update(task, total=done.items, completed=done.items)
        if done.phase == "failed":
            raise InvalidInput("pass", f"ended without judging: {done.failed_because}")
        self._console.print(
            f"  pass {number}: {counted(done.items, 'question')}, proposed {sum(done.proposed.values())}, "
            f"dismissed {sum(done.dismissed.values())}, unjudged {done.refused}"
        )
        return done

    async def _judged_of(self, pass_id: UUID) -> int:
        tenant = (await self._memory.caller()).tenant
        async with tenant_read_models(self._memory.engine.doors, tenant) as connection:
            cursor = await connection.execute(
                "select count(*) from review_queue where tenant = %s and pass_id = %s",
                (tenant, pass_id),
            )
            row = await cursor.fetchone()
        return row[0] if row else 0

    async def _queue(self) -> list[ProposalView]:
        found: list[ProposalView] = []
        page = await self._memory.proposals(status="proposed", limit=100)
        found += page.proposals
        while page.next_cursor is not None:
            page = await self._memory.proposals(status="proposed", limit=100, cursor=page.next_cursor)
            found += page.proposals
        return found

    async def _show_queue(self, proposals: Sequence[ProposalView]) -> None:
        if not proposals:
            show.nothing_proposed(self._console)
            return
        shown = min(SHOWN_PROPOSALS, len(proposals))
        self._console.print(f"  the queue holds {counted(len(proposals), 'proposal')}; shown: {shown}")
        for one in _spread(proposals, SHOWN_PROPOSALS):
            show.proposal(self._console, await self._memory.proposal(one.id))

    def _lineage(self, proposals: Sequence[ProposalView], sample: Sample) -> Lineage:
        pairs = [
            (self._keys[one.memory_id], self._keys[one.related_id])
            for one in proposals
            if one.action == "supersede" and one.related_id is not None
        ]
        return compare(pairs, sample)

    def _show_lineage(self, lineage: Lineage, first: Lineage) -> None:
        show.heading(
            self._console,
            3,
            "The proposals against the older documents' own “superseded by”, never shown to the engine",
        )
        show.rows(
            self._console,
            "supersede proposals",
            (
                ("confirmed by both sides", lineage.confirmed),
                ("claimed by the newer side only", lineage.claimed_only),
                ("contradicted", lineage.contradicted + lineage.older_only),
                ("hard negatives proposed", lineage.hard_negatives_proposed),
                (f"recall of {lineage.links} stated links, first pass", f"{first.recall or 0:.3f}"),
                ("recall, all passes", f"{lineage.recall or 0:.3f}"),
            ),
        )

    async def _decide(self, proposals: Sequence[ProposalView], question: str) -> None:
        show.heading(self._console, 4, "Decide: accept up to three, reject one, revise a memory")
        before = await self._memory.engine.log.head()
        chosen = await self._about(question, proposals)
        with self._report.timed("decide"):
            for one in chosen[:3]:
                await self._memory.accept(one.id, comment="agreed in the demo")
                self._report.accepted += 1
                show.decided(self._console, "accepted", one.action, await self._memory.get(one.memory_id))
            for one in chosen[3:4]:
                await self._memory.reject(one.id, comment="not in the demo")
                self._report.rejected += 1
                show.decided(self._console, "rejected", one.action, await self._memory.get(one.memory_id))
            untouched = [one for one in chosen[4:] if one.related_id is not None]
            target = untouched[0].memory_id if untouched else next(iter(self._keys))
            present = await self._memory.get(target)
            if present.status == "active":
                await self._memory.revise(target, f"{present.content} (seen again in the demo)"[:2_000])
                self._report.revised += 1
                show.decided(self._console, "revised", "", present)
        await self._search(question, "after the decisions")
        await self._search(question, f"as it stood before, at position {before} of the log", known_at=before)

    async def _about(self, question: str, proposals: Sequence[ProposalView]) -> list[ProposalView]:
        """Proposals about what the question finds first, so that the decisions show in the search."""
        result = await self._memory.search(question, limit=25)
        place = {hit.memory.id: n for n, hit in enumerate(result.hits)}
        ordered = sorted(proposals, key=lambda one: (place.get(one.memory_id, 99), str(one.id)))
        taken: set[UUID] = set()
        chosen: list[ProposalView] = []
        for one in ordered:
            about = {one.memory_id, *([one.related_id] if one.related_id else [])}
            if not (about & taken):
                chosen.append(one)
                taken |= about
        return chosen

    async def _prove(self, proposals: Sequence[ProposalView]) -> None:
        show.heading(self._console, 5, "Prove it: one chain, one history, every view against its rebuild")
        decided = (await self._memory.proposals(status="applied", limit=1)).proposals
        with self._report.timed("prove"):
            if decided:
                self._console.print("  how the first accepted proposal came to be:")
                show.chain(self._console, await self._memory.explain(decided[0].id))
                self._console.print("  what happened to the older memory:")
                show.history(self._console, await self._memory.history(decided[0].memory_id))
            equal = True
            for projection in self._memory.engine.projections:
                compared = await self._memory.compare(projection.name)
                equal = equal and compared.equal
                rows = sum(difference.rows for difference in compared.differences)
                said = "equal to its rebuild" if compared.equal else "DIFFERS from its rebuild"
                self._console.print(
                    f"  {projection.name}: {counted(rows, 'row')}, {said} at position {compared.position}"
                )
        self._report.rebuild_equal = equal
        self._report.events = await self._memory.engine.log.head()
        show.heading(self._console, 6, "In numbers")
        show.summary(self._console, self._report)


def _spread(proposals: Sequence[ProposalView], count: int) -> list[ProposalView]:
    """A few of many, evenly over the queue."""
    if len(proposals) <= count:
        return list(proposals)
    step = len(proposals) / count
    return [proposals[int(n * step)] for n in range(count)]


def _discard(folder: Path) -> None:
    from ..embedded import discard

    discard(folder)
