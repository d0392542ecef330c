"""Asking for a consolidation pass."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from . import options as o
from .output import one_line, safe
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
    Where no floor was selected for the embedding model, nothing is proposed; the policy's consolidation_floor
    sets one.
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
        text.append(f"\nno floor was selected for {one_line(found.embedding_model)}, so nothing is proposed")
        return text
    text.append("\n").append_text(safe(f"{_floor(found)}, of {one_line(found.embedding_model)}"))
    if found.phase == "completed":
        staged = ", ".join(f"{count} {edge}" for edge, count in found.staged.items()) or "none"
        text.append(f"\n{found.looked_at} near pairs looked at; proposed: {staged}")
        if found.skipped:
            reasons = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in found.skipped.items())
            text.append(f"; left out: {reasons}")
    return text


def _floor(found: "ConsolidationView") -> str:
    known = found.recurring_collapses
    measured = "" if known is None else f", at which {known} pairs of recurring records got through"
    return f"floor {found.floor:.2f} ({found.floor_from}{measured})"
