"""`lethelog replay`: a past state, written out for whoever wants to look."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ...domain.errors import InvalidInput
from . import options as o
from .event_log import writing
from .output import counted
from .session import Json, Session, finishing

if TYPE_CHECKING:
    from ..local import Memory


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    o.add(
        app,
        replay,
        "lethelog replay --to 2026-03-01T09:00:00Z march.jsonl",
        "lethelog replay --to 12000 --schema before_the_import",
        "lethelog replay --list",
        "lethelog replay --drop before_the_import",
        panel="Run",
    )


def replay(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="Write this tenant's memories as they were, as JSONL; - is the output."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="POSITION|TIME", help="Up to this position, or what was recorded by then."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="NAME", help="Write all read models to the schema lethelog_replay_NAME."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if there is one.")] = False,
    listing: Annotated[
        bool, typer.Option("--list", help="Show earlier replays, and schemas left by killed ones.")
    ] = False,
    drop: Annotated[
        str | None, typer.Option("--drop", metavar="NAME", help="Drop the schema of a replay.")
    ] = None,
    json_only: Json = False,
) -> None:
    """Write a past state from the log: memories to a file, or all read models to a schema to be read with SQL.

    The file is folded from the events themselves. The schema holds every tenant's memories. Both are clear text,
    so keep them safe and delete them when you are done. Ctrl-C leaves nothing behind.
    """
    session = Session.of(context, json_only)
    asked = [
        name
        for name, given in (("FILE", file), ("--schema", schema), ("--list", listing), ("--drop", drop))
        if given
    ]
    if len(asked) != 1:
        raise InvalidInput("file", "needs exactly one of FILE, --schema, --list and --drop")
    if (to is not None) != (file is not None or schema is not None):
        if to is None:
            raise InvalidInput("to", "is missing", "Add --to POSITION or --to TIME")
        raise InvalidInput("to", "goes with FILE or --schema only")
    with session.open() as memory:
        if file is not None and to is not None:
            _to_file(session, memory, to, file, overwrite=overwrite)
        elif schema is not None and to is not None:
            _to_schema(session, memory, to, schema)
        elif drop is not None:
            memory.drop_replay(drop)
            session.printer.answer({"dropped": drop}, Text.assemble(("dropped", "green"), f" {drop}"))
        else:
            _list(session, memory)


def _list(session: Session, memory: "Memory") -> None:
    names, left = memory.replays(), memory.leftovers()
    session.printer.answer(
        {"replays": names, "leftovers": left},
        *(names or ["no replay"]),
        *(f"{one}: left by one that was killed; drop it with --drop {one}" for one in left),
    )


def _to_file(session: Session, memory: "Memory", to: str, file: Path, *, overwrite: bool) -> None:
    written = 0
    with (
        session.printer.progress("replaying", left="no file was written") as report,
        writing(file, overwrite=overwrite, note=session.printer.note) as out,
    ):
        for view in memory.replay(to, report=report):
            out.write(json.dumps(view.model_dump(mode="json"), ensure_ascii=False) + "\n")
            written += 1
    if str(file) == "-":
        return
    session.printer.answer(
        {"file": str(file), "to": to, "memories": written},
        Text.assemble(("written", "green"), f" {counted(written, 'memory')} as of {to} to {file}"),
    )


def _to_schema(session: Session, memory: "Memory", to: str, name: str) -> None:
    with session.printer.progress("replaying", left="no schema was left") as report:
        made = finishing(memory, memory.asyncio.replay_into(name, to, report=report))
    session.printer.answer(
        made, Text.assemble(("written", "green"), f" schema {made.schema_name} as of position {made.position}")
    )
    if made.parked:
        session.printer.note(
            f"{counted(made.parked, 'event')} could not be applied, so it lacks them: lethelog parked list"
        )
