"""How the demo looks: headings, hits, proposals, tables. Content is never read as markup."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ...handlers.operating.views import Chain, History, MemoryView, ProposalDetail, SearchResult
from .report import Report

_TITLE = 40
"""Characters of a title by which a text that names it is known."""
_MARKS = re.compile(r"^ADR-\d+ | \(\d+ of \d+\)$")
"""What the topics of decision records and of parts have around the title."""
_COLOURS = {"archive": "yellow", "supersede": "magenta", "conflict": "red", "keep": "green"}


def progress(console: Console) -> Progress:
    """A progress bar that also reads well in a log."""
    return Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=not console.is_terminal,
    )


def heading(console: Console, number: int, title: str) -> None:
    """The beginning of a stage."""
    console.print()
    console.print(f"[bold cyan]{number}. {escape(title)}[/]")


def hits(console: Console, title: str, result: SearchResult) -> None:
    """A search result, best first; superseded ones are marked."""
    table = Table(title=escape(title), title_justify="left", title_style="bold", box=None, padding=(0, 1))
    table.add_column("score", justify="right")
    table.add_column("said on")
    table.add_column("memory", overflow="fold")
    for hit in result.hits:
        text = Text(one_line(titled(hit.memory)), style="dim" if hit.superseded else "")
        if hit.superseded:
            text = Text("superseded ", style="magenta").append_text(text)
        table.add_row(f"{hit.score:+.2f}", hit.memory.occurred_at.date().isoformat(), text)
    console.print(table)


def proposal(console: Console, detail: ProposalDetail) -> None:
    """One proposal in full: both memories, the probability map as bars, the sentence it rests on."""
    shown = detail.proposal
    colour = _COLOURS.get(shown.action, "white")
    console.print(f"  [bold {colour}]{shown.action}[/]  [dim]{shown.id}[/]")
    memory_line(console, "older", detail.memory)
    memory_line(console, "newer", detail.related)
    for key, chance in sorted(shown.probabilities.items(), key=lambda item: -item[1]):
        bar = "█" * round(chance * 24)
        console.print(Text(f"    {key:<24} {chance:5.3f} {bar}", style=colour if chance > 0.5 else "dim"))
    if shown.quote:
        console.print(Text(f"    it rests on: “{one_line(shown.quote)}”", style="italic"), soft_wrap=True)


def nothing_proposed(console: Console) -> None:
    """Why a queue is empty, which is no fault."""
    console.print(
        "  nothing is proposed: the default judge does so only where a text itself says that it ends or replaces "
        "another one that is remembered, too, such as “Supersedes ADR-0005”"
    )


def decided(console: Console, did: str, action: str, memory: MemoryView) -> None:
    """What was decided about which memory."""
    said = Text(f"    {did:<9} {action:<10} ", style="dim").append(one_line(titled(memory)), "not dim")
    console.print(said, soft_wrap=True)


def titled(memory: MemoryView) -> str:
    """What the memory says, under its title where it does not name that itself."""
    title = _MARKS.sub("", memory.topic)[:_TITLE].removesuffix("…")
    return memory.content if title in memory.content else f"{memory.topic}: {memory.content}"


def memory_line(console: Console, role: str, memory: MemoryView | None) -> None:
    """One memory in one line."""
    if memory is None:
        return
    console.print(
        Text(f"    {role:<6} {memory.occurred_at.date()}  ", style="dim").append(
            one_line(titled(memory)), "not dim"
        ),
        soft_wrap=True,
    )


def chain(console: Console, found: Chain) -> None:
    """A causal chain, oldest first."""
    for link in found.links:
        console.print(
            Text(f"    {link.position:>6}  {link.event:<26} ", style="dim")
            .append(link.says, "not dim")
            .append(f"  ({link.actor})", "dim"),
            soft_wrap=True,
        )


def history(console: Console, found: History) -> None:
    """What happened to one memory."""
    for entry in found.entries:
        by = f" · judge {entry.judge}" if entry.judge else ""
        console.print(Text(f"    {entry.position:>6}  {entry.event:<26} {entry.actor}{by}"), soft_wrap=True)


def rows(console: Console, title: str, values: Iterable[tuple[str, object]]) -> None:
    """A two-column table."""
    table = Table(title=escape(title), title_justify="left", title_style="bold", box=None, padding=(0, 1))
    table.add_column("", style="cyan")
    table.add_column("", justify="right")
    for name, value in values:
        table.add_row(escape(name), Text(str(value)))
    console.print(table)


def summary(console: Console, report: Report) -> None:
    """The closing table."""
    found: list[tuple[str, object]] = [
        ("memories remembered", report.memories),
        ("events in the log", report.events),
        ("passes", report.passes),
        (
            "candidates that qualified (singles, pairs)",
            f"{report.candidates['singles']}, {report.candidates['pairs']}",
        ),
        ("questions judged", report.judged),
        ("proposed", _counts(report.proposed)),
        ("dismissed", _counts(report.dismissed)),
    ]
    if report.lineage is not None and report.recall is not None:
        found += [
            ("links the newer side states", report.lineage["links"]),
            ("proposals confirmed by both sides", report.lineage["confirmed"]),
            ("claimed by the newer side only", report.lineage["claimed_only"]),
            ("contradicted", report.lineage["contradicted"] + report.lineage["older_only"]),
            ("hard negatives proposed", report.hard_negatives_proposed),
            ("recall after the first pass", _share(report.recall["after_first_pass"])),
            ("recall after all passes", _share(report.recall["after_all_passes"])),
        ]
    found += [
        ("accepted, rejected, revised", f"{report.accepted}, {report.rejected}, {report.revised}"),
        ("live views equal their rebuild", "yes" if report.rebuild_equal else "NO"),
        ("seconds", f"{sum(report.seconds.values()):.1f}"),
    ]
    rows(console, "Summary", found)
    rows(console, "Seconds per stage", report.seconds.items())


def next_steps(console: Console, data_dir: Path | None, tenant: str) -> None:
    """What to try now; on the demo's own memories where its directory was kept."""
    where = f" --data-dir {shlex.quote(str(data_dir))} --tenant {tenant}" if data_dir else ""
    console.print()
    console.print("[bold]Next[/]")
    for command, why in (
        (
            "lethelog demo --from ./docs/adr",
            "the same on decision records or notes of your own",
        ),
        (f"lethelog{where} remember 'Deploys go to Hetzner' --type decision", "a memory of your own"),
        (f"lethelog{where} search 'where do deploys go'", "find it"),
        (f"lethelog{where} review", "walk a review queue"),
        ("lethelog --help", "everything else"),
    ):
        console.print(Text(f"  {command}", style="green").append(f"   {why}", "dim"), soft_wrap=True)


def one_line(text: str, limit: int = 160) -> str:
    """Text for one line of a terminal: no line breaks, no control characters."""
    flat = " ".join(text.split())
    plain = "".join(character for character in flat if character.isprintable())
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def _counts(counted: Mapping[str, int]) -> str:
    listed: Sequence[str] = [f"{count} {action}" for action, count in sorted(counted.items())]
    return ", ".join(listed) or "none"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.3f}"
