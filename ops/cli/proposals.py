"""The review queue by single commands; `review` walks it."""

from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from . import options as o
from .cards import proposal_card, proposal_line, sides
from .session import Json, Session, fields

ProposalId = Annotated[str, typer.Argument(metavar="ID", help="Id of a proposal.", show_default=False)]
Comment = Annotated[
    str | None, typer.Option("--comment", metavar="TEXT", help="A remark, kept with the decision.")
]


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(no_args_is_help=True, help="List, show and decide what passes propose.")
    o.add(
        group,
        list_proposals,
        "lethelog proposals list",
        "lethelog proposals list --action supersede --json",
        f"lethelog proposals list --status all --memory {o.ID}",
        name="list",
    )
    o.add(group, show, f"lethelog proposals show {o.ID}")
    o.add(group, accept, f"lethelog proposals accept {o.ID} --comment 'agreed on Monday'")
    o.add(group, reject, f"lethelog proposals reject {o.ID} --comment 'still in force'")
    o.add(
        group,
        decide,
        "lethelog proposals decide reject --kind consolidation --judge told:1 --preview",
        "lethelog proposals decide accept --action archive --expected 12",
        "lethelog proposals decide reject --source " + o.ID + " --expected 40 --together",
    )
    app.add_typer(group, name="proposals", rich_help_panel="Forget")


def list_proposals(
    context: typer.Context,
    status: Annotated[
        str, typer.Option("--status", help="proposed, applied, rejected, withdrawn, or all of them.")
    ] = "proposed",
    kind: Annotated[o.ProposalKind | None, typer.Option("--kind", help="Only this kind.")] = None,
    action: Annotated[o.ProposalAction | None, typer.Option("--action", help="Only this action.")] = None,
    memory_id: Annotated[
        str | None, typer.Option("--memory", metavar="ID", help="Only those about this memory.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option("--judge", metavar="NAME", help="Only those of this judge, extractor or model.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="ID", help="Only those of this pass or session run.")
    ] = None,
    created_after: Annotated[
        str | None, typer.Option("--created-after", metavar="TIME", help="Put into the queue then or later.")
    ] = None,
    created_before: Annotated[
        str | None, typer.Option("--created-before", metavar="TIME", help="Put into the queue before then.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 100.")] = 25,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Go on where an earlier page ended.")
    ] = None,
    after: o.After = None,
    json_only: Json = False,
) -> None:
    """List proposals, the oldest first."""
    query = fields(
        status=None if status == "all" else status,
        kind=kind,
        action=action,
        memory_id=memory_id,
        judge=judge,
        source=source,
        created_after=created_after,
        created_before=created_before,
        limit=limit,
        cursor=cursor,
        after=after,
    )
    session = Session.of(context, json_only)
    with session.reading("review_queue", "live_memory", "effects") as memory:
        page = memory.proposals(**query)
    printer = session.printer
    if printer.json_only:
        printer.document(page)
        return
    for one in page.proposals:
        printer.line(proposal_line(one))
        name, other = sides(one)
        about = f"  {name} {one.memory_id}" + (f"  {other} {one.related_id}" if one.related_id else "")
        printer.line(Text(about, "dim"))
    kinds = ", ".join(f"{count} {kind}" for kind, count in page.totals.items())
    printer.note(f"{len(page.proposals)} of {page.total}" + (f" ({kinds})" if len(page.totals) > 1 else ""))
    if page.next_cursor is not None:
        printer.note(f"more with: --cursor {page.next_cursor}")


def show(context: typer.Context, proposal_id: ProposalId, after: o.After = None, json_only: Json = False) -> None:
    """Show a proposal with both its memories."""
    session = Session.of(context, json_only)
    with session.reading("review_queue", "live_memory", "effects") as memory:
        detail = memory.proposal(proposal_id, **fields(after=after))
    session.printer.answer(detail, *proposal_card(detail, session.printer.out, full=True))


def accept(
    context: typer.Context,
    proposal_id: ProposalId,
    comment: Comment = None,
    holds: Annotated[
        str | None,
        typer.Option("--holds", metavar="ID", help="Of a contradiction: the memory that holds; else both stay."),
    ] = None,
    key: o.Key = None,
    session_run_id: o.SessionRun = None,
    json_only: Json = False,
) -> None:
    """Accept a proposal: its effect happens now."""
    said = fields(comment=comment, holds=holds, key=key, session_run_id=session_run_id)
    _decide(context, proposal_id, said, json_only, accepted=True)


