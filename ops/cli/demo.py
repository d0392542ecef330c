"""The demonstration, on the shipped sample or on a folder of one's own."""

from pathlib import Path
from typing import Annotated

import typer

from .options import add
from .session import Session


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    add(
        app,
        demo,
        "lethelog demo",
        "lethelog demo --from ./docs/adr --json report.json",
        "lethelog demo --data-dir ./demo --keep",
        panel="Run",
    )


def demo(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="PATH", help="A folder or file of your own: Markdown or JSON Lines."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the report there as JSON, too.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="Where to keep the data; a throw-away by default."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data, to look around in it.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour.")] = False,
    max_passes: Annotated[
        int | None, typer.Option("--passes", metavar="N", min=1, help="At most so many passes.")
    ] = None,
) -> None:
    """See it work: memories, passes, proposals, decisions and history, on real data, in two minutes."""
    from rich.console import Console

    from ..demo.run import demo_command

    session = Session.of(context, json_only=False)
    console = Console(no_color=True if no_color else None)
    status = demo_command(
        source=source,
        report=report,
        data_dir=data_dir or session.data_dir,
        keep=keep,
        console=console,
        max_passes=max_passes,
    )
    raise typer.Exit(status)
