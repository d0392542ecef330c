"""Read models: build them anew, or prove that they say what the log says."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ...domain.errors import InvalidInput
from .options import add
from .output import counted
from .session import VIEWS, Json, Session, finishing

if TYPE_CHECKING:
    from ...projections.copy_parking import Failing
    from ...projections.rebuild import Comparison, Rebuilt
    from ..local import Memory

_PANEL = "Run"
_POSITIONS_SHOWN = 10
Name = Annotated[str, typer.Argument(metavar="NAME", help=f"{', '.join(VIEWS)}, or all.", show_default=False)]
Compared = Annotated[str, typer.Argument(metavar="[NAME]", help=f"{', '.join(VIEWS)}, or all.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    add(
        app,
        rebuild,
        "lethelog rebuild all",
        "lethelog rebuild live_memory --fresh",
        "lethelog rebuild live_memory --cancel",
        "lethelog rebuild live_memory --park",
        panel=_PANEL,
    )
    add(app, compare, "lethelog compare", "lethelog compare review_queue --json", panel=_PANEL)


def rebuild(
    context: typer.Context,
    name: Name,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over, where a rebuild was broken off before.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Drop what a rebuild that was broken off has built, and stop.")
    ] = False,
    park: Annotated[
        bool,
        typer.Option("--park", help="Park events that cannot be applied, instead of stopping at the first."),
    ] = False,
    json_only: Json = False,
) -> None:
    """Build a read model anew from the log, beside the present one, and switch to it.

    Reads and writes go on. Ctrl-C leaves the present one as it is and keeps what was built; the next rebuild goes
    on there. Needed after changing the embedding model. Events that the present one has parked stay parked if
    they still cannot be applied; any other that cannot stops it, and --park parks that too.
    """
    session = Session.of(context, json_only)
    names = _chosen(name)
    if fresh and cancel:
        raise InvalidInput("cancel", "cannot be given together with fresh")
    # Without the check for other versions, which is what this command mends.
    with session.open(ensure=False) as memory:
        dropped = [one for one in names if (fresh or cancel) and memory.cancel_rebuild(one)]
        if not cancel:
            _rebuild(session, memory, names, "park" if park else "stop")
            return
    says = f" what was built of {', '.join(dropped)}" if dropped else " nothing: no rebuild was broken off"
    session.printer.answer({"dropped": dropped}, Text.assemble(Text("dropped", "green"), says))


def _rebuild(session: Session, memory: "Memory", names: tuple[str, ...], failing: "Failing") -> None:
    printer = session.printer
    done: dict[str, Rebuilt] = {}
    for one in names:
        left = f"what was built of {one} is kept: lethelog rebuild {one} goes on, --cancel drops it"
        with session.printer.progress(f"rebuilding {one}", left=left) as report:
            done[one] = finishing(memory, memory.asyncio.rebuild(one, report, failing=failing))
    if printer.json_only:
        rebuilt = [
            {
                "name": one,
                "position": it.position,
                "resumed_at": it.resumed_at,
                "schema": it.schema,
                "parked": it.parked,
                "newly_parked": list(it.newly_parked),
            }
            for one, it in done.items()
        ]
        printer.document({"rebuilt": rebuilt})
        return
    for one, it in done.items():
        resumed = f", from {it.resumed_at} on" if it.resumed_at else ""
        printer.line(Text("rebuilt", "green"), f" {one} up to position {it.position}{resumed}")
        if it.parked:
            printer.note(
                f"parked, as it cannot be applied: {counted(it.parked, 'event')} of {one}: lethelog parked list"
            )
        if it.newly_parked:
            printer.note(f"{one} parked streams newly, from position {_listed(it.newly_parked)}")


def compare(context: typer.Context, name: Compared = "all", json_only: Json = False) -> None:
    """Build a read model a second time and hold both against each other. Exit 1 if they differ."""
    session = Session.of(context, json_only)
    names = _chosen(name)
    found: list[Comparison] = []
    with session.reading(*names) as memory:
        for one in names:
            with session.printer.progress(f"comparing {one}", left="nothing was changed") as report:
                found.append(finishing(memory, memory.asyncio.compare(one, report)))
    equal = all(one.equal for one in found)
    printer = session.printer
    if printer.json_only:
        printer.document({"equal": equal, "compared": [_as_dict(one) for one in found]})
    else:
        printer.out.print(_table(found))
        for one in found:
            if one.parked:
                printer.note(
                    f"left out of {one.name}: {counted(one.parked, 'parked stream')}; see: lethelog parked list"
                )
    if not equal:
        printer.note("a read model differs from what the log says; mend it with: lethelog rebuild NAME")
        raise typer.Exit(1)


def _listed(positions: tuple[int, ...]) -> str:
    further = len(positions) - _POSITIONS_SHOWN
    return ", ".join(map(str, positions[:_POSITIONS_SHOWN])) + (f" and {further} more" if further > 0 else "")


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
    return {
        "name": one.name,
        "position": one.position,
        "equal": one.equal,
        "parked_streams": one.parked,
        "tables": tables,
    }


def _table(found: "list[Comparison]") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("read model", "table", "rows", "position", "result"):
        table.add_column(title, overflow="fold")
    for one in found:
        for d in one.differences:
            same = not d.only_live and not d.only_rebuilt
            says = "equal" if same else f"{counted(d.only_live, 'row')} only live, {d.only_rebuilt} only rebuilt"
            table.add_row(
                one.name, d.table, str(d.rows), str(one.position), Text(says, "green" if same else "red")
            )
    return table
