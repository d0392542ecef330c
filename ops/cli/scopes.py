"""The verbs of scopes: which there are, and what a read does that names none."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .options import add
from .output import counted
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.operating.views import RetrievalView, ScopeWritten

Name = Annotated[str, typer.Argument(metavar="NAME", help="A scope: a-z, 0-9 and -.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Scopes, and what reads do that name none.")
    add(group, list_scopes, "lethelog scope list", "lethelog scope list --json", name="list")
    add(group, create, "lethelog scope create garden")
    add(group, default, "lethelog scope default work")
    add(group, require, "lethelog scope require")
    add(group, off, "lethelog scope off")
    app.add_typer(group, name="scope", rich_help_panel="Read")


def list_scopes(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 500.")] = 100,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="NAME", help="Go on behind this scope.")
    ] = None,
    json_only: Json = False,
) -> None:
    """Scopes by name: those that were registered, and those that live memories are filed in."""
    session = Session.of(context, json_only)
    with session.reading("live_memory") as memory:
        page = memory.scopes(limit=limit, **fields(cursor=cursor))
    printer = session.printer
    table = Table.grid(padding=(0, 2))
    for one in page.scopes:
        table.add_row(
            Text(one.scope, "bold"),
            counted(one.memories, "memory"),
            Text("" if one.registered else "not registered", "dim"),
        )
    printer.answer(page, table, _says(page.retrieval))
    if page.next_cursor is not None:
        printer.note(f"more with: --cursor {page.next_cursor}")


def create(context: typer.Context, name: Name, json_only: Json = False) -> None:
    """Register a scope, so that it can be the default and is offered where one is required."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        written = memory.create_scope(name)
    done = "registered" if written.changed else "already registered"
    session.printer.answer(written, Text.assemble((done, "green"), " ", written.scope or ""))


def default(context: typer.Context, name: Name, json_only: Json = False) -> None:
    """Let reads that name no scope keep to this one."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        _answer(session, memory.set_retrieval_scope("default", name))


def require(context: typer.Context, json_only: Json = False) -> None:
    """Refuse reads that name no scope."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        _answer(session, memory.set_retrieval_scope("require"))


def off(context: typer.Context, json_only: Json = False) -> None:
    """Let reads that name no scope find everything."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        _answer(session, memory.set_retrieval_scope("off"))


def _answer(session: Session, written: "ScopeWritten") -> None:
    session.printer.answer(written, _says(written.retrieval))


def _says(policy: "RetrievalView") -> Text:
    if policy.mode == "default":
        return Text.assemble("a read that names no scope keeps to ", (policy.scope or "", "bold"))
    if policy.mode == "require":
        return Text("a read that names no scope is refused", "yellow")
    return Text("a read that names no scope finds everything", "dim")
