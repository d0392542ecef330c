"""The verbs that brief: what somebody who starts, or takes over, should know first."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.text import Text

from ...handlers.choices import SectionName
from . import options as o
from .cards import refused_lines, time_lines
from .output import counted, moment, one_line, safe
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.operating.views import BriefingItem, BriefingView

All = Annotated[bool, typer.Option("--all", help="About everything.")]
Scope = Annotated[str | None, typer.Option("--scope", metavar="NAME", help="About this scope.")]
Project = Annotated[str | None, typer.Option("--project", metavar="NAME", help="About this project.")]
Unscoped = Annotated[
    bool, typer.Option("--include-unscoped", help="With a scope and a project: also what belongs to no project.")
]
Sections = Annotated[
    list[str] | None,
    typer.Option(
        "--section",
        metavar="NAME",
        help=f"Only this section ({', '.join(get_args(SectionName))}); may be repeated.",
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="N", help="At most so many in each section, 1 to 100; 3 in a brief one, else 25."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    o.add(
        app,
        briefing,
        "lethelog briefing --all",
        "lethelog briefing --scope work --project site --include-unscoped --full",
        "lethelog briefing --project site --section stale_candidates --limit 100 --json",
        panel="Read",
    )
    o.add(
        app,
        handoff,
        "lethelog handoff --project site --for grace",
        "lethelog handoff --all --known-at 2026-03-01T09:00:00Z --json",
        panel="Read",
    )


def briefing(
    context: typer.Context,
    everything: All = False,
    scope: Scope = None,
    project: Project = None,
    include_unscoped: Unscoped = False,
    full: Annotated[bool, typer.Option("--full", help="Longer lists, and the beginning of every text.")] = False,
    sections: Sections = None,
    section_limit: Limit = None,
    known_at: o.KnownAt = None,
    valid_at: o.ValidAt = None,
    after: o.After = None,
    json_only: Json = False,
) -> None:
    """What to know before starting: commitments, blockers, decisions, preferences, and what may no longer hold.

    Say what it is about: --all, or a scope, a project, or both.
    """
    about = _about(everything, scope, project, include_unscoped)
    about |= fields(
        sections=sections, section_limit=section_limit, known_at=known_at, valid_at=valid_at, after=after
    )
    session = Session.of(context, json_only)
    with session.reading("live_memory", "commitments") as memory:
        _answer(session, memory.briefing(mode="full" if full else "brief", **about))


def handoff(
    context: typer.Context,
    everything: All = False,
    scope: Scope = None,
    project: Project = None,
    include_unscoped: Unscoped = False,
    generated_for: Annotated[
        str | None, typer.Option("--for", metavar="NAME", help="Who takes over; stands in the answer.")
    ] = None,
    sections: Sections = None,
    section_limit: Limit = None,
    known_at: o.KnownAt = None,
    valid_at: o.ValidAt = None,
    after: o.After = None,
    json_only: Json = False,
) -> None:
    """What somebody who takes over should know, with the beginnings of the texts.

    Say what it is about: --all, or a scope, a project, or both.
    """
    about = _about(everything, scope, project, include_unscoped)
    about |= fields(
        sections=sections, section_limit=section_limit, known_at=known_at, valid_at=valid_at, after=after
    )
    session = Session.of(context, json_only)
    with session.reading("live_memory", "commitments") as memory:
        _answer(session, memory.handoff(**about, **fields(generated_for=generated_for)))


def _about(everything: bool, scope: str | None, project: str | None, include_unscoped: bool) -> dict[str, Any]:
    """The selector that the options mean; there is none by default."""
    named = [name for name, given in (("scope", scope), ("project", project)) if given is not None]
    if everything == bool(named):
        problem = "cannot be given together with --scope or --project" if everything else "is missing"
        raise typer.BadParameter(f"{problem}; say what it is about", param_hint="--all, --scope or --project")
    asked = fields(scope=scope, project=project, include_unscoped=include_unscoped or None)
    return {"selector": "_".join(named) or "all", **asked}


def _answer(session: Session, view: "BriefingView") -> None:
    session.printer.answer(view, *time_lines(view.as_of), *_lines(view))
    for line in refused_lines(view.refused):
        session.printer.note(line)


def _lines(view: "BriefingView") -> Iterator[Text]:
    if view.applied_scope is not None and view.selector.scope is None:
        yield Text(f"kept to the scope {view.applied_scope}", "dim")
    for name, section in view.sections.items():
        shown = f"{len(section.items)} of {section.count}" if section.has_more else str(section.count)
        yield Text.assemble((name.replace("_", " "), "bold"), f"  {shown}")
        for item in section.items:
            yield from _item(item)


def _item(item: "BriefingItem") -> Iterator[Text]:
    line = Text.assemble("  ", str(item.id), (f"  {item.memory_type:<10}  {moment(item.recorded_at)}  ", "dim"))
    if item.stale:
        line.append(f"stale, {counted(item.age_days, 'day')}  ", "yellow")
    if item.commitment is not None and item.commitment.due_at is not None:
        style = "red" if item.commitment.overdue else "dim"
        line.append(f"due {moment(item.commitment.due_at)}  ", style)
    yield line.append_text(safe(one_line(item.topic), "bold"))
    if item.excerpt is not None:
        yield Text("    ").append_text(safe(one_line(item.excerpt)))
