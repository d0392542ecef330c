"""The verbs of the vault: replace the master key while everything runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ...domain.errors import InvalidInput, Misconfigured
from . import options as o
from .output import counted
from .session import Json, Session

if TYPE_CHECKING:
    from ..local import Memory


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    vault = typer.Typer(help="The keys that memories are sealed under.", no_args_is_help=True)
    o.add(vault, status, "lethelog vault status", "lethelog vault status --json")
    o.add(vault, rotate, "lethelog vault rotate")
    o.add(
        vault,
        rotate_tenant,
        "lethelog --tenant acme vault rotate-tenant",
        "lethelog vault rotate-tenant --all --made-before 2026-01-01T00:00:00Z",
    )
    o.add(vault, rewrap, "lethelog vault rewrap")
    o.add(vault, retire, "lethelog vault retire")
    app.add_typer(vault, name="vault", rich_help_panel="Run")


def status(context: typer.Context, json_only: Json = False) -> None:
    """Show which master keys there are, by fingerprint, and how many tenants' keys each wraps."""
    session = Session.of(context, json_only)
    with session.installation() as memory:
        _show(session, memory)


def rotate(context: typer.Context, json_only: Json = False) -> None:
    """Put a new master key in front of the key file, and wrap every tenant's key under it.

    Other processes go on and read the file again when they need to. The old key stays in the file, since backups
    of the database from before need it; take it away with `lethelog vault retire`.
    """
    from ...streams import sealing
    from ...streams.master_keys import read_key_file, replace_key_file

    session = Session.of(context, json_only)
    with session.installation() as memory:
        path = _key_file(session)
        vault = memory.asyncio.engine.vault

        async def put_in_front() -> None:
            async with vault.no_new_tenant_keys():
                replace_key_file(path, [sealing.new_key(), *read_key_file(path)])

        memory.run(put_in_front())
        _rewrap(session, memory)


def rotate_tenant(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Of all tenants.")] = False,
    made_before: Annotated[
        str | None, typer.Option(metavar="INSTANT", help="With --all: only keys that are older than this.")
    ] = None,
    json_only: Json = False,
) -> None:
    """Put a new key in place of a tenant's, and wrap every data key under it, while everything runs.

    The old key is destroyed once nothing is wrapped under it. What was broken off goes on when it is run again;
    give --all the same --made-before again, and those that are done are passed over.
    """
    session = Session.of(context, json_only)
    if made_before is not None and not every:
        raise InvalidInput("made_before", "goes with --all only", "Leave it out, or add --all")
    with session.open() as memory:
        if every:
            with session.printer.progress("replacing keys of tenants", left=_KEPT) as report:
                all_of_them = memory.rotate_tenant_keys(made_before=made_before, report=report)
            session.printer.answer(
                all_of_them._asdict(),
                f"replaced the keys of {counted(all_of_them.tenants, 'tenant')}; "
                f"wrapped anew: {counted(all_of_them.data_keys, 'data key')}",
            )
            return
        with session.printer.progress("wrapping data keys", left=_KEPT) as report:
            done = memory.rotate_tenant_key(report)
        session.printer.answer(
            {**done._asdict(), "tenant": str(done.tenant)},
            f"the tenant's key is number {done.generation} now; "
            f"wrapped anew: {counted(done.data_keys, 'data key')}",
        )


_KEPT = "what is wrapped anew stays so: the same command goes on with the rest"


def rewrap(context: typer.Context, json_only: Json = False) -> None:
    """Wrap every tenant's key under the newest master key: after a rotation cut short, or adding a key yourself.

    With LETHELOG_MASTER_KEY or LETHELOG_MASTER_KEY_COMMAND: let every process have both keys first, the new one in
    front, and then run this.
    """
    session = Session.of(context, json_only)
    with session.installation() as memory:
        _rewrap(session, memory)


def retire(context: typer.Context, json_only: Json = False) -> None:
    """Take those master keys out of the key file that wrap nothing any more.

    Backups of the database that were made before the rotation cannot be read without them: keep a copy for as long
    as you keep those, or let both go together.
    """
    from ...streams.master_keys import fingerprint, read_key_file, replace_key_file

    session = Session.of(context, json_only)
    with session.installation() as memory:
        path = _key_file(session)
        vault = memory.asyncio.engine.vault

        async def take_away() -> list[str]:
            async with vault.no_new_tenant_keys():
                used = set(await vault.master_keys_in_use())
                if None in used:
                    raise Misconfigured("some keys are of before the first rotation; run: lethelog vault rewrap")
                keys = read_key_file(path)
                kept = [key for number, key in enumerate(keys) if number == 0 or fingerprint(key) in used]
                if kept != keys:
                    replace_key_file(path, kept)
                return [fingerprint(key).hex() for key in keys if key not in kept]

        retired = memory.run(take_away())
    session.printer.answer(
        {"retired": retired},
        *([Text.assemble(("retired", "green"), f" {one}") for one in retired] or ["every master key is in use"]),
    )


def _rewrap(session: Session, memory: "Memory") -> None:
    with session.printer.progress("wrapping keys", left=_KEPT) as report:
        memory.run(memory.asyncio.engine.vault.rewrap_tenant_keys(report))
    _show(session, memory)


def _show(session: Session, memory: "Memory") -> None:
    from ...streams.rotation import Rotation

    vault = memory.asyncio.engine.vault
    used = memory.run(vault.master_keys_in_use())
    unfinished = memory.run(Rotation(memory.asyncio.engine.database, vault).unfinished())
    before = used.pop(None, 0)
    present = [(one, used.pop(one, 0)) for one in vault.keyring.fingerprints]
    missing = {one.hex(): count for one, count in used.items() if one is not None}
    document = {
        "newest": vault.keyring.newest.hex(),
        "master_keys": [{"fingerprint": one.hex(), "tenants": count} for one, count in present],
        "before_fingerprints": before,
        "missing": missing,
        "unfinished_rotations": unfinished,
    }
    lines = [
        Text.assemble((one.hex(), "bold"), f"  wraps the keys of {counted(count, 'tenant')}")
        for one, count in present
    ]
    lines[0].append("  (newest)", "green")
    if before:
        lines.append(Text(f"wrapped since before the first rotation: {before} more"))
    lines += [Text(f"{one}  wraps {count}, and is not here", "red") for one, count in missing.items()]
    if unfinished:
        lines.append(
            Text(
                f"keys being replaced: those of {counted(unfinished, 'tenant')}; "
                "go on with: lethelog vault rotate-tenant",
                "yellow",
            )
        )
    session.printer.answer(document, *lines)


def _key_file(session: Session) -> Path:
    from ..master_keys import keys_from_file

    if not keys_from_file(session.settings):
        raise Misconfigured(
            "the master keys come from LETHELOG_MASTER_KEY or its command; put the new one in front there, and "
            "run: lethelog vault rewrap"
        )
    return session.settings.key_file
