"""The benchmark: every figure beside what it is held against."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import add
from .session import Session

if TYPE_CHECKING:
    from collections.abc import Generator

    from ..bench.run import Watch


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    add(
        app,
        bench,
        "lethelog bench --quick",
        "lethelog bench --only append-64 --only append-one",
        "lethelog bench --json bench.json --chart bench.svg --report bench.md",
        panel="Run",
    )


def bench(
    context: typer.Context,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Only this measure (see --list); may be repeated."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there as JSON; - for stdout.")
    ] = None,
    chart_file: Annotated[
        Path | None, typer.Option("--chart", metavar="FILE", help="Draw them there, as SVG.")
    ] = None,
    page_file: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a page there, in Markdown.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The same ratios from shorter runs, in some 40 s.")
    ] = False,
    here: Annotated[
        bool,
        typer.Option(
            "--here",
            help="On the servers of the settings, in a scratch database; on servers of its own otherwise.",
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 where a figure misses what is asked for.")
    ] = False,
    list_only: Annotated[bool, typer.Option("--list", help="Only list the measures.")] = False,
) -> None:
    """Measure speed against stock parts, side by side in one run, with the disk's flush time beside each figure.

    Takes several minutes and both cores; for ratios that mean something leave the machine alone meanwhile. Needs
    the extra lethelog[local] unless --here is given. Whatever it makes, it takes away again, also after Ctrl-C.
    """
    import asyncio

    from ..bench.chart import chart
    from ..bench.measures import MEASURES, chosen
    from ..bench.run import run
    from ..bench.servers import own_servers, servers_here
    from ..bench.show import machine, page, table
    from .output import as_json

    to_stdout = json_file is not None and str(json_file) == "-"
    session = Session.of(context, to_stdout)
    printer = session.printer
    if list_only:
        for one in MEASURES:
            printer.line(f"{one.name:<16}{one.title}")
        return
    measures = chosen(only or [])
    servers = servers_here(session.settings) if here else own_servers()
    with _progress(session, len(measures)) as watch:
        result = asyncio.run(run(measures, servers, quick=quick, watch=watch))
    document = [row.as_dict() for row in result.rows]
    if to_stdout:
        printer.document(document)
    else:
        printer.out.print(table(result))
        printer.note(machine(result.machine))
        if json_file is not None:
            json_file.write_text(as_json(document) + "\n", encoding="utf-8")
    if chart_file is not None:
        chart_file.write_text(chart(result), encoding="utf-8")
    if page_file is not None:
        picture = chart_file.name if chart_file and chart_file.parent == page_file.parent else None
        page_file.write_text(page(result, picture), encoding="utf-8")
    if check and result.missed:
        raise typer.Exit(1)


@contextmanager
def _progress(session: Session, measures: int) -> "Generator[Watch]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    if not session.printer.watched:
        yield lambda _done, _what: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=session.printer.err, transient=True) as bar:
        task = bar.add_task("", total=measures)
        yield lambda done, what: bar.update(task, completed=done, description=what)
