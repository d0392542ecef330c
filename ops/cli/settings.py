"""A tenant's settings: whether it may be judged, and its forgetting policy."""

from typing import Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from .options import add
from .output import Printer, safe
from .session import Json, Session

_OFF = "nothing is judged or proposed"


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Show and change what may be judged and forgotten.")
    add(group, show, "lethelog settings show", "lethelog settings show --json")
    add(group, judgment, "lethelog settings judgment on", "lethelog settings judgment off")
    app.add_typer(group, name="settings", rich_help_panel="Forget")


def show(context: typer.Context, json_only: Json = False) -> None:
    """Show the tenant's settings and those of this process."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        document = memory.settings().model_dump(mode="json", exclude={"position"})
    settings = session.settings
    document["process"] = {
        "data_dir": str(settings.data_dir),
        "tenant": settings.tenant,
        "actor": settings.actor,
        "embedder": settings.embedder,
        "judge": settings.judge,
        "own_database": settings.database_url is not None,
        "own_broker": settings.broker_url is not None,
        "broker_prefix": settings.broker_prefix,
        "forgetting_pass_enabled": settings.forgetting_pass_enabled,
        "session_closer_enabled": settings.session_closer_enabled,
    }
    _print(session.printer, document)


def judgment(
    context: typer.Context,
    state: Annotated[
        Literal["on", "off"], typer.Argument(help="Whether memories may be judged.", show_default=False)
    ],
    json_only: Json = False,
) -> None:
    """Allow or forbid judging for this tenant; off until somebody allows it, and recorded."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        document = memory.set_judgment(state == "on").model_dump(mode="json", exclude={"position"})
    said = "memories may be judged; ask with: lethelog pass run" if state == "on" else _OFF
    session.printer.answer(document, Text.assemble(("judgment ", "dim"), (state, "bold"), f": {said}"))


def _print(printer: Printer, document: dict[str, Any]) -> None:
    if printer.json_only:
        printer.document(document)
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    on = document["judgment"]
    table.add_row("judgment", Text("on", "green") if on else Text(f"off: {_OFF}", "yellow"))
    for name, value in document["policy"].items():
        table.add_row(name, "–" if value is None else safe(value))
    table.add_row("policy version", str(document["policy_version"]))
    for name, value in document.get("process", {}).items():
        table.add_row(
            name, safe({True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value)
        )
    printer.out.print(table)
