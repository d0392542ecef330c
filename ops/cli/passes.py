"""Forgetting passes: ask for one, watch it, look at it afterwards."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ...domain.errors import NotCaughtUp
from . import options as o
from .cards import pass_table
from .session import Json, Session

if TYPE_CHECKING:
    from ...handlers.operating.views import PassView
    from ..local import Memory

WAIT_SECONDS = 600.0
_LOOK_SECONDS = 0.2
PassId = Annotated[str, typer.Argument(metavar="ID", help="Id of a pass.", show_default=False)]
Progress = Callable[[int, int, str], None]
"""Called with (judged, to judge, phase)."""


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Forgetting passes: they propose, people decide.")
    o.add(
        group,
        run,
        "lethelog settings judgment on   # once per tenant",
        "lethelog pass run",
        "lethelog pass run --no-wait --json",
        "lethelog pass run --scheduled   # for a timer of your own",
    )
    o.add(group, show, f"lethelog pass show {o.ID}")
    app.add_typer(group, name="pass", rich_help_panel="Forget")


def run(
    context: typer.Context,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0.0, help="Wait so long for it to finish.")
    ] = WAIT_SECONDS,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Ask for it and return at once.")] = False,
    scheduled: Annotated[
        bool,
        typer.Option(
            "--scheduled",
            help="Only the day's scheduled pass, if it is due; does nothing unless "
            "LETHELOG_FORGETTING_PASS_ENABLED is on.",
        ),
    ] = False,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Look for memories that have ended, and propose what to do with them.

    A pass changes no memory: its proposals wait for `lethelog review`. Judging has to be allowed first, with
    `lethelog settings judgment on`.
    """
    session = Session.of(context, json_only)
    printer = session.printer
    if scheduled and not session.settings.forgetting_pass_enabled:
        # Before anything is opened: switched off means that nothing at all is read (A33).
        printer.answer({"scheduled": "off"}, Text("scheduled passes are off (LETHELOG_FORGETTING_PASS_ENABLED)"))
        return
    from ...handlers.operating.workers import ALL_ROLES

    # Also beside a background worker: that one may have another judge, and two share the work.
    with session.open(() if no_wait else ALL_ROLES) as memory:
        if scheduled:
            found = _request_scheduled(session, memory)
            if found is None:
                printer.answer(
                    {"scheduled": "nothing_to_do"},
                    Text("nothing to do: not due yet, requested already, or judging is off for this tenant"),
                )
                return
        else:
            found = memory.run_pass(key=key)
        if not no_wait:
            found = _watched(session, memory, found, wait)
    printer.answer(found, pass_table(found))
    if no_wait:
        printer.note("it runs as soon as a worker does (lethelog up); see: lethelog pass show " + str(found.id))
    elif sum(found.proposed.values()):
        printer.note("decide with: lethelog review")
    if found.phase == "failed":
        raise typer.Exit(1)


def show(context: typer.Context, pass_id: PassId, json_only: Json = False) -> None:
    """Show how a pass stands and what came of it."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        found = memory.show_pass(pass_id)
    session.printer.answer(found, pass_table(found))


def _watched(session: Session, memory: "Memory", found: "PassView", seconds: float) -> "PassView":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with ExitStack() as stack:
        report: Callable[[int, int, str], None] = _silent
        if session.printer.watched:
            columns = (
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
            )  # fmt: skip
            bar = stack.enter_context(Progress(*columns, console=session.printer.err, transient=True))
            task = bar.add_task("waiting for a worker", total=None)

            def show(judged: int, items: int, phase: str) -> None:
                says = (
                    "judging"
                    if items
                    else {"requested": "waiting for a worker"}.get(phase, "looking for candidates")
                )
                bar.update(task, description=says, completed=judged, total=items or None)

            report = show
        return memory.run(_until_finished(memory, found.id, seconds, report))


async def _until_finished(memory: "Memory", pass_id: Any, seconds: float, report: Progress) -> "PassView":
    """The pass when it is finished and its proposals are in the queue. Raises `NotCaughtUp`."""
    from ...domain.forgetting_pass import verdict_id
    from ...handlers.forgetting.pass_log import load_pass, which_exist

    door = memory.asyncio
    tenant, log = (await door.caller()).tenant, door.engine.log
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        state = await load_pass(log, tenant, pass_id)
        if not state.open:
            return await door.wait_for_pass(pass_id, 0)
        verdicts = [verdict_id(state.id, item.ref) for item in state.items]
        report(len(await which_exist(log, tenant, verdicts)), len(verdicts), state.phase)
        if loop.time() > deadline:
            raise NotCaughtUp(
                f"pass {pass_id} is not finished after {seconds:g} s (it is {state.phase}); a worker goes on with "
                f"it (lethelog up), see: lethelog pass show {pass_id}",
                pass_id=pass_id,
            )
        await asyncio.sleep(_LOOK_SECONDS)


def _request_scheduled(session: Session, memory: "Memory") -> "PassView | None":
    pass_id = memory.run(_scheduled(session, memory))
    return None if pass_id is None else memory.show_pass(pass_id)


async def _scheduled(session: Session, memory: "Memory") -> Any:
    from ...handlers.forgetting.requesting import Passes
    from ..local import open_pass_settings

    door = memory.asyncio
    caller = await door.caller()
    caller.require("memory:write")
    settings = open_pass_settings(session.settings, door.engine)
    try:
        return await Passes(door.engine, settings).request_scheduled(caller.tenant, door.engine.clock())
    finally:
        await settings.judge.close()


def _silent(_judged: int, _items: int, _phase: str) -> None:
    return
