"""Options that several commands share, each defined once."""

import inspect
import json
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, get_args

import typer
from rich.markup import escape

from ...domain.errors import InvalidInput
from ...domain.fields import IMPORT_CONTENT_LIMIT, MemoryType, Producer, Trust
from ...handlers.choices import StatusChoice

ProposalStatus = Literal["proposed", "applied", "rejected", "withdrawn"]
ProposalAction = Literal[
    "archive",
    "supersede",
    "conflict",
    "extends",
    "derives",
    "updates",
    "supersedes",
    "assert",
    "resolve",
    "settle",
]
ProposalKind = Literal["retention", "consolidation", "fact", "resolution", "contradiction", "dependency"]

_FIELDS = "Fields"
_OWNERS = "Whose memory"
_DATES = "Dates"
_COMMITMENT = "Commitment"
_TIMES = "The past"
_FILTERS = "Filters"
_INSTANT = "ISO 8601 with a zone, such as 2026-03-01T09:00:00Z."

ID = "0190a3b4-7c11-7a3e-9d55-2f8a0c1f7d11"
"""An id for examples."""

MemoryId = Annotated[str, typer.Argument(metavar="ID", help="Id of a memory.", show_default=False)]
Key = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="TEXT", help="Your own id for this command: a retry with it changes nothing twice."
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept with the event.")]
ExpectedVersion = Annotated[
    int | None,
    typer.Option("--expected-version", metavar="N", help="Refuse if the memory is at another version by now."),
]
Content = Annotated[
    str, typer.Argument(metavar="TEXT", help="The text, or - to read it from stdin.", show_default=False)
]

