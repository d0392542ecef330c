"""The verbs of tokens. A token's text is printed once, when it is made; it is read from a file or a variable."""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ...domain.errors import Misconfigured
from .options import ID, add
from .output import safe
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.operating.views import IssuedToken

TokenId = Annotated[str, typer.Argument(metavar="ID", help="Id of a token.", show_default=False)]
ExpiresAt = Annotated[
    str | None,
    typer.Option("--expires-at", metavar="INSTANT", help="Until when it is valid; for ever by default."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Write the token into this new file (mode 0600) and not to the screen."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Credentials of this tenant's people and agents.")
    add(
        group,
        issue,
        "lethelog token issue agent:planner --out planner.token",
        "lethelog token issue person:ada --allow memory:read --allow memory:review",
        "lethelog --token-file planner.token search deploys",
    )
    add(group, list_, "lethelog token list", name="list")
    add(group, rotate, f"lethelog token rotate {ID} --grace 3600 --out planner.token")
    add(group, revoke, f"lethelog token revoke {ID}")
    add(group, check, "lethelog --token-file planner.token token check")
    app.add_typer(group, name="token", rich_help_panel="Run")


def issue(
    context: typer.Context,
    actor: Annotated[
        str,
        typer.Argument(
            metavar="KIND:NAME", help="Who will act with it, such as agent:planner.", show_default=False
        ),
    ],
    permissions: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="PERMISSION",
            help="What it allows; may be repeated. By default memory:read and memory:write; there are also "
            "memory:review, memory:import, memory:erase, stream:read and tenant:admin.",
        ),
    ] = None,
    expires_at: ExpiresAt = None,
    out: Out = None,
    json_only: Json = False,
) -> None:
    """Issue a token for an actor of this tenant. Its text is shown this once; only a digest is kept."""
    session = Session.of(context, json_only)
    with session.open() as memory, _reserved(out):
        issued = memory.tokens.issue(actor, **fields(permissions=permissions, expires_at=expires_at))
        _hand_out(session, issued, out)


def list_(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    cursor: Annotated[str | None, typer.Option("--cursor", metavar="TEXT", help="Where the page begins.")] = None,
    json_only: Json = False,
) -> None:
    """List this tenant's tokens, also those that are no longer valid."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        page = memory.tokens.list(limit=limit, **fields(cursor=cursor))
    table = Table(box=None, pad_edge=False)
    for heading in ("token", "actor", "status", "until", "allows"):
        table.add_column(heading, no_wrap=heading == "token", overflow="fold")
    for one in page.tokens:
        until = "for ever" if one.expires_at is None else f"{one.expires_at:%Y-%m-%d %H:%M} UTC"
        table.add_row(str(one.id), safe(one.actor), one.status, until, " ".join(one.permissions))
    session.printer.answer(page, table)
    if page.next_cursor is not None:
        session.printer.note(f"More: lethelog token list --cursor {page.next_cursor}")


def rotate(
    context: typer.Context,
    token_id: TokenId,
    grace_seconds: Annotated[
        int | None,
        typer.Option("--grace", metavar="SECONDS", help="How long the old one stays valid; a day by default."),
    ] = None,
    expires_at: ExpiresAt = None,
    out: Out = None,
    json_only: Json = False,
) -> None:
    """Issue a token in place of another, for the same actor and permissions."""
    session = Session.of(context, json_only)
    with session.open() as memory, _reserved(out):
        issued = memory.tokens.rotate(token_id, **fields(grace_seconds=grace_seconds, expires_at=expires_at))
        _hand_out(session, issued, out)


def revoke(context: typer.Context, token_id: TokenId, json_only: Json = False) -> None:
    """End a token: within two seconds no process takes it."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        ended = memory.tokens.revoke(token_id)
    session.printer.answer(ended, Text.assemble(("revoked", "green"), f"  {ended.id}"))


def check(context: typer.Context, json_only: Json = False) -> None:
    """Tell what this process's credential stands for: whose memories, who acts, what it allows."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        found = memory.whoami()
    session.printer.answer(
        found,
        Text.assemble((str(safe(found.actor)), "bold"), f"  in tenant {found.tenant}"),
        Text("  may " + ", ".join(found.permissions)),
    )


@contextlib.contextmanager
def _reserved(file: Path | None) -> Generator[None]:
    """The file a token goes to: made before the token is, so that none is issued that cannot be written down."""
    if file is None:
        yield
        return
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise Misconfigured(f"{file} is there already; name a new file") from None
    except OSError as error:
        raise Misconfigured(f"{file} cannot be written: {error.strerror}") from None
    try:
        yield
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _hand_out(session: Session, issued: "IssuedToken", out: Path | None) -> None:
    document = issued.model_dump(mode="json")
    if out is not None:
        out.write_text(issued.text + "\n")
        document["text"], where = None, f"the token is in {out}"
    else:
        where = "keep it now; it is not shown again"
    token = issued.token
    lines = [Text(issued.text, "bold")] if out is None else []
    lines.append(Text(f"{token.id}  {safe(token.actor)}  {' '.join(token.permissions)}", "dim"))
    session.printer.answer(document, *lines)
    session.printer.note(where)
