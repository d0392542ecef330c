"""up, down, status, worker: what runs, and for how long."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from .options import add
from .output import safe
from .session import Json, Session
from .standing import print_standing

_PANEL = "Run"
JudgeConcurrency = Annotated[
    int, typer.Option("--judge-concurrency", metavar="N", min=1, max=256, help="Judge calls at once.")
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    add(app, up, "lethelog up", "lethelog up --foreground", panel=_PANEL)
    add(app, down, "lethelog down", panel=_PANEL)
    add(app, status, "lethelog status", "lethelog status --json", panel=_PANEL)
    add(
        app,
        worker,
        "lethelog worker",
        "lethelog worker --roles views,relay",
        "LETHELOG_DATABASE_URL=postgresql://… LETHELOG_BROKER_URL=nats://… lethelog worker --roles judge",
        panel=_PANEL,
    )


def up(
    context: typer.Context,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Run the worker here, until Ctrl-C, instead of detached.")
    ] = False,
    judge_concurrency: JudgeConcurrency = 4,
    json_only: Json = False,
) -> None:
    """Start the servers and a background worker, and keep both up until `lethelog down`.

    Other commands are quicker then, scheduled passes run, and queues move without anybody waiting. Doing it
    twice changes nothing.
    """
    session = Session.of(context, json_only)
    settings = session.settings
    from . import background

    embedded = settings.database_url is None or settings.broker_url is None
    if foreground:
        _serve(session, "all", judge_concurrency, background_lock=True)
        return
    started = False
    if embedded:
        from ..embedded import hold, join

        with session.printer.waiting("starting the servers"), join(settings.data_dir):
            hold(settings.data_dir)
    with session.printer.waiting("starting the worker"):
        started = background.start(settings, _global_options(session), judge_concurrency)
    session.printer.note("started" if started else "already up")
    print_standing(session)


def down(context: typer.Context, json_only: Json = False) -> None:
    """Stop the background worker and the embedded servers.

    Nothing is lost: what is under way goes on at the next start.
    """
    session = Session.of(context, json_only)
    settings = session.settings
    from . import background

    embedded = settings.database_url is None or settings.broker_url is None
    # Looked at before the worker goes: the servers it leaves may end by themselves, which stops them as well.
    servers = embedded and _servers_are_up(settings.data_dir)
    with session.printer.waiting("stopping the worker"):
        worker = background.stop(settings.data_dir)
    if embedded:
        from ..embedded import stop

        with session.printer.waiting("stopping the servers"):
            servers = stop(settings.data_dir) or servers
    printer = session.printer
    if printer.json_only:
        printer.document({"stopped": {"worker": worker, "servers": servers}, "data_dir": str(settings.data_dir)})
        return
    stopped = " and ".join(name for name, was in (("the worker", worker), ("the servers", servers)) if was)
    printer.line(Text(f"stopped {stopped}" if stopped else "nothing was running", "green" if stopped else ""))


def _servers_are_up(data_dir: Path) -> bool:
    from ..embedded import are_up

    return are_up(data_dir)


def status(context: typer.Context, json_only: Json = False) -> None:
    """What runs, how far the read models and the broker are, and what waits for review. Starts nothing."""
    print_standing(Session.of(context, json_only))


def worker(
    context: typer.Context,
    roles: Annotated[
        str,
        typer.Option(
            "--roles",
            metavar="NAMES",
            help="views, relay, passes, judge, schedule, erasures, webhooks, commitments, sessions, "
            "consolidation, dependencies, extraction, by commas; or all.",
        ),
    ] = "all",
    judge_concurrency: JudgeConcurrency = 4,
    detached: Annotated[bool, typer.Option("--background", hidden=True)] = False,
    json_only: Json = False,
) -> None:
    """Run background roles in this process until SIGTERM or Ctrl-C.

    Any number of workers may run, on any number of machines. What runs is finished before a worker ends.
    """
    session = Session.of(context, json_only)
    if detached:
        _serve_detached(session, judge_concurrency)
    else:
        _serve(session, roles, judge_concurrency, background_lock=False)


def _serve(session: Session, roles: str, judge_concurrency: int, *, background_lock: bool) -> None:
    from . import background, serving

    chosen = serving.roles_of(roles)
    settings = session.settings
    serving.log_to_stderr()
    lock = None
    if background_lock:
        background.prepare_folder(settings)
        lock = background.WorkerLock(settings.data_dir)

    def ready() -> None:
        if lock is not None:
            lock.publish(serving.state_of_this_process(settings, chosen, None))
        if session.json_only:
            session.printer.document({"roles": sorted(chosen), "data_dir": str(settings.data_dir)})
        else:
            names = ", ".join(sorted(chosen))
            session.printer.out.print(safe(f"running {names} on {settings.data_dir}; stop with Ctrl-C"))

    try:
        asyncio.run(serving.serve(settings, chosen, judge_concurrency=judge_concurrency, ready=ready))
    finally:
        if lock is not None:
            lock.release()
    session.printer.note("stopped")


def _serve_detached(session: Session, judge_concurrency: int) -> None:
    from . import background, serving

    background.detach()
    try:
        settings, roles = session.settings, serving.roles_of("all")
        serving.log_to_stderr()
        lock = background.WorkerLock(settings.data_dir)
        log = str(settings.data_dir / "logs" / "worker.log")

        def ready() -> None:
            state = serving.state_of_this_process(settings, roles, log)
            lock.publish(state)
            background.report(state.as_dict())

        asyncio.run(serving.serve(settings, roles, judge_concurrency=judge_concurrency, ready=ready))
        lock.release()
    except Exception as error:
        background.report(background.error_report(error))
        raise


def _global_options(session: Session) -> list[str]:
    settings = session.settings
    return ["--data-dir", str(settings.data_dir), "--tenant", settings.tenant, "--actor", settings.actor]
