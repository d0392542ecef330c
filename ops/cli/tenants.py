"""The verbs of tenants: made by hand, their forgetting policy first."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ...domain.errors import InvalidInput, Misconfigured
from .options import add
from .output import safe
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.operating.views import TenantView

Name = Annotated[str, typer.Argument(metavar="NAME", help="The tenant's name.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Make and see tenants: memories that are kept apart.")
    add(
        group,
        create,
        "lethelog tenant create acme",
        "lethelog tenant create acme --policy acme.toml",
        "lethelog --tenant acme remember 'Deploys go to Hetzner'",
    )
    add(group, list_, "lethelog tenant list", "lethelog tenant list --json", name="list")
    add(group, show, "lethelog tenant show acme")
    app.add_typer(group, name="tenant", rich_help_panel="Run")


def create(
    context: typer.Context,
    name: Name,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="Its forgetting policy, as TOML; see `lethelog policy show` for the keys.",
        ),
    ] = None,
    allow_lookalike: Annotated[
        bool,
        typer.Option("--allow-lookalike", help="Make it although its name may be taken for another tenant's."),
    ] = False,
    json_only: Json = False,
) -> None:
    """Make a tenant. Its forgetting policy is the first event of its log; the default says what it leaves open."""
    session = Session.of(context, json_only)
    stated = None if policy is None else read_policy(policy)
    with session.installation() as memory:
        made = memory.tenants.create(name, policy=stated, allow_lookalike=allow_lookalike)
    session.printer.answer(made, *_lines(made))
    if made.unanswered:
        session.printer.note(
            "Its policy does not answer yet: "
            + ", ".join(one.replace("_", " ") for one in made.unanswered)
            + f". See: lethelog --tenant {shlex.quote(safe(made.name).plain)} policy report"
        )


def list_(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    cursor: Annotated[str | None, typer.Option("--cursor", metavar="TEXT", help="Where the page begins.")] = None,
    json_only: Json = False,
) -> None:
    """List the tenants of this installation."""
    session = Session.of(context, json_only)
    with session.installation() as memory:
        page = memory.tenants.list(limit=limit, **fields(cursor=cursor))
    table = Table(box=None, pad_edge=False)
    for heading in ("tenant", "id", "made", "judging", "answers owed"):
        table.add_column(heading, no_wrap=heading == "id", overflow="fold")
    for one in page.tenants:
        table.add_row(
            safe(one.name),
            str(one.id),
            f"{one.created_at:%Y-%m-%d}",
            "on" if one.judgment else "off",
            str(len(one.unanswered)),
        )
    session.printer.answer(page, table)
    if page.next_cursor is not None:
        session.printer.note(f"More: lethelog tenant list --cursor {page.next_cursor}")


def show(context: typer.Context, name: Name, json_only: Json = False) -> None:
    """Show one tenant."""
    session = Session.of(context, json_only)
    with session.installation() as memory:
        found = memory.tenants.show(name)
    session.printer.answer(found, *_lines(found))


def read_policy(file: Path) -> dict[str, Any]:
    """The fields of a policy in a TOML file. Raises `Misconfigured`, `InvalidInput`."""
    import tomllib

    try:
        return tomllib.loads(file.read_text())
    except OSError:
        raise Misconfigured(f"{file} cannot be read") from None
    except ValueError as error:
        raise InvalidInput("policy", f"{file} is no TOML: {error}") from None


def _lines(tenant: "TenantView") -> list[Text]:
    owed = ", ".join(one.replace("_", " ") for one in tenant.unanswered) or "nothing"
    return [
        Text.assemble((str(safe(tenant.name)), "bold"), f"  {tenant.id}"),
        Text(f"  made {tenant.created_at:%Y-%m-%d %H:%M} UTC, judging {'on' if tenant.judgment else 'off'}"),
        Text(f"  policy version {tenant.policy_version}, answers owed: {owed}"),
    ]
