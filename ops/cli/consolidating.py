"""Asking for a consolidation pass."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from . import options as o
from .output import counted, one_line, safe
from .session import Json, Session

if TYPE_CHECKING:
    from ...handlers.consolidation.views import ConsolidationView
    from ..local import Memory

WAIT_SECONDS = 600.0


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    o.add(
        app,
        consolidate,
        "lethelog consolidate --wait",
        "lethelog consolidate --json",
        "lethelog proposals list --kind consolidation",
        panel="Forget",
    )


def consolidate(
    context: typer.Context,
    wait: Annotated[bool, typer.Option("--wait", help="Run it here and wait until it is finished.")] = False,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Look for memories that are near to each other, and propose an edge between them.

    Workers do so every hour; this asks for it now. It changes no memory: its proposals wait for `lethelog review`.
    Near is a cosine from a lower bound on, which was measured for the embedding models that come along. For any
    other nothing is proposed until the policy sets one (consolidation_floor).
    """
    session = Session.of(context, json_only)
    printer = session.printer
    if not wait:
        with session.open() as memory:
            found = memory.consolidate(key=key)
        printer.answer(found, _summary(found))
        printer.note("it runs as soon as a worker does (lethelog up)")
        return
    from ...handlers.operating.workers import ALL_ROLES

    with session.open(ALL_ROLES) as memory:
        found = _waited(session, memory, key)
    printer.answer(found, _summary(found))
    if sum(found.staged.values()):
        printer.note("decide with: lethelog review")


def _waited(session: Session, memory: "Memory", key: str | None) -> "ConsolidationView":
    left = "what was proposed stays; a worker goes on with the pass (lethelog up)"
    with session.printer.progress("comparing memories", left=left) as report:
        return memory.consolidate(wait_seconds=WAIT_SECONDS, key=key, report=report)


def _summary(found: "ConsolidationView") -> Text:
    text = Text(f"consolidation pass {found.id}: {found.phase}")
    if found.floor is None:
        text.append(
            f"\nhow near is near was not measured for {one_line(found.embedding_model)}, so nothing is proposed; "
            "set it with: lethelog policy set consolidation_floor=NUMBER"
        )
        return text
    text.append("\n").append_text(safe(f"{_floor(found)}, of {one_line(found.embedding_model)}"))
    if found.phase == "completed":
        staged = ", ".join(f"{count} {edge}" for edge, count in found.staged.items()) or "none"
        text.append(f"\n{counted(found.looked_at, 'near pair')} looked at; proposed: {staged}")
        if found.skipped:
            reasons = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in found.skipped.items())
            text.append(f"; left out: {reasons}")
    return text


def _floor(found: "ConsolidationView") -> str:
    known = found.recurring_collapses
    measured = "" if known is None else f", at which {counted(known, 'pair')} of recurring records got through"
    return f"pairs from a cosine of {found.floor:.2f} on ({found.floor_from}{measured})"
