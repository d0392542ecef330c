"""What was set aside after failing again and again: seen, tried again in order, or dropped with a reason."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from .options import ID, add
from .output import counted, moment, safe
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.operating.views import ParkedView

DropReason = Literal["handled", "obsolete", "broken", "other"]
"""As in `streams.parking_place`, whose import costs what ``--help`` should not; a test holds the two together."""
Consumer = Annotated[str | None, typer.Option("--consumer", metavar="NAME", help="Only this consumer's.")]
ReadModel = Annotated[str | None, typer.Option("--read-model", metavar="NAME", help="Only this read model's.")]
_COLUMNS = ("id", "where", "consumer", "position", "sequence", "error", "failures", "parked_at")


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(help="What was set aside after failing again and again.", no_args_is_help=True)
    add(
        group,
        list_parked,
        "lethelog parked list",
        "lethelog parked list --consumer pass-manager --json",
        "lethelog parked list --read-model live_memory",
        "lethelog parked list --dropped",
        name="list",
    )
    add(
        group,
        retry,
        "lethelog parked retry",
        "lethelog parked retry --consumer pass-verdicts",
        f"lethelog parked retry --read-model live_memory --sequence {ID}",
    )
    add(group, drop, "lethelog parked drop message-17 --reason obsolete --ticket 4711")
    app.add_typer(group, name="parked", rich_help_panel="Run")


def list_parked(
    context: typer.Context,
    consumer: Consumer = None,
    read_model: ReadModel = None,
    dropped: Annotated[bool, typer.Option("--dropped", help="What was dropped, and why.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="At most so many.")] = 100,
    cursor: Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Go on after a page.")] = None,
    json_only: Json = False,
) -> None:
    """List events that read models could not apply, and messages that consumers gave up.

    Shows names, positions and opaque ids, no content.
    """
    session = Session.of(context, json_only)
    query = fields(consumer=consumer, read_model=read_model, limit=limit, cursor=cursor)
    with session.installation() as memory:
        page = memory.dropped(**query) if dropped else memory.parked(**query)
    columns = (*_COLUMNS, "reason", "ticket", "dropped_at") if dropped else _COLUMNS
    session.printer.answer(
        {"parked": [one.model_dump(mode="json") for one in page.parked], "next": page.next_cursor},
        _table(page.parked, columns) if page.parked else "nothing",
    )
    if page.next_cursor:
        session.printer.note(f"more with: --after {page.next_cursor}")


def retry(
    context: typer.Context,
    consumer: Consumer = None,
    read_model: ReadModel = None,
    sequence: Annotated[
        str | None, typer.Option("--sequence", metavar="ID", help="Only the events of this aggregate.")
    ] = None,
    json_only: Json = False,
) -> None:
    """Try again what was set aside, each sequence in order: all of it, or one place's or sequence's.

    Read models apply their events at once. Messages are handled while a worker, or the subscriber they belong to,
    runs. May be stopped and repeated. Exit 1 if something stays.
    """
    session = Session.of(context, json_only)
    printer = session.printer
    left = "what was tried stays so: the same command goes on with the rest"
    with session.installation() as memory, printer.progress("trying again", left=left) as report:
        done = memory.retry_parked(consumer=consumer, read_model=read_model, sequence=sequence, report=report)
    if printer.json_only:
        printer.document(done)
    else:
        applied, sent = counted(done.applied, "event"), counted(done.sent, "message")
        printer.line(Text("tried again", "green"), f" {applied} applied, {sent} sent")
        for one in done.left:
            printer.line(Text("stays", "yellow"), f" {one.id}: {one.reason}")
    if done.left:
        raise typer.Exit(1)


def drop(
    context: typer.Context,
    which: Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.", show_default=False)],
    reason: Annotated[DropReason, typer.Option("--reason", help="Why, as a code.", show_default=False)],
    ticket: Annotated[
        int | None, typer.Option("--ticket", metavar="NUMBER", help="Where that is explained.", min=1)
    ] = None,
    json_only: Json = False,
) -> None:
    """Take one message out for good: its consumer never handles it.

    What waits behind it stays parked until it is tried again. Code and number stay in clear, where no erasure
    reaches them, so there is no room for words.
    """
    session = Session.of(context, json_only)
    with session.installation() as memory:
        found = memory.drop_parked(which, reason=reason, ticket=ticket)
    session.printer.answer(
        {"dropped": found.model_dump(mode="json")}, Text.assemble(Text("dropped", "green"), f" {found.id}")
    )


def _table(rows: "Sequence[ParkedView]", columns: tuple[str, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in columns:
        table.add_column(title.replace("_", " "), overflow="fold", no_wrap=title == "id")
    for row in rows:
        table.add_row(*(_cell(row, one) for one in columns))
    return table


def _cell(row: "ParkedView", column: str) -> Text:
    value = getattr(row, column)
    if column.endswith("_at"):
        return safe(moment(value))
    return safe("–" if value is None else value)
