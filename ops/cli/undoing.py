"""`lethelog undo`: take back what decisions and policies did; look first."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ...domain.display import one_line
from . import options as o
from .cards import moment
from .session import Json, Session, fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...handlers.undoing.views import UndoItem, UndoView

_SHOWN = 20
_LEFT = "what was undone stays so: the same command goes on with the rest"
EffectId = Annotated[
    str | None,
    typer.Option("--effect", metavar="ID", help="One effect, with its decision: its event's id, see `explain`."),
]
ProposalId = Annotated[
    str | None, typer.Option("--proposal", metavar="ID", help="All that accepting this proposal did.")
]
UndoId = Annotated[
    str | None, typer.Option("--undo", metavar="ID", help="An earlier undo: its effects hold again.")
]
PassId = Annotated[str | None, typer.Option("--pass", metavar="ID", help="All that came of this pass.")]
Judge = Annotated[
    str | None, typer.Option("--judge", metavar="NAME", help="All that came of this judge, extractor or model.")
]
Policy = Annotated[
    int | None, typer.Option("--policy", min=1, metavar="VERSION", help="All done under this policy version.")
]
Reviewer = Annotated[
    str | None, typer.Option("--reviewer", metavar="NAME", help="All that this reviewer accepted.")
]
SessionRun = Annotated[
    str | None,
    typer.Option("--session", metavar="ID", help="All done in this session run, or by the closer after it."),
]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Only effects recorded then or later.")]


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Take back what decisions and policies did.")
    o.add(
        group,
        preview,
        f"lethelog undo preview --proposal {o.ID}",
        "lethelog undo preview --judge systemone:1 --since 2026-03-01T00:00:00Z --json",
    )
    o.add(
        group,
        perform,
        f"lethelog undo perform --proposal {o.ID}",
        "lethelog undo perform --reviewer ada --since 2026-03-01T00:00:00Z",
        f"lethelog undo perform --undo {o.ID}   # what an undo took back holds again",
    )
    o.add(group, resume, f"lethelog undo resume {o.ID}")
    o.add(group, show, f"lethelog undo show {o.ID}")
    app.add_typer(group, name="undo", rich_help_panel="Forget")


def preview(
    context: typer.Context,
    effect: EffectId = None,
    proposal: ProposalId = None,
    undo: UndoId = None,
    of_pass: PassId = None,
    judge: Judge = None,
    policy: Policy = None,
    reviewer: Reviewer = None,
    session_run: SessionRun = None,
    since: Since = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="So many decisions a page, 1 to 100.")] = 25,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Go on where an earlier page ended.")
    ] = None,
    json_only: Json = False,
) -> None:
    """Say what would be taken back, and what not and why. Changes nothing."""
    session = Session.of(context, json_only)
    what = _selector(effect, proposal, undo, of_pass, judge, policy, reviewer, session_run, since)
    with session.reading("effects", "review_queue") as memory:
        found = memory.preview_undo(**what, limit=limit, **fields(cursor=cursor))
    printer = session.printer
    if printer.json_only:
        printer.document(found)
        return
    for item in found.items:
        printer.line(_line(item))
    printer.note(f"{found.possible} of {len(found.items)} shown would be taken back; {found.effects} found in all")
    if found.next_cursor is not None:
        printer.note(f"more with: --cursor {found.next_cursor}")


def perform(
    context: typer.Context,
    effect: EffectId = None,
    proposal: ProposalId = None,
    undo: UndoId = None,
    of_pass: PassId = None,
    judge: Judge = None,
    policy: Policy = None,
    reviewer: Reviewer = None,
    session_run: SessionRun = None,
    since: Since = None,
    key: o.Key = None,
    written_in: o.SessionRun = None,
    json_only: Json = False,
) -> None:
    """Take it back. Recorded, and undone itself with --undo. Exit 1 where something was refused."""
    session = Session.of(context, json_only)
    what = _selector(effect, proposal, undo, of_pass, judge, policy, reviewer, session_run, since)
    with session.reading("effects", "review_queue", "live_memory") as memory:
        with session.printer.progress("undoing", left=_LEFT) as report:
            done = memory.undo(**what, key=key, session_run_id=written_in, report=report)
        session.catch_up(memory, ("effects", "live_memory"))
    _answer(session, done)


def resume(
    context: typer.Context,
    undo_id: Annotated[str, typer.Argument(metavar="ID", help="Id of an undo.", show_default=False)],
    written_in: o.SessionRun = None,
    json_only: Json = False,
) -> None:
    """Carry an interrupted undo to its end."""
    session = Session.of(context, json_only)
    with (
        session.reading("effects", "review_queue") as memory,
        session.printer.progress("undoing", left=_LEFT) as report,
    ):
        done = memory.resume_undo(undo_id, session_run_id=written_in, report=report)
    _answer(session, done)


def show(
    context: typer.Context,
    undo_id: Annotated[str, typer.Argument(metavar="ID", help="Id of an undo.", show_default=False)],
    json_only: Json = False,
) -> None:
    """How far an undo is."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        done = memory.show_undo(undo_id)
    session.printer.answer(done, *_lines(done, done.items))


def _selector(
    effect: str | None,
    proposal: str | None,
    undo: str | None,
    of_pass: str | None,
    judge: str | None,
    policy: int | None,
    reviewer: str | None,
    session_run: str | None,
    since: str | None,
) -> Any:
    given = (effect, proposal, undo, of_pass, judge, policy, reviewer, session_run)
    if sum(one is not None for one in given) != 1:
        raise typer.BadParameter(
            "give exactly one of --effect, --proposal, --undo, --pass, --judge, --policy, --reviewer, --session"
        )
    return fields(
        effect=effect,
        proposal_id=proposal,
        undo_id=undo,
        pass_id=of_pass,
        judge=judge,
        policy=policy,
        reviewer=reviewer,
        session=session_run,
        since=since,
    )


def _answer(session: Session, done: "UndoView") -> None:
    session.printer.answer(done, *_lines(done, [item for item in done.items if item.reason is not None]))
    if done.refused or not done.complete:
        raise typer.Exit(1)


def _lines(done: "UndoView", items: "Sequence[UndoItem]") -> list[Text]:
    head = Text.assemble((str(done.id), "bold"), f"  {done.undone} undone, {done.refused} refused")
    head.append(f"  {moment(done.requested_at)} by {one_line(done.requested_by)}", "dim")
    if done.complete and not done.undone and not done.refused:
        head.append("  nothing was found to take back", "yellow")
    if not done.complete:
        head.append(f"  not complete; go on with: lethelog undo resume {done.id}", "yellow")
    lines = [head, *(_line(item) for item in items[:_SHOWN])]
    if done.complete and done.undone:
        lines.append(Text(f"Take it back with: lethelog undo perform --undo {done.id}", "dim"))
    return lines


def _line(item: "UndoItem") -> Text:
    what = "again" if item.again else "undo"
    line = Text.assemble(f"{what:<5} ", (f"{item.event:<24}", "bold"), f" {item.stream}  ")
    line.append(f"{moment(item.recorded_at)}  effect {item.effect}", "dim")
    if item.says is not None:
        line.append(f"\n      stays: {item.says}", "yellow")
    if item.later_undo is not None:
        line.append(f"\n      turned again since by the undo {item.later_undo}", "yellow")
    return line
