"""The verbs that read the log itself: `tail`, `log show`, `log export`."""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.text import Text

from ...domain.errors import InvalidInput, Misconfigured
from . import options as o
from .cards import event_lines
from .output import Printer, counted, write
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.operating.views import EventView
    from ..local import Memory

_PAGE = 500

Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="NAME", help="Only these events: memory.archived, or memory.*; repeatable."),
]
Stream = Annotated[
    str | None,
    typer.Option("--stream", metavar="ID", help="Only the events of one memory, proposal or pass."),
]
From = Annotated[int | None, typer.Option("--from", min=1, metavar="POSITION", help="Begin with this position.")]
To = Annotated[
    str | None,
    typer.Option(
        "--to", metavar="POSITION|TIME", help="End with this position, or with what was recorded by then."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    o.add(
        app,
        tail,
        "lethelog tail",
        "lethelog tail --from 1 --type 'memory.*' --json",
        f"lethelog tail --stream {o.ID}",
        panel="Read",
    )
    log = typer.Typer(help="Read the log itself.", no_args_is_help=True)
    o.add(
        log,
        show,
        "lethelog log show",
        "lethelog log show --from 120 --to 140 --json",
        "lethelog log show --type 'proposal.*' --to 2026-03-01T09:00:00Z",
        f"lethelog log show --stream {o.ID}",
    )
    o.add(log, export, "lethelog log export log.jsonl", "lethelog log export - --type 'memory.*' | jq .event")
    app.add_typer(log, name="log", rich_help_panel="Read")


def tail(
    context: typer.Context,
    from_position: From = None,
    names: Types = None,
    stream: Stream = None,
    json_only: Json = False,
) -> None:
    """Follow the log: print events as they are committed, until Ctrl-C.

    Without --from only new ones. With --json one document a line.
    """
    session = Session.of(context, json_only)
    asyncio.run(_follow(session, fields(names=names, stream=stream, from_position=from_position)))


def show(
    context: typer.Context,
    from_position: From = None,
    to: To = None,
    names: Types = None,
    stream: Stream = None,
    session_run_id: o.OfSessionRun = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 500.")] = 50,
    json_only: Json = False,
) -> None:
    """Show events of the log in order, opened: who did what when, and why. What was erased stays closed."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        page = memory.events(
            limit=limit,
            **fields(
                names=names, stream=stream, from_position=from_position, to=to, session_run_id=session_run_id
            ),
        )
    printer = session.printer
    if printer.json_only:
        printer.document(page)
        return
    for event in page.events:
        for line in event_lines(event):
            printer.out.print(line, soft_wrap=True)
    if not page.events:
        printer.note(f"no such events; looked up to position {page.upto}")
    elif page.next_position is not None:
        printer.note(f"there is more; go on with: --from {page.next_position}")


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it, or - for the output.")],
    from_position: From = None,
    to: To = None,
    names: Types = None,
    stream: Stream = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if there is one.")] = False,
    json_only: Json = False,
) -> None:
    """Write events to a JSONL file, one a line, opened: memories stand in it as clear text, so keep it safe.

    The file appears when it is complete. What is appended meanwhile is not in it.
    """
    session = Session.of(context, json_only)
    with session.open() as memory:
        query = fields(names=names, stream=stream, from_position=from_position, to=to)
        with writing(file, overwrite=overwrite, note=session.printer.note) as out:
            written, upto = _export(session, memory, query, out)
    summary = {"file": str(file), "events": written, "upto": upto}
    if str(file) == "-":
        return
    if session.printer.json_only:
        session.printer.document(summary)
    else:
        session.printer.line(Text("written", "green"), f" {counted(written, 'event')} to {file}")


def _export(session: Session, memory: "Memory", query: dict[str, Any], out: TextIO) -> tuple[int, int]:
    """(how many events, up to which position)."""
    written = 0
    with session.printer.progress("exporting", left="no file was written") as report:
        while True:
            page = memory.events(limit=_PAGE, **query)
            for event in page.events:
                out.write(json.dumps(event.model_dump(mode="json"), ensure_ascii=False) + "\n")
            written += len(page.events)
            report(page.next_position or page.upto, page.upto)
            if page.next_position is None:
                return written, page.upto
            # What is appended meanwhile is left out.
            query = {**query, "from_position": page.next_position, "to": page.upto}


@contextlib.contextmanager
def writing(file: Path, *, overwrite: bool, note: Callable[[str], None]) -> Generator[TextIO]:
    """A file, readable by its owner only, that appears under its name once it is whole; ``-`` is the output.

    What a killed command left under the name of its draft is replaced, and ``note`` says so. Raises `InvalidInput`
    where the file exists already or is being written, `Misconfigured` where it cannot be written.
    """
    import sys

    if str(file) == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    _refuse_existing(file, overwrite=overwrite)
    draft = file.with_name(f"{file.name}.partial")
    try:
        with os.fdopen(_draft(draft, note), "w", encoding="utf-8") as out:
            try:
                yield out
                out.flush()
                os.fsync(out.fileno())
                draft.replace(file)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise Misconfigured(f"{file} cannot be written: {error.strerror}") from None


def refuse_unwritable(file: Path, *, overwrite: bool) -> None:
    """Raise what `writing` would, before something is done that cannot be taken back."""
    if str(file) == "-":
        return
    _refuse_existing(file, overwrite=overwrite)
    draft = file.with_name(f"{file.name}.partial")
    try:
        os.close(_draft(draft, lambda _said: None))
        draft.unlink(missing_ok=True)
    except OSError as error:
        raise Misconfigured(f"{file} cannot be written: {error.strerror}") from None


def _refuse_existing(file: Path, *, overwrite: bool) -> None:
    if file.exists() and not overwrite:
        raise InvalidInput("file", "exists already", "Choose another, or add --overwrite")


def _draft(draft: Path, note: Callable[[str], None]) -> int:
    """An empty file that this process alone writes; whoever writes it holds a lock that dies with the process."""
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fchmod(descriptor, 0o600)
        if os.fstat(descriptor).st_size:
            note(f"{draft.name}, which a command that was killed had left, is replaced")
        os.ftruncate(descriptor, 0)
    except BlockingIOError:
        os.close(descriptor)
        raise InvalidInput("file", "is being written by another command", "Choose another, or wait") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


async def _follow(session: Session, query: dict[str, Any]) -> None:
    from ..local import open_memory

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with await open_memory(session.settings, ()) as door, contextlib.aclosing(door.tail(**query)) as events:
        printing = asyncio.ensure_future(_print_each(session.printer, events))
        stopping = asyncio.ensure_future(stopped.wait())
        await asyncio.wait({printing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if printing.done():
            await printing
        printing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await printing


async def _print_each(printer: Printer, events: "AsyncGenerator[EventView]") -> None:
    printer.note("following the log; stop with Ctrl-C")
    async for event in events:
        if printer.json_only:
            write(json.dumps(event.model_dump(mode="json")))
            continue
        for line in event_lines(event):
            printer.out.print(line, soft_wrap=True)
