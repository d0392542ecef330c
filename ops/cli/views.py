"""Read models: build them anew, or prove that they say what the log says."""

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from ...domain.errors import InvalidInput
from .options import add
from .session import VIEWS, Json, Session, finishing

if TYPE_CHECKING:
    from ...projections.rebuild import Comparison

T = TypeVar("T")
_PANEL = "Run"
_CLEANUP_SECONDS = 15.0
Name = Annotated[str, typer.Argument(metavar="NAME", help=f"{', '.join(VIEWS)}, or all.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    add(app, rebuild, "lethelog rebuild all", "lethelog rebuild live_memory", panel=_PANEL)
    add(app, compare, "lethelog compare all", "lethelog compare review_queue --json", panel=_PANEL)


def rebuild(context: typer.Context, name: Name, json_only: Json = False) -> None:
    """Build a read model anew from the log, beside the present one, and switch to it.

    Ctrl-C leaves the present one as it is. Needed after changing the embedding model.
    """
    session = Session.of(context, json_only)
    names = _chosen(name)
    positions: dict[str, int] = {}
    # Without the check for other versions, which is what this command mends.
    with session.open(ensure=False) as memory:
        for one in names:
            with session.printer.progress(f"rebuilding {one}") as report:
                positions[one] = finishing(memory, memory.asyncio.rebuild(one, report)).position
    printer = session.printer
    if printer.json_only:
        printer.document({"rebuilt": [{"name": one, "position": at} for one, at in positions.items()]})
        return
    for one, at in positions.items():
        printer.line(Text("rebuilt", "green"), f" {one} up to position {at}")


def compare(context: typer.Context, name: Name, json_only: Json = False) -> None:
    """Build a read model a second time and hold both against each other. Exit 1 if they differ."""
    session = Session.of(context, json_only)
    names = _chosen(name)
    found: list[Comparison] = []
    with session.reading(*names) as memory:
        for one in names:
            with session.printer.progress(f"comparing {one}") as report:
                found.append(finishing(memory, memory.asyncio.compare(one, report)))
    equal = all(one.equal for one in found)
    printer = session.printer
    if printer.json_only:
        printer.document({"equal": equal, "compared": [_as_dict(one) for one in found]})
    else:
        printer.out.print(_table(found))
    if not equal:
        printer.note("a read model differs from what the log says; mend it with: lethelog rebuild NAME")
        raise typer.Exit(1)


def _chosen(name: str) -> tuple[str, ...]:
    if name == "all":
        return VIEWS
    if name not in VIEWS:
        raise InvalidInput("name", "is no read model", f"There are: {', '.join(VIEWS)}, all")
    return (name,)


def _as_dict(one: "Comparison") -> dict[str, Any]:
    tables = [
        {"table": d.table, "rows": d.rows, "only_live": d.only_live, "only_rebuilt": d.only_rebuilt}
        for d in one.differences
    ]
    return {"name": one.name, "position": one.position, "equal": one.equal, "tables": tables}


def _table(found: "list[Comparison]") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("read model", "table", "rows", "position", "result"):
        table.add_column(title, overflow="fold")
    for one in found:
        for d in one.differences:
            same = not d.only_live and not d.only_rebuilt
            says = "equal" if same else f"{d.only_live} rows only live, {d.only_rebuilt} only rebuilt"
            table.add_row(
                one.name, d.table, str(d.rows), str(one.position), Text(says, "green" if same else "red")
            )
    return table
