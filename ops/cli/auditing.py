"""Audit: does the log still say what was written, and a checkpoint that proves it later."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from .event_log import writing
from .options import add
from .output import counted
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
    from_position: Annotated[
        int,
        typer.Option("--from", min=1, metavar="POSITION", help="Begin with the commit that holds this position."),
    ] = 1,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="FILE", help="Also hold the log against this checkpoint."),
    ] = None,
    json_only: Json = False,
) -> None:
    """Recompute the hash chain over every stored byte. Exit 1 where something does not fit, and say where."""
    session = Session.of(context, json_only)
    left = "so far nothing was found that does not fit; --from-position goes on there"
    with session.installation() as memory, session.printer.progress("verifying", left=left) as report:
        found = memory.verify_log(from_position=from_position, checkpoint=checkpoint, report=report)
    printer = session.printer
    if printer.json_only:
        printer.document({"intact": found.intact, **asdict(found)})
    elif found.finding is None:
        printer.line(
            Text("intact", "green"),
            f" {counted(found.events, 'event')} in {counted(found.commits, 'commit')},",
            f" up to position {found.upto}",
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
    session = Session.of(context, json_only)
    with session.installation() as memory, writing(file, overwrite=overwrite, note=session.printer.note) as out:
        made = memory.checkpoint()
        out.write(made.to_json())
    printer = session.printer
    if printer.json_only:
        printer.document(asdict(made))
    else:
        printer.line(Text("written", "green"), f" {file}: position {made.position}, root {made.chain[:16]}…")