Topic = Annotated[
    str | None,
    typer.Option(
        "--topic", metavar="TEXT", help="A short title; the first line by default.", rich_help_panel=_FIELDS
    ),
]
Type = Annotated[
    MemoryType | None, typer.Option("--type", help="What kind of memory it is.", rich_help_panel=_FIELDS)
]
TagList = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; may be repeated.", rich_help_panel=_FIELDS)
]
Project = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help="Project it belongs to.", rich_help_panel=_FIELDS)
]
Scope = Annotated[
    str | None, typer.Option("--scope", metavar="NAME", help="Scope it is filed in.", rich_help_panel=_FIELDS)
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        metavar="KEY=VALUE|JSON",
        help="Metadata: a JSON object, or one key and its value; may be repeated.",
        rich_help_panel=_FIELDS,
    ),
]
Facts = Annotated[
    list[str] | None,
    typer.Option(
        "--fact",
        metavar="JSON",
        help="A fact that it says: subject, predicate, value, and where known confidence, valid_from, valid_to; "
        "may be repeated.",
        rich_help_panel=_FIELDS,
    ),
]
AsProducer = Annotated[Producer | None, typer.Option("--producer", help="Who made it.", rich_help_panel=_FIELDS)]
AsTrust = Annotated[
    Trust | None,
    typer.Option("--trust", help="Trust it less than its writer, never more.", rich_help_panel=_FIELDS),
]
Imported = Annotated[
    bool,
    typer.Option(
        "--imported",
        help=f"It was written elsewhere: up to {IMPORT_CONTENT_LIMIT:,} characters; needs memory:import.",
        rich_help_panel=_FIELDS,
    ),
]
Core = Annotated[bool, typer.Option("--core", help="Mark as core.", rich_help_panel=_FIELDS)]
Pinned = Annotated[
    bool, typer.Option("--pinned", help="Protect from every proposal but conflict.", rich_help_panel=_FIELDS)
]
DerivedFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--derived-from", metavar="ID", help="A memory it follows from; may be repeated.", rich_help_panel=_FIELDS
    ),
]
User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="User.", rich_help_panel=_OWNERS)]
Agent = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Agent.", rich_help_panel=_OWNERS)]
Run = Annotated[str | None, typer.Option("--run", metavar="NAME", help="Run.", rich_help_panel=_OWNERS)]
InSession = Annotated[
    str | None, typer.Option("--session", metavar="NAME", help="Session.", rich_help_panel=_OWNERS)
]
Subject = Annotated[
    str | None,
    typer.Option(
        "--subject", metavar="NAME", help="The person it is about; the user by default.", rich_help_panel=_OWNERS
    ),
]
OccurredAt = Annotated[
    str | None,
    typer.Option("--occurred-at", metavar="INSTANT", help=f"When it happened. {_INSTANT}", rich_help_panel=_DATES),
]
ValidFrom = Annotated[
    str | None,
    typer.Option("--valid-from", metavar="INSTANT", help="From when it holds.", rich_help_panel=_DATES),
]
ValidTo = Annotated[
    str | None, typer.Option("--valid-to", metavar="INSTANT", help="Until when it holds.", rich_help_panel=_DATES)
]
ExpiresAt = Annotated[
    str | None,
    typer.Option(
        "--expires-at", metavar="INSTANT", help="When it is no longer retrieved.", rich_help_panel=_DATES
    ),
]
Owner = Annotated[
    str | None,
    typer.Option(
        "--owner", metavar="NAME", help="Of a commitment: who is to keep it.", rich_help_panel=_COMMITMENT
    ),
]
DueAt = Annotated[
    str | None,
    typer.Option(
        "--due-at", metavar="INSTANT", help=f"Of a commitment: until when. {_INSTANT}", rich_help_panel=_COMMITMENT
    ),
]
SurfacingAt = Annotated[
    str | None,
    typer.Option(
        "--surface-at",
        metavar="INSTANT",
        help="Of a commitment: when to bring it up again.",
        rich_help_panel=_COMMITMENT,
    ),
]
Recurrence = Annotated[
    str | None,
    typer.Option(
        "--recurrence",
        metavar="RULE",
        help="Of a commitment: how often it comes again, such as FREQ=WEEKLY;BYDAY=MO.",
        rich_help_panel=_COMMITMENT,
    ),
]
SessionRun = Annotated[
    str | None,
    typer.Option(
        "--session-run", metavar="ID", help="The session run it is written in.", rich_help_panel="Provenance"
    ),
]

Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help=f"Only this kind ({', '.join(get_args(MemoryType))}); may be repeated.",
        rich_help_panel=_FILTERS,
    ),
]
OfScope = Annotated[
    str | None, typer.Option("--scope", metavar="NAME", help="Only this scope.", rich_help_panel=_FILTERS)
]
OfProject = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help="Only this project.", rich_help_panel=_FILTERS)
]
NoProject = Annotated[
    bool, typer.Option("--no-project", help="Only what belongs to no project.", rich_help_panel=_FILTERS)
]
OfUser = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="Only of this user.", rich_help_panel=_FILTERS)
]
OfAgent = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="Only of this agent.", rich_help_panel=_FILTERS)
]
OfRun = Annotated[
    str | None, typer.Option("--run", metavar="NAME", help="Only of this run.", rich_help_panel=_FILTERS)
]
OfSession = Annotated[
    str | None, typer.Option("--session", metavar="NAME", help="Only of this session.", rich_help_panel=_FILTERS)
]
OfSubject = Annotated[
    str | None, typer.Option("--subject", metavar="NAME", help="Only about this person.", rich_help_panel=_FILTERS)
]
OfTags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Only with this tag; may be repeated.", rich_help_panel=_FILTERS),
]
OfStatus = Annotated[
    StatusChoice, typer.Option("--status", help="Which statuses to include.", rich_help_panel=_FILTERS)
]
Current = Annotated[
    bool,
    typer.Option(
        "--current", help="Only what is neither superseded nor past its own end.", rich_help_panel=_FILTERS
    ),
]
OfSessionRun = Annotated[
    str | None,
    typer.Option(
        "--session-run", metavar="ID", help="Only what was written in this session run.", rich_help_panel=_FILTERS
    ),
]
KnownAt = Annotated[
    str | None,
    typer.Option(
        "--known-at",
        metavar="INSTANT|POSITION",
        help="As it was on record then: an instant, or a position of the log.",
        rich_help_panel=_TIMES,
    ),
]
ValidAt = Annotated[
    str | None,
    typer.Option("--valid-at", metavar="INSTANT", help=f"Only what held then. {_INSTANT}", rich_help_panel=_TIMES),
]
After = Annotated[
    int | None,
    typer.Option(
        "--after",
        metavar="POSITION",
        help="Wait until the answer includes this position of the log, at most 10 s.",
        rich_help_panel=_TIMES,
    ),
]
RecordedAfter = Annotated[
    str | None,
    typer.Option(
        "--recorded-after", metavar="INSTANT", help=f"Recorded since then. {_INSTANT}", rich_help_panel=_FILTERS
    ),
]
RecordedBefore = Annotated[
    str | None,
    typer.Option("--recorded-before", metavar="INSTANT", help="Recorded before then.", rich_help_panel=_FILTERS),
]


