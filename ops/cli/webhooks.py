"""The verbs of webhooks: who is told over HTTP what waits for review, and how that goes."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from .options import ID, add
from .output import counted, moment, safe
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.webhooks.views import DeliveryView, RegisteredWebhook, WebhookView
    from ..local import Memory

WebhookId = Annotated[str, typer.Argument(metavar="ID", help="Id of a webhook.", show_default=False)]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="NAME",
        help="An event or a family such as pass.*; may be repeated. proposal.* by default.",
    ),
]
_STYLES = {"active": "green", "failing": "yellow", "disabled": "red", "removed": "dim"}
_NO_WORKER = "no worker sent it yet; to run one: lethelog up"
_REFUSED = (
    "the worker sends nothing to this machine or its network unless it was itself started with "
    "LETHELOG_WEBHOOK_ALLOW_PRIVATE=true: lethelog down, and up with it"
)


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Tell receivers over HTTP what waits for review.")
    add(
        group,
        add_,
        "lethelog webhook add https://example.org/hooks/lethelog",
        "lethelog webhook add https://example.org/hooks/lethelog --type 'proposal.*' --type pass.completed",
        name="add",
    )
    add(group, list_, "lethelog webhook list", name="list")
    add(group, show, f"lethelog webhook show {ID}")
    add(
        group,
        change,
        f"lethelog webhook change {ID} --url https://example.org/hooks/other",
        f"lethelog webhook change {ID} --type 'proposal.*'",
    )
    add(group, test, f"lethelog webhook test {ID}")
    add(
        group,
        deliveries,
        f"lethelog webhook deliveries {ID}",
        f"lethelog webhook deliveries {ID} --status failed",
    )
    add(
        group,
        replay,
        f"lethelog webhook replay {ID} --from 1200",
        f"lethelog webhook replay --delivery {ID}",
    )
    add(group, rotate, f"lethelog webhook rotate {ID}", f"lethelog webhook rotate {ID} --overlap 0")
    add(group, enable, f"lethelog webhook enable {ID}")
    add(group, remove, f"lethelog webhook remove {ID}")
    app.add_typer(group, name="webhook", rich_help_panel="Run")


def add_(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where to send, by https.", show_default=False)],
    names: Names = None,
    json_only: Json = False,
) -> None:
    """Send events to a URL. The secret that signs them is shown this once; at most ten webhooks per tenant."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        made = memory.webhooks.add(url, **fields(names=names))
    _hand_out(session, made)


def list_(context: typer.Context, json_only: Json = False) -> None:
    """List this tenant's webhooks, and how they do."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        found = memory.webhooks.list()
    table = Table(box=None, pad_edge=False)
    for heading in ("webhook", "status", "last", "pending", "events", "url"):
        table.add_column(heading, no_wrap=heading == "webhook", overflow="fold")
    for one in found.webhooks:
        status = Text(one.status, _STYLES[one.status])
        last, pending = safe(one.last_outcome or "–"), str(one.pending)
        table.add_row(str(one.id), status, last, pending, " ".join(one.names), safe(one.url or "–"))
    session.printer.answer(found, table)


def show(context: typer.Context, webhook_id: WebhookId, json_only: Json = False) -> None:
    """Show one webhook, and how it does."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        _present(session, memory.webhooks.show(webhook_id))


def change(
    context: typer.Context,
    webhook_id: WebhookId,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="Another URL.")] = None,
    names: Names = None,
    json_only: Json = False,
) -> None:
    """Give a webhook another URL, other events, or both."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        _present(session, memory.webhooks.change(webhook_id, **fields(url=url, names=names)))


def enable(context: typer.Context, webhook_id: WebhookId, json_only: Json = False) -> None:
    """Send to a webhook again that was disabled; what happened meanwhile: lethelog webhook replay."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        _present(session, memory.webhooks.enable(webhook_id))


def rotate(
    context: typer.Context,
    webhook_id: WebhookId,
    overlap: Annotated[
        int | None,
        typer.Option(
            "--overlap", metavar="SECONDS", help="How long the old secret signs too; a day by default.", min=0
        ),
    ] = None,
    json_only: Json = False,
) -> None:
    """Make a new secret, shown this once. For the overlap each message carries both signatures."""
    session = Session.of(context, json_only)
    arguments = {} if overlap is None else {"overlap_seconds": overlap}
    with session.open() as memory:
        made = memory.webhooks.rotate(webhook_id, **arguments)
    _hand_out(session, made)


