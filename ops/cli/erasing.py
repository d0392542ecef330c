"""`lethelog erase`: look first, then erase by what was looked at, and prove it."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from ...domain.errors import InvalidInput
from . import options as o
from .event_log import refuse_unwritable, writing
from .output import counted, moment, safe
from .session import Json, Session, fields

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rich.table import Table

    from ...handlers.erasure.views import ErasureView

ErasureId = Annotated[str, typer.Argument(metavar="ERASURE", help="Id of an erasure.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    erase = typer.Typer(help="Erase for good, and prove it.", no_args_is_help=True)
    o.add(
        erase,
        preview,
        "lethelog erase preview --subject ada",
        f"lethelog erase preview --memory {o.ID}",
        "lethelog erase preview --project apollo --json",
    )
    o.add(
        erase,
        perform,
        f"lethelog erase perform {o.ID} --reason data_subject_request --certificate ada.json",
        f"lethelog erase perform {o.ID} --reason never_true --re-entry block",
    )
    o.add(erase, list_erasures, "lethelog erase list", "lethelog erase list --unfinished --json", name="list")
    o.add(erase, show, f"lethelog erase show {o.ID}", f"lethelog erase show {o.ID} --certificate ada.json")
    o.add(erase, retry, f"lethelog erase retry {o.ID}")
    o.add(erase, verify, "lethelog erase verify ada.json", "lethelog erase verify ada.json --live --json")
    o.add(erase, key, "lethelog erase key", "lethelog erase key --json")
    o.add(erase, ledger, "lethelog erase ledger", "lethelog erase ledger --complete --json")
    o.add(erase, rehearse, "lethelog erase rehearse --json")
    app.add_typer(erase, name="erase", rich_help_panel="Run")


def preview(
    context: typer.Context,
    memory_id: Annotated[
        str | None, typer.Option("--memory", metavar="ID", help="A memory with all its versions.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="A person: all written with that name.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="All that was ever in a project.")
    ] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="NAME", help="All that was ever in a scope.")
    ] = None,
    whole_tenant: Annotated[bool, typer.Option("--whole-tenant", help="All of the tenant.")] = False,
    derived: Annotated[
        Literal["cascade", "list"] | None,
        typer.Option("--derived", help="Erase what follows from it, too, or list it; by policy."),
    ] = None,
    json_only: Json = False,
) -> None:
    """Say what an erasure would reach. Nothing is erased; the id it prints is what `erase perform` takes."""
    session = Session.of(context, json_only)
    with session.open() as opened, session.printer.waiting("looking", left="nothing was erased"):
        what: Any = fields(memory_id=memory_id, subject=subject, project=project, scope=scope, derived=derived)
        if whole_tenant:
            what["tenant"] = True
        found = opened.preview_erasure(**what)
    lines = [
        Text(f"Beware: {found.warning}", "bold red") if found.warning else None,
        Text.assemble((str(found.id), "bold"), f"  {found.kind}: {counted(found.memories, 'memory')}"),
        *(Text(f"  {one}", "dim") for one in found.ids),
        Text(f"  … and {found.memories - len(found.ids)} more", "dim")
        if found.memories > len(found.ids)
        else None,
        Text(f"{found.derived} of them only follow from the others") if found.derived else None,
        Text(f"{found.left_count} that follow from them would stay", "yellow") if found.left_count else None,
        *(Text(f"  {place}: {count}") for place, count in found.places.items() if count),
        Text(f"Erase it with: lethelog erase perform {found.id} --reason CODE"),
    ]
    session.printer.answer(found, *(line for line in lines if line is not None))


def perform(
    context: typer.Context,
    erasure: ErasureId,
    reason: Annotated[str, typer.Option("--reason", metavar="CODE", help="Why, as a code: data_subject_request.")],
    re_entry: Annotated[
        Literal["none", "block"],
        typer.Option(
            "--re-entry", help="Leave nothing, or a keyed digest by which the texts come back quarantined."
        ),
    ] = "none",
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="Write the signed certificate here.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if there is one.")] = False,
    json_only: Json = False,
) -> None:
    """Erase what was previewed, for good. Exit 1 while a place is not clean; a worker goes on with those.

    Said again, it erases nothing more and shows how it stands.
    """
    session = Session.of(context, json_only)
    if certificate is not None:
        # First: what is erased stays so, whether or not its certificate can be written here.
        refuse_unwritable(certificate, overwrite=overwrite)
    left = f"once it has begun, a worker goes on with it; see how it stands: lethelog erase show {erasure}"
    with session.open() as opened, session.printer.waiting("erasing", left=left):
        done = opened.erase(erasure, reason=reason, re_entry=re_entry)
    _answer(session, done, certificate, overwrite=overwrite)
    if done.verified and certificate is None:
        session.printer.note(f"Its certificate: lethelog erase show {done.id} --certificate FILE")


def list_erasures(
    context: typer.Context,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Only those that were asked for and are not verified.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="How many.")] = 25,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Go on where the last page ended.")
    ] = None,
    json_only: Json = False,
) -> None:
    """List erasures, newest first."""
    session = Session.of(context, json_only)
    with session.open() as opened:
        page = opened.erasures(unfinished=unfinished, limit=limit, cursor=cursor)
    session.printer.answer(page, _table(page.erasures) if page.erasures else Text("no erasure"))
    if page.next_cursor:
        session.printer.note(f"More: lethelog erase list --cursor {page.next_cursor}")


def show(
    context: typer.Context,
    erasure: ErasureId,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="Write the signed certificate here.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if there is one.")] = False,
    json_only: Json = False,
) -> None:
    """Show how an erasure stands: its places, what remains, which subscribers acknowledged and which are late."""
    session = Session.of(context, json_only)
    with session.open() as opened:
        found = opened.erasure(erasure)
    _write(session, found, certificate, overwrite=overwrite)
    session.printer.answer(found, _line(found), *_details(found))


def retry(context: typer.Context, erasure: ErasureId, json_only: Json = False) -> None:
    """Look again, at once, at an erasure that is not verified yet. Exit 1 while a place is not clean."""
    session = Session.of(context, json_only)
    left = f"a worker goes on with it; see how it stands: lethelog erase show {erasure}"
    with session.open() as opened, session.printer.waiting("looking again", left=left):
        done = opened.retry_erasure(erasure)
    _answer(session, done, None, overwrite=False)


def verify(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate.")],
    public_key: Annotated[
        str | None,
        typer.Option("--public-key", metavar="BASE64", help="The key of the deployment that must have signed."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Also look into every place of this system once more.")
    ] = False,
    json_only: Json = False,
) -> None:
    """Check a certificate's signature, without any server; with --live, also whether it still holds.

    Exit 0 where everything that was checked holds. Exit 1 where the signature is good and the certificate does not
    hold here any more (--live). Exit 2 for a file that is missing, was changed or is no certificate, and for one
    that another key signed (--public-key).
    """
    import base64

    from ...streams.signing import check, fingerprint

    session = Session.of(context, json_only)
    document = _read(file)
    signed = check(document)
    if public_key is not None and base64.b64encode(signed.public_key).decode() != public_key:
        raise InvalidInput("certificate", "was signed by another key than the one given")
    answer: dict[str, Any] = {
        "signature": "valid",
        "signed_by": fingerprint(signed.public_key),
        "key_checked": public_key is not None or live,
        "public_key": document["public_key"],
        "sha256": signed.sha256,
        "statement": signed.statement,
    }
    holds = True
    lines = [
        Text.assemble(("valid", "green"), f"  signed by {answer['signed_by']}"),
        Text(
            f"erasure {signed.statement.get('erasure')}: {signed.statement.get('kind')}, "
            f"{counted(len(signed.statement.get('places', [])), 'place')}"
        ),
    ]
    if not answer["key_checked"]:
        # Anybody can sign anything with a key of their own.
        lines.append(
            Text(
                "whose key this is was not checked: name the deployment's by --public-key, or use --live", "yellow"
            )
        )
    if live:
        with session.open() as opened, session.printer.waiting("looking into every place"):
            found = opened.check_certificate(document)
        holds = found.holds
        answer["live"] = {**found.model_dump(mode="json"), "holds": holds}
        says = "holds" if holds else f"does not hold: {', '.join(found.remaining) or 'another key or another log'}"
        lines.append(Text(says, "green" if holds else "red"))
    session.printer.answer(answer, *lines)
    if not holds:
        raise typer.Exit(1)


def key(context: typer.Context, json_only: Json = False) -> None:
    """Print the public key that certificates of this deployment are checked against. Keep it elsewhere."""
    session = Session.of(context, json_only)
    with session.open() as opened:
        found = opened.erasure_key()
    session.printer.answer(
        found,
        Text.assemble((found.public_key, "bold"), f"  fingerprint {found.fingerprint}"),
        Text(f"Check a certificate with it: lethelog erase verify FILE --public-key {found.public_key}"),
    )


def ledger(
    context: typer.Context,
    complete: Annotated[
        bool, typer.Option("--complete", help="Write to it what it lacks; nothing is taken out of it.")
    ] = False,
    json_only: Json = False,
) -> None:
    """Show the file of erasures that outlives the database, of all tenants. Exit 1 while it lacks any.

    Put a lost one back from a copy first: only that names erasures that a restored database knows nothing of.
    """
    session = Session.of(context, json_only)
    with session.installation() as opened, session.printer.waiting("holding it against the log"):
        found = opened.complete_erasure_ledger() if complete else opened.erasure_ledger()
    lines = [Text(f"{found.file}: {counted(found.entries, 'entry')}")]
    if found.added:
        lines.append(Text(f"{found.added} of them were written now, from the log", "green"))
    if found.missing_count:
        missing = counted(found.missing_count, "erasure")
        lines.append(Text(f"missing although it was done: {missing}; see --complete", "red"))
    session.printer.answer(found, *lines)
    if found.missing_count:
        raise typer.Exit(1)


def rehearse(context: typer.Context, json_only: Json = False) -> None:
    """Erase something synthetic and say what was found where, before and after. Exit 1 where anything is left.

    A memory of three versions with vectors, a summary, a proposal, an export, a parked message and a replay is
    made in this tenant, under a scope of its own, and erased; its skeleton stays on record.
    """
    session = Session.of(context, json_only)
    left = "what it made may be left, in a scope that begins with rehearsal-: lethelog erase preview --scope"
    with session.reading() as opened, session.printer.waiting("rehearsing", left=left):
        done = opened.rehearse_erasure()
    passed = done.status == "passed"
    session.printer.answer(
        done,
        Text(done.status, "green" if passed else "red"),
        *(
            Text(f"  {name}: {one.before} before, {one.after} after ({one.control.replace('_', ' ')})")
            for name, one in done.places.items()
        ),
        *(Text(f"not rehearsed: {one}", "yellow") for one in done.not_rehearsed),
    )
    if not passed:
        raise typer.Exit(1)


def _answer(session: Session, done: "ErasureView", certificate: Path | None, *, overwrite: bool) -> None:
    if done.certificate is not None:
        _write(session, done, certificate, overwrite=overwrite)
    session.printer.answer(done, _line(done), *_details(done))
    if not done.verified:
        if certificate is not None:
            session.printer.note(
                "no certificate before it is verified; then: "
                f"lethelog erase show {done.id} --certificate {shlex.quote(str(certificate))}"
            )
        raise typer.Exit(1)


def _line(one: "ErasureView") -> Text:
    style = "green" if one.verified else "yellow"
    return Text.assemble(
        (str(one.id), "bold"),
        "  ",
        (one.phase, style),
        f"  {one.kind}, {counted(one.memories, 'memory')}, {one.reason or 'not asked for'}, {moment(_at(one))}",
    )


def _table(erasures: "Sequence[ErasureView]") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("erasure", "phase", "kind", "memories", "reason", "at"):
        table.add_column(heading, no_wrap=heading == "erasure", overflow="fold")
    for one in erasures:
        phase = Text(one.phase, "green" if one.verified else "yellow")
        table.add_row(
            str(one.id),
            phase,
            one.kind,
            str(one.memories),
            safe(one.reason or "–"),
            f"{_at(one):%Y-%m-%d %H:%M} UTC",
        )
    return table


def _at(one: "ErasureView") -> "datetime":
    return one.verified_at or one.performed_at or one.requested_at or one.previewed_at


def _details(one: "ErasureView") -> list[Text]:
    lines = [Text(f"  {place}: {code.replace('_', ' ')}", "red") for place, code in one.remaining.items()]
    if one.since_preview:
        lines.append(
            Text(f"  {counted(one.since_preview, 'memory')} came since the preview, and went too", "yellow")
        )
    lines += [Text(f"  {place.place}: {place.before} before, {place.found} after") for place in one.places]
    if one.left_count:
        stay = counted(one.left_count, "memory")
        lines.append(Text(f"  to be looked at, since it follows from what went and stays: {stay}", "yellow"))
    lines += [
        Text(
            f"  {call.provider} received text for {call.operation}, {counted(call.calls, 'time')}, "
            f"{moment(call.first_at)} to {moment(call.last_at)}",
            "yellow",
        )
        for call in one.providers
    ]
    lines += [Text(f"  archive {copy.archive} may hold it; delete its copies", "yellow") for copy in one.exports]
    lines += [Text(f"  acknowledged by {said.consumer}, {moment(said.at)}") for said in one.acknowledged]
    lines += [Text(f"  not yet acknowledged by {consumer}", "yellow") for consumer in one.late or ()]
    if one.late_count > len(one.late or ()):
        lines.append(Text(f"  … and {one.late_count} late ones in all", "yellow"))
    return lines


def _write(session: Session, one: "ErasureView", file: Path | None, *, overwrite: bool) -> None:
    if file is None:
        return
    if one.certificate is None:
        raise InvalidInput("certificate", "there is none before an erasure is verified", "Leave --certificate out")
    with writing(file, overwrite=overwrite, note=session.printer.note) as out:
        out.write(json.dumps(one.certificate, indent=2, ensure_ascii=False) + "\n")


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput("file", "is not there") from None
    except OSError as error:
        raise InvalidInput("file", f"cannot be read ({(error.strerror or 'unknown error').lower()})") from None
    except (ValueError, RecursionError):
        raise InvalidInput("file", "is not a certificate: it holds no JSON") from None
    if not isinstance(document, dict):
        raise InvalidInput("file", "is not a certificate")
    return dict(document)  # pyright: ignore[reportUnknownArgumentType] - checked by whoever reads it
