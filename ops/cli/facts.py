"""The verbs about facts: reading those on record, and having a memory read for more."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from . import options as o
from .cards import refused_lines, time_lines
from .output import counted, moment, one_line, safe
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.extracting.views import ExtractionView
    from ...handlers.operating.views import FactView


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    o.add(
        app,
        facts,
        "lethelog facts --subject Ada",
        'lethelog facts --subject Ada --predicate "lives in" --valid-at 2026-03-01T09:00:00Z --known-at 1200',
        "lethelog facts --limit 200 --json",
        panel="Read",
    )
    o.add(
        app,
        extract,
        f"lethelog extract {o.ID}",
        f"lethelog extract {o.ID} --key backfill-17 --json",
        panel="Write",
    )


def facts(
    context: typer.Context,
    subject: Annotated[str | None, typer.Option("--subject", metavar="TEXT", help="Only about this.")] = None,
    predicate: Annotated[str | None, typer.Option("--predicate", metavar="TEXT", help="Only saying this.")] = None,
    memory_id: Annotated[
        str | None, typer.Option("--memory", metavar="ID", help="Only those of this memory.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 200.")] = 50,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Go on where an earlier page ended.")
    ] = None,
    known_at: o.KnownAt = None,
    valid_at: o.ValidAt = None,
    after: o.After = None,
    json_only: Json = False,
) -> None:
    """Facts, the latest recorded first: those with no known end, or those that held at an instant."""
    asked = fields(
        subject=subject,
        predicate=predicate,
        memory_id=memory_id,
        cursor=cursor,
        known_at=known_at,
        valid_at=valid_at,
        after=after,
    )
    session = Session.of(context, json_only)
    with session.reading("facts", "live_memory") as memory:
        page = memory.get_facts(limit=limit, **asked)
    printer = session.printer
    printer.answer(page, *time_lines(page.as_of), *(line for one in page.facts for line in _lines(one)))
    printer.note(f"{len(page.facts)} of {page.total}")
    for line in refused_lines(page.refused):
        printer.note(line)
    if page.next_cursor is not None:
        printer.note(f"more with: --cursor {page.next_cursor}")


def extract(context: typer.Context, memory_id: o.MemoryId, key: o.Key = None, json_only: Json = False) -> None:
    """Have a memory read for facts by the extractor that is configured, and propose what it states.

    It writes no fact: proposals wait for `lethelog review`. Workers do so for every new memory; this is for one
    from before. The text is sent to it, so the tenant has to allow it (`lethelog settings judgment on`).
    """
    session = Session.of(context, json_only)
    printer = session.printer
    with session.reading("facts") as memory:
        if printer.watched:
            with printer.err.status("reading"):
                found = memory.extract_facts(memory_id, key=key)
        else:
            found = memory.extract_facts(memory_id, key=key)
    printer.answer(found, Text(_came_of(found)))
    if found.proposals:
        printer.note("decide with: lethelog review --kind fact")


def _came_of(found: "ExtractionView") -> str:
    if found.outcome != "read":
        return f"{found.extractor}: {found.outcome.replace('_', ' ')}, so nothing is proposed"
    dropped = ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in found.dropped.items())
    known = f", {found.already_there} known before" if found.already_there else ""
    left_out = f"; left out: {dropped}" if dropped else ""
    return f"{found.extractor}: {counted(len(found.proposals), 'fact')} proposed{known}{left_out}"


def _lines(fact: "FactView") -> Iterator[Text]:
    said = safe(one_line(fact.subject), "bold")
    said.append_text(Text("  ")).append_text(safe(one_line(fact.predicate), "cyan"))
    yield said.append_text(Text("  ")).append_text(safe(one_line(fact.value)))
    until = "" if fact.valid_to is None else f" until {moment(fact.valid_to)}"
    confidence = "" if fact.confidence is None else f"  {fact.confidence:.0%}"
    yield Text(f"  since {moment(fact.valid_from)}{until}{confidence}  {fact.id}  of {fact.memory_id}", "dim")
