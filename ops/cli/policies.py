"""The verbs of the forgetting policy: what is kept for how long, who answers for it, and where that leads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from .options import add, value_of
from .output import safe
from .session import Json, Session
from .tenants import read_policy

if TYPE_CHECKING:
    from ...handlers.operating.views import PolicyReport


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(no_args_is_help=True, help="The forgetting policy: bounds, owners, and where they lead.")
    add(group, show, "lethelog policy show", "lethelog policy show --json")
    add(
        group,
        set_,
        "lethelog policy set stale_window_days=60 pairs_cap=100",
        "lethelog policy set live_memories=2000 at_cap=evict owner=ada",
        'lethelog policy set residues=\'["backups", "exports"]\'',
        "lethelog policy set floor=null",
        "lethelog policy set --file acme.toml",
        name="set",
    )
    add(group, report, "lethelog policy report", "lethelog policy report --json")
    app.add_typer(group, name="policy", rich_help_panel="Forget")


def show(context: typer.Context, json_only: Json = False) -> None:
    """Show the policy in force."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        found = memory.settings()
    session.printer.answer(
        {"policy": found.policy, "policy_version": found.policy_version},
        _table(found.policy, found.policy_version),
    )


def set_(
    context: typer.Context,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE…]", help="What to change; the rest stays.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Changes as TOML, before those that are named.")
    ] = None,
    json_only: Json = False,
) -> None:
    """Put a changed policy in force, on the record. null gives a value back to its default rule."""
    wanted = {} if file is None else read_policy(file)
    wanted |= _named(changes or [])
    if not wanted:
        raise typer.BadParameter("is missing: nothing to change", param_hint="KEY=VALUE")
    session = Session.of(context, json_only)
    with session.open() as memory:
        found = memory.set_policy(wanted)
    session.printer.answer(
        {"policy": found.policy, "policy_version": found.policy_version},
        _table(found.policy, found.policy_version),
    )


def report(context: typer.Context, json_only: Json = False) -> None:
    """Show how the store grows under the policy, and which questions it does not answer yet.

    Growth is of the pace the policy states (expected_writes_per_day, expected_average_kb), or else of what was
    written in the last 30 days.
    """
    session = Session.of(context, json_only)
    with session.reading("live_memory") as memory:
        found = memory.policy_report()
    session.printer.answer(found, *_lines(found))


def _named(changes: list[str]) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    for one in changes:
        name, equals, value = one.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter("must be KEY=VALUE, such as pairs_cap=100", param_hint="KEY=VALUE")
        if name.strip() in wanted:
            raise typer.BadParameter(f"gives {name.strip()} twice", param_hint="KEY=VALUE")
        wanted[name.strip()] = value_of(value.strip())
    return wanted


def _table(policy: dict[str, Any], version: int) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in policy.items():
        table.add_row(name, "–" if value is None else safe(value))
    table.add_row("policy version", str(version))
    return table


def _lines(found: "PolicyReport") -> list[Text | Table]:
    lines: list[Text | Table] = []
    if found.writes_per_day is not None and found.average_kb is not None:
        lines.append(
            Text(
                f"written a day ({found.figures}): {found.writes_per_day:,.3g}, of {found.average_kb:,.3g} KB each"
            )
        )
        table = Table(box=None, pad_edge=False)
        for heading in ("", "items", "KB"):
            table.add_column(heading, justify="left" if not heading else "right")
        for day, stock in found.growth.items():
            table.add_row(f"day {day}", f"{stock.items:,.0f}", f"{stock.kb:,.0f}")
        if found.steady is not None:
            table.add_row("steady", f"{found.steady.items:,.0f}", f"{found.steady.kb:,.0f}")
        lines.append(table)
    else:
        lines.append(Text("nothing was written yet, and the policy states no pace: no projection"))
    for cap in found.caps.values():
        when = "is never reached" if cap.day is None else f"is reached on day {cap.day}"
        lines.append(Text(f"the cap of {cap.items:,.0f} {when}; live now: {found.live_memories:,}"))
    for answer, missing in found.unanswered.items():
        lines.append(Text(f"not answered yet: {answer.replace('_', ' ')}; state {', '.join(missing)}", "yellow"))
    return [*lines, *(Text(note, "dim") for note in found.notes)]
