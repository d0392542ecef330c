"""Audit: does the log still say what was written, and a checkpoint that proves it later."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ...domain.errors import InvalidInput
from .event_log import writing
from .options import add
from .session import Json, Session

_SAYS = {
    "row_altered": "the row at position {position} was altered",
    "rows_do_not_fit_their_root": "the rows of the commit that ends at {commit} are not those it was made of",
    "position_missing": "the row at position {position} is missing",
    "root_missing": "the row at position {position} was added behind the log's back",
    "head_differs": "the log ends elsewhere than its head says, at position {position}",
    "checkpoint_differs": "at position {position} the log says something else than the checkpoint",
}


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    audit = typer.Typer(help="Prove that the log still says what was written.", no_args_is_help=True)
    add(
        audit,
        verify,
        "lethelog audit verify",
        "lethelog audit verify --checkpoint march.json --json",
        "lethelog audit verify --from 120000",
    )
    add(audit, checkpoint, "lethelog audit checkpoint march.json")
    app.add_typer(audit, name="audit", rich_help_panel="Run")


def verify(
    context: typer.Context,
    first: Annotated[
        int,
        typer.Option("--from", min=1, metavar="POSITION", help="Begin with the commit that holds this position."),
    ] = 1,
    file: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="FILE", help="Also hold the log against this checkpoint."),
    ] = None,
    json_only: Json = False,
) -> None:
    """Recompute the hash chain over every stored byte. Exit 1 where something does not fit, and say where."""
    from ...streams import audit

    session = Session.of(context, json_only)
    known = audit.Checkpoint.read(file) if file is not None else None
    with session.open() as memory, session.printer.progress("verifying") as report:
        database = memory.asyncio.engine.database
        head = memory.run(memory.asyncio.engine.log.head())
        if first > max(head, 1):
            raise InvalidInput("from", f"is beyond the end of the log, which is at position {head}")
        found = memory.run(audit.verify(database, first=first, known=known, report=report))
    printer = session.printer
    if printer.json_only:
        printer.document({"intact": found.intact, **asdict(found)})
    elif found.finding is None:
        printer.line(
            Text("intact", "green"),
            f" {found.events} events in {found.commits} commits, up to position {found.upto}",
        )
    else:
        says = _SAYS[found.finding.problem].format(**asdict(found.finding))
        printer.line(Text("not intact", "red"), f" {says}")
    if not found.intact:
        raise typer.Exit(1)


def checkpoint(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; keep it elsewhere.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if there is one.")] = False,
    json_only: Json = False,
) -> None:
    """Write down what the log says now. Kept outside the database, it shows later that nothing before changed."""
    from ...streams import audit

    session = Session.of(context, json_only)
    with session.open() as memory, writing(file, overwrite=overwrite) as out:
        made = memory.run(audit.checkpoint(memory.asyncio.engine.database))
        out.write(made.to_json())
    printer = session.printer
    if printer.json_only:
        printer.document(asdict(made))
    else:
        printer.line(Text("written", "green"), f" {file}: position {made.position}, root {made.chain[:16]}…")
