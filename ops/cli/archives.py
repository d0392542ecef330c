"""`lethelog export` and `lethelog import`: moving a tenant out and in."""

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from ...domain.errors import InvalidInput
from . import options as o
from .output import counted, safe
from .session import Json, Session, fields, finishing

if TYPE_CHECKING:
    from ...handlers.archive.foreign import ForeignResult
    from ...handlers.archive.importing import ImportResult

_TYPED = {
    "or overwrite it": "or give --overwrite",
    "name the format ": "give --from ",
    "name its format": "give --from and its format",
    "without naming a format": "without --from",
}
"""What doors of any kind say, and what is typed here."""
_SHOWN = 20
"""Items a terminal shows; ``--json`` has more."""


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    o.add(
        app,
        export,
        "lethelog export acme.jsonl.gz",
        "lethelog export ada.jsonl --user ada",
        "lethelog export shape.jsonl --no-content --json",
        panel="Run",
    )
    o.add(
        app,
        import_,
        "lethelog import acme.jsonl.gz --dry-run",
        "lethelog import acme.jsonl.gz",
        "lethelog import --from mem0 mem0.json",
        "lethelog import --from mcp-memory memory.jsonl --json",
        name="import",
        panel="Run",
    )


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; .gz compresses.")],
    memory_types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only memories of this type; repeatable.")
    ] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Only memories of this scope.")] = None,
    project: Annotated[str | None, typer.Option("--project", help="Only memories of this project.")] = None,
    user_id: Annotated[str | None, typer.Option("--user", help="Only memories of this user.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Only memories about this person.")] = None,
    no_content: Annotated[
        bool, typer.Option("--no-content", help="A skeleton: neither text nor names; cannot be imported.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if there is one.")] = False,
    json_only: Json = False,
) -> None:
    """Write this tenant into one file: memories with their history, proposals, decisions and settings.

    It is clear text that anybody can read and that no erasure reaches, so keep it safe. That it was written is on
    record. Ctrl-C leaves no file.
    """
    session = Session.of(context, json_only)
    chosen = fields(memory_types=memory_types, scope=scope, project=project, user_id=user_id, subject=subject)
    progress = session.printer.progress("exporting", left="no file was written")
    with _by_options(), session.open() as memory, progress as report:
        written = finishing(
            memory,
            memory.asyncio.export_archive(
                file, overwrite=overwrite, report=report, content=not no_content, **chosen
            ),
        )
    session.printer.answer(
        written,
        Text.assemble(
            ("written", "green"),
            f" {counted(written.memories, 'memory')}, {counted(written.events, 'event')} to {written.file}",
        ),
    )


def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An archive, or a file of another system.")],
    source: Annotated[
        Literal["mem0", "mcp-memory"] | None,
        typer.Option("--from", help="The other system that wrote it; an archive of Lethelog by default."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would come in, and what would not and why.")
    ] = False,
    json_only: Json = False,
) -> None:
    """Read an archive in, or what another system left behind.

    What is there already is passed over, so it may be started again after it was broken off, and twice is once.
    What was erased here stays erased.
    """
    session = Session.of(context, json_only)
    left = (
        "nothing was tried in earnest" if dry_run else "what came in stays: the same command goes on with the rest"
    )
    with _by_options(), session.open() as memory, session.printer.progress("importing", left=left) as report:
        if source is None:
            work = memory.asyncio.import_archive(file, dry_run=dry_run, report=report)
            _show_import(session, finishing(memory, work))
        else:
            taken = memory.asyncio.import_foreign(source, file, dry_run=dry_run, report=report)
            _show_foreign(session, finishing(memory, taken))


@contextlib.contextmanager
def _by_options() -> Generator[None]:
    """What is wrong with a file, with the options that help."""
    try:
        yield
    except InvalidInput as error:
        for said, typed in _TYPED.items():
            error.message = error.message.replace(said, typed)
        raise


def _show_import(session: Session, result: "ImportResult") -> None:
    counts = [
        f"{kind}: " + ", ".join(f"{number} {action}" for action, number in sorted(found.items()))
        for kind, found in result.counts.items()
    ]
    skipped = [
        f"{one.action}: {one.kind} {one.id}" + (f", {one.reason}" if one.reason else "") for one in result.items
    ]
    _show(session, result, counts, skipped, dry_run=result.dry_run)


def _show_foreign(session: Session, result: "ForeignResult") -> None:
    counts = [f"{number} {action}" for action, number in sorted(result.counts.items())]
    skipped = [f"{one.action}: {one.source}" + (f", {one.reason}" if one.reason else "") for one in result.items]
    remarks = [f"note: {one.source}: {one.says}" for one in result.remarks]
    _show(session, result, counts, [*skipped, *remarks], dry_run=result.dry_run)


def _show(session: Session, result: object, counts: list[str], items: list[str], *, dry_run: bool) -> None:
    printer = session.printer
    if printer.json_only:
        printer.document(result)
        return
    printer.line(Text("would be read" if dry_run else "read", "green"))
    for line in [*counts, *items[:_SHOWN]]:
        printer.line(safe(f"  {line}"))
    if len(items) > _SHOWN:
        printer.note(f"and {len(items) - _SHOWN} more; see them with --json")
