"""`lethelog whatif`: what would have been proposed, and how often reviewers had agreed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ...domain.errors import InvalidInput
from . import options as o
from .output import counted
from .session import Json, Session, fields
from .shares import share_text
from .tenants import read_policy

if TYPE_CHECKING:
    from ...handlers.whatif.views import ActionPrecision, WhatIfReport, WouldBe

_ACTIONS = ("archive", "supersede", "conflict")
_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    o.add(
        app,
        whatif,
        "lethelog whatif --threshold archive=0.9",
        "lethelog whatif --policy stricter.toml --since 2026-03-01T00:00:00Z --json",
        "lethelog whatif --judge systemone --threshold archive=0.9 --threshold supersede=0.9",
        panel="Forget",
    )


def whatif(
    context: typer.Context,
    threshold: Annotated[
        list[str] | None,
        typer.Option("--threshold", metavar="ACTION=P", help="Another threshold; may be repeated."),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Changed fields of the policy, as TOML.")
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option("--judge", metavar="NAME", help="Another judge, which is asked: stated or systemone."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only passes with verdicts then or later.")
    ] = None,
    passes: Annotated[
        int, typer.Option("--passes", metavar="N", help="So many passes, the newest ones, 1 to 1,000.")
    ] = 100,
    questions: Annotated[
        int,
        typer.Option("--questions", metavar="N", help="With --judge: ask so many at most, 1 to 10,000."),
    ] = 100,
    json_only: Json = False,
) -> None:
    """Replay what passes asked, and say what they would have proposed.

    Thresholds and policies are computed from what is on record, and leave nothing there. Another judge is asked
    the recorded questions that it never answered: only while judging is on, out of the day's budget, on record.
    Nothing is ever proposed by it.
    """
    session = Session.of(context, json_only)
    chosen: dict[str, Any] = fields(**_thresholds(threshold or []), judge=judge, since=since)
    changed = None if policy is None else read_policy(policy)
    with (
        session.reading("review_queue", "effects") as memory,
        session.printer.progress("asking", left="what was asked is charged; nothing else changed") as report,
    ):
        found = memory.what_if(policy=changed, report=report, passes=passes, questions=questions, **chosen)
    session.printer.answer(found, *_lines(found))


def _thresholds(given: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in given:
        action, _, value = one.partition("=")
        if action not in _ACTIONS:
            raise InvalidInput(
                "threshold", f"must be ACTION=P, of {', '.join(_ACTIONS)}", "For example archive=0.9"
            )
        try:
            found[action] = float(value)
        except ValueError:
            raise InvalidInput("threshold", f"of {action} must be a number from 0 to 1") from None
    return found


def _lines(found: "WhatIfReport") -> list[Text]:
    lines = [
        Text(f"{counted(found.questions, 'verdict')} of {counted(found.passes, 'pass')}", "bold"),
        Text(f"proposals: {found.unchanged} as before, {found.appeared} more, {found.disappeared} fewer"),
    ]
    if found.thresholds is not None:
        values = ", ".join(f"{action} {value}" for action, value in found.thresholds.items())
        lines.append(Text(f"thresholds ({found.thresholds_from}): {values}"))
    for was, would in zip(found.recorded, found.replayed, strict=True):
        lines.append(Text(f"  {was.action:<10} was    {_precision(was)}"))
        lines.append(Text(f"  {'':<10} would  {_precision(would)}"))
    lines += [_would_be("+", one) for one in found.appearing[:_SHOWN]]
    lines += [_would_be("-", one) for one in found.disappearing[:_SHOWN]]
    if found.asking is not None:
        asking = found.asking
        cost = "" if asking.cost_usd is None else f", {asking.cost_usd:g} USD"
        lines.append(
            Text(
                f"{asking.judge}: {asking.asked} asked in {counted(asking.calls, 'call')}, "
                f"{asking.reused} known{cost}"
            )
        )
        lines += [
            Text(f"  without an answer: {count} {why}", "yellow") for why, count in asking.unanswered.items()
        ]
        if asking.stopped is not None:
            lines.append(Text(f"  stopped: {asking.stopped}", "yellow"))
    if found.passes_left_out:
        lines.append(Text(f"left out: {counted(found.passes_left_out, 'older pass')}; see --passes", "yellow"))
    return [*lines, *(Text(f"not replayed: {one}", "dim") for one in found.not_replayed)]


def _precision(one: "ActionPrecision") -> str:
    few = "" if one.enough else f"  (only {one.precision.of} decided: too few to tell)"
    return f"{one.proposed} proposed, accepted {share_text(one.precision)}{few}"


def _would_be(sign: str, one: "WouldBe") -> Text:
    text = Text(f"{sign} {one.action:<10} {one.probability:.3f}  {one.memory_id}")
    if one.related_id is not None:
        text.append(f" with {one.related_id}")
    return text.append(f"  {one.decision or 'not decided'}", "dim")
