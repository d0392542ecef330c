"""What was set aside after failing again and again: seen, tried again in order, or dropped with a reason."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from ...domain.errors import InvalidInput, NotFound, Unavailable
from .options import ID, add
from .output import safe
from .parked_events import checked, identity, listed, place_of, retried
from .session import VIEWS, Json, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ...projections.parked_retry import Retried
    from ...streams.parking_place import ParkingPlace
    from ..local import Memory

T = TypeVar("T")
Consumer = Annotated[str | None, typer.Option("--consumer", metavar="NAME", help="Only this consumer's.")]
ReadModel = Annotated[str | None, typer.Option("--read-model", metavar="NAME", help="Only this read model's.")]
_COLUMNS = ("id", "where", "consumer", "position", "sequence", "error", "failures", "parked_at")
_MESSAGE = "message-"


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(help="What was set aside after failing again and again.", no_args_is_help=True)
    add(
        group,
        list_parked,
        "lethelog parked list",
        "lethelog parked list --consumer pass-manager --json",
        "lethelog parked list --read-model live_memory",
        "lethelog parked list --dropped",
        name="list",
    )
    add(
        group,
        retry,
        "lethelog parked retry",
        "lethelog parked retry --consumer pass-verdicts",
        f"lethelog parked retry --read-model live_memory --sequence {ID}",
    )
    add(group, drop, "lethelog parked drop message-17 --reason ticket-4711")
    app.add_typer(group, name="parked", rich_help_panel="Run")


def list_parked(
    context: typer.Context,
    consumer: Consumer = None,
    read_model: ReadModel = None,
    dropped: Annotated[bool, typer.Option("--dropped", help="What was dropped, and why.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="At most so many.")] = 100,
    after: Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Go on after a page.")] = None,
    json_only: Json = False,
) -> None:
    """List events that read models could not apply, and messages that consumers gave up.

    Shows names, positions and opaque ids, no content.
    """
    session = Session.of(context, json_only)
    _one_of(consumer, checked(read_model))
    event = ("", 0) if after is None else place_of(after)
    start = 0 if event is not None or after is None else _number(after, "after")

    async def look(place: "ParkingPlace") -> tuple[list[dict[str, Any]], int | None]:
        if dropped:
            records, cursor = await place.dropped(consumer=consumer, after=start, limit=limit)
            return [dict(one) for one in records], cursor
        messages, cursor = await place.page(consumer=consumer, after=start, limit=limit)
        return [one.as_dict() for one in messages], cursor

    events: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    more: str | None = None
    with session.open() as memory:
        if event is not None and consumer is None and not dropped:
            events = listed(memory, read_model, event, limit)
        if len(events) == limit:
            more = events[-1]["id"]
        elif read_model is None:
            rows, cursor = memory.run(_at_parking_place(session, memory, look))
            more = None if cursor is None else f"{_MESSAGE}{cursor}"
    for row in rows:
        row.update(id=f"{_MESSAGE}{row['id']}", where="broker")
    rows = events + rows
    columns = (*_COLUMNS, "reason", "dropped_at") if dropped else _COLUMNS
    session.printer.answer({"parked": rows, "next": more}, _table(rows, columns) if rows else "nothing")
    if more:
        session.printer.note(f"more with: --after {more}")


def retry(
    context: typer.Context,
    consumer: Consumer = None,
    read_model: ReadModel = None,
    stream: Annotated[
        str | None, typer.Option("--sequence", metavar="ID", help="Only the events of this aggregate.")
    ] = None,
    json_only: Json = False,
) -> None:
    """Try again what was set aside, each sequence in order: all of it, or one place's or sequence's.

    Read models apply their events at once. Messages are handled while a worker, or the subscriber they belong to,
    runs. May be stopped and repeated. Exit 1 if something stays.
    """
    session = Session.of(context, json_only)
    _one_of(consumer, checked(read_model))
    views = () if consumer is not None else VIEWS if read_model is None else (read_model,)
    applied: dict[str, Retried] = {}
    sent, left = 0, dict[str, str]()
    with session.open() as memory, _progress(session) as report:
        applied = retried(memory, views, stream, report)
        found = any(one.applied or one.left for one in applied.values())
        if read_model is None:
            try:
                done = memory.run(
                    _at_parking_place(
                        session,
                        memory,
                        lambda place: place.retry(consumer=consumer, sequence=stream, progress=report),
                    )
                )
                sent, left = done.sent, {f"{_MESSAGE}{number}": reason for number, reason in done.left.items()}
                found = True
            except NotFound:
                pass  # it may have been parked by read models alone
            except Unavailable as error:
                if not found:
                    raise
                # What read models did is done and is told.
                left = {"broker": error.code}
        if not found and (consumer or stream):
            raise _nothing_parked(consumer, read_model, stream)
    for name, one in applied.items():
        left |= {identity(name, position): reason for position, reason in one.left.items()}
    count = sum(one.applied for one in applied.values())
    printer = session.printer
    if printer.json_only:
        stays = [{"id": which, "reason": reason} for which, reason in left.items()]
        printer.document({"sent": sent, "applied": count, "left": stays})
    else:
        printer.line(Text("tried again", "green"), f" {count} events applied, {sent} messages sent")
        for which, reason in left.items():
            printer.line(Text("stays", "yellow"), f" {which}: {reason}")
    if left:
        raise typer.Exit(1)


def drop(
    context: typer.Context,
    which: Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.", show_default=False)],
    reason: Annotated[
        str, typer.Option("--reason", metavar="CODE", help="A code or ticket, kept in clear.", show_default=False)
    ],
    json_only: Json = False,
) -> None:
    """Take one message out for good: its consumer never handles it.

    What waits behind it stays parked until it is tried again.
    """
    session = Session.of(context, json_only)
    if place_of(which) is not None:
        raise InvalidInput(
            "id", "is an event that a read model waits for; without it the read model would be wrong", "Retry it"
        )
    number = _number(which, "id")
    with session.open() as memory:
        found = memory.run(_at_parking_place(session, memory, lambda place: place.drop(number, reason)))
    document = {**found.as_dict(), "id": which, "where": "broker", "reason": reason}
    session.printer.answer({"dropped": document}, Text.assemble(Text("dropped", "green"), f" {which}"))


def _nothing_parked(consumer: str | None, read_model: str | None, stream: str | None) -> NotFound:
    given = {"--consumer": consumer, "--read-model": read_model, "--sequence": stream}
    options = " ".join(f"{option} {value}" for option, value in given.items() if value is not None)
    return NotFound(f"nothing is parked under {options}; see: lethelog parked list")


def _one_of(consumer: str | None, read_model: str | None) -> None:
    if consumer is not None and read_model is not None:
        raise InvalidInput("read_model", "cannot be given together with consumer")


def _number(identity: str, field: str) -> int:
    text = identity.removeprefix(_MESSAGE)
    if not text.isdecimal() or len(text) > 18:
        raise InvalidInput(field, f"must look like {_MESSAGE}17", "See: lethelog parked list")
    return int(text)


async def _at_parking_place(
    session: Session, memory: "Memory", work: "Callable[[ParkingPlace], Coroutine[Any, Any, T]]"
) -> T:
    async with _parking_place(session, memory) as place:
        return await work(place)


@asynccontextmanager
async def _parking_place(session: Session, memory: "Memory") -> "AsyncGenerator[ParkingPlace]":
    import asyncio

    from ...streams.broker import close, connect
    from ...streams.parking_place import ParkingPlace
    from .serving import broker_settings

    broker = await asyncio.to_thread(broker_settings, session.settings)
    client = await connect(broker, name="parked", reconnect=False)
    try:
        yield ParkingPlace(client, broker, memory.asyncio.engine.database)
    finally:
        await close(client)


@contextmanager
def _progress(session: Session) -> "Generator[Callable[[int, int], None]]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    if not session.printer.watched:
        yield lambda _done, _of: None
        return
    columns = (TextColumn("sending again"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=session.printer.err, transient=True) as bar:
        task = bar.add_task("sending again", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in columns:
        table.add_column(title.replace("_", " "), overflow="fold", no_wrap=title == "id")
    for row in rows:
        table.add_row(*(safe("–" if row.get(one) is None else row[one]) for one in columns))
    return table
