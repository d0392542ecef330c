"""What contradicts each other, who has to decide, and by when."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from . import options as o
from .output import moment, one_line
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.contradictions.views import ContradictionView


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    o.add(
        app,
        contradictions,
        "lethelog contradictions",
        "lethelog contradictions --overdue --owner person:ada",
        f"lethelog proposals accept {o.ID} --holds {o.ID}   # the review of one",
        panel="Forget",
    )


def contradictions(
    context: typer.Context,
    status: Annotated[
        Literal["open", "resolved"] | None, typer.Option("--status", help="Only those that stand so.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Only those this person has to decide.")
    ] = None,
    overdue: Annotated[
        bool, typer.Option("--overdue", help="Only what is still open and was due before now.")
    ] = False,
    memory_id: Annotated[
        str | None, typer.Option("--memory", metavar="ID", help="Only those this memory is part of.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 100.")] = 25,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Go on where an earlier page ended.")
    ] = None,
    after: o.After = None,
    json_only: Json = False,
) -> None:
    """List pairs of memories that cannot both hold, the oldest first.

    Both are kept until somebody decides: accept the review with `--holds ID` for the one that holds, accept it
    without and both stay, or reject it where they do not contradict each other.
    """
    query = fields(
        status=status,
        owner=owner,
        overdue=overdue or None,
        memory_id=memory_id,
        limit=limit,
        cursor=cursor,
        after=after,
    )
    session = Session.of(context, json_only)
    with session.reading("contradictions", "review_queue", "live_memory") as memory:
        page = memory.contradictions(**query)
    printer = session.printer
    if printer.json_only:
        printer.document(page)
        return
    if not page.contradictions:
        printer.note("no contradictions")
    for one in page.contradictions:
        style = "yellow" if one.status == "open" else "green"
        printer.line(Text(f"{one.status:9}", style), str(one.id), Text(f"  {_says(one)}", "dim"))
        printer.line(Text(f"  {one.memory_id}  and  {one.related_id}", "dim"))
        if one.status == "open" and one.review is not None:
            printer.line(Text(f"  review {one.review}", "dim"))
    if page.next_cursor:
        printer.note(f"{page.total} in all; go on with: --cursor {page.next_cursor}")


def _says(one: "ContradictionView") -> str:
    said = [f"flagged {moment(one.flagged_at)}"]
    if one.owner is not None:
        said.append(one_line(one.owner))
    if one.due_at is not None and one.status == "open":
        said.append(f"{'overdue since' if one.overdue else 'due'} {moment(one.due_at)}")
    if one.outcome == "one":
        said.append(f"{one.holds} holds")
    elif one.outcome is not None:
        said.append("both stay" if one.outcome == "both" else "no contradiction")
    return ", ".join(said)
