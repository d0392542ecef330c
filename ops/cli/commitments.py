"""The verbs about what was promised: moving a commitment, and what is due."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from ...domain.fields import CommitmentStatus
from . import options as o
from .output import moment, one_line, safe
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.commitments.views import CommitmentView

_PANEL = "Commitments and sessions"
_STYLE = {"open": "cyan", "waiting": "yellow", "resolved": "green", "expired": "dim"}


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    o.add(
        app,
        resolve,
        f"lethelog resolve {o.ID}",
        f"lethelog resolve {o.ID} --status waiting",
        f"lethelog resolve {o.ID} --status open --due-at 2026-03-20T17:00:00Z",
        panel=_PANEL,
    )
    o.add(
        app,
        commitments,
        "lethelog commitments",
        "lethelog commitments --overdue --owner ada",
        "lethelog commitments --status waiting --json",
        panel=_PANEL,
    )


def resolve(
    context: typer.Context,
    memory_id: o.MemoryId,
    status: Annotated[CommitmentStatus, typer.Option("--status", help="How it stands from now on.")] = "resolved",
    owner: o.Owner = None,
    due_at: o.DueAt = None,
    next_surfacing_at: o.SurfacingAt = None,
    recurrence: o.Recurrence = None,
    session_run_id: o.SessionRun = None,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Say how a commitment stands: done, waiting, open again, or expired. A blocker is archived.

    Owner and dates that are given are set in the same step.
    """
    given = fields(
        owner=owner,
        due_at=due_at,
        next_surfacing_at=next_surfacing_at,
        recurrence=recurrence,
        session_run_id=session_run_id,
    )
    session = Session.of(context, json_only)
    with session.open() as memory:
        done = memory.resolve(memory_id, key=key, status=status, **given)
    printer = session.printer
    if printer.json_only:
        printer.document(done)
        return
    said = done.status if done.changed else f"already {done.status}"
    printer.line(Text(said, style="green" if done.changed else "yellow"), " ", str(done.memory_id))
    if done.commitment is not None:
        printer.line("  ", safe(one_line(done.commitment.topic)))


def commitments(
    context: typer.Context,
    status: Annotated[
        Literal["open", "waiting", "resolved", "expired"] | None,
        typer.Option("--status", help="Only those that stand so."),
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this person's.")] = None,
    overdue: Annotated[
        bool, typer.Option("--overdue", help="Only what is still to be done and was due before now.")
    ] = False,
    memory_id: Annotated[
        str | None, typer.Option("--memory", metavar="ID", help="Only that of this memory.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 100.")] = 25,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Go on where an earlier page ended.")
    ] = None,
    after: o.After = None,
    json_only: Json = False,
) -> None:
    """List commitments, first what is due first. Those of erased memories are not among them."""
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
    with session.reading("commitments", "live_memory") as memory:
        page = memory.commitments(**query)
    printer = session.printer
    if printer.json_only:
        printer.document(page)
        return
    if not page.commitments:
        printer.note("no commitments")
    for one in page.commitments:
        printer.line(
            Text(f"{one.status:8}  ", _STYLE[one.status]), str(one.memory_id), Text(f"  {_dates(one)}", "dim")
        )
        printer.line("  ", safe(one_line(one.topic)))
    if page.next_cursor:
        printer.note(f"{page.total} in all; go on with: --cursor {page.next_cursor}")


def _dates(one: "CommitmentView") -> str:
    said = [] if one.owner is None else [one_line(one.owner)]
    if one.due_at is not None:
        said.append(f"{'overdue since' if one.overdue else 'due'} {moment(one.due_at)}")
    if not one.live:
        said.append("its memory is not live")
    return ", ".join(said)
