"""The whole command line, put together from its groups of verbs."""

from pathlib import Path
from typing import Annotated

import typer

from . import (
    archives,
    auditing,
    benching,
    briefing,
    commitments,
    consolidating,
    contradicting,
    demo,
    doctoring,
    erasing,
    event_log,
    facts,
    http_server,
    mcp,
    parked,
    passes,
    policies,
    proposals,
    reading,
    replaying,
    review,
    scopes,
    servers,
    sessions,
    settings,
    tenants,
    tokens,
    undoing,
    vaulting,
    views,
    webhooks,
    whatif,
    writing,
)
from .options import epilog
from .session import Session

app = typer.Typer(
    name="lethelog",
    help="Long-term memory for AI agents that forgets on the record.\n\n"
    "Servers start by themselves when a command needs them, and stop when nobody uses them; `lethelog up` keeps "
    "them up. Every command takes --json.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog=epilog(
        'lethelog remember "Deploys go to Hetzner" --type decision',
        'lethelog search "where do deploys go"',
        "lethelog settings judgment on && lethelog pass run && lethelog review",
        "lethelog --data-dir ./memory --actor agent:planner list --json",
        "lethelog demo",
    ),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from .output import write

        write(f"lethelog {version('lethelog')}")
        raise typer.Exit


@app.callback(help=app.info.help)
def lethelog(
    context: typer.Context,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", metavar="PATH", help="Where the embedded servers keep their data (LETHELOG_DATA_DIR)."
        ),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Whose memories (LETHELOG_TENANT).")
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option("--actor", metavar="KIND:NAME", help="Who acts: person:ada, agent:planner (LETHELOG_ACTOR)."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Act with the token in this file (LETHELOG_TOKEN_FILE); it says whose memories and who acts.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Everything that stands before the verb."""
    session = context.ensure_object(Session)
    session.data_dir, session.tenant, session.actor = data_dir, tenant, actor
    session.token_file = token_file


writing.register(app)
reading.register(app)
facts.register(app)
commitments.register(app)
briefing.register(app)
scopes.register(app)
sessions.register(app)
event_log.register(app)
passes.register(app)
consolidating.register(app)
contradicting.register(app)
proposals.register(app)
review.register(app)
undoing.register(app)
whatif.register(app)
servers.register(app)
http_server.register(app)
mcp.register(app)
views.register(app)
replaying.register(app)
archives.register(app)
auditing.register(app)
erasing.register(app)
vaulting.register(app)
settings.register(app)
policies.register(app)
tenants.register(app)
tokens.register(app)
webhooks.register(app)
doctoring.register(app)
parked.register(app)
demo.register(app)
benching.register(app)