def add(
    app: typer.Typer,
    command: Callable[..., None],
    *examples: str,
    name: str | None = None,
    panel: str | None = None,
) -> None:
    """Add a command, with its docstring as help and real examples below it."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    app.command(
        name,
        help="\n\n".join(escape(" ".join(one.split())) for one in paragraphs),
        epilog=epilog(*examples),
        rich_help_panel=panel,
    )(command)


def add_callback(group: typer.Typer, command: Callable[..., None], *examples: str) -> None:
    """Let a group do something by itself where none of its verbs is named; ``command`` looks which is the case."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    group.callback(
        invoke_without_command=True,
        help="\n\n".join(escape(" ".join(one.split())) for one in paragraphs),
        epilog=epilog(*examples),
    )(command)


def epilog(*examples: str) -> str:
    """The examples at the end of a help text."""
    return "[bold]Examples[/bold]\n" + "\n".join(f"  {escape(line)}" for line in examples)


def content_of(text: str) -> str:
    """The text itself, or stdin for ``-``. Raises `InvalidInput` for bytes that are no text."""
    if text != "-":
        return text
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - None where it was closed
        raise InvalidInput("content", "is to be read from stdin, which is closed")
    # Not through the text layer: it would decode by the locale, and hand on what it cannot decode.
    most = 4 * IMPORT_CONTENT_LIMIT
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        # Cut in the middle of a character it would be no text at all, which is not what is wrong with it.
        raise InvalidInput("content", f"is longer than {IMPORT_CONTENT_LIMIT:,} characters", "Give less of it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput("content", "is not text in UTF-8", "Convert it first, for example with iconv") from None


def metadata_of(given: Sequence[str] | None) -> dict[str, Any] | None:
    """Metadata from JSON objects and ``key=value`` pairs, whose values are text."""
    if not given:
        return None
    found: dict[str, Any] = {}
    for one in given:
        for key, value in _pairs(one):
            if key in found:
                raise InvalidInput("metadata", f"gives the key {key[:64]!r} twice")
            found[key] = value
    return found


def facts_of(given: Sequence[str] | None) -> list[Any] | None:
    """Facts from JSON objects; what is wrong with one is said when it is remembered."""
    if not given:
        return None
    try:
        return [json.loads(one, parse_constant=_no_constant) for one in given]
    except (ValueError, RecursionError):
        raise InvalidInput(
            "facts",
            "holds one that is no JSON object",
            'Write {"subject": "Ada", "predicate": "uses", "value": "vim"}',
        ) from None


def value_of(text: str) -> Any:
    """A setting's value: JSON where it reads as JSON, else the text itself."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _pairs(one: str) -> list[tuple[str, Any]]:
    if one.lstrip().startswith("{"):
        try:
            return list(json.loads(one, parse_constant=_no_constant).items())
        except (ValueError, RecursionError):
            raise InvalidInput(
                "metadata", "is not a JSON object", """Write {"key": "value"} or key=value"""
            ) from None
    key, equals, value = one.partition("=")
    if not equals or not key.strip():
        raise InvalidInput("metadata", "must be key=value or a JSON object")
    return [(key.strip(), value)]


def _no_constant(name: str) -> Any:
    raise ValueError(name)
