"""``doctor``: looks at every part, one by one, and says what is wrong and what to do."""

import asyncio
from collections.abc import Generator
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ...domain.errors import LethelogError
from .checks import (
    Check,
    check_closer,
    check_data_dir,
    check_embedder,
    check_extractor,
    check_judge,
    check_master_key,
    check_programs,
    check_python,
)
from .options import add
from .output import safe
from .session import Json, Session

_SIGNS = {"ok": ("✓", "green"), "idle": ("–", "dim"), "warning": ("!", "yellow"), "fault": ("✗", "red")}


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    add(app, doctor, "lethelog doctor", "lethelog doctor --start", "lethelog doctor --json", panel="Run")


def doctor(
    context: typer.Context,
    start: Annotated[bool, typer.Option("--start", help="Start the servers first if they do not run.")] = False,
    json_only: Json = False,
) -> None:
    """Check installation, servers, read models, broker and judge. Exit 1 if anything is broken.

    Changes nothing, needs no network, and shows no secret and no memory. What does not run is not broken: it
    starts on demand.
    """
    session = Session.of(context, json_only)
    found = list(_checks(session, start))
    broken = any(one.level == "fault" for one in found)
    printer = session.printer
    if printer.json_only:
        printer.document({"ok": not broken, "checks": [one.as_dict() for one in found]})
    else:
        printer.out.print(_table(found, "utf" in printer.out.encoding.lower()))
    if broken:
        raise typer.Exit(1)


def _checks(session: Session, start: bool) -> Generator[Check]:
    yield check_python()
    try:
        settings = session.settings
    except LethelogError as error:
        yield Check("settings", "fault", error.message)
        return
    yield from check_programs(settings)
    yield from check_data_dir(settings)
    from .server_checks import check_servers

    running = check_servers(settings, start=start)
    found = asyncio.run(running)
    yield check_master_key(settings, sealed=found.sealed)
    yield from found.checks
    yield check_embedder(settings, found.built_as)
    yield check_judge(settings)
    yield check_closer(settings)
    yield check_extractor(settings)


def _table(found: list[Check], fancy: bool) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in found:
        sign, style = _SIGNS[one.level]
        says = safe(one.says)
        if one.fix:
            says.append("\n→ ", style).append_text(safe(one.fix, "bold"))
        table.add_row(Text(sign if fancy else one.level, style), one.name, says)
    return table
