"""The verbs that read: search, list, show, history, explain."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from . import options as o
from .cards import (
    chain_lines,
    history_lines,
    memory_card,
    pass_table,
    proposal_card,
    refused_lines,
    time_lines,
)
from .output import Printer, moment, one_line, safe
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.operating.views import AsOfView, MemoryView
    from ..local import Memory

_PANEL = "Read"
_STATUS_STYLE = {"active": "green", "superseded": "yellow", "archived": "dim", "expired": "dim"}

AnyId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a memory, a proposal or a pass.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    o.add(
        app,
        search,
        'lethelog search "where do deploys go"',
        'lethelog search "tea or coffee" --user ada --type preference --current --limit 10',
        'lethelog search "where do deploys go" --known-at 2026-03-01T09:00:00Z',
        'lethelog search "retention" --project site --json',
        panel=_PANEL,
    )
    o.add(
        app,
        list_memories,
        "lethelog list",
        "lethelog list --type decision --project site --limit 100",
        "lethelog list --valid-at 2026-03-01T09:00:00Z",
        "lethelog list --status all --tag ops --json",
        name="list",
        panel=_PANEL,
    )
    o.add(
        app,
        show,
        f"lethelog show {o.ID}",
        f"lethelog show {o.ID} --known-at 1200",
        f"lethelog show {o.ID} --json",
        panel=_PANEL,
    )
    o.add(app, history, f"lethelog history {o.ID}", f"lethelog history {o.ID} --known-at 1200", panel=_PANEL)
    o.add(app, explain, f"lethelog explain {o.ID}", panel=_PANEL)


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.", show_default=False)],
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 25.")] = 5,
    memory_types: o.Types = None,
    scope: o.OfScope = None,
    project: o.OfProject = None,
    no_project: o.NoProject = False,
    tags: o.OfTags = None,
    status: o.OfStatus = "retrievable",
    current: o.Current = False,
    user_id: o.OfUser = None,
    agent_id: o.OfAgent = None,
    run_id: o.OfRun = None,
    session_id: o.OfSession = None,
    subject: o.OfSubject = None,
    recorded_after: o.RecordedAfter = None,
    recorded_before: o.RecordedBefore = None,
    known_at: o.KnownAt = None,
    valid_at: o.ValidAt = None,
    after: o.After = None,
    json_only: Json = False,
) -> None:
    """Find memories by meaning and by words, the best first."""
    filters = fields(
        memory_types=memory_types,
        scope=scope,
        project=project,
        no_project=no_project,
        tags=tags,
        status=status,
        current=current,
        user_id=user_id,
        agent_id=agent_id,
        run_id=run_id,
        session_id=session_id,
        subject=subject,
        recorded_after=recorded_after,
        recorded_before=recorded_before,
        known_at=known_at,
        valid_at=valid_at,
        after=after,
    )
    session = Session.of(context, json_only)
    with session.reading("live_memory") as memory:
        result = memory.search(query, limit=limit, **filters)
    printer = session.printer
    if printer.json_only:
        printer.document(result)
        return
    _print_times(printer, result.as_of)
    if not result.hits:
        printer.note("nothing found")
    for line in refused_lines(result.refused):
        printer.note(line)
    for hit in result.hits:
        _print_short(printer, hit.memory, Text(f"{hit.score:6.3f}  ", "cyan"), superseded=hit.superseded)


def list_memories(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 100.")] = 25,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Go on where an earlier page ended.")
    ] = None,
    memory_types: o.Types = None,
    scope: o.OfScope = None,
    project: o.OfProject = None,
    no_project: o.NoProject = False,
    tags: o.OfTags = None,
    status: o.OfStatus = "retrievable",
    current: o.Current = False,
    user_id: o.OfUser = None,
    agent_id: o.OfAgent = None,
    run_id: o.OfRun = None,
    session_id: o.OfSession = None,
    subject: o.OfSubject = None,
    recorded_after: o.RecordedAfter = None,
    recorded_before: o.RecordedBefore = None,
    session_run_id: o.OfSessionRun = None,
    known_at: o.KnownAt = None,
    valid_at: o.ValidAt = None,
    after: o.After = None,
    json_only: Json = False,
) -> None:
    """List memories, the newest first."""
    filters = fields(
        memory_types=memory_types,
        scope=scope,
        project=project,
        no_project=no_project,
        tags=tags,
        status=status,
        current=current,
        user_id=user_id,
        agent_id=agent_id,
        run_id=run_id,
        session_id=session_id,
        subject=subject,
        recorded_after=recorded_after,
        recorded_before=recorded_before,
        session_run_id=session_run_id,
        known_at=known_at,
        valid_at=valid_at,
        after=after,
    )
    session = Session.of(context, json_only)
    with session.reading("live_memory") as memory:
        page = memory.list(limit=limit, cursor=cursor, **filters)
    printer = session.printer
    if printer.json_only:
        printer.document(page)
        return
    _print_times(printer, page.as_of)
    for one in page.memories:
        _print_short(printer, one)
    printer.note(f"{len(page.memories)} of {page.total}")
    if page.next_cursor is not None:
        printer.note(f"more with: --cursor {page.next_cursor}")


def show(
    context: typer.Context,
    one_id: AnyId,
    known_at: o.KnownAt = None,
    valid_at: o.ValidAt = None,
    after: o.After = None,
    json_only: Json = False,
) -> None:
    """Show a memory, a proposal with both its memories, or a pass, by its id."""
    session = Session.of(context, json_only)
    with session.reading("live_memory", "review_queue") as memory:
        found = _any(memory, one_id, fields(known_at=known_at, valid_at=valid_at), fields(after=after))
    from ...handlers.operating.views import MemoryView, PassView

    printer = session.printer
    if isinstance(found, MemoryView):
        printer.answer(found, *time_lines(found.as_of), memory_card(found))
    elif isinstance(found, PassView):
        printer.answer(found, pass_table(found))
    else:
        printer.answer(found, *proposal_card(found, printer.out, full=True))


def history(
    context: typer.Context,
    memory_id: o.MemoryId,
    known_at: o.KnownAt = None,
    after: o.After = None,
    json_only: Json = False,
) -> None:
    """Everything that happened to a memory, with who did it and why."""
    session = Session.of(context, json_only)
    with session.reading("memory_history") as memory:
        found = memory.history(memory_id, **fields(known_at=known_at, after=after))
    session.printer.answer(found, *time_lines(found.as_of), *history_lines(found))


def explain(
    context: typer.Context,
    about: Annotated[
        str,
        typer.Argument(metavar="ID", help="Id of a memory, a proposal or an effect.", show_default=False),
    ],
    after: o.After = None,
    json_only: Json = False,
) -> None:
    """Why something is as it is: pass, candidates, verdict, proposal, decision, effect, undo."""
    session = Session.of(context, json_only)
    with session.reading("review_queue", "effects") as memory:
        chain = memory.explain(about, **fields(after=after))
    session.printer.answer(chain, *chain_lines(chain))


def _any(memory: "Memory", one_id: str, times: dict[str, Any], waiting: dict[str, Any]) -> Any:
    """Whatever has this id: an id says what it is of."""
    from ...domain.errors import InvalidInput, WrongKind, with_article

    try:
        return memory.get(one_id, **times, **waiting)
    except InvalidInput as error:
        if error.field in times | waiting:
            raise
        raise InvalidInput("id", error.problem) from None
    except WrongKind as error:
        if times:
            kind = error.details.get("kind")
            problem = f"is for memories, and this is the id of {with_article(str(kind))}"
            raise InvalidInput(next(iter(times)), problem) from None
        if error.details.get("kind") == "proposal":
            return memory.proposal(one_id, **waiting)
        if error.details.get("kind") == "pass":
            return memory.show_pass(one_id)
        raise


def _print_times(printer: Printer, as_of: "AsOfView | None") -> None:
    for line in time_lines(as_of):
        printer.line(line)


def _print_short(
    printer: Printer, view: "MemoryView", first: Text | None = None, *, superseded: bool = False
) -> None:
    """Two lines of a memory: what one needs to go on with it, and its text's beginning."""
    marks = [mark for mark, on in (("pinned", view.pinned), ("verified", view.verified)) if on]
    status = "superseded" if superseded else view.status
    printer.line(
        first or "",
        str(view.id),
        Text(f"  {view.memory_type:<10}  {moment(view.occurred_at)}  ", "dim"),
        Text(status, _STATUS_STYLE.get(status, "red")),
        Text("".join(f" {mark}" for mark in marks), "cyan"),
    )
    text = one_line(view.content)
    topic = one_line(view.topic)
    shown = Text("  ").append_text(safe(topic, "bold"))
    if not text.startswith(topic.removesuffix("…")):
        shown.append_text(Text("  ")).append_text(safe(text))
    elif len(text) > len(topic):
        shown = Text("  ").append_text(safe(text))
    grid = Table.grid()
    shown.truncate(max(40, 2 * printer.out.width - 8), overflow="ellipsis")
    grid.add_row(shown)
    printer.out.print(grid)
