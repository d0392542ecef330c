"""The verbs about sessions: runs of agents, which writes name."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from . import options as o
from .output import Printer, counted, moment, safe
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.sessions.views import SessionView

_PANEL = "Commitments and sessions"
RunId = Annotated[str, typer.Argument(metavar="ID", help="Id of a session run.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    group = typer.Typer(
        help="Runs of agents, with a lease; writes name the run they are made in.", no_args_is_help=True
    )
    o.add(
        group,
        open_session,
        "lethelog session open standup --user ada --agent planner",
        "lethelog session open standup --agent planner --project site --json",
        name="open",
    )
    o.add(group, resume, f"lethelog session resume {o.ID}")
    o.add(group, heartbeat, f"lethelog session heartbeat {o.ID}")
    o.add(group, close, f"lethelog session close {o.ID}")
    o.add(group, show, f"lethelog session show {o.ID} --json")
    o.add(group, list_sessions, "lethelog session list", "lethelog session list --agent planner", name="list")
    app.add_typer(group, name="session", rich_help_panel=_PANEL)


def open_session(
    context: typer.Context,
    session_name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the session.", show_default=False)],
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Whose session.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Which agent's.")] = None,
    project: Annotated[str | None, typer.Option("--project", metavar="NAME", help="What it works on.")] = None,
    scope: Annotated[str | None, typer.Option("--scope", metavar="NAME", help="Scope it works in.")] = None,
    json_only: Json = False,
) -> None:
    """Begin a run, or take up the one of this user, agent and name."""
    given = fields(user=user, agent=agent, project=project, scope=scope)
    session = Session.of(context, json_only)
    with session.open() as memory:
        _print(session.printer, memory.sessions.open(session_name, **given))


def resume(context: typer.Context, run_id: RunId, json_only: Json = False) -> None:
    """Take a run up, also one that was closed."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        _print(session.printer, memory.sessions.resume(run_id))


def heartbeat(context: typer.Context, run_id: RunId, json_only: Json = False) -> None:
    """Say that a run is there: its lease of 30 minutes begins anew."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        _print(session.printer, memory.sessions.heartbeat(run_id))


def close(context: typer.Context, run_id: RunId, json_only: Json = False) -> None:
    """End a run. Later writes that name it succeed, and are no part of it."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        _print(session.printer, memory.sessions.close(run_id))


def show(context: typer.Context, run_id: RunId, json_only: Json = False) -> None:
    """Show one run. What was written in it: lethelog list --session-run ID, lethelog log show --session-run ID."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        _print(session.printer, memory.sessions.show(run_id))


def list_sessions(
    context: typer.Context,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Only this user's.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only this agent's.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 100.")] = 25,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Go on where an earlier page ended.")
    ] = None,
    json_only: Json = False,
) -> None:
    """List runs, the last opened first."""
    session = Session.of(context, json_only)
    with session.reading("sessions") as memory:
        page = memory.sessions.list(limit=limit, **fields(user=user, agent=agent, cursor=cursor))
    if session.printer.json_only:
        session.printer.document(page)
        return
    if not page.sessions:
        session.printer.note("no sessions")
    for one in page.sessions:
        _print(session.printer, one)
    if page.next_cursor:
        session.printer.note(f"{page.total} in all; go on with: --cursor {page.next_cursor}")


def _print(printer: Printer, view: "SessionView") -> None:
    if printer.json_only:
        printer.document(view)
        return
    state = "running" if view.running else "closed" if view.closed_at else "lease ran out"
    who = " ".join(one for one in (view.user, view.agent, view.session) if one)
    style = "green" if view.running else "dim"
    printer.line(Text(f"{state:14}", style), str(view.id), Text(f"  seen {moment(view.last_seen_at)}", "dim"))
    printer.line("  ", safe(who))
    closer = view.closer
    if view.needs_look and closer.next_attempt_at is not None:
        put_off = (
            f"the closer failed {counted(closer.failures, 'time')}; again at {moment(closer.next_attempt_at)}"
        )
        printer.line("  ", Text(put_off, "yellow"))
    elif closer.looked_at is not None:
        done = f"closer: {closer.resolved} resolved, {closer.proposed} proposed, looked {moment(closer.looked_at)}"
        printer.line("  ", Text(done, "dim"))
    elif view.needs_look:
        printer.line("  ", Text("the closer has not looked at it", "dim"))
