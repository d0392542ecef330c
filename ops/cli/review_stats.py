"""How reviewing goes, for readers, for programs and for Prometheus."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ...domain.errors import InvalidInput
from .output import counted, moment, write
from .session import Json, Session, fields
from .shares import share_text

if TYPE_CHECKING:
    from ...handlers.analytics.views import ReviewStats


def stats(
    context: typer.Context,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="INSTANT", help="Proposals put into the queue since; 30 days by default."),
    ] = None,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print it in Prometheus' text format, without names or ids.")
    ] = False,
    json_only: Json = False,
) -> None:
    """Count how reviewing goes: waits, acceptance, reversals, disagreement, cost.

    Shares stand with their 95 % interval. Reviewers are named only to callers that may review.
    """
    session = Session.of(context, json_only)
    if prometheus and json_only:
        raise InvalidInput("prometheus", "goes without --json")
    with session.reading("review_queue", "effects", "live_memory") as memory:
        found = memory.review_stats(**fields(since=since))
    if prometheus:
        from ...handlers.analytics.prometheus import prometheus_text

        write(prometheus_text(found).rstrip("\n"))
        return
    session.printer.answer(found, *_readable(found))


def _readable(found: "ReviewStats") -> list[Text | Table]:
    oldest = "" if found.oldest_open_at is None else f", the oldest since {moment(found.oldest_open_at)}"
    lines: list[Text | Table] = [
        Text(f"{found.open} open{oldest}; proposals since {moment(found.since)}:", "bold")
    ]
    if found.groups:
        lines.append(_groups(found))
    if found.groups_left_out:
        lines.append(Text(f"{counted(found.groups_left_out, 'smaller group')} left out", "dim"))
    lines += [Text(f"taken back: {one.kind} {share_text(one.undone)}") for one in found.reversals]
    disputed = found.disagreement.questions
    lines.append(Text(f"decided by several reviewers and not alike: {share_text(disputed)}"))
    for one in found.reviewers or ():
        lines.append(Text(f"{one.reviewer}: {one.accepted} accepted, {one.rejected} rejected"))
    for one in found.spending:
        cost = "cost unknown" if one.cost_usd is None else f"{one.cost_usd:g} USD"
        each = "" if one.usd_per_accepted is None else f", {one.usd_per_accepted:g} USD per accepted proposal"
        lines.append(Text(f"{one.judge} ({one.operation}): {counted(one.calls, 'call')}, {cost}{each}"))
    return lines


def _groups(found: "ReviewStats") -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("by", "value", "came", "open", "accepted", "rejected", "wait p50", "wait p90"):
        table.add_column(name)
    for one in found.groups:
        waits = (one.wait_p50_seconds, one.wait_p90_seconds)
        table.add_row(
            one.by.replace("_", " "),
            Text(one.value),
            str(one.staged),
            str(one.open),
            share_text(one.acceptance) if one.acceptance.of else "–",
            str(one.rejected),
            *("–" if wait is None else f"{wait:,.0f} s" for wait in waits),
        )
    return table