def reject(
    context: typer.Context,
    proposal_id: ProposalId,
    comment: Comment = None,
    key: o.Key = None,
    session_run_id: o.SessionRun = None,
    json_only: Json = False,
) -> None:
    """Reject a proposal: nothing changes, and the question rests until the memory's freshness moves."""
    said = fields(comment=comment, key=key, session_run_id=session_run_id)
    _decide(context, proposal_id, said, json_only, accepted=False)


def decide(
    context: typer.Context,
    verdict: Annotated[Literal["accept", "reject"], typer.Argument(help="What to do with all of them.")],
    kind: Annotated[o.ProposalKind | None, typer.Option("--kind", help="Only this kind.")] = None,
    action: Annotated[o.ProposalAction | None, typer.Option("--action", help="Only this action.")] = None,
    memory_id: Annotated[
        str | None, typer.Option("--memory", metavar="ID", help="Only those about this memory.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option("--judge", metavar="NAME", help="Only those of this judge, extractor or model.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="ID", help="Only those of this pass or session run.")
    ] = None,
    created_after: Annotated[
        str | None, typer.Option("--created-after", metavar="TIME", help="Put into the queue then or later.")
    ] = None,
    created_before: Annotated[
        str | None, typer.Option("--created-before", metavar="TIME", help="Put into the queue before then.")
    ] = None,
    expected: Annotated[
        int | None,
        typer.Option("--expected", min=0, metavar="N", help="How many the preview found; else nothing is done."),
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only say how many, and show the first.")] = False,
    together: Annotated[bool, typer.Option("--together", help="All or nothing, at most 100.")] = False,
    comment: Comment = None,
    session_run_id: o.SessionRun = None,
    json_only: Json = False,
) -> None:
    """Accept or reject all open proposals that a filter finds, each on its own. Exit 1 if one is refused."""
    session = Session.of(context, json_only)
    which: Any = fields(
        kind=kind,
        action=action,
        memory_id=memory_id,
        judge=judge,
        source=source,
        created_after=created_after,
        created_before=created_before,
    )
    with session.reading("review_queue", "live_memory") as memory:
        if preview or expected is None:
            found = memory.preview_decisions(**which)
            if session.printer.json_only:
                session.printer.document(found)
                return
            for one in found.proposals:
                session.printer.line(proposal_line(one))
            session.printer.note(f"{found.total} found; decide them with --expected {found.total}")
            return
        with session.printer.progress(
            "deciding", left="what was decided stays so; look at the rest again"
        ) as report:
            done = memory.decide_many(
                verdict,
                expected=expected,
                together=together,
                comment=comment,
                session_run_id=session_run_id,
                report=report,
                **which,
            )
        session.catch_up(memory, ("review_queue",))
    counts = ", ".join(f"{count} {status}" for status, count in sorted(done.counts.items())) or "nothing found"
    refused = [one for one in done.items if one.status in ("refused", "failed")]
    lines = [Text(f"  {one.proposal_id} {one.says}", "yellow") for one in refused[:20]]
    session.printer.answer(done, Text(counts, "bold"), *lines)
    if refused:
        raise typer.Exit(1)


def _decide(
    context: typer.Context,
    proposal_id: str,
    said: Any,
    json_only: bool,
    *,
    accepted: bool,
) -> None:
    session = Session.of(context, json_only)
    # Siblings are found in the queue, so it has to be up to date before the decision.
    with session.reading("review_queue", "live_memory") as memory:
        decide = memory.accept if accepted else memory.reject
        decided = decide(proposal_id, **said)
        # So that `status`, which waits for nothing, counts it too.
        session.catch_up(memory, ("review_queue",))
    printer = session.printer
    if printer.json_only:
        printer.document(decided)
        return
    status = decided.proposal.status
    printer.line(Text("accepted" if status == "applied" else status, "green"), " ", str(decided.proposal.id))
    for one in decided.changed:
        printer.line(Text("  changed memory ", "dim"), str(one))
    for one in decided.withdrawn:
        printer.line(Text("  withdrawn proposal ", "dim"), str(one))