def remove(context: typer.Context, webhook_id: WebhookId, json_only: Json = False) -> None:
    """End a webhook; what waits to be sent to it is dropped."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        _present(session, memory.webhooks.remove(webhook_id))


def test(
    context: typer.Context,
    webhook_id: WebhookId,
    seconds: Annotated[
        int, typer.Option("--seconds", help="How long to wait for what comes of it.", min=0, max=300)
    ] = 15,
    json_only: Json = False,
) -> None:
    """Have a message sent that tells of nothing. Exit 1 unless the receiver took it."""
    session = Session.of(context, json_only)
    with _sending(session) as memory, session.printer.waiting("waiting for the receiver"):
        found = memory.webhooks.test(webhook_id, seconds=seconds)
    session.printer.answer(found, *_lines(found))
    if not found.attempts:
        session.printer.note(_NO_WORKER)
    elif found.attempts[-1].outcome == "address_refused":
        session.printer.note(_REFUSED)
    if found.status != "delivered":
        raise typer.Exit(1)


def deliveries(
    context: typer.Context,
    webhook_id: WebhookId,
    status: Annotated[
        Literal["pending", "delivered", "failed", "dropped"] | None, typer.Option("--status", help="Only these.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    cursor: Annotated[str | None, typer.Option("--cursor", metavar="ID", help="Where the page begins.")] = None,
    json_only: Json = False,
) -> None:
    """Show what was sent to a webhook and how that went, newest events first; no content."""
    session = Session.of(context, json_only)
    with session.open() as memory:
        page = memory.webhooks.deliveries(webhook_id, limit=limit, **fields(status=status, cursor=cursor))
    session.printer.answer(page, *(line for one in page.deliveries for line in _lines(one)))
    if page.next_cursor is not None:
        session.printer.note(f"More: lethelog webhook deliveries {webhook_id} --cursor {page.next_cursor}")


def replay(
    context: typer.Context,
    webhook_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Id of a webhook.", show_default=False)
    ] = None,
    from_position: Annotated[
        int | None, typer.Option("--from", metavar="POSITION", min=1, help="From this position of the log on.")
    ] = None,
    delivery: Annotated[
        str | None, typer.Option("--delivery", metavar="ID", help="One delivery instead, by its id.")
    ] = None,
    json_only: Json = False,
) -> None:
    """Send events again, under the ids they had: all from a position on, or one delivery."""
    session = Session.of(context, json_only)
    if delivery is not None and webhook_id is None and from_position is None:
        with session.open() as memory:
            found = memory.webhooks.replay_delivery(delivery)
        session.printer.answer(found, *_lines(found))
        return
    if webhook_id is None or from_position is None or delivery is not None:
        raise typer.BadParameter("give either the ID of a webhook and --from, or --delivery")
    queued, position, upto = 0, from_position, from_position
    left = "what was queued is sent: queue the rest from there on"
    with session.open() as memory, session.printer.progress("queueing", left=left) as report:
        head = memory.run(memory.asyncio.engine.log.head())
        while True:
            page = memory.webhooks.replay(webhook_id, position)
            queued, upto = queued + page.queued, page.upto
            report(upto - from_position + 1, max(head, upto) - from_position + 1)
            if page.next_position is None:
                break
            position = page.next_position
    session.printer.answer(
        {"queued": queued, "upto": upto}, Text(f"{counted(queued, 'event')} queued, up to position {upto}")
    )


def _sending(session: Session) -> "AbstractContextManager[Memory]":
    """The memory, with the role that sends where no background worker has it."""
    from .background import runs_everything

    return session.open(() if runs_everything(session.settings) else ("webhooks",))


def _hand_out(session: Session, made: "RegisteredWebhook") -> None:
    webhook = made.webhook
    session.printer.answer(
        made,
        Text(made.secret, "bold"),
        Text(f"{webhook.id}  {safe(webhook.url or '')}  {' '.join(webhook.names)}", "dim"),
    )
    session.printer.note("keep the secret now; it is not shown again")


def _present(session: Session, one: "WebhookView") -> None:
    because = "" if one.disabled_because is None else f" ({one.disabled_because})"
    lines = [
        Text.assemble((one.status, _STYLES[one.status]), because, f"  {one.id}"),
        Text.assemble("  url      ", safe(one.url or "–")),
        Text(f"  events   {' '.join(one.names)}"),
        Text(f"  arrived  {one.delivered}, failed attempts {one.failed_attempts}, pending {one.pending}"),
        Text(f"  last     {one.last_outcome or '–'} at {moment(one.last_attempt)}"),
    ]
    if one.failing_since is not None:
        lines.append(Text(f"  failing  since {moment(one.failing_since)}", "yellow"))
    if one.signs_twice_until is not None:
        lines.append(Text(f"  the secret before signs too until {moment(one.signs_twice_until)}"))
    session.printer.answer(one, *lines)


def _lines(one: "DeliveryView") -> list[Text]:
    last = one.attempts[-1] if one.attempts else None
    came = "not sent yet" if last is None else f"{last.outcome} in {last.milliseconds} ms at {moment(last.at)}"
    after = "" if one.next_attempt is None else f", next {moment(one.next_attempt)}"
    tries = counted(len(one.attempts), "attempt")
    return [Text.assemble(f"{one.id}  {one.event} at {one.position}  ", one.status, f"  {tries}: {came}{after}")]
